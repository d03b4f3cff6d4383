"""A figure inside a page: SVG that takes the page's colours, and what a pointer finds in it.

Ink, paper and grid lines become variables of the page's style sheet, so that dark pages and print
have their own; series colours stay, since readers tell them apart on both. Names inside a figure
get the figure's name in front, for they would clash on one page.
"""

import re
from typing import Any, Final

from analysis.plot.style import Plot

_COLOURS: Final = {
    "#222222": "var(--ink)",
    "#000000": "var(--ink)",
    "#ffffff": "var(--plot)",
    "#dddddd": "var(--grid)",
    "#666666": "var(--soft)",
}
_COLOUR: Final = re.compile(r"(?<=: )(" + "|".join(_COLOURS) + r")(?=[;\"])")
_NAME: Final = re.compile(r"(\bid=\"|url\(#|xlink:href=\"#)")
MOST_CELLS: Final = 40_000
"""Links whose names a page carries for its pointer; larger fabrics have their table and CSV."""


def inline(plot: Plot, svg: bytes) -> str:
    """The SVG element of a figure, for a page that defines ``--ink --plot --grid --soft``.

    The drawing library escapes the labels inside a figure; nothing here adds text.
    """
    text = svg[svg.index(b"<svg") :].decode()
    head, rest = text.split(">", 1)
    # as wide as the page, within reason of the width that it was drawn for
    wide = float(re.search(r'width="([\d.]+)pt"', head)[1])  # type: ignore[index]
    head += f' style="min-width: min(46rem, {wide:.0f}pt); max-width: {1.4 * wide:.0f}pt"'
    # the same rule stands in every figure and would reach the whole page
    rest = re.sub(r"<style type=\"text/css\">.*?</style>", "", rest, count=1, flags=re.DOTALL)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, count=1, flags=re.DOTALL)
    # equal pictures have equal names, to which nothing refers
    rest = re.sub(r" id=\"image[0-9a-f]+\"", "", rest)
    named = _NAME.sub(lambda found: found[1] + plot.name + "-", rest)
    return f"{head}>" + _COLOUR.sub(lambda found: _COLOURS[found[1]], named)


def grids(plot: Plot) -> list[dict[str, Any]]:
    """Where each `Field` of a laid-out figure lies, as shares of its width and height from the top
    left, and its texts; none where they are too many for a page."""
    cells = sum(len(row) for field in plot.fields for row in field.texts)
    if cells > MOST_CELLS:
        return []
    found = []
    for field in plot.fields:
        box = field.axes.get_position()
        place = [box.x0, 1 - box.y1, box.width, box.height]
        found.append(
            {"box": [round(float(side), 5) for side in place], "texts": [*map(list, field.texts)]}
        )
    return found
