"""Settings of policies that carry a unit: read as such, and refused with their name."""

from collections.abc import Callable

from topo.error import UnitError
from traffic.policy.choice import PolicyError


def quantity(where: str, text: str, read: Callable[[str], int]) -> int:
    """What ``read`` (of `topo.unit`) makes of a setting; `PolicyError` says whose it is.

    >>> from topo.unit import duration
    >>> quantity("mooncake ttft_slo", "30s", duration) // 10**12
    30
    """
    try:
        return read(text)
    except UnitError as error:
        raise PolicyError(f"{where}: {error}") from None
