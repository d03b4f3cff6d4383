"""Made-up results for the tests of the analysis: single cells by hand, and whole studies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from analysis.record import (
    FLOWS,
    PORTS,
    REQUESTS,
    Cell,
    CellManifest,
    FabricFact,
    StudyManifest,
    cell_directory,
    cell_id,
    write_cell,
    write_study,
)

SHA = "ab" * 32
MS = 10**9
MEMORY = {
    "hbm.instances": 32,
    "hbm.capacity_bytes": 32 * 50 * 10**9,
    "hbm.mean_bytes": 8 * 50 * 10**9,
    "hbm.peak_ppm": 700_000,
    "hbm.window_ps": 100 * MS,
    "hbm.short_ps": 64 * MS,
    "hbm.short_most_ps": 10 * MS,
    "hbm.evictions": 0,
    "hbm.evictions_most": 0,
}
STOOD = {"drops_buffer": 0, "paused_bytes": 4_000_000, "innocent_bytes": 1_000_000}
COST = {"full mesh": 812_000.0, "fat tree": 1_310_000.0, "leaf-spine 2:1": 540_000.0}
SPEED = {"full mesh": 2.1, "fat tree": 2.6, "leaf-spine 2:1": 3.6, "bipartite 2:1": 4.4}
LUCK = {"random": 1.3, "round_robin": 1.1, "least_loaded": 1.05, "static_groups": 1.2}


def cell(
    fabric: str, policy: str, seed: int, *, count: int = 60, warmup: int = 10, scale: float = 1.0
) -> Cell:
    """A finished cell: log-normal hand-offs around a speed of the fabric and luck of the policy."""
    rng = np.random.default_rng([seed, 7])
    own = np.random.default_rng([seed, sum(map(ord, fabric + policy))])
    arrival = np.cumsum(rng.exponential(1.25 * MS, count)).astype(np.int64)
    lone = int(2.02 * MS)
    center = SPEED.get(fabric, 3.0) * LUCK.get(policy, 1.0) * scale
    noise = rng.lognormal(0, 0.35, count) * own.lognormal(0, 0.1, count)
    transfer = np.maximum(lone, (center * noise * MS)).astype(np.int64)
    start = arrival + rng.integers(0, 3 * MS, count)
    end = start + rng.integers(8 * MS, 14 * MS, count)
    ready = end + transfer
    decode = ready + rng.integers(0, 2 * MS, count)
    output = rng.integers(130, 170, count)
    first = decode + 12 * MS
    finish = first + (output - 1) * 11 * MS
    number = np.arange(count)
    requests = dict(
        zip(
            REQUESTS,
            (
                number,
                arrival,
                rng.integers(400, 700, count),
                output,
                np.full(count, 25_000_000),
                *([np.zeros(count, np.int64)] * 4),  # session, model, tenant, priority
                rng.integers(0, 32, count),
                rng.integers(0, 32, count),
                start,
                *([end] * 4),  # and at once admitted, dispatched and released
                *([ready] * 3),  # arrived, in its place, ready
                decode,
                first,
                finish,
                np.ones(count, np.int64),  # its prompt in one step
                *([np.zeros(count, np.int64)] * 2),  # never preempted, finished
            ),
            strict=True,
        )
    )
    flows = dict(
        zip(
            FLOWS,
            (
                number,
                number,
                requests["prefill"],
                requests["decode"] + 32,
                requests["kv_bytes"],
                end,
                ready,
                ready + 10**6,
                np.full(count, lone),
                np.full(count, 4),
                np.full(count, 6_104),
                rng.integers(0, 900, count),
                np.zeros(count, np.int64),
                np.zeros(count, np.int64),
                np.full(count, 2 * MS),
                np.maximum(2 * MS, transfer * 7 // 10),
            ),
            strict=True,
        )
    )
    duration = int(finish.max())
    tier = np.repeat([0, 1, 2], [64, 64, 24])
    place = np.arange(len(tier))
    device = np.where(tier == 0, place, np.where(tier == 1, (place - 64) // 16, (place - 128) // 8))
    name = [
        f"{('host', 'leaf', 'spine')[t]}{d}:{p % (1, 16, 8)[t]}"
        for t, d, p in zip(tier, device, place, strict=True)
    ]
    busy = (own.beta(2, 6, len(tier)) * duration).astype(np.int64)
    paused = (own.beta(0.5, 30, len(tier)) * duration).astype(np.int64)
    zero = np.zeros(len(tier), np.int64)
    ports = dict(
        zip(
            PORTS,
            (
                place,
                np.array(name),
                tier,
                np.full(len(tier), 100 * 10**9),
                busy // 80,
                busy // 80 // 4200,
                busy,
                paused,
                paused // 10**6,
                zero + 12,
                zero,
                own.integers(0, 900_000, len(tier)),
            ),
            strict=True,
        )
    )
    return Cell(
        manifest(fabric, policy, seed, warmup_requests=warmup, duration_ps=duration),
        requests,
        flows,
        ports,
    )


def manifest(fabric: str, policy: str, seed: int, **more: object) -> CellManifest:
    """The manifest of a cell of `SHA`."""
    fields: dict[str, object] = {
        "settings": {"control": "dcqcn, preset connectx", "ecn": "sonic", "balancing": "ecmp"},
        "totals": {"events": 123_456, "tokens_per_1000_words": 1330} | MEMORY | STOOD,
        "notes": ["Prefill times are roofline estimates."],
        "facts": FabricFact(
            hosts=64,
            prefill=32,
            decode=32,
            switches=10,
            switch_cables=64,
            host_cables=64,
            cost_usd=COST.get(fabric, 610_000.0),
            mu_bps=32 * 10**11,
            nic_bps=10**11,
            switch_ports=[16, 32],
            oversubscription=8 / 3,
        ),
    } | more
    return CellManifest(
        cell=cell_id(fabric, policy, seed),
        fabric=fabric,
        policy=policy,
        seed=seed,
        scenario_sha256=SHA,
        version="0.1.0",
        emulator="packet",
        **fields,
    )


def study(
    directory: Path,
    *,
    fabrics: Sequence[str] = tuple(SPEED),
    policies: Sequence[str] = (*LUCK, "topology_aware"),
    seeds: Sequence[int] = (1, 2, 3),
    impossible: Sequence[tuple[str, str]] = (("full mesh", "static_groups"),),
    count: int = 60,
    name: str = "first look",
) -> Path:
    """Write a whole study and return its directory."""
    write_study(
        directory,
        StudyManifest(
            name=name,
            question="Which fabric and policy keep the KV hand-off inside 5 ms for 32 + 32 GPUs?",
            scenario_sha256=SHA,
            fabrics=list(fabrics),
            policies=list(policies),
            seeds=list(seeds),
            budget_ps=5 * MS,
            allowed=0.05,
            ttft_ps=500 * MS,
            notes=["Arrivals are Poisson, 800 requests a second."],
            versions={"kvfabric": "0.1.0", "numpy": np.__version__},
            reproduce=["kvfabric compare scenarios/first-look.yaml --seeds 3"],
            scenario="name: first look\nfabric:\n  family: leaf_spine\n",
        ),
    )
    for fabric in fabrics:
        for policy in policies:
            for seed in seeds:
                if (fabric, policy) in impossible:
                    made = Cell(manifest(fabric, policy, seed, impossible="no groups in a mesh"))
                else:
                    made = cell(fabric, policy, seed, count=count)
                write_cell(cell_directory(directory, made.manifest.cell), made)
    return directory


def row_cell(
    requests: Sequence[Mapping[str, int]],
    flows: Sequence[Mapping[str, int]] = (),
    ports: Sequence[Mapping[str, int]] = (),
    **more: object,
) -> Cell:
    """A cell from rows; columns that a row leaves out are -1 for times and 0 for the rest."""

    def table(columns: Sequence[str], rows: Sequence[Mapping[str, int]]) -> dict[str, np.ndarray]:
        return {
            name: np.array(
                [row.get(name, -1 if name.endswith("_ps") else 0) for row in rows], np.int64
            )
            for name in columns
        }

    numbered = [{"request": place, **row} for place, row in enumerate(requests)]
    made = table(PORTS, ports) | {"name": np.array([f"s0:{p}" for p in range(len(ports))], str)}
    return Cell(manifest("f", "p", 1, **more), table(REQUESTS, numbered), table(FLOWS, flows), made)


def question(**changes: object) -> StudyManifest:
    """A study of one fabric and one policy with a budget of 5 ms."""
    fields: dict[str, object] = {
        "name": "s",
        "question": "?",
        "scenario_sha256": SHA,
        "fabrics": ["f"],
        "policies": ["p"],
        "seeds": [1],
        "budget_ps": 5 * MS,
        "allowed": 0.05,
    }
    return StudyManifest(**(fields | changes))


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., Cell]:
    """`row_cell`."""
    return row_cell


@pytest.fixture(scope="session")
def make_question() -> Callable[..., StudyManifest]:
    """`question`."""
    return question


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Cell]:
    """`cell`."""
    return cell


@pytest.fixture(scope="session")
def make_study() -> Callable[..., Path]:
    """`study`."""
    return study


@pytest.fixture(scope="session")
def first_look(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A written study of 4 fabrics and 5 policies over 3 seeds; not to be changed."""
    return study(tmp_path_factory.mktemp("first-look"))
