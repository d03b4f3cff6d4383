"""What a policy may see beside the instances: the fabric between them, and times to come."""
