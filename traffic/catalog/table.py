"""A catalogue file: CSV with a header, one named thing a row, and where each row stands.

The shipped catalogues and a user's own file have the same columns and go through this reader, so
that a bad cell is refused with its file and line.
"""

import csv
import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import TypeVar

from topo.intake import Intake
from traffic.error import CatalogError

_FILE = Intake(CatalogError, absent="give a readable CSV file", other="give a readable CSV file")
_LONGEST_NAME = 80
_MOST = 1e12

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its cells by column and its place, ``file:line``."""

    place: str
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The cell as written, without surrounding blanks; may be empty."""
        return self.cells[column].strip()

    def name(self, column: str) -> str:
        """The cell as a name: it goes to terminals and pages, so printable and of one line."""
        cell = self.text(column)
        if not cell:
            raise CatalogError(f"{self.place}: {column} is empty; write its name")
        if len(cell) > _LONGEST_NAME or not cell.isprintable():
            raise CatalogError(
                f"{self.place}: {column} {cell[:40]!r}: write a name of at most {_LONGEST_NAME} "
                "printable characters"
            )
        return cell

    def number(self, column: str, default: float | None = None) -> float:
        """The cell as a finite number that is not negative; an empty cell gives the default."""
        cell = self.text(column)
        if not cell:
            if default is None:
                raise CatalogError(f"{self.place}: {column} is empty; write a number")
            return default
        try:
            value = float(cell)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0:
            raise CatalogError(f"{self.place}: {column} {cell!r}: write a number of 0 or more")
        if value > _MOST:
            raise CatalogError(f"{self.place}: {column} {cell!r}: write at most {_MOST:g}")
        return value

    def whole(self, column: str, default: int | None = None) -> int:
        """As `number`, but a whole number."""
        value = self.number(column, default)
        if value != int(value):
            raise CatalogError(f"{self.place}: {column} {value}: write a whole number")
        return int(value)


def shipped(name: str) -> str:
    """The text of a catalogue that comes with the package."""
    return files("traffic").joinpath("catalog", name).read_text(encoding="utf-8")


def read(path: Path, what: str = "a catalogue") -> str:
    """The text of a user's CSV file, at most 4 MiB; ``what`` it is, for the complaint."""
    return _FILE.content(
        path, 4, large=f"{what} is a short CSV file", encoding=f"save {what} as UTF-8 CSV"
    )


def rows(text: str, place: str, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a catalogue text whose header has at least the given columns."""
    reader = csv.DictReader(text.splitlines(), restkey="", restval=None, strict=True)
    header = reader.fieldnames or ()
    missing = [column for column in columns if column not in header]
    if missing:
        raise CatalogError(f"{place}:1: missing column {missing[0]!r}; the header needs it")
    try:
        for cells in reader:
            where = f"{place}:{reader.line_num}"
            if "" in cells or None in cells.values():
                raise CatalogError(f"{where}: not {len(header)} cells; write one a column")
            yield Row(where, dict(cells))
    except csv.Error as error:
        raise CatalogError(f"{place}:{reader.line_num}: {error}; quote cells with commas") from None


def catalogue(
    ours: str, own: Path | None, columns: Sequence[str], make: Callable[[Row], Thing]
) -> dict[str, Thing]:
    """The things of a shipped catalogue by name, and over them those of a user's own file.

    The first column is the name. Names differ by more than their case, as they are found in any:
    a row of one's own takes the place of the shipped one, and no file has a name twice.
    """
    table = _named(rows(shipped(ours), ours, columns), columns[0], make)
    if own is not None:
        mine = _named(rows(read(own), str(own), columns), columns[0], make)
        if not mine:
            raise CatalogError(f"{own}: no rows; write one a {columns[0]}, or leave the file out")
        taken = {name.lower() for name in mine}
        table = {name: one for name, one in table.items() if name.lower() not in taken} | mine
    return table


def _named(found: Iterator[Row], column: str, make: Callable[[Row], Thing]) -> dict[str, Thing]:
    table: dict[str, Thing] = {}
    seen: dict[str, str] = {}
    for row in found:
        name = row.name(column)
        first = seen.setdefault(name.lower(), row.place)
        if first != row.place:
            raise CatalogError(f"{row.place}: {column} {name!r} stands at {first} too; keep one")
        table[name] = make(row)
    return table


def unknown(what: str, name: str, known: Sequence[str]) -> CatalogError:
    """The error for a name that no row has, with close matches or all names."""
    shown = name[:60]
    folded = {k.lower(): k for k in known}
    starting = [k for k in folded if name and k.startswith(name.lower())]
    near = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.5)
    close = [folded[k] for k in dict.fromkeys(starting + near)][:3]
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
    return CatalogError(f"{what} {shown!r}: not in the catalogue; {hint}")
