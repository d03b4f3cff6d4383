"""Tables as GitHub Markdown (GitHub Flavored Markdown, section 4.10), with strangers' labels safe.

A label is shown as it stands: what Markdown or HTML would read as markup is escaped, and line
breaks become spaces.
"""

import re
from collections.abc import Sequence
from html import escape

from analysis.wording import printable

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&@$])")
_KEY = re.compile(r"(`[a-z][a-z0-9_.]*`)")


def escaped(text: str) -> str:
    """A label as plain text inside Markdown; a link or mention in it stays text.

    >>> print(escaped("a|b <script> @team"))
    a\\|b \\<script\\> \\@team
    """
    return _SPECIAL.sub(r"\\\1", printable(text))


def prose(text: str) -> str:
    """The same of a sentence of ours, in which keys of a scenario stand as code.

    >>> print(prose("`run.seeds` of a_b"))
    `run.seeds` of a\\_b
    """
    parts = _KEY.split(text)
    return "".join(part if place % 2 else escaped(part) for place, part in enumerate(parts))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head, its cells escaped.

    >>> print(table(("a", "b"), [("x", "1 %")]))
    | a | b |
    | --- | --- |
    | x | 1 % |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(cell if place == 1 else escaped(cell) for cell in line) + " |"
        for place, line in enumerate(lines)
    )


def folded(title: str, *blocks: str) -> str:
    """Blocks of Markdown behind a title that opens them; the blocks are written already.

    What stands inside a tag of a line of HTML is HTML and no Markdown (section 4.6).

    >>> print(folded("more", "- a"))
    <details><summary>more</summary>
    <BLANKLINE>
    - a
    <BLANKLINE>
    </details>
    """
    inner = "\n\n".join(blocks)
    return f"<details><summary>{escape(printable(title))}</summary>\n\n{inner}\n\n</details>"
