"""The router's picture of the fabric: means over equal-cost ports, worst of hops, kept a while."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from msgspec import Struct
from numpy.typing import NDArray

from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.route import equal_cost
from traffic.emulator import Advance, Emulator, Table
from traffic.instance import Deployment
from traffic.policy.choice import NoSettings, PolicyError, Request, Sight, View
from traffic.request import request_table
from traffic.serving.router import Service
from traffic.serving.run import serve_all
from traffic.view.network import DEFAULT_STALENESS_PS, Network

MS = 10**9
US = 10**6
GBPS = 100 * 10**9


def two_by_two() -> Fabric:
    """Leaves a and b with hosts 0, 1 and 2, 3; two spines; all links 100 Gbit/s."""
    return build("leaf_spine", {"hosts": 4, "leaves": 2, "spines": 2, "nic_bps": GBPS,
                                "switch": Switch(8, GBPS)})  # fmt: skip


def between(fabric: Fabric, a: str, b: str) -> int:
    """The port of node a that leads to node b."""
    ports = fabric.ports
    named = [node.name for node in fabric.nodes]
    joined = (ports.node == named.index(a)) & (ports.peer == named.index(b))
    return int(np.flatnonzero(joined)[0])


def state(fabric: Fabric, **columns: dict[int, float]) -> Table:
    count = len(fabric.ports.node)
    table: Table = {"queued_bytes": np.zeros(count, np.int64), "paused": np.zeros(count, np.uint8)}
    for name, values in columns.items():
        for number, value in values.items():
            table[name][number] = value
    return table


@pytest.fixture
def square() -> tuple[Fabric, Network]:
    """Prefill on hosts 0 and 2, decode on 1 and 3: pairs of equal numbers share a leaf."""
    fabric = two_by_two()
    hosts = [node.index for node in fabric.hosts]
    prefill, decode = [[hosts[0]], [hosts[2]]], [[hosts[1]], [hosts[3]]]
    return fabric, Network(fabric, equal_cost(fabric), prefill, decode, 1 * MS)


def nodes(fabric: Fabric) -> tuple[list[str], list[str], list[str]]:
    switches = sorted(n.name for n in fabric.switches)
    return (
        [n.name for n in fabric.hosts],
        [n for n in switches if "leaf" in n],
        [n for n in switches if "spine" in n],
    )


def test_a_queue_on_one_of_two_spines_counts_half_and_only_across_leaves(
    square: tuple[Fabric, Network],
) -> None:
    fabric, network = square
    _, leaves, spines = nodes(fabric)
    up = between(fabric, leaves[0], spines[0])
    network.look(state(fabric, queued_bytes={up: 125_000}), np.zeros(len(fabric.ports.node)), MS)
    # 125 kB at 100 Gbit/s are 10 us; half the traffic from leaf a to leaf b meets them.
    assert network.queued_ps().tolist() == [[0, 5 * US], [0, 0]]
    assert network.queued_ps(0).tolist() == [0, 5 * US]
    assert network.queued_ps(None, 1).tolist() == [5 * US, 0]
    assert int(network.queued_ps(0, 1)) == 5 * US


def test_a_queue_at_a_host_counts_for_all_its_pairs_and_hops_add_up(
    square: tuple[Fabric, Network],
) -> None:
    fabric, network = square
    hosts, leaves, spines = nodes(fabric)
    sending = between(fabric, hosts[0], leaves[0])
    reading = between(fabric, leaves[1], hosts[3])
    down = between(fabric, spines[1], leaves[1])
    waits = {sending: 12_500, reading: 25_000, down: 50_000}
    network.look(state(fabric, queued_bytes=waits), np.zeros(len(fabric.ports.node)), MS)
    assert network.queued_ps().tolist() == [[1 * US, 5 * US], [0, 2 * US]]


def test_utilisation_is_the_mean_since_the_last_picture_at_the_busiest_hop(
    square: tuple[Fabric, Network],
) -> None:
    fabric, network = square
    hosts, leaves, spines = nodes(fabric)
    busy = np.zeros(len(fabric.ports.node), np.int64)
    network.look(state(fabric), busy, MS)
    assert network.utilisation().tolist() == [[0, 0], [0, 0]]
    later = busy.copy()
    later[between(fabric, leaves[0], spines[0])] = MS
    later[between(fabric, hosts[0], leaves[0])] = MS // 4
    network.look(state(fabric), later, 2 * MS)
    assert network.utilisation().tolist() == [[0.25, 0.5], [0, 0]]
    network.look(state(fabric), later, 3 * MS)
    assert network.utilisation(0).tolist() == [0, 0]
    assert network.at_ps == 3 * MS


def test_pauses_are_the_share_of_the_ports_of_a_hop(square: tuple[Fabric, Network]) -> None:
    fabric, network = square
    _, leaves, spines = nodes(fabric)
    stopped = {between(fabric, spines[0], leaves[0]): 8}
    network.look(state(fabric, paused=stopped), np.zeros(len(fabric.ports.node)), MS)
    assert network.paused().tolist() == [[0, 0], [0.5, 0]]


def test_the_rate_is_that_of_the_slowest_hop_and_no_path_is_the_worst_of_all() -> None:
    fabric = Fabric("two islands")
    model = Switch(8, GBPS)
    for island in range(2):
        switch = fabric.add_switch(f"s{island}", tier=1, switch=model)
        for side, gbps in (("p", 100), ("d", 40)):
            host = fabric.add_host(f"{side}{island}")
            fabric.connect(host, switch, rate_bps=gbps * 10**9, delay_ps=50_000)
    place = {node.name: node.index for node in fabric.nodes}
    network = Network(
        fabric,
        equal_cost(fabric),
        [[place["p0"]], [place["p1"]]],
        [[place["d0"]], [place["d1"]]],
    )
    assert network.staleness_ps == DEFAULT_STALENESS_PS == 50 * MS
    assert network.rate_bps().tolist() == [[40 * 10**9, 0], [0, 40 * 10**9]]
    assert network.utilisation().tolist() == [[0, 1], [1, 0]]
    assert network.paused(0).tolist() == [0, 1]
    assert network.queued_ps().tolist() == [[0, 0], [0, 0]]


def test_the_worst_pair_of_ranks_counts(square: tuple[Fabric, Network]) -> None:
    fabric, _ = square
    hosts, leaves, _ = nodes(fabric)
    place = {node.name: node.index for node in fabric.nodes}
    prefill = [[place[hosts[0]], place[hosts[2]]]]
    decode = [[place[hosts[1]], place[hosts[3]]]]
    network = Network(fabric, equal_cost(fabric), prefill, decode)
    waits = {between(fabric, leaves[1], hosts[3]): 12_500}
    network.look(state(fabric, queued_bytes=waits), np.zeros(len(fabric.ports.node)), MS)
    assert network.queued_ps().tolist() == [[1 * US]]


def test_every_hop_carries_all_of_a_pair_on_any_family() -> None:
    for family, values in (
        ("fat_tree", {"hosts": 16, "k": 4, "nic_bps": GBPS, "switch": Switch(4, GBPS)}),
        ("full_mesh", {"hosts": 6, "nic_bps": GBPS, "switch": Switch(64, GBPS)}),
        ("leaf_spine", {"hosts": 12, "nic_bps": GBPS, "switch": Switch(16, GBPS)}),
    ):
        fabric = build(family, values)
        hosts = [[node.index] for node in fabric.hosts]
        half = len(hosts) // 2
        network = Network(fabric, equal_cost(fabric), hosts[:half], hosts[half:])
        # Every port paused: each hop's shares must add up to exactly the whole.
        every = dict.fromkeys(range(len(fabric.ports.node)), 1)
        network.look(state(fabric, paused=every), np.zeros(len(fabric.ports.node)), MS)
        assert np.allclose(network.paused(), 1.0), family


def test_a_picture_younger_than_the_latch_of_the_emulator_is_refused(
    square: tuple[Fabric, Network],
) -> None:
    fabric, _ = square
    one = [[next(iter(fabric.hosts)).index]]
    with pytest.raises(PolicyError, match="staleness 1 us: link state is latched every 10 us"):
        Network(fabric, equal_cost(fabric), one, one, US)


class Watcher:
    """Chooses the first instances and notes how old its picture is."""

    name: ClassVar[str] = "watcher"
    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"network"})
    source: ClassVar[str] = "a test"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int, float]] = []

    def prefill(self, request: Request, view: View) -> int:
        assert view.network is not None
        queued, used = view.network.queued_ps(0, 0), view.network.utilisation(0, 0)
        self.seen.append((view.now_ps, view.network.at_ps, int(queued), float(used)))
        return 0

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return self.prefill(request, view)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.ones(hops.shape, np.bool_)


@pytest.mark.parametrize("staleness", [10 * US, 13 * US, 20 * US, 21 * US, 700 * US, 10 * MS])
def test_choices_inside_the_staleness_see_the_same_picture_and_it_is_never_older(
    staleness: int, pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    fabric = two_by_two()
    hosts = [node.index for node in fabric.hosts]
    up = between(fabric, fabric.nodes[hosts[0]].name, nodes(fabric)[1][0])

    class Growing(type(wire())):  # type: ignore[misc]
        """Its first link has a byte queued for every nanosecond of its time, and is used more
        and more, wholly after 200 ms."""

        def observe(self) -> Table:
            return state(fabric, queued_bytes={up: self.now // 1000})

        def busy_ps(self) -> NDArray[np.int64]:
            busy = np.zeros(len(fabric.ports.node), np.int64)
            busy[up] = self.now**2 // (400 * MS)
            return busy

        def advance(self, until_ps: int) -> Advance:
            step: Advance = super().advance(until_ps)
            return step

    network = Network(fabric, equal_cost(fabric), [[hosts[0]]], [[hosts[3]]], staleness)
    hops = np.array([[4]], np.int32)
    arrivals = [1 * MS, 9 * MS, 10 * MS, 11 * MS, 19 * MS, 47 * MS, 48 * MS, 95 * MS]
    table = request_table(arrival_ps=arrivals, input_tokens=[100] * 8, output_tokens=[2] * 8)
    chosen = Watcher()
    service = Service(pools(1, 1), chosen, hops, network=network)
    found = serve_all(table, [service], Growing(3 * MS), control_delay_ps=20 * US).requests
    asked = sorted([*arrivals, *found["prefill_end_ps"].tolist()])
    assert [row[0] for row in chosen.seen] == asked
    assert [row[1] for row in chosen.seen] == [now // staleness * staleness for now in asked]
    for _, at, queued, used in chosen.seen:
        assert queued == at // 1000 * 80  # a byte takes 80 ps at 100 Gbit/s
        assert used == pytest.approx((at - staleness / 2) / (200 * MS) if at else 0, abs=1e-6)
