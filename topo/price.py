"""A priced bill: switches, NICs, cables and optics by length and rate, with watts and rack units.

Every figure is a range, low to high, from a price file whose lines carry a date and a source; the
shipped one, ``price.csv``, says which are sourced and which are assumptions to be replaced by
quotes. A cable of up to `DAC_M` is copper, up to `AOC_M` an active optical cable, beyond that a
module at both ends with fibre between. The default cost of a fabric stays that of `topo.bom`, the
neutral model; this bill is what a person checks it with.
"""

import csv
import io
import math
from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from topo.bom import bom
from topo.error import KvfabricError
from topo.fabric import Fabric, Kind
from topo.floor import Floor, is_inside, lengths
from topo.intake import Intake

DAC_M: Final = 3.0
AOC_M: Final = 30.0
COLUMNS: Final = ("item", "measure", "low", "high", "basis", "date", "source")
BASES: Final = ("sourced", "derived", "assumption", "quote")


class PriceError(KvfabricError):
    """A price file that cannot be read."""


_FILE: Final = Intake(
    PriceError, absent="write a file that is there", other="write the path of a price file"
)


@dataclass(frozen=True, slots=True)
class Range:
    """From low to high; ranges add up end by end, as the unknown of each line is one unknown."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def times(self, count: float) -> "Range":
        """The range for so many."""
        return Range(self.low * count, self.high * count)

    def text(self, unit: float = 1.0) -> str:
        """``1,200..1,900`` in a unit, or one number where the ends print alike.

        >>> Range(3_807_000, 5_412_000).text(1e3)
        '3,807..5,412'
        """
        digits = 0 if self.high >= 10 * unit else 1
        low, high = (f"{end / unit:,.{digits}f}" for end in (self.low, self.high))
        return low if low == high else f"{low}..{high}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the bill: what, how many, its rate and greatest length, cost, power.

    usd_assumed, watt_assumed: does the figure rest on an assumption?
    """

    item: str
    count: int
    rate_bps: int
    most_m: float
    usd: Range
    watt: Range
    usd_assumed: bool
    watt_assumed: bool


@dataclass(frozen=True, slots=True)
class Quote:
    """The priced bill of a fabric; ``rack_units`` are those of the switches."""

    entries: list[Entry]
    rack_units: Range

    @property
    def usd(self) -> Range:
        """All lines together, in US dollars."""
        return sum((entry.usd for entry in self.entries), Range())

    @property
    def watt(self) -> Range:
        """All lines together, in watts."""
        return sum((entry.watt for entry in self.entries), Range())


Prices = dict[tuple[str, str], tuple[Range, bool]]
"""(item, measure) -> range, and whether it is an assumption."""


def prices(path: Path | None = None) -> Prices:
    """The shipped price file, with the lines of ``path`` in place of those of the same measure.

    Errors: a `PriceError` with file and line: other columns, an unknown item or measure, a number
    that is none, negative, or a low above the high, a line without a date or source.
    """
    shipped = _read("price.csv", files("topo").joinpath("price.csv").read_text("utf-8"), None)
    if path is None:
        return shipped
    text = _FILE.content(
        path, 1, large="a price file has a few lines", encoding="save it as UTF-8 CSV"
    )
    return {**shipped, **_read(str(path), text, shipped)}


def _read(name: str, text: str, known: Prices | None) -> Prices:
    reader = csv.reader(io.StringIO(text))
    found: Prices = {}
    try:
        if tuple(next(reader, [])) != COLUMNS:
            raise PriceError(f"{name}:1: the columns must be {','.join(COLUMNS)}")
        for row in reader:
            if not row:
                continue
            place = f"{name}:{reader.line_num}"
            if len(row) != len(COLUMNS):
                raise PriceError(f"{place}: {len(row)} fields; write {len(COLUMNS)}")
            item, measure, low, high, basis, date, source = (cell.strip() for cell in row)
            if known is not None and (item, measure) not in known:
                pairs = ", ".join(" ".join(pair) for pair in known)
                raise PriceError(f"{place}: unknown {item!r} {measure!r}; write one of {pairs}")
            if (item, measure) in found:
                raise PriceError(f"{place}: {item} {measure} stands twice; leave one out")
            if basis not in BASES:
                raise PriceError(f"{place}: basis {basis!r}: write one of {', '.join(BASES)}")
            if not date or not source:
                raise PriceError(f"{place}: a price needs a date and a source")
            found[item, measure] = (_range(place, low, high), basis == "assumption")
    except csv.Error as error:
        raise PriceError(f"{name}:{reader.line_num}: {error}; write plain CSV") from None
    return found


def _range(place: str, low: str, high: str) -> Range:
    try:
        ends = float(low), float(high)
    except ValueError:
        raise PriceError(f"{place}: {low!r} to {high!r}: not numbers; write as 0.9,1.3") from None
    if not all(math.isfinite(end) and 0 <= end <= 1e9 for end in ends) or ends[0] > ends[1]:
        raise PriceError(f"{place}: {low} to {high}: must rise from low to high, at least 0")
    return Range(*ends)


def quote(fabric: Fabric, table: Prices | None = None, floor: Floor | None = None) -> Quote:
    """Price a fabric: every host is a NIC of the rate of its cables, every switch port is bought.

    What lies inside a server comes with the server and is left out.
    """
    table = prices() if table is None else table
    entries: list[Entry] = []

    def add(item: str, count: int, rate: int, most_m: float) -> None:
        usd, assumed = table[item, "usd_per_gbps"]
        watt, guessed = table[item, "watt_per_gbps"]
        gbps = count * rate / 1e9
        entries.append(
            Entry(item, count, rate, most_m, usd.times(gbps), watt.times(gbps), assumed, guessed)
        )

    models = bom(fabric).models
    for (ports, rate), count in models.items():
        add("switch", count, ports * rate, 0.0)
    metres = lengths(fabric, floor)
    nics: dict[int, int] = defaultdict(int)
    cables: dict[tuple[str, int], list[float]] = defaultdict(list)
    for link, length in zip(fabric.links, metres, strict=True):
        for end in (link.a, link.b):
            if fabric.nodes[end].kind is Kind.HOST:
                nics[end] += link.rate_bps
        if not is_inside(fabric, link.a, link.b):
            kind = "dac" if length <= DAC_M else "aoc" if length <= AOC_M else "optic"
            cables[kind, link.rate_bps].append(length)
    by_rate: dict[int, int] = defaultdict(int)
    for rate in nics.values():
        by_rate[rate] += 1
    for rate, count in sorted(by_rate.items()):
        add("nic", count, rate, 0.0)
    for (kind, rate), run in sorted(cables.items()):
        add(kind, len(run) * (2 if kind == "optic" else 1), rate, max(run))
        if kind == "optic":
            usd, assumed = table["fibre", "usd_per_metre"]
            entries.append(
                Entry(
                    "fibre", len(run), rate, max(run), usd.times(sum(run)), Range(), assumed, False
                )
            )
    units, _ = table["switch", "rack_units"]
    return Quote(entries, units.times(sum(models.values())))
