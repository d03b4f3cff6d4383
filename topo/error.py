"""One base error for everything that a user can put right.

The command line prints the message alone and exits 2; any other exception is a bug and keeps its
traceback. A message says what, the value, why, and what to write instead, in one line.
"""


class KvfabricError(Exception):
    """Bad input or an impossible request, told in one line."""


class UnitError(KvfabricError):
    """A quantity without a unit, with an unknown unit, or out of range."""


class FabricError(KvfabricError):
    """A fabric that cannot be built, cabled or routed as asked."""
