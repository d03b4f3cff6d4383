"""Everything that the packets of one cell left behind, indexed for questions about single flows."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.chain import Chains, chains
from analysis.observed import OBSERVED, read_observed
from analysis.record import Cell, cell_directory
from traffic.emulator import Table

Ints = NDArray[np.int64]


class Witness:
    """A cell with its observed tables, each read when it is first asked for.

    ``place`` is the study's directory, or None for a cell that holds its tables itself.
    """

    def __init__(self, cell: Cell, place: Path | None) -> None:
        self.cell = cell
        self._place = place

    def table(self, name: str) -> dict[str, Ints]:
        """One of `analysis.observed.OBSERVED`; without rows where an older cell has none."""
        found: Table
        if name in self.cell.observed:
            found = self.cell.observed[name]
        elif self._place is not None and name in self.cell.manifest.digest:
            home = cell_directory(self._place, self.cell.manifest.cell)
            found = read_observed(home, self.cell.manifest.digest, name)
        else:
            found = {column: np.empty(0, np.int64) for column in OBSERVED[name]}
        return {column: values.astype(np.int64) for column, values in found.items()}

    @cached_property
    def ports(self) -> dict[str, Ints]:
        """The numbers of the port table."""
        return {n: v.astype(np.int64) for n, v in self.cell.ports.items() if n != "name"}

    @cached_property
    def flows(self) -> dict[str, Ints]:
        """The flow table, in order of the flows' numbers."""
        return _ordered(self.cell.flows, "flow")

    @cached_property
    def blame(self) -> dict[str, Ints]:
        """The parts of the flows' times, in order of the flows' numbers."""
        return _ordered(self.table("blame"), "flow")

    @cached_property
    def _parts(self) -> dict[str, Ints]:
        """The columns of the blame by the bare names of the parts."""
        return {n.removeprefix("blame_").removesuffix("_ps"): v for n, v in self.blame.items()}

    def parts(self, flow: int) -> dict[str, int]:
        """The parts of a flow's time by name, such as ``queued``, and ``last_mark_port``."""
        row = int(self._parts["flow"].searchsorted(flow))
        return {name: int(values[row]) for name, values in self._parts.items()}

    @cached_property
    def chains(self) -> Chains:
        """The stops of the run with their roots."""
        return chains(self.table("stops"), self.cell.manifest.duration_ps)

    @cached_property
    def _hops(self) -> dict[str, Ints]:
        return _ordered(self.table("hops"), "flow")

    def hops(self, flow: int) -> list[tuple[int, int, int, int]]:
        """(hop, port, queued, paused) of the flow's last packet, picoseconds."""
        first, last = self._hops["flow"].searchsorted((flow, flow + 1))
        columns = (self._hops[n][first:last] for n in ("hop", "port", "queued_ps", "paused_ps"))
        return sorted(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def _far(self) -> dict[int, int]:
        table = self.table("egress")
        return dict(zip(table["port"].tolist(), table["far_port"].tolist(), strict=True))

    def far(self, port: int) -> int:
        """The port at the other end of a port's cable, -1 where the cell does not say."""
        return self._far.get(port, -1)

    @cached_property
    def _row(self) -> dict[int, int]:
        return {port: row for row, port in enumerate(self.ports["port"].tolist())}

    def rate_bps(self, port: int) -> int:
        """The rate of a port."""
        return int(self.ports["rate_bps"][self._row[port]])

    def drops(self, port: int) -> int:
        """Frames lost at a port."""
        return int(self.ports["drops"][self._row[port]])

    @cached_property
    def _named(self) -> dict[int, str]:
        return {}

    def name(self, port: int) -> str:
        """``leaf0:3 > h4:0``: a port and where it leads, as far as the cell tells."""
        if port not in self._named:
            self._named[port] = self._name(port)
        return self._named[port]

    def _name(self, port: int) -> str:
        names = self.cell.ports["name"]
        own, far = str(names[self._row[port]]), self.far(port)
        if far < 0 or ">" in own:
            return own.replace(">", " > ")
        return f"{own} > {names[self._row[far]]}"


def seen(cell: Cell, place: Path | None) -> Witness | None:
    """The witness of a cell; None for one whose emulator does not follow the packets of a flow."""
    return _telling("blame", cell, place)


def stopped(cell: Cell, place: Path | None) -> Witness | None:
    """The witness of a cell that tells who was stopped because of whom: also one of real frames."""
    return _telling("stops", cell, place)


def _telling(name: str, cell: Cell, place: Path | None) -> Witness | None:
    has = name in cell.observed or (place is not None and name in cell.manifest.digest)
    return Witness(cell, place) if has and cell.requests else None


def _ordered(table: Mapping[str, NDArray[np.generic]], column: str) -> dict[str, Ints]:
    order = np.argsort(table[column], kind="stable")
    return {name: values.astype(np.int64)[order] for name, values in table.items()}
