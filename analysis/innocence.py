"""The innocent pause share: how much of what stood behind stops was bound for a free port.

A stop holds whatever waits behind it, also frames that would leave the next switch by a port that
is free. Their bytes over all bytes that stood, both summed over the ticks of observation, are the
innocent share (`traffic.emulator.Telemetry` says which frames are innocent): 0 where pauses hold
only what is bound for the congested port, half in a queue that two flows share of which one is.
"""

from collections import Counter
from collections.abc import Sequence
from math import nan

from analysis.record import Cell
from analysis.witness import Witness
from analysis.wording import percent

UNTOLD = "not recorded"
"""What is shown of real frames, and of cells that were written before this was kept."""


def innocent_share(*cells: Cell) -> float:
    """The share in cells taken together; NaN where nothing stood, or one did not record it."""
    totals = [cell.manifest.totals for cell in cells]
    if not all("paused_bytes" in each for each in totals):
        return nan
    paused = sum(each["paused_bytes"] for each in totals)
    return sum(each["innocent_bytes"] for each in totals) / paused if paused else nan


def told(found: Sequence[Witness]) -> str:
    """The share in words, with the port at which most innocent bytes stood."""
    cells = [each.cell for each in found]
    if not all("paused_bytes" in cell.manifest.totals for cell in cells):
        return UNTOLD
    share = innocent_share(*cells)
    if not share > 0:
        return "0 %" if share == 0 else "nothing stood"
    stood: Counter[str] = Counter()
    for each in found:
        table = each.table("innocence")
        rows = zip(table["port"].tolist(), table["innocent_bytes"].tolist(), strict=True)
        for port, innocent in rows:
            stood[each.name(port)] += innocent
    worst = max(stood, key=lambda name: (stood[name], name), default="")
    return percent(share) + (f", most at {worst}" if worst else "")


def held(witness: Witness, port: int) -> str:
    """What stood at one port, in words; empty where nothing did or nobody recorded it."""
    table = witness.table("innocence")
    mine = table["port"] == port
    paused = int(table["paused_bytes"][mine].sum())
    if not paused:
        return ""
    share = int(table["innocent_bytes"][mine].sum()) / paused
    return f"{percent(share)} of what stood at {witness.name(port)} was innocent"
