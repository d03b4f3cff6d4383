"""Quantities with their units, read from text and written for people.

Inside, time is integer picoseconds, sizes are bytes and rates are bits per second; at every edge
the number carries its unit. Rates are decimal (``400Gbps``); sizes are decimal (``25MB``) or
binary (``64MiB``) as written.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from topo.error import UnitError

PS_PER_NS: Final = 1_000
PS_PER_US: Final = 1_000_000
PS_PER_MS: Final = 1_000_000_000
PS_PER_S: Final = 1_000_000_000_000

PROPAGATION_PS_PER_M: Final = 5_050
"""Signal delay in cable or fibre: 1 / 1.98e8 m/s (SONiC buffer_headroom_mellanox.lua)."""

_RATE: Final = {"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}
_SIZE: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_DURATION: Final = {
    "ps": 1,
    "ns": PS_PER_NS,
    "us": PS_PER_US,
    "ms": PS_PER_MS,
    "s": PS_PER_S,
    "min": 60 * PS_PER_S,
    "h": 3600 * PS_PER_S,
}
_LENGTH: Final = {"cm": Decimal("0.01"), "m": Decimal(1), "km": Decimal(1000)}
_FREQUENCY: Final = {"/s": Decimal(1), "/min": Decimal(1) / 60, "/h": Decimal(1) / 3600}
_QUANTITY: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,12})?)\s*([A-Za-z/%]+)\s*")
_NUMBER: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,12})?)\s*")
_MOST: Final = 2**62


def _quantity(
    text: str, units: Mapping[str, int | Decimal], what: str, example: str, *usual: str
) -> Decimal:
    """A number times its unit; one without is refused with the ``usual`` ones that it may mean."""
    shown = repr(text[:40])
    found = _QUANTITY.fullmatch(text)
    if bare := _NUMBER.fullmatch(text):
        *first, last = [f"{bare[1]}{unit}" for unit in usual] or [example]
        fitting = f"{', '.join(first)} or {last}" if first else last
        raise UnitError(f"{what} {shown}: a number needs its unit; write {fitting}")
    if found is None:
        why = "negative" if text.lstrip().startswith("-") else "not a plain number with a unit"
        raise UnitError(f"{what} {shown}: {why}; write {example}")
    number, unit = found.groups()
    factor = units.get(unit)
    if factor is None:
        known = ", ".join(units)
        raise UnitError(f"{what} {shown}: unknown unit {unit!r} (known: {known}); write {example}")
    value = Decimal(number) * factor
    if value > _MOST:
        most = int(_MOST // factor)
        raise UnitError(f"{what} {shown}: too large; write at most {most}{unit}, e.g. {example}")
    return value


def rate(text: str) -> int:
    """Bits per second.

    >>> rate("400Gbps")
    400000000000
    """
    return int(_quantity(text, _RATE, "rate", "400Gbps", "Gbps"))


def size(text: str) -> int:
    """Bytes.

    >>> size("64MiB")
    67108864
    """
    return int(_quantity(text, _SIZE, "size", "64MiB or 25MB", "KiB", "MiB", "GB"))


def duration(text: str) -> int:
    """Integer picoseconds.

    >>> duration("5us")
    5000000
    """
    return int(_quantity(text, _DURATION, "duration", "5us", "us", "ms", "s"))


def length(text: str) -> float:
    """Metres.

    >>> length("10m")
    10.0
    """
    return float(_quantity(text, _LENGTH, "length", "10m", "m"))


def frequency(text: str) -> float:
    """Events per second.

    >>> frequency("400/s")
    400.0
    """
    return float(_quantity(text, _FREQUENCY, "frequency", "400/s", "/s"))


def share(text: str) -> float:
    """A share between 0 and 1, written as a percentage or a fraction of two whole numbers.

    >>> share("1%"), share("1/8")
    (0.01, 0.125)
    """
    shown = repr(text[:40])
    parts = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([1-9][0-9]{0,8})\s*", text)
    if parts is not None:
        value = Decimal(int(parts[1])) / int(parts[2])
    else:
        value = _quantity(text, {"%": Decimal("0.01")}, "share", "1% or 1/8")
    if value > 1:
        raise UnitError(f"share {shown}: above the whole; write at most 100%")
    return float(value)


_SHOWN_DURATIONS: Final = ("ps", "ns", "us", "ms", "s")
_SHOWN_RATES: Final = ("bps", "Kbps", "Mbps", "Gbps", "Tbps")


def _scaled(value: float, units: Mapping[str, int], names: tuple[str, ...]) -> str:
    for name in reversed(names):
        if abs(value) >= units[name]:
            scaled = value / units[name]
            return f"{scaled:,.0f} {name}" if abs(scaled) >= 1000 else f"{scaled:.3g} {name}"
    return f"{value:.3g} {names[0]}"


def show_duration(ps: float) -> str:
    """A duration for people, three significant digits.

    >>> show_duration(2_480_000)
    '2.48 us'
    """
    return "0 s" if ps == 0 else _scaled(ps, _DURATION, _SHOWN_DURATIONS)


def show_size(count: float) -> str:
    """A size for people, decimal, three significant digits.

    >>> show_size(25_000_000)
    '25 MB'
    """
    return _scaled(count, _SIZE, ("B", "kB", "MB", "GB", "TB"))


def show_rate(bps: float) -> str:
    """A rate for people, three significant digits.

    >>> show_rate(400_000_000_000)
    '400 Gbps'
    """
    return _scaled(bps, _RATE, _SHOWN_RATES)


def show_ratio(value: float) -> str:
    """An oversubscription.

    >>> show_ratio(8 / 3), show_ratio(float("inf"))
    ('2.67:1', 'no uplinks')
    """
    return "no uplinks" if math.isinf(value) else f"{value:.3g}:1"


def _text(value: int, units: Mapping[str, int], names: tuple[str, ...]) -> str:
    name = next((name for name in reversed(names) if abs(value) >= units[name]), names[0])
    return f"{(Decimal(value) / units[name]).normalize():f}{name}"


def duration_text(ps: int) -> str:
    """A duration as scenario files write it, without rounding.

    >>> duration_text(67_108_864_000)
    '67.108864ms'
    """
    return _text(ps, _DURATION, _SHOWN_DURATIONS)


def rate_text(bps: int) -> str:
    """A rate as scenario files write it, without rounding.

    >>> rate_text(400 * 10**9), rate_text(2_500_000_000)
    ('400Gbps', '2.5Gbps')
    """
    return _text(bps, _RATE, _SHOWN_RATES)


def size_text(count: int) -> str:
    """A size as scenario files write it, without rounding: in the unit that takes fewest digits.

    >>> size_text(44_032), size_text(25_000_000), size_text(4178)
    ('43KiB', '25MB', '4178B')
    """
    units = _SIZE.items() if count else [("B", 1)]
    whole = [(count // unit, name) for name, unit in units if count % unit == 0]
    number, name = min(whole, key=lambda each: (abs(each[0]), "i" not in each[1]))
    return f"{number}{name}"


def propagation_ps(length_m: float) -> int:
    """One-way delay of a cable in picoseconds.

    >>> propagation_ps(10)
    50500
    """
    return round(length_m * PROPAGATION_PS_PER_M)
