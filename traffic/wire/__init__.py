"""Frames for the real clock: when each leaves, what it looks like, and captures of it."""
