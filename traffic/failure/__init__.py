"""Instances that fail: when, what their router knows of it, and what is tried again."""
