"""Remove what a run left: by its record, its prefix and its mark, and nothing else.

Namespaces go with the processes that hold them, and a veth pair with either of its ends. What is
foreign is never looked for: no pattern of names beyond the run's own prefix, no `mn -c`.
"""

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from emulate.mininet.error import EmulationError
from emulate.mininet.name import owned_by
from emulate.mininet.process import end_all
from emulate.mininet.program import call
from emulate.mininet.record import FOLDER, Record, records


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed of one run."""

    prefix: str
    what: str
    processes: int
    interfaces: tuple[str, ...]
    files: int


def remove(record: Record) -> Cleaned:
    """Remove one run, whoever made it. Harmless when nothing is left of it."""
    ended = end_all(record.prefix)
    links = _links(record.prefix)
    for link in links:
        # One that went with the other end of its pair is not there any more.
        with contextlib.suppress(EmulationError):
            call("ip", "link", "delete", link)
    left = _links(record.prefix)
    if left:
        raise EmulationError(f"interface {left[0]} of run {record.prefix}: cannot be removed")
    files = sum(1 for file in record.folder.rglob("*") if not file.is_dir())
    shutil.rmtree(record.folder, ignore_errors=True)
    return Cleaned(record.prefix, record.what, len(ended), tuple(links), files)


def clean(base: Path = FOLDER) -> tuple[list[Cleaned], list[Record]]:
    """Remove every run whose main process is gone.

    Returns what was removed, and the runs that are under way and were left alone.
    """
    cleaned, running = [], []
    for record in records(base):
        if record.alive:
            running.append(record)
        else:
            cleaned.append(remove(record))
    return cleaned, running


def _links(prefix: str) -> list[str]:
    """The run's interfaces that lie in this namespace."""
    told = call("ip", "-json", "link", "show")
    names = [str(link["ifname"]) for link in json.loads(told or "[]")]
    return [name for name in names if owned_by(prefix, name)]
