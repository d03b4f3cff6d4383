"""Families of fabrics: each a parameter struct and a function that builds it, found by name."""
