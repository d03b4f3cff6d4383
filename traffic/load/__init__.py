"""What a table of requests asks for, told before anything runs."""
