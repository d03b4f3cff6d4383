"""Results on disk: one directory a study, one directory a cell, written whole or not at all.

A cell is one (fabric, policy, seed). ``OUT/study.json`` describes the study, and
``OUT/cells/<cell id>/`` holds ``manifest.json``, ``requests.parquet``, ``flows.parquet`` and
``ports.parquet``, and those of `analysis.observed`. Times are integer picoseconds, sizes bytes,
rates bit/s; -1 stands for "not reached". Nothing that is written depends on the clock or the
machine, so that the same run gives the same bytes; the manifest carries the SHA-256 of each table,
so that damage is seen.
"""

import hashlib
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from analysis.disk import sync_directory, write_synced
from analysis.error import RecordError
from analysis.observed import BESIDE
from analysis.parquet import decoded, encoded, sealed
from analysis.price import PriceFact
from traffic.emulator import Table
from traffic.record.book import MOMENTS

SCHEMA: Final = 1
"""Version of the layout that this module reads and writes."""

REQUESTS: Final = (
    "request",
    "arrival_ps",
    "input_tokens",
    "output_tokens",
    "kv_bytes",
    "session",
    "model",
    "tenant",
    "priority",
    "prefill",
    "decode",
    "prefill_start_ps",
    "prefill_end_ps",
    *MOMENTS,
    "kv_ready_ps",
    "decode_start_ps",
    "first_token_ps",
    "finish_ps",
    *("prompt_steps", "preemptions", "status"),
)
"""Columns of the request table, all int64.

``model``, ``prefill`` and ``decode`` are numbers, instances being counted over all models.
``prompt_steps`` counts the steps that a prompt was in, above 1 where it was cut into chunks;
``preemptions`` how often the request lost its place in decode memory.

The moments of a hand-off are those of `traffic.record.book.MOMENTS`; a request that needed none has
-1 there and ``kv_ready_ps`` equal to ``prefill_end_ps``."""

FLOWS: Final = (
    "flow",
    "handoff",
    "source",
    "destination",
    "bytes",
    "release_ps",
    "finish_ps",
    "sender_done_ps",
    "ideal_ps",
    "hops",
    "packets",
    "marked",
    "resent_bytes",
    "timeouts",
    "bandwidth_ps",
    "maxmin_ps",
)
"""Columns of the flow table, all int64; ``handoff`` is the number of the request it serves.

``bandwidth_ps`` and ``maxmin_ps`` are the durations that two cheap estimates give the same flow:
bytes over NIC bandwidth, and a max-min fluid replay of the same releases (-1: not estimated)."""

PORTS: Final = (
    "port",
    "name",
    "tier",
    "rate_bps",
    "tx_bytes",
    "tx_packets",
    "busy_ps",
    "paused_ps",
    "pauses",
    "marked",
    "drops",
    "max_queue_bytes",
)
"""Columns of the port table, int64 but for the text ``name``, written ``device:port`` or
``device:port>far device:port``.

``tier`` is that of the sending node, 0 for a host."""

TABLES: Final = {"requests": REQUESTS, "flows": FLOWS, "ports": PORTS}
TEXT: Final = frozenset({"name"})

FINISHED: Final = 0
IN_FLIGHT: Final = 1
REJECTED: Final = 2

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,199}")
_MOST_MANIFEST_BYTES: Final = 16 * 2**20


class FabricFact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the fabric of a cell consists of and can carry.

    ``cost_usd`` covers switches, with as many ports each as ``switch_ports`` has, and the cables
    between them; ``ports_asked`` is how many the scenario's switch has, None for a fabric of the
    user's own; ``oversubscription`` is the one that was built, None where a leaf has no links to
    other switches; ``mu_bps`` is the max-flow from all prefill to all decode hosts; ``deadlock``
    tells a cycle of buffer dependencies, or None when there is none.
    """

    hosts: int
    prefill: int
    decode: int
    switches: int
    switch_cables: int
    host_cables: int
    cost_usd: float
    mu_bps: int
    nic_bps: int
    deadlock: str | None = None
    switch_ports: list[int] = []
    ports_asked: int | None = None
    oversubscription: float | None = None


class CellManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one cell is, and what made it.

    ``fabric`` and ``policy`` are the labels that readers see. ``warmup_requests`` counts the first
    arrivals to be left out. ``impossible`` is the one-line reason of a cell that could not run;
    such a cell has no tables. ``price`` is what it is paid by, where the scenario says so.
    ``digest`` is filled in by `write_cell`.
    """

    cell: str
    fabric: str
    policy: str
    seed: int
    scenario_sha256: str
    version: str
    emulator: str
    facts: FabricFact | None = None
    settings: dict[str, str] = {}
    warmup_requests: int = 0
    duration_ps: int = 0
    totals: dict[str, int] = {}
    notes: list[str] = []
    impossible: str | None = None
    price: PriceFact | None = None
    digest: dict[str, str] = {}
    schema: int = SCHEMA


class StudyManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the whole study asks, and of which alternatives.

    ``budget_ps`` is the time a hand-off may take and ``allowed`` the share of hand-offs that may
    exceed it. Without ``budget_ps`` a hand-off may take what ``ttft_ps`` leaves after its request's
    queueing and prefill. ``fabrics``, ``policies`` and ``seeds`` are in the order of the scenario.
    ``load`` is how much the scenario asks for, in words; empty in results without it.
    ``versions`` names programs and libraries, ``reproduce`` the command lines that give the same
    study, ``scenario`` the scenario as text; ``limits`` tells, in sentences, what is not modelled.
    ``varied`` says of each of ``fabrics`` what its label is made of: under ``fabric`` the fabric's
    own, under every other key what the comparison sets there.
    """

    name: str
    question: str
    scenario_sha256: str
    fabrics: list[str]
    policies: list[str]
    seeds: list[int]
    allowed: float
    budget_ps: int | None = None
    ttft_ps: int | None = None
    tpot_ps: int | None = None
    load: str = ""
    notes: list[str] = []
    limits: list[str] = []
    versions: dict[str, str] = {}
    reproduce: list[str] = []
    scenario: str = ""
    varied: dict[str, dict[str, str]] = {}
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One cell: its manifest and its three tables, which are empty when it was impossible.

    ``observed`` holds more tables to be written; `read_cell` leaves them (see `read_observed`).
    """

    manifest: CellManifest
    requests: Table = field(default_factory=dict)
    flows: Table = field(default_factory=dict)
    ports: Table = field(default_factory=dict)
    observed: dict[str, Table] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """``requests``, ``flows`` or ``ports``."""
        tables = {"requests": self.requests, "flows": self.flows, "ports": self.ports}
        return tables[name]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A study with every cell found, in the order fabric, policy, seed of its manifest."""

    manifest: StudyManifest
    cells: tuple[Cell, ...]
    missing: int
    """Cells that the manifest asks for and that are not on disk."""


def cell_id(fabric: str, policy: str, seed: int) -> str:
    """A directory name for a cell: readable, and unique for any two labels.

    >>> cell_id("leaf spine", "random", 3)
    'leaf-spine+random+3-741f6aec'
    """
    label = f"{fabric}\0{policy}\0{seed}"
    digest = hashlib.sha256(label.encode()).hexdigest()[:8]
    parts = (re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")[:60] for text in (fabric, policy))
    return "+".join((*(part or "x" for part in parts), f"{seed}-{digest}"))


def cell_directory(study: Path, cell: str) -> Path:
    """Where a study keeps the cell of this id."""
    if not _ID.fullmatch(cell):
        raise RecordError(f"cell id {cell[:60]!r}: not a plain directory name; use cell_id()")
    return study / "cells" / cell


def write_cell(directory: Path, cell: Cell) -> None:
    """Write a cell as ``directory``, whole or not at all.

    A half-written cell of a killed run is replaced. Raises `RecordError` when the cell is already
    there, when a column is missing or has the wrong type, or when the disk refuses.
    """
    _check_schema(cell.manifest.schema, directory)
    part = directory.with_name(f".{directory.name}.part")
    if (directory / "manifest.json").exists():
        raise RecordError(f"{directory}: cell is already there; remove it to run it again")
    tables = {} if cell.manifest.impossible is not None else _encoded(cell, directory)
    digest = {name: hashlib.sha256(content).hexdigest() for name, content in tables.items()}
    manifest = msgspec.structs.replace(cell.manifest, digest=digest)
    try:
        if part.exists():
            shutil.rmtree(part)
        part.mkdir(parents=True)
        for name, content in tables.items():
            write_synced(part / f"{name}.parquet", content)
        write_synced(part / "manifest.json", _json(manifest))
        sync_directory(part)
        part.rename(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise RecordError(f"{directory}: {error.strerror}; choose another output place") from None


def read_cell(directory: Path) -> Cell:
    """Read a cell back and check it. Raises `RecordError` in one line."""
    manifest = _manifest(directory / "manifest.json", CellManifest)
    if manifest.impossible is not None:
        return Cell(manifest)
    tables = {
        name: _table(directory / f"{name}.parquet", columns, manifest.digest.get(name, ""))
        for name, columns in TABLES.items()
    }
    return Cell(manifest, tables["requests"], tables["flows"], tables["ports"])


def check_cell(directory: Path) -> None:
    """Raise `RecordError`, in one line, unless a cell and every table beside it are as written."""
    digest = read_cell(directory).manifest.digest
    for name in digest.keys() - TABLES.keys():
        sealed(directory / f"{name}.parquet", digest[name])


def write_study(directory: Path, manifest: StudyManifest) -> None:
    """Write ``study.json``, whole or not at all, replacing the one before."""
    part = directory / ".study.json.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_synced(part, _json(manifest))
        part.replace(directory / "study.json")
        sync_directory(directory)
    except OSError as error:
        raise RecordError(f"{directory}: {error.strerror}; choose another output place") from None


def read_manifest(directory: Path) -> StudyManifest:
    """Read ``study.json`` alone."""
    return _manifest(directory / "study.json", StudyManifest)


def read_study(directory: Path) -> Study:
    """Read a study with all its finished cells.

    Raises `RecordError` for a damaged cell, and for one of another scenario or with labels that
    ``study.json`` does not name.
    """
    manifest = read_manifest(directory)
    order = {
        key: place
        for place, key in enumerate(
            (fabric, policy, seed)
            for fabric in manifest.fabrics
            for policy in manifest.policies
            for seed in manifest.seeds
        )
    }
    found: dict[int, Cell] = {}
    home = directory / "cells"
    for place in sorted(home.iterdir()) if home.is_dir() else []:
        if place.name.startswith(".") or not place.is_dir():
            continue
        cell = read_cell(place)
        m = cell.manifest
        if m.scenario_sha256 != manifest.scenario_sha256:
            other = "from another scenario than study.json"
            raise RecordError(f"{place}: {other}; use a new directory")
        rank = order.get((m.fabric, m.policy, m.seed))
        if rank is None or rank in found:
            why = "not in study.json" if rank is None else "there twice"
            which = f"({m.fabric!r}, {m.policy!r}, seed {m.seed})"
            raise RecordError(f"{place}: {which} is {why}; remove this directory")
        found[rank] = cell
    cells = tuple(found[rank] for rank in sorted(found))
    return Study(manifest, cells, missing=len(order) - len(found))


Manifest = TypeVar("Manifest", CellManifest, StudyManifest)


def _manifest(path: Path, kind: type[Manifest]) -> Manifest:
    whole = kind is StudyManifest
    again = "remove the folder and run the study again" if whole else "run the cell again"
    try:
        if path.is_fifo():
            raise RecordError(f"{path}: not a file; give a results directory")
        if path.stat().st_size > _MOST_MANIFEST_BYTES:
            raise RecordError(f"{path}: larger than 16 MiB; not a manifest of this program")
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}; give a results directory") from None
    try:
        loose = msgspec.json.decode(content)
        _check_schema(loose.get("schema") if isinstance(loose, dict) else None, path)
        return msgspec.convert(loose, kind)
    except msgspec.MsgspecError as error:
        cause = "damaged"
        if "unknown field" in str(error):
            cause = "of a newer kvfabric, which reads it, or damaged"
        raise RecordError(f"{path}: {error}; the file is {cause}, {again}") from None
    except (UnicodeDecodeError, RecursionError):
        raise RecordError(f"{path}: not JSON; the file is damaged, {again}") from None


def _check_schema(schema: object, path: Path) -> None:
    if schema != SCHEMA:
        raise RecordError(
            f"{path}: schema {schema!r}, this version reads {SCHEMA}; "
            "run the study again or use the version that wrote it"
        )


def _json(manifest: Struct) -> bytes:
    encoded = msgspec.json.encode(manifest, order="sorted")
    return msgspec.json.format(encoded, indent=1) + b"\n"


def _encoded(cell: Cell, place: Path) -> dict[str, bytes]:
    main = {name: (cell.table(name), columns) for name, columns in TABLES.items()}
    main |= {name: (table, BESIDE[name]) for name, table in cell.observed.items()}
    return {
        name: encoded(table, columns, TEXT, f"{place}: {name}")
        for name, (table, columns) in main.items()
    }


def _table(path: Path, columns: tuple[str, ...], digest: str) -> Table:
    return decoded(sealed(path, digest), columns, TEXT, str(path))
