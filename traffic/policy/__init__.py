"""Mapping policies: which prefill and which decode instance a request gets."""
