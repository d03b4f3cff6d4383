"""Text from strangers: read within bounds, with names and numbers that do no harm.

A file of cables may come from anywhere. Its size is bounded before it is read, it must be UTF-8,
and every name must be something that a table, a drawing and a terminal can show: no control
characters, no newlines, no invisible or unassigned ones, no blanks around it. Nothing in a file
names another file.
"""

import re
import unicodedata
from pathlib import Path
from typing import Final

from topo.error import FabricError
from topo.intake import Intake

MOST_MIB: Final = 128
MOST_NODES: Final = 400_000
MOST_LINKS: Final = 2_000_000
MOST_NAME: Final = 100

_LONGEST: Final = 500
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


class FormatError(FabricError):
    """A file that cannot be read or written as a fabric, with its place where it has one."""


def shown(value: object) -> str:
    """A value from a file, quoted, escaped and cut to 60 characters, for an error in one line."""
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def located(path: Path | str, where: int | str | None, message: str) -> FormatError:
    """An error that starts with ``file:line:``, or ``file: place:`` where a format has no lines.

    It is one line of at most 500 characters, with whatever does not print escaped: parsers quote
    the file in their complaints, and the file may quote a terminal's control codes.

    >>> str(located("a.dot", 3, "no"))
    'a.dot:3: no'
    """
    place = "" if where is None else f":{where}" if isinstance(where, int) else f": {where}"
    return _plain(f"{path}{place}: {message}")


def _plain(told: str) -> FormatError:
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in told[:_LONGEST])
    return FormatError(plain if len(told) <= _LONGEST else f"{plain}...")


_FABRIC: Final = Intake(_plain, absent="write another path", other="write the path of one")


def unusable(name: str) -> str | None:
    """Why a name cannot be used, or None when it can.

    >>> unusable("leaf 0"), unusable("leaf0\\n")
    (None, 'has a blank at its start or end')
    """
    if not name:
        return "is empty"
    if len(name) > MOST_NAME:
        return f"has {len(name)} characters; at most {MOST_NAME} are read"
    if name != name.strip():
        return "has a blank at its start or end"
    for letter in name:
        kind = unicodedata.category(letter)
        if kind[0] == "C" or kind in ("Zl", "Zp"):
            return f"has the character U+{ord(letter):04X}, which does not print"
    return None


def content(path: Path, most_mib: int = MOST_MIB) -> str:
    """A whole file as text.

    Errors: not a readable file, more than ``most_mib`` MiB, not UTF-8.
    """
    return _FABRIC.content(
        path,
        most_mib,
        large="no fabric of this kind is read from so much",
        encoding="save the file as UTF-8",
    )


def whole(text: str) -> int | None:
    """The whole number that a text spells in at most 18 digits, else None."""
    return int(text) if _WHOLE.fullmatch(text) else None
