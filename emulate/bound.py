"""How long a time and how large a number the packet engines can count, and the refusal beyond it.

They count picoseconds and bytes in 64 bits and add several of them, and the fast core tells the
instants of frames on their way apart for 17.6 s (docs/packet-core.md). What is beyond would not be
an error there but a wrong number.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Final

from topo.error import KvfabricError
from topo.unit import duration_text, size_text

MOST_WAIT_PS: Final = 10**16
"""The longest timer: 10,000 s, a thousandth of what 63 bits hold."""

MOST_WAY_PS: Final = 10**12
"""The longest cable, pipeline and pause response: 1 s; the moon is 1.3 s away."""

MOST_BYTES: Final = 2**46
"""The largest memory, and threshold in it, 64 TiB: times 2^16, as alpha is kept, it is 2^62."""

MOST_COUNT: Final = 2**31 - 1
"""The largest number of packets or descriptors."""


_TEXT: Final[dict[str, Callable[[int], str]]] = {"ps": duration_text, "B": size_text}


def refuse_beyond(
    error: type[KvfabricError], name: str, value: object, most: int, unit: str
) -> None:
    """Raise ``error`` unless ``value`` is a whole number of at most ``most``.

    ``unit`` is ``ps``, ``B``, or what is counted.

    >>> refuse_beyond(KvfabricError, "rto", 67_000_000_000, MOST_WAIT_PS, "ps")
    >>> refuse_beyond(KvfabricError, "rto", 2 * MOST_WAIT_PS, MOST_WAIT_PS, "ps")
    Traceback (most recent call last):
    topo.error.KvfabricError: rto 20000s: cannot be counted; write at most 10000s
    """
    if not isinstance(value, Integral):
        raise error(
            f"{name} {value!r}: not a whole number of {unit}; write one of at most "
            f"{_told(most, unit)}"
        )
    if int(value) > most:
        raise error(
            f"{name} {_told(int(value), unit)}: cannot be counted; write at most "
            f"{_told(most, unit)}"
        )


def _told(value: int, unit: str) -> str:
    return _TEXT[unit](value) if unit in _TEXT else f"{value} {unit}"
