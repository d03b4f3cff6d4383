"""Fabrics: what a network team would cable, how packets find their way in it, and what it costs."""
