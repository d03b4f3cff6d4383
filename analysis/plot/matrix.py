"""The P->D traffic matrix: bytes from each prefill to each decode instance, one panel each.

Shares of all bytes of an alternative, mean over its seeds by adding them up, on one logarithmic
scale for all panels: an even full mesh is one grey, groups are blocks, a mapping is a diagonal.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from analysis.movement import Movement
from analysis.plot.style import Plot, blank, labels, styled
from analysis.shown import PANELS, Alternative, told
from analysis.shown import shown as some_of
from analysis.wording import percent

_COLUMNS = 6


def matrix(moved: Mapping[Alternative, Movement], first: Sequence[Alternative] = ()) -> Plot:
    """One panel for each alternative, of very many those that come first in ``first``."""
    shown = [(key, moved[key]) for key in some_of(moved, first, PANELS)]
    policies_shown = len({policy for (_, policy), _ in shown})
    across = policies_shown if 2 < policies_shown <= _COLUMNS else min(_COLUMNS, len(shown) or 1)
    down = max(1, ceil(len(shown) / across))
    shares = {key: each.matrix / max(1, int(each.matrix.sum())) for key, each in shown}
    top = max((float(each.max(initial=0)) for each in shares.values()), default=0.0) or 1.0
    least = min((float(s[s > 0].min()) for s in shares.values() if (s > 0).any()), default=top / 2)
    fabrics = labels([fabric for (fabric, _), _ in shown], 34)
    policies = labels([policy for (_, policy), _ in shown], 34)
    with styled():
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import MaxNLocator

        figure = blank(2.1 * across + 1.2, 2.2 * down + 0.5)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        scale = LogNorm(min(least, top / 2), top)
        image = None
        for axes, ((fabric, policy), each) in zip(grid, shown, strict=False):
            share = shares[fabric, policy]
            field = np.ma.masked_equal(share, 0)
            image = axes.imshow(field, norm=scale, cmap="cividis", aspect="auto")
            axes.grid(visible=False)
            axes.tick_params(labelsize=6)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
            axes.set_title(
                f"{fabrics[fabric]}\n{policies[policy]}\n{each.pairs:,} pairs, drift "
                f"{percent(each.drift)}",
                fontsize=7,
            )
        for axes in grid[len(shown) :]:
            axes.set_visible(False)
        figure.supxlabel("decode instance", fontsize=9)
        figure.supylabel("prefill instance", fontsize=9)
        if image is not None:
            bar = figure.colorbar(image, ax=list(grid), shrink=0.9, pad=0.01, aspect=40)
            ticks = np.geomspace(scale.vmin or least, top, 4)
            bar.set_ticks(ticks.tolist(), labels=[f"{100 * tick:.2g}" for tick in ticks])
            bar.minorticks_off()
            bar.set_label("share of bytes (%)")
            bar.outline.set_visible(False)
    return Plot(
        "matrix",
        "Share of hand-off bytes from each prefill (down) to each decode instance (across), one "
        "panel an alternative; blank where none went."
        + told(len(shown), len(moved), "alternatives"),
        figure,
        ("fabric", "policy", "prefill", "decode", "bytes", "nearest"),
        _pairs(moved),
    )


def _pairs(moved: Mapping[tuple[str, str], Movement]) -> tuple[tuple[object, ...], ...]:
    """Every pair that moved bytes."""
    rows: list[tuple[object, ...]] = []
    for (fabric, policy), each in moved.items():
        rows += [
            (fabric, policy, p, d, int(each.matrix[p, d]), bool(each.nearest[p, d]))
            for p, d in np.argwhere(each.matrix > 0).tolist()
        ]
    return tuple(rows)
