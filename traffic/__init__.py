"""Requests and what they make the network carry: lengths, arrivals, models, hand-offs, policies."""
