"""What a user can get wrong about requests, models, GPUs and serving, each told in one line."""

from topo.error import KvfabricError


class RequestError(KvfabricError):
    """A request table or workload that cannot be, such as a negative rate or length."""


class TraceError(KvfabricError):
    """A trace file that cannot be read, found or fetched."""


class CatalogError(KvfabricError):
    """An unknown model or GPU, or a catalogue file with a bad row."""


class ComputeError(KvfabricError):
    """A model that does not run as asked: weights that do not fit, heads that do not divide."""


class HandoffError(KvfabricError):
    """A hand-off that cannot be turned into flows."""


class ServingError(KvfabricError):
    """A run that cannot be: a control delay of nothing, a distance table of the wrong shape."""
