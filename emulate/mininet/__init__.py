"""Real frames under a real clock: a fabric as a Mininet network, slowed down by a stated factor."""
