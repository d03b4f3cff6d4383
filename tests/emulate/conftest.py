"""Small named fabrics, flow tables and a way to run them, for the emulators' tests."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.fault import Fault, fault_settings
from emulate.setting import (
    discipline_setting,
    fabric_setting,
    port_headroom,
    route_setting,
    transport_setting,
)
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import Routes, equal_cost
from traffic.emulator import FLOW, Emulator, Table

G = 10**9


class Lab:
    """What the packet tests are built from. Rates in Gbit/s, delays in ps, sizes in bytes."""

    @staticmethod
    def switch(buffer: int = 64 * 2**20, latency: int = 600_000) -> Switch:
        return Switch(ports=256, buffer_bytes=buffer, latency_ps=latency)

    @staticmethod
    def star(hosts: int, gbps: float = 100, delay: int = 50_000, **model: int) -> Fabric:
        """Hosts 1 .. n around switch 0."""
        fabric = Fabric("star")
        middle = fabric.add_switch("s", tier=1, switch=Lab.switch(**model))
        for i in range(hosts):
            host = fabric.add_host(f"h{i}")
            fabric.connect(host, middle, rate_bps=int(gbps * G), delay_ps=delay)
        return fabric

    @staticmethod
    def chain(rates: Sequence[int], delays: Sequence[int], latency: int = 600_000) -> Fabric:
        """Host 0, then switches 1 .. n - 1, then host n; one rate (bit/s) and delay a link."""
        fabric = Fabric("chain")
        ends = [fabric.add_host("a")]
        ends += [
            fabric.add_switch(f"s{i}", tier=1, switch=Lab.switch(latency=latency))
            for i in range(len(rates) - 1)
        ]
        ends.append(fabric.add_host("b"))
        for i, (rate, delay) in enumerate(zip(rates, delays, strict=True)):
            fabric.connect(ends[i], ends[i + 1], rate_bps=rate, delay_ps=delay)
        return fabric

    @staticmethod
    def leaf_spine(leaves: int, per_leaf: int, spines: int, gbps: int = 100) -> Fabric:
        fabric = Fabric("leaf_spine")
        model = Lab.switch()
        tops = [fabric.add_switch(f"spine{s}", tier=2, switch=model) for s in range(spines)]
        for leaf in range(leaves):
            node = fabric.add_switch(f"leaf{leaf}", tier=1, switch=model)
            for top in tops:
                fabric.connect(node, top, rate_bps=gbps * G, delay_ps=50_000)
            for i in range(per_leaf):
                host = fabric.add_host(f"h{leaf}.{i}")
                fabric.connect(host, node, rate_bps=gbps * G, delay_ps=50_000)
        return fabric

    @staticmethod
    def tangle(draw: Callable[[SearchStrategy[Any]], Any]) -> Fabric:
        """Switches joined at random, hosts with a cable or two to them, or to each other."""
        rates = st.sampled_from([25 * G, 100 * G, 400 * G])
        delays = st.sampled_from([0, 25_000, 1_000_000])
        latency = st.sampled_from([0, 300_000, 600_000])
        fabric = Fabric("tangle")
        switches = [
            fabric.add_switch(f"s{s}", tier=1, switch=Lab.switch(2**20, draw(latency)))
            for s in range(draw(st.integers(2, 6)))
        ]
        hosts = [fabric.add_host(f"h{h}") for h in range(draw(st.integers(2, 5)))]
        pick = st.sampled_from(switches)
        cables = {(s, draw(st.sampled_from(switches[:i]))) for i, s in enumerate(switches) if i}
        cables |= {
            (max(pair), min(pair)) for pair in draw(st.lists(st.tuples(pick, pick), max_size=4))
        }
        cables |= {(host, draw(pick)) for host in hosts for _ in range(draw(st.integers(1, 2)))}
        if draw(st.booleans()):
            cables.add((hosts[0], hosts[1]))
        for a, b in sorted(cables):
            if a != b:
                fabric.connect(a, b, rate_bps=draw(rates), delay_ps=draw(delays))
        return fabric

    @staticmethod
    def ring(gbps: int = 100, buffer: int = 400_000) -> tuple[Fabric, Routes, list[int]]:
        """Three switches in a ring, one host each; every flow turns right, two switches on."""
        fabric = Fabric("ring")
        model = Lab.switch(buffer=buffer)
        switches = [fabric.add_switch(f"s{i}", tier=1, switch=model) for i in range(3)]
        hosts = [fabric.add_host(f"h{i}") for i in range(3)]
        for i in range(3):
            fabric.connect(switches[i], switches[(i + 1) % 3], rate_bps=gbps * G, delay_ps=50_000)
        for switch, host in zip(switches, hosts, strict=True):
            fabric.connect(host, switch, rate_bps=gbps * G, delay_ps=50_000)
        good = equal_cost(fabric)
        # Replace the next hops of every switch by the clockwise neighbour.
        out = {link.a: int(fabric.ports.first[link.a]) + link.a_port for link in fabric.links[:3]}
        rows: list[NDArray[np.int32]] = [
            good.ports[good.first[r] : good.first[r + 1]] for r in range(len(good.first) - 1)
        ]
        for switch in switches:
            for group in range(good.groups):
                row = switch * good.groups + group
                if len(rows[row]):
                    rows[row] = np.array([out[switch]], np.int32)
        first = np.zeros(len(good.first), np.int32)
        np.cumsum([len(r) for r in rows], out=first[1:])
        routes = Routes(
            good.group, good.groups, first, np.concatenate(rows), good.host_first, good.host_ports,
            good.hops, good.owner, good.peer,
        )  # fmt: skip
        return fabric, routes, hosts

    @staticmethod
    def hosts(fabric: Fabric) -> list[int]:
        return [node.index for node in fabric.hosts]

    @staticmethod
    def flows(
        *rows: tuple[int, int, int, int], priority: int = 3, descriptors: int = 1, first: int = 0
    ) -> NDArray[np.void]:
        """Rows of (source, destination, bytes, release); numbered in order."""
        table = np.zeros(len(rows), FLOW)
        for i, (source, destination, size, release) in enumerate(rows):
            number = first + i
            table[i] = (
                number, number, source, destination, size, descriptors,
                number * 7919 + 1, -1, True, priority, release,
            )  # fmt: skip
        return table

    @staticmethod
    def blame_adds_up(flows: Table) -> bool:
        """The parts of each finished flow's time make all of it."""
        column = {name: np.asarray(values, np.int64) for name, values in flows.items()}
        parts = np.sum([v for name, v in column.items() if name.startswith("blame_")], axis=0)
        return bool((parts == column["finish_ps"] - column["release_ps"]).all())

    @staticmethod
    def finish(emulator: Emulator, until: int = 10**13) -> dict[int, int]:
        """Runs until nothing completes any more; flow -> finish time."""
        found: dict[int, int] = {}
        while True:
            step = emulator.advance(until)
            if not len(step.completions):
                return found
            for row in step.completions:
                found[int(row["flow"])] = int(row["finish_ps"])


class Live:
    """Planes of real frames, all of whose nodes are in this process."""

    @staticmethod
    def plane(
        fabric: Fabric,
        routes: Routes,
        discipline: Discipline,
        transport: Transport,
        *,
        seed: int,
        faults: Sequence[Fault] = (),
    ) -> Any:
        module = pytest.importorskip("emulate._live", reason="real frames need Linux")
        headroom = port_headroom(fabric, discipline, transport)
        hosts = np.array([n.switch is None for n in fabric.nodes], np.bool_)
        nodes = np.arange(len(hosts), dtype=np.uint32)
        return module.Plane(
            fabric=fabric_setting(fabric),
            routes=route_setting(routes),
            discipline=discipline_setting(fabric, discipline, headroom),
            transport=transport_setting(fabric, transport),
            faults=fault_settings(fabric, faults),
            seed=seed,
            tick_ps=10**7,
            owned=np.ones(len(hosts), np.uint8),
            address=np.where(hosts, nodes + 0x0A000001, 0).astype(np.uint32),
            mac=np.arange(len(fabric.ports.node), dtype=np.uint64) + 0x020000000000,
        )


@pytest.fixture(scope="session")
def live() -> type[Live]:
    return Live


@pytest.fixture(scope="session")
def lab() -> type[Lab]:
    return Lab


@pytest.fixture(scope="session")
def jain() -> Callable[[Sequence[float]], float]:
    """Jain's fairness index: 1 when all are equal."""

    def index(values: Sequence[float]) -> float:
        v = np.asarray(values, np.float64)
        return float(v.sum() ** 2 / (len(v) * (v**2).sum()))

    return index
