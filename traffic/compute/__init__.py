"""How long the steps of an instance take: by a roofline, or by measured tables."""
