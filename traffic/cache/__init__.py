"""Prefix caches: what instances and the remote pool keep of prompts, and what finding it saves."""
