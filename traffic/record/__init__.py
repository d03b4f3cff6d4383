"""What a run writes down as it goes: flows and their moments, requests, and memory held."""
