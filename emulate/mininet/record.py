"""The record of a run: written before anything is created, so that a killed run can be removed.

A run owns one folder, ``/run/kvfabric/PREFIX``, with its record, plan, sockets and tables. It says
which process made it and which interfaces it is about to make; processes carry the run's mark
(`emulate.mininet.process`). No cgroup, no named namespace and no bridge is ever made.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from emulate.mininet.error import EmulationError
from emulate.mininet.name import fresh_prefix, is_prefix
from emulate.mininet.process import began

FOLDER: Final = Path("/run/kvfabric")


class Record(msgspec.Struct, frozen=True):
    """Who made what. ``began``: when process ``pid`` did, in clock ticks since boot."""

    prefix: str
    pid: int
    began: int
    what: str
    nodes: dict[str, int] = {}
    """Processes that hold the namespaces, by node name, as soon as they are known."""
    interfaces: list[str] = []
    """Every interface that is about to be made."""
    base: str = str(FOLDER)

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return Path(self.base) / self.prefix

    @property
    def alive(self) -> bool:
        """Whether the process that made it still runs."""
        return began(self.pid) == self.began

    def write(self) -> None:
        """Write it whole or not at all."""
        file = self.folder / "record.json"
        draft = file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(self))
        draft.replace(file)


def open_record(what: str, base: Path = FOLDER) -> Record:
    """Begin a run: a prefix that no other run has, its folder, and its record."""
    mine = began(os.getpid())
    assert mine is not None
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(100):
        record = Record(fresh_prefix(), os.getpid(), mine, what, base=str(base))
        try:
            record.folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        record.write()
        return record
    raise EmulationError(f"{base}: a hundred prefixes were taken; run kvfabric clean")


def with_interfaces(record: Record, interfaces: Sequence[str]) -> Record:
    """The record with what is about to be made, written."""
    record = msgspec.structs.replace(record, interfaces=list(interfaces))
    record.write()
    return record


def with_nodes(record: Record, nodes: dict[str, int]) -> Record:
    """The record with the processes that hold the namespaces, written."""
    record = msgspec.structs.replace(record, nodes=dict(nodes))
    record.write()
    return record


def records(base: Path = FOLDER) -> list[Record]:
    """Every run that has a folder, also one that was killed while its record was written."""
    found = []
    folders = sorted(base.iterdir()) if base.is_dir() else []
    for folder in folders:
        if not (folder.is_dir() and is_prefix(folder.name)):
            continue
        try:
            record = msgspec.json.decode((folder / "record.json").read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            record = Record(folder.name, 0, -1, "unknown")
        found.append(msgspec.structs.replace(record, prefix=folder.name, base=str(base)))
    return found
