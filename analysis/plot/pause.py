"""When ports stood stopped: the worst ports of the most paused cell, coloured by root.

A bar is a stop, from the decision of the peer to its end; short ones are drawn at least as wide as
a line. A port of many stops is drawn by columns as wide as a line, each in the colour of the root
with most of its time.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.plot.style import GREY, SERIES, Plot, blank, label, styled
from analysis.witness import Witness
from topo.unit import PS_PER_MS

_PORTS: Final = 12
_ROOTS: Final = 5
_COLUMNS: Final = 600


def bars(
    since: NDArray[np.int64], until: NDArray[np.int64], kind: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """From, until and kind of what is drawn for the stops of one port, at most 600 bars.

    Few stops are drawn as they are. Of many, each column of time takes the kind that has most of
    it, the lowest of equals, and neighbours of one kind are one bar. Times in ps.
    """
    if len(since) <= _COLUMNS:
        return since, until, kind
    edges = np.linspace(since.min(), until.max(), _COLUMNS + 1).round().astype(np.int64)
    share = np.array(
        [
            np.diff(_past(edges, since[kind == k]) - _past(edges, until[kind == k]))
            for k in range(int(kind.max()) + 1)
        ]
    )
    winner = np.where(share.any(axis=0), share.argmax(axis=0), -1)
    first = np.flatnonzero(np.diff(winner, prepend=-2))
    last = np.append(first[1:], _COLUMNS)
    drawn = winner[first] >= 0
    return edges[first[drawn]], edges[last[drawn]], winner[first[drawn]]


def _past(edges: NDArray[np.int64], instants: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each edge, the sum of what lies between it and all instants before it."""
    ordered = np.sort(instants)
    before = np.searchsorted(ordered, edges)
    return before * edges - np.concatenate(([0], np.cumsum(ordered)))[before]


def _place(root: int, roots: list[int]) -> int:
    return roots.index(root) if root in roots else len(roots)


def gantt(found: Witness) -> Plot:
    """The stops of the ports that were stopped for the longest."""
    from matplotlib.patches import Patch

    chains = found.chains
    time = np.bincount(chains.port, weights=chains.until - chains.since)
    worst = [p for p in np.argsort(-time, kind="stable")[:_PORTS].tolist() if time[p] > 0]
    shown = np.isin(chains.port, worst)
    by_root = np.bincount(chains.root[shown], weights=(chains.until - chains.since)[shown])
    roots = [r for r in np.argsort(-by_root, kind="stable")[:_ROOTS].tolist() if by_root[r] > 0]
    others = bool(np.any(shown & ~np.isin(chains.root, roots)))
    colours = dict(zip(roots, SERIES, strict=False))
    with styled():
        figure = blank(9.6, 1.5 + 0.26 * len(worst))
        axes = figure.add_subplot()
        for row, port in enumerate(worst):
            mine = chains.of(port)
            places = np.array([_place(root, roots) for root in chains.root[mine].tolist()])
            since, until, place = bars(chains.since[mine], chains.until[mine], places)
            shades = [[*colours.values(), GREY][at] for at in place.tolist()]
            spans = np.column_stack([since, until - since]) / PS_PER_MS
            axes.broken_barh(
                spans.tolist(), (row - 0.36, 0.72), facecolors=shades, edgecolors=shades, lw=0.3
            )
        axes.set_yticks(range(len(worst)), [label(found.name(p), 34) for p in worst], fontsize=7)
        axes.set_ylim(len(worst) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("time since the start of the run (ms)")
        manifest = found.cell.manifest
        axes.set_title(
            f"{label(manifest.fabric, 60)}, {label(manifest.policy, 40)}, seed {manifest.seed}"
        )
        keys = [
            Patch(color=colours[root], label=f"root {label(found.name(root), 34)}")
            for root in roots
        ]
        if others:
            keys.append(Patch(color=GREY, label="other roots"))
        figure.legend(handles=keys, loc="outside lower center", ncols=3, fontsize=7)
    return Plot(
        "pauses",
        "When the ports that were stopped for the longest stood stopped, in the cell with most "
        "pause, by the port where the chain of stops began.",
        figure,
        ("port", "root", "depth", "from_ps", "until_ps"),
        tuple(
            (
                found.name(int(chains.port[row])),
                found.name(int(chains.root[row])),
                *(int(c[row]) for c in (chains.depth, chains.since, chains.until)),
            )
            for row in np.flatnonzero(shown).tolist()
        ),
    )
