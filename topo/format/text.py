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

MOST_BYTES: Final = 128 * 2**20
MOST_NODES: Final = 400_000
MOST_LINKS: Final = 2_000_000
MOST_NAME: Final = 100

_LONGEST: Final = 500
_UNITS: Final = ((10**9, "Gbps"), (10**6, "Mbps"), (10**3, "Kbps"), (1, "bps"))
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
    told = f"{path}{place}: {message}"
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in told[:_LONGEST])
    return FormatError(plain if len(told) <= _LONGEST else f"{plain}...")


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


def content(path: Path, most: int = MOST_BYTES) -> str:
    """A whole file as text.

    Errors: not a readable file, more than ``most`` bytes, not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():
            raise located(path, None, "not a file; write the path of one")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise located(path, None, f"{error.strerror or error}; write another path") from None
    except ValueError:
        raise located(path, None, "not a path; write another") from None
    if len(data) > most:
        raise located(
            path,
            None,
            f"more than {most // 2**20} MiB; no fabric of this kind is read from so much",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise located(
            path, line, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def whole(text: str) -> int | None:
    """The whole number that a text spells in at most 18 digits, else None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def exact_rate(bps: int) -> str:
    """A rate in the largest unit that keeps it a whole number.

    >>> exact_rate(400 * 10**9), exact_rate(2_500_000_000)
    ('400Gbps', '2500Mbps')
    """
    unit, name = next((unit, name) for unit, name in _UNITS if bps % unit == 0)
    return f"{bps // unit}{name}"
