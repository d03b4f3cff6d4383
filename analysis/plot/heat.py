"""Link heat maps: how busy each port was and how long it stood paused, one column a fabric.

A row is a device (hosts, with their few ports, stand side by side in rows of their own), a column
a port. Utilisation is time spent sending over the time that the fabric had hand-offs to carry,
pause is time stopped by the peer. Each has one scale for all fabrics, from 0 to what the port with
most needs. Values are means over the seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.handoff import window_ps
from analysis.plot.style import Field, Plot, blank, label, labels, styled
from analysis.summary import Sample
from analysis.wording import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

_LABELS = 14
_TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Ports:
    """One alternative's ports, in (tier, device, port) order of the fabric, top tier first."""

    sample: Sample
    names: tuple[str, ...]
    tiers: NDArray[np.int64]
    busy: NDArray[np.float64]
    paused: NDArray[np.float64]


def heat(parts: Sequence[Sample], cut: str = "") -> Plot:
    """Utilisation and pause fraction of every port of the given alternatives; ``cut`` says which
    were left out."""
    maps = [_ports(part) for part in parts if part.n]
    across = max(1, len(maps))
    tops = _scale([each.busy for each in maps]), _scale([each.paused for each in maps])
    fabrics = labels([each.sample.fabric for each in maps], 34)
    with styled():
        figure = blank(2.6 * across + 1.0, 6.2)
        grid = np.atleast_2d(figure.subplots(2, across, squeeze=False))
        images: list[AxesImage | None] = [None, None]
        fields: list[Field] = []
        for column, each in enumerate(maps):
            for row, values in enumerate((each.busy, each.paused)):
                images[row] = _image(grid[row, column], each, values, tops[row])
                fields.append(Field(grid[row, column], _texts(each)))
            grid[0, column].set_title(
                f"{fabrics[each.sample.fabric]}\n{label(each.sample.policy, 34)}\n"
                f"busiest port: {percent(float(each.busy.max(initial=0)))}",
                fontsize=8,
            )
            paused = float(each.paused.max(initial=0))
            text = f"most paused port: {percent(paused)}" if paused else "no port was paused"
            grid[1, column].set_title(text, fontsize=8)
            grid[1, column].set_xlabel("port")
        for row, text in enumerate(("utilisation (share of time)", "paused (share of time)")):
            image = images[row]
            if image is not None:
                bar = figure.colorbar(image, ax=list(grid[row]), shrink=0.9, pad=0.01)
                bar.set_label(text)
                bar.outline.set_visible(False)
    return Plot(
        "links",
        "Share of time each port was sending (top) and stood paused (bottom); a row is a device, "
        "a column a port; means over the seeds." + cut,
        figure,
        ("fabric", "policy", "port", "tier", "utilisation", "pause_fraction"),
        tuple(
            (each.sample.fabric, each.sample.policy, name, int(tier), float(busy), float(paused))
            for each in maps
            for name, tier, busy, paused in zip(
                each.names, each.tiers, each.busy, each.paused, strict=True
            )
        ),
        tuple(fields),
    )


def _scale(every: Sequence[NDArray[np.float64]]) -> float:
    """The top of a scale of shares that holds all of them; a round number from 0.01 to 1."""
    most = max((float(values.max(initial=0)) for values in every), default=0.0)
    return next((top for top in _TOPS if top >= most), 1.0)


def device(port: str) -> str:
    """The device of a port's name, with or without where the port leads.

    >>> device("leaf0:3>spine1:0"), device("host4:0")
    ('leaf0', 'host4')
    """
    return port.split(">", 1)[0].rsplit(":", 1)[0]


def _ports(sample: Sample) -> _Ports:
    table = sample.cells[0].ports
    tiers = table["tier"].astype(np.int64)
    order = np.argsort(-tiers, kind="stable")
    alike = [c for c in sample.cells if len(c.ports["port"]) == len(tiers)]

    def mean(column: str) -> NDArray[np.float64]:
        shares = [cell.ports[column].astype(np.float64) / max(1, window_ps(cell)) for cell in alike]
        means: NDArray[np.float64] = np.mean(shares, axis=0)
        return means[order]

    names = tuple(str(table["name"][place]) for place in order)
    return _Ports(sample, names, tiers[order], mean("busy_ps"), mean("paused_ps"))


def _rows(ports: _Ports) -> tuple[list[list[int]], list[list[int]], int]:
    """The ports of each switch, then of the hosts folded into rows as wide as a switch, and that
    width."""
    devices: dict[str, list[int]] = {}
    for place, name in enumerate(ports.names):
        devices.setdefault(device(name), []).append(place)
    switch = [places for places in devices.values() if ports.tiers[places[0]] > 0]
    hosts = [place for place, tier in enumerate(ports.tiers) if tier == 0]
    width = max((len(places) for places in switch), default=min(16, max(1, len(hosts))))
    folded = [hosts[first : first + width] for first in range(0, len(hosts), width)]
    return switch, folded, width


def _texts(ports: _Ports) -> tuple[tuple[str, ...], ...]:
    """What each cell of a map shows, in words."""
    switch, folded, width = _rows(ports)
    told = [
        f"{label(name)}: utilisation {percent(float(busy))}, paused {percent(float(paused))}"
        for name, busy, paused in zip(ports.names, ports.busy, ports.paused, strict=True)
    ]
    return tuple(
        tuple(told[place] for place in places) + ("",) * (width - len(places))
        for places in switch + folded
    )


def _image(axes: "Axes", ports: _Ports, values: NDArray[np.float64], top: float) -> "AxesImage":
    """One map; a label for a switch, one for all hosts."""
    switch, folded, width = _rows(ports)
    rows = switch + folded
    field = np.full((max(1, len(rows)), width), np.nan)
    for row, places in enumerate(rows):
        field[row, : len(places)] = values[places]
    image = axes.imshow(field, vmin=0, vmax=top, cmap="cividis", aspect="auto")
    axes.grid(visible=False)
    names = [device(ports.names[places[0]]) for places in switch]
    step = max(1, ceil(len(names) / _LABELS))
    ticks = list(range(0, len(names), step))
    texts = [label(names[tick], 10) for tick in ticks]
    if folded:
        ticks.append(len(switch) + (len(folded) - 1) // 2)
        texts.append("hosts")
        if switch:
            axes.axhline(len(switch) - 0.5, color="white", linewidth=1.2)
    axes.set_yticks(ticks, texts, fontsize=6.5)
    return image
