"""Numbers of a whole block of CSV lines at once, for traces of a gigabyte.

A block is some 10^5 lines. Its cells are found from the places of newlines and commas, and numbers
are built digit by digit over all lines together, in whole numbers only. Whatever is not plain
(blanks, quotes, signs, another number of cells) is None here: the caller then reads the block line
by line, which takes it or tells what is wrong and where.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.trace.text import Block

Whole = NDArray[np.int64]

_COMMA: Final = ord(",")
_POINT: Final = ord(".")
_ZERO: Final = ord("0")
_RETURN: Final = ord("\r")
_MOST_DIGITS: Final = 18
_DAYS_BEFORE_1970: Final = 719_163
"""``date(1970, 1, 1).toordinal()``."""


class Cells:
    """Where the cells of a block lie; build one with `cells_of`."""

    def __init__(self, data: NDArray[np.uint8], start: Whole, stop: Whole) -> None:
        self._data = data
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return len(self._start)

    def whole(self, column: int, most_digits: int) -> Whole | None:
        """A column of whole numbers without sign, of at most 18 digits."""
        return self._digits(self._start[:, column], self._stop[:, column], most_digits)

    def scaled(self, column: int, digits: int, most: int) -> Whole | None:
        """A column of decimals times 10 ** ``digits``, each exact and at most ``most``."""
        start, stop = self._start[:, column], self._stop[:, column]
        points = np.append(np.flatnonzero(self._data == _POINT), len(self._data))
        point = np.minimum(points[np.searchsorted(points, start)], stop)
        whole = self._digits(start, point, _MOST_DIGITS)
        if whole is None or int(whole.max()) > most // 10**digits:
            return None
        found = whole * 10**digits
        broken = np.flatnonzero(point < stop)
        if len(broken):
            part = self._fraction(point[broken], stop[broken], digits)
            if part is None:
                return None
            found[broken] += part
        return found if int(found.max()) <= most else None

    def instant(self, column: int) -> tuple[Whole, Whole] | None:
        """A column of ``YYYY-MM-DD hh:mm:ss``, a fraction and UTC if any: (s since year 1, ps)."""
        start, stop = self._start[:, column], self._stop[:, column]
        if int((stop - start).min()) < len("2023-11-16 18:17:03"):
            return None
        marks = ((4, "-"), (7, "-"), (13, ":"), (16, ":"))
        if any(bool(np.any(self._data[start + at] != ord(mark))) for at, mark in marks):
            return None
        between = self._data[start + 10]
        if not bool(np.all((between == ord(" ")) | (between == ord("T")))):
            return None
        places = ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
        parts = [self._digits(start + low, start + high, 4) for low, high in places]
        year, month, day, hour, minute, second = (
            np.full(len(self), -1) if part is None else part for part in parts
        )
        if int(min(hour.min(), minute.min(), second.min())) < 0:
            return None
        if int(hour.max()) > 23 or int(minute.max()) > 59 or int(second.max()) > 59:
            return None
        if min(int(part.min()) for part in (year, month, day)) < 1 or int(month.max()) > 12:
            return None
        months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
        first = months.astype("M8[D]").astype(np.int64)
        if bool(np.any(first + day > (months + 1).astype("M8[D]").astype(np.int64))):
            return None
        days = first + day - 1 + _DAYS_BEFORE_1970
        fraction = self._after(start + 19, stop)
        if fraction is None:
            return None
        return ((days * 24 + hour) * 60 + minute) * 60 + second, fraction

    def _after(self, start: Whole, stop: Whole) -> Whole | None:
        """What follows the seconds, in picoseconds: a fraction if any, ``Z`` or ``+00:00``."""
        short = self._data[stop - 1] == ord("Z")
        stop = np.where(short, stop - 1, stop)
        zone = ~short & (stop - 6 >= start)
        for at, mark in enumerate("+00:00"):
            zone &= self._data[np.maximum(stop - 6 + at, 0)] == ord(mark)
        stop = np.where(zone, stop - 6, stop)
        found = np.zeros(len(self), np.int64)
        broken = np.flatnonzero(stop > start)
        if not len(broken):
            return found
        if bool(np.any(self._data[start[broken]] != _POINT)):
            return None
        part = self._fraction(start[broken], stop[broken], 12)
        if part is not None:
            found[broken] = part
        return None if part is None else found

    def _fraction(self, point: Whole, stop: Whole, digits: int) -> Whole | None:
        """The digits behind a point, as so many; None where there are more, or none."""
        count = stop - point - 1
        if int(count.max()) > digits:
            return None
        part = self._digits(point + 1, stop, digits)
        return None if part is None else part * 10 ** (digits - count)

    def _digits(self, start: Whole, stop: Whole, most: int) -> Whole | None:
        count = stop - start
        longest = int(count.max())
        if int(count.min()) < 1 or longest > min(most, _MOST_DIGITS):
            return None
        found = np.zeros(len(start), np.int64)
        for place in range(longest):
            digit = self._data[np.maximum(stop - 1 - place, 0)] - np.uint8(_ZERO)
            digit = np.where(place < count, digit, np.uint8(0))
            if int(digit.max()) > 9:
                return None
            found += digit.astype(np.int64) * 10**place
        return found


def cells_of(block: Block, columns: int) -> Cells | None:
    """The cells of a block of ASCII lines, each with exactly so many; None for any other."""
    if not block.raw.isascii():
        return None
    data = np.frombuffer(block.raw, np.uint8)
    ends = block.ends
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
    commas = np.flatnonzero(data == _COMMA)
    if len(commas) != len(ends) * (columns - 1):
        return None
    between = commas.reshape(len(ends), columns - 1)
    if columns > 1 and bool(np.any((between[:, 0] < starts) | (between[:, -1] >= ends))):
        return None
    last = ends - (data[np.maximum(ends - 1, 0)] == _RETURN)
    start = np.column_stack((starts, between + 1))
    stop = np.column_stack((between, last))
    return Cells(data, start, stop)


def since(instant: tuple[Whole, Whole], start_ps: int) -> Whole | None:
    """Picoseconds after ``start_ps``, both since year 1; None where they exceed 2^62."""
    seconds = instant[0] - start_ps // PS_PER_S
    if int(np.abs(seconds).max()) >= 2**62 // PS_PER_S:
        return None
    return seconds * PS_PER_S + (instant[1] - start_ps % PS_PER_S)
