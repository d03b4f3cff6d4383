"""When ports stood stopped: the worst ports of the most paused cell, coloured by root.

A bar is a stop, from the decision of the peer to its end; short ones are drawn at least as wide as
a line.
"""

from typing import Final

import numpy as np

from analysis.plot.style import GREY, SERIES, Plot, blank, label, styled
from analysis.witness import Witness
from topo.unit import PS_PER_MS

_PORTS: Final = 12
_ROOTS: Final = 5


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
            start = chains.since[mine] / PS_PER_MS
            length = (chains.until[mine] - chains.since[mine]) / PS_PER_MS
            shades = [colours.get(root, GREY) for root in chains.root[mine].tolist()]
            spans = list(zip(start.tolist(), length.tolist(), strict=True))
            axes.broken_barh(
                spans, (row - 0.36, 0.72), facecolors=shades, edgecolors=shades, lw=0.3
            )
        axes.set_yticks(range(len(worst)), [label(found.name(p), 34) for p in worst], fontsize=7)
        axes.set_ylim(len(worst) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("time since the start of the run (ms)")
        manifest = found.cell.manifest
        axes.set_title(
            f"{label(manifest.fabric, 26)}, {label(manifest.policy, 26)}, seed {manifest.seed}"
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
