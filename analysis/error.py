"""What can be wrong with results on disk, told in one line."""

from topo.error import KvfabricError


class RecordError(KvfabricError):
    """A results directory that is missing, damaged, or from another version."""


class SummaryError(KvfabricError):
    """Results from which the asked number cannot be had."""
