"""Formats by name: what reads and writes each, and what each has no place for.

`read_fabric` and `write_fabric` are the two ways in. A format of several files is a folder. Files
appear whole or not at all, and never over another unless asked.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from topo.fabric import Fabric
from topo.format import (
    bill,
    cablemap,
    containerlab,
    graphml,
    hpcc,
    htsim,
    mininet,
    netbox,
    nodelink,
    ptm,
    sonic,
)
from topo.format.draft import Assumed
from topo.format.text import FormatError, located
from topo.format.written import Written, check_names

Reader = Callable[[Path, Assumed | None], Fabric]
Writer = Callable[[Fabric], Written]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, what it is for, how its files end, its reader and writer if any.

    ``lacks`` says what of a fabric has no place in it. ``folder``: it is written as several files.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    lacks: str
    read: Reader | None = None
    write: Writer | None = None
    folder: bool = False


FORMATS: Final[dict[str, Format]] = {
    form.name: form
    for form in (
        Format(
            "json",
            "node-link JSON, the canonical form",
            (".json",),
            "nothing",
            nodelink.read,
            nodelink.write,
        ),
        Format(
            "graphml",
            "GraphML for networkx, Gephi, igraph",
            (".graphml", ".xml"),
            "nothing",
            graphml.read,
            graphml.write,
        ),
        Format(
            "containerlab",
            "containerlab topology file",
            (".clab.yml", ".clab.yaml"),
            "rates, delays, lengths, roles (in labels that containerlab does not act on)",
            containerlab.read,
            containerlab.write,
        ),
        Format(
            "ptm",
            "topology.dot of the Prescriptive Topology Manager",
            (".dot", ".gv"),
            "all but names and ports (in attributes that ptmd passes over)",
            ptm.read,
            ptm.write,
        ),
        Format(
            "hpcc",
            "topology.txt of the HPCC simulator and its descendants",
            (".txt",),
            "names, tiers, racks, servers, roles, lengths, switch models; delays below 1 ns",
            hpcc.read,
            hpcc.write,
        ),
        Format(
            "netbox",
            "NetBox import tables: devices.csv, interfaces.csv, cables.csv",
            (".csv",),
            "fabric name and family, servers, buffers, latencies, delays; lengths below 1 cm",
            netbox.read,
            netbox.write,
            folder=True,
        ),
        Format(
            "cable-map",
            "CSV of cables for those who pull and label them",
            (),
            "switch models, servers, roles; rack units, lanes, planes and rails are left empty",
            write=cablemap.write,
        ),
        Format(
            "bom",
            "CSV of switches, NIC ports and cables to buy",
            (),
            "everything but counts of articles",
            write=bill.write,
        ),
        Format(
            "mininet",
            "Mininet Topo script, slowed to what software forwards",
            (".py",),
            "tiers, racks, servers, roles; shared buffers, PFC and pipeline latency",
            write=mininet.write,
        ),
        Format(
            "htsim",
            "htsim fat-tree form, regular trees only",
            (".topo",),
            "names, racks, servers, roles, lengths, buffers; any fabric but a regular tree",
            write=htsim.write,
        ),
        Format(
            "sonic",
            "candidate SONiC tables: buffers, ECN, PFC, cable lengths",
            (),
            "everything but cable lengths and thresholds",
            write=sonic.write,
            folder=True,
        ),
    )
}
"""Format name -> format, in the order in which they are listed to people."""


def read_fabric(
    path: Path | str, format: str | None = None, *, assume: Assumed | None = None
) -> Fabric:
    """The fabric that a file (or, for netbox, a folder) holds; its roles are those of the file.

    ``format`` is a name of `FORMATS`, told by the file's ending when None. ``assume`` is what to
    take for rates, switch models and lengths that the file leaves out; see `topo.format.draft`.
    Whether every host has a path is not asked here but by `topo.check.check`.

    Errors: a `FormatError` of one line with the file and, where the format has lines, the line.
    """
    place = Path(path)
    form = _named(format, "read") if format else _of_path(place, "read")
    if form.read is None:
        raise located(
            place, None, f"{form.name} can be written but not read; write one of {_all('read')}"
        )
    return form.read(place, assume)


def write_fabric(
    fabric: Fabric, path: Path | str, format: str | None = None, overwrite: bool = False
) -> list[str]:
    """Write a fabric to a file, or to a folder for a format of several files.

    Returns what the file does not hold, and what to do before using it: one sentence each.
    ``format`` is a name of `FORMATS`, told by the path's ending when None. Existing files are kept
    unless ``overwrite``.

    Errors: a `FormatError`: a fabric or a name that the format cannot carry, a file that exists, a
    path that cannot be written. Nothing is written then.
    """
    place = Path(path)
    form = _named(format, "write") if format else _of_path(place, "write")
    if form.write is None:
        raise located(
            place, None, f"{form.name} can be read but not written; write one of {_all('write')}"
        )
    check_names(fabric)
    made = form.write(fabric)
    paths = {(place / name if name else place): text for name, text in made.files.items()}
    if not overwrite:
        for target in paths:
            if os.path.lexists(target):
                raise located(target, None, "exists; write another path, or --overwrite")
    _put(paths)
    return made.notes


def _put(paths: dict[Path, str]) -> None:
    """Write all files beside their places first, and move them there when all are whole."""
    ready: list[tuple[Path, Path]] = []
    target = Path()
    try:
        for target, text in paths.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w",
                encoding="utf-8",
                newline="",
                dir=target.parent,
                prefix=".writing-",
                delete=False,
            ) as file:
                ready.append((Path(file.name), target))
                file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        while ready:
            draft, target = ready[0]
            draft.chmod(0o666 & ~umask)
            draft.replace(target)
            ready.pop(0)
    except OSError as error:
        raise located(target, None, f"{error.strerror or error}; write another path") from None
    finally:
        for draft, _ in ready:
            draft.unlink(missing_ok=True)


def _all(way: str) -> str:
    return ", ".join(name for name, form in FORMATS.items() if getattr(form, way) is not None)


def _named(name: str, way: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    close = get_close_matches(name, FORMATS, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise FormatError(f"format {name[:40]!r}: unknown; {hint}write one of {_all(way)}")


def _of_path(path: Path, way: str) -> Format:
    if way == "read" and path.is_dir():
        return FORMATS["netbox"]
    name = path.name.lower()
    able = [f for f in FORMATS.values() if getattr(f, way) and not (way == "write" and f.folder)]
    for form in able:
        if any(name.endswith(suffix) for suffix in form.suffixes):
            return form
    endings = ", ".join(f"{f.name} {f.suffixes[0]}" for f in able if f.suffixes)
    raise located(path, None, f"its ending tells no format; name one, or use an ending ({endings})")
