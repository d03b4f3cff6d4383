"""What cannot be emulated here, or not as asked."""

from topo.error import KvfabricError


class EmulationError(KvfabricError):
    """A run on real frames that cannot be: told before anything is created."""
