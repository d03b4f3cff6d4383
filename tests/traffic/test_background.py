"""Background traffic: what a burst moves, when it comes, and that none of it is a hand-off."""

from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from emulate.fluid import FluidEmulator
from emulate.packet import PacketEmulator
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.background import NO_HANDOFF, Background, BackgroundError, Source
from traffic.emulator import COMPLETION, FLOW, Advance, Emulator, Table, Telemetry

US = 10**6
MS = 10**9
RATE = 100 * 10**9


class Wire:
    """An emulator in which every flow takes the same time."""

    def __init__(self, duration_ps: int) -> None:
        self.duration = duration_ps
        self.under_way: list[tuple[int, int, int]] = []
        self.rows: list[NDArray[np.void]] = []
        self.finish: dict[int, int] = {}

    def submit(self, flows: NDArray[np.void]) -> None:
        self.rows.append(flows.copy())
        for row in flows:
            at = int(row["release_ps"]) + self.duration
            heappush(self.under_way, (at, int(row["flow"]), int(row["handoff"])))

    def advance(self, until_ps: int) -> Advance:
        now = min([until_ps, *(at for at, _, _ in self.under_way[:1])])
        done: list[tuple[int, int, int]] = []
        while self.under_way and self.under_way[0][0] == now:
            at, flow, handoff = heappop(self.under_way)
            self.finish[flow] = at
            done.append((flow, handoff, at))
        return Advance(now, np.array(done, COMPLETION))

    def observe(self) -> Table:
        return {}

    def telemetry(self) -> Telemetry:
        rows = np.concatenate(self.rows)
        table: Table = {
            name: rows[name].astype(np.int64) for name in ("flow", "handoff", "bytes", "release_ps")
        }
        table["finish_ps"] = np.array([self.finish.get(f, -1) for f in rows["flow"].tolist()])
        table["ideal_ps"] = np.full(len(rows), self.duration)
        order = np.argsort(table["flow"])
        return Telemetry({name: column[order] for name, column in table.items()}, {})


def source(kind: str = "all_to_all", **more: object) -> Source:
    given: dict[str, object] = {
        "name": "x",
        "kind": kind,
        "groups": ((0, 1, 2, 3),),
        "size_bytes": 1200,
        "every_ps": MS,
        "start_ps": 0,
        "storage": (9,),
    }
    return Source(**(given | more))  # type: ignore[arg-type]


def rows(*flows: tuple[int, int, int, int, int]) -> NDArray[np.void]:
    """(flow, source, destination, bytes, release) as `FLOW` rows of hand-offs."""
    made = np.zeros(len(flows), FLOW)
    for row, (flow, sender, receiver, size, at) in zip(made, flows, strict=True):
        row["flow"], row["handoff"], row["source"] = flow, flow, sender
        row["destination"], row["bytes"], row["release_ps"] = receiver, size, at
        row["descriptors"], row["path"], row["priority"], row["write"] = 1, -1, 3, True
    return made


def run_to(emulator: Emulator, until_ps: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    while True:
        step = emulator.advance(until_ps)
        found += step.completions.tolist()
        if step.now_ps >= until_ps:
            return found


def test_an_all_to_all_sends_each_hosts_bytes_to_all_others_in_equal_parts() -> None:
    found = source(size_bytes=1001).moves((0, 1, 2, 3), 0)
    assert len(found) == 12
    assert len({(a, b) for a, b, _ in found}) == 12
    for host in range(4):
        assert sum(size for a, _, size in found if a == host) == 1001
        assert {b for a, b, _ in found if a == host} == {0, 1, 2, 3} - {host}


def test_a_ring_all_reduce_sends_twice_the_bytes_less_one_nth_to_the_next() -> None:
    assert source("all_reduce").moves((0, 1, 2, 3), 0) == [
        (i, (i + 1) % 4, 2 * 3 * 1200 // 4) for i in range(4)
    ]


def test_weights_come_from_one_storage_host_to_every_host_of_the_group() -> None:
    loading = source("weights", storage=(8, 9))
    assert loading.moves((0, 1, 2), 1) == [(9, 0, 1200), (9, 1, 1200), (9, 2, 1200)]
    assert loading.moves((0, 1, 2), 2) == [(8, 0, 1200), (8, 1, 1200), (8, 2, 1200)]


def test_bursts_come_at_their_period_and_only_in_the_active_part_of_a_cycle() -> None:
    wire = Wire(US)
    emulator = Background(wire, [source(duty=0.25, cycle_ps=8 * MS)], seed=1)
    run_to(emulator, 20 * MS)
    at = sorted({int(row["release_ps"]) // MS for row in emulator.rows})
    assert at == [0, 1, 8, 9, 16, 17, 24]


def test_a_burst_waits_for_the_one_before_and_then_follows_at_once() -> None:
    wire = Wire(5 * MS // 2)
    emulator = Background(wire, [source()], seed=1)
    run_to(emulator, 6 * MS)
    at = sorted({int(row["release_ps"]) for row in emulator.rows})
    assert at == [0, 5 * MS // 2, 5 * MS]


def test_groups_begin_at_times_of_their_own_that_the_seed_decides() -> None:
    def starts(seed: int) -> list[int]:
        groups = tuple((i, i + 1) for i in range(0, 40, 2))
        emulator = Background(Wire(US), [source(groups=groups, start_ps=None)], seed)
        return [int(at) for at in emulator.rows["release_ps"]]

    one = starts(1)
    assert one == starts(1) != starts(2)
    assert len(set(one)) == 20
    assert all(0 <= at < MS for at in one)


def test_fetches_come_after_exponential_gaps_of_the_mean_asked_for() -> None:
    emulator = Background(Wire(1), [source("fetch", groups=((0,),))], seed=3)
    run_to(emulator, 2000 * MS)
    gaps = np.diff(np.unique(emulator.rows["release_ps"])) / MS
    assert gaps.mean() == pytest.approx(1, abs=4 / len(gaps) ** 0.5)
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.12)


def test_the_caller_sees_its_own_flows_and_numbers_alone() -> None:
    wire = Wire(3 * MS)
    emulator = Background(wire, [source()], seed=1)
    emulator.submit(rows((0, 0, 1, 50, 0), (1, 2, 3, 60, 2 * MS)))
    assert run_to(emulator, 10 * MS) == [(0, 0, 3 * MS), (1, 1, 5 * MS)]
    emulator.submit(rows((2, 0, 3, 70, 10 * MS)))
    assert run_to(emulator, 14 * MS) == [(2, 2, 13 * MS)]
    table = emulator.telemetry().flows
    assert table["flow"].tolist() == [0, 1, 2]
    assert table["bytes"].tolist() == [50, 60, 70]
    assert set(emulator.rows["handoff"].tolist()) == {NO_HANDOFF}


def test_without_sources_the_emulator_is_as_it_was() -> None:
    bare, wrapped = Wire(MS), Background(Wire(MS), [], seed=1)
    for emulator in (bare, wrapped):
        emulator.submit(rows((0, 0, 1, 5, 7), (1, 1, 2, 5, 9)))
    assert run_to(bare, 2 * MS) == run_to(wrapped, 2 * MS)
    assert bare.telemetry().totals == wrapped.telemetry().totals


def star(hosts: int = 6) -> tuple[Fabric, list[int]]:
    fabric = Fabric("star")
    switch = fabric.add_switch("s", tier=1, switch=Switch())
    made = [fabric.add_host(f"h{i}") for i in range(hosts)]
    for host in made:
        fabric.connect(host, switch, rate_bps=RATE)
    return fabric, made


def test_a_hand_off_beside_a_steady_flow_gets_half_of_the_link() -> None:
    fabric, (a, b, c, *_) = star()
    size = 10**7
    plain = FluidEmulator(fabric, equal_cost(fabric), seed=1)
    plain.submit(rows((0, a, c, size, 0)))
    ((_, _, alone),) = run_to(plain, 100 * MS)
    loaded = Background(
        FluidEmulator(fabric, equal_cost(fabric), seed=1),
        [source("weights", groups=((c,),), storage=(b,), size_bytes=10**9)],
        seed=1,
    )
    loaded.submit(rows((0, a, c, size, 0)))
    ((_, _, shared),) = run_to(loaded, 100 * MS)
    assert shared / alone == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("kind", ["packet", "fluid"])
def test_every_byte_is_the_callers_or_the_backgrounds_and_is_delivered_or_under_way(
    kind: str,
) -> None:
    fabric, hosts = star()
    routes = equal_cost(fabric)
    inner = (
        PacketEmulator(fabric, routes, seed=1)
        if kind == "packet"
        else FluidEmulator(fabric, routes, seed=1)
    )
    sources = [
        source(name="experts", groups=(tuple(hosts[:4]),), size_bytes=300_000),
        source("fetch", name="fetch", groups=((hosts[0],),), storage=(hosts[5],)),
    ]
    emulator = Background(inner, sources, seed=1)
    emulator.submit(rows((0, hosts[0], hosts[4], 10**6, 0), (1, hosts[1], hosts[4], 10**6, MS)))
    assert [flow for flow, _, _ in run_to(emulator, 5 * MS)] == [0, 1]
    found = emulator.telemetry()
    totals = found.totals
    assert int(found.flows["bytes"].sum()) == 2 * 10**6
    mine = emulator.rows[emulator.rows["release_ps"] <= 5 * MS]
    told = [totals[f"background.{name}.bytes"] for name in ("experts", "fetch")]
    assert sum(told) == int(mine["bytes"].sum())
    assert totals["background.experts.flows"] == 12 * totals["background.experts.bursts"]
    assert totals["background.experts.finished"] <= totals["background.experts.flows"]
    assert totals["background.experts.bytes_finished"] >= 5 * 4 * 300_000
    assert totals["background.experts.slowdown_p99_permille"] >= 1000
    if kind == "packet":
        kept = totals["bytes_delivered"] + totals["bytes_in_flight"]
        assert kept <= sum(told) + 2 * 10**6
        finished = sum(totals[f"background.{name}.bytes_finished"] for name in ("experts", "fetch"))
        assert totals["bytes_delivered"] >= finished + 2 * 10**6


@given(st.lists(st.integers(1, 9 * MS), max_size=12))
def test_cutting_the_run_into_slices_changes_nothing(cuts: list[int]) -> None:
    def finished(stops: list[int]) -> tuple[list[tuple[int, int, int]], bytes]:
        emulator = Background(Wire(3 * MS // 2), [source(start_ps=None)], seed=4)
        emulator.submit(rows((0, 0, 1, 5, 2 * MS), (1, 1, 2, 5, 3 * MS)))
        found = [one for stop in stops for one in run_to(emulator, stop)]
        return found, emulator.rows.tobytes()

    assert finished([10 * MS]) == finished([*sorted(cuts), 10 * MS])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "gossip"}, "kind 'gossip': write all_to_all, all_reduce"),
        ({"size_bytes": 0}, "write all of them above 0"),
        ({"duty": 0.0}, "duty 0: not a share"),
        ({"duty": 0.5, "cycle_ps": MS}, "no burst every 1 ms fits"),
        ({"groups": ((1,),)}, "a group of 1 host"),
        ({"groups": ()}, "no hosts"),
        ({"kind": "fetch", "storage": ()}, "write placement.storage"),
        ({"priority": 8}, "priority 8"),
    ],
)
def test_background_that_cannot_be_is_refused_by_name(change: dict[str, object], told: str) -> None:
    with pytest.raises(BackgroundError, match=f"background x: .*{told}"):
        source(**({"kind": "all_to_all"} | change))  # type: ignore[arg-type]
