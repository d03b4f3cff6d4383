"""What a figure, or the terminal, shows of more alternatives than anybody can read; the report's
tables and the CSVs always have all.

Drawing time is another reason: panels that share their axes take the square of their number.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from analysis.summary import Summary

Thing = TypeVar("Thing", bound=Hashable)
Alternative = tuple[str, str]
"""Fabric and policy."""

PANELS: Final = 24
"""Panels of a figure, curves of a panel and rows of the terminal's table, at most."""

ROWS: Final = 48
"""Rows of a panel, at most."""


def shown(every: Iterable[Thing], first: Iterable[Thing], most: int) -> list[Thing]:
    """At most ``most`` of ``every``, each once and in its order: those that come first in
    ``first``, then what stands in front.

    >>> shown("abcdef", "ead", 4)
    ['a', 'b', 'd', 'e']
    """
    whole = list(dict.fromkeys(every))
    place = {thing: rank for rank, thing in enumerate(dict.fromkeys(first))}
    kept = set(sorted(whole, key=lambda thing: place.get(thing, len(place)))[:most])
    return [thing for thing in whole if thing in kept]


def rows_shown(rows: Sequence[Summary], first: Iterable[Alternative]) -> list[Summary]:
    """At most `ROWS` of the rows, chosen as by `shown`."""
    kept = {*shown(((row.fabric, row.policy) for row in rows), first, ROWS)}
    return [row for row in rows if (row.fabric, row.policy) in kept]


def told(some: int, every: int, what: str, rest: str = "the CSV") -> str:
    """What a caption says of those left out, and what has them; empty where none is.

    >>> told(24, 24, "fabrics"), told(24, 200, "fabrics")[:31]
    ('', ' Shown are 24 of 200 fabrics: t')
    """
    if some == every:
        return ""
    return (
        f" Shown are {some} of {every:,} {what}: the choice or what comes closest to it, and "
        f"those with the least and the most over budget; {rest} has all."
    )
