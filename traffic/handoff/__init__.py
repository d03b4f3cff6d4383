"""One hand-off: its ranks, layers, descriptors and flows, and what it waits for beside bytes."""
