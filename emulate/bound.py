"""How long a time and how large a number the packet engines can count, and the refusal beyond it.

They count picoseconds and bytes in 64 bits and add several of them, and the fast core tells the
instants of frames on their way apart for 17.6 s (docs/packet-core.md). What is beyond would not be
an error there but a wrong number.
"""

from numbers import Integral
from typing import Final

from topo.error import KvfabricError

MOST_WAIT_PS: Final = 10**16
"""The longest timer: 10,000 s, a thousandth of what 63 bits hold."""

MOST_WAY_PS: Final = 10**12
"""The longest cable, pipeline and pause response: 1 s; the moon is 1.3 s away."""

MOST_BYTES: Final = 2**46
"""The largest memory, and threshold in it, 64 TiB: times 2^16, as alpha is kept, it is 2^62."""

MOST_COUNT: Final = 2**31 - 1
"""The largest number of packets or descriptors."""


def refuse_beyond(
    error: type[KvfabricError], name: str, value: object, most: int, unit: str = ""
) -> None:
    """Raise ``error`` unless ``value`` is a whole number of at most ``most``.

    >>> refuse_beyond(KvfabricError, "rto", 67_000_000_000, MOST_WAIT_PS, "ps")
    >>> refuse_beyond(KvfabricError, "rto", 2**63, MOST_WAIT_PS, "ps")
    Traceback (most recent call last):
    topo.error.KvfabricError: rto 9223372036854775808 ps: write a whole number of at most 10^16 ps
    """
    if isinstance(value, Integral) and int(value) <= most:
        return
    shown = value if isinstance(value, Integral) else repr(value)
    after = f" {unit}" if unit else ""
    raise error(f"{name} {shown}{after}: write a whole number of at most {_show(most)}{after}")


def _show(most: int) -> str:
    digits = str(most)
    power = len(digits) - 1
    return f"10^{power}" if most == 10**power else digits
