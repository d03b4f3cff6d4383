"""Kernel TCP between the hosts of a run: real sockets, over the switches in software."""

from collections.abc import Iterator

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.mininet.doctor import available_congestion
from emulate.mininet.emulator import MininetEmulator
from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network, network
from emulate.mininet.program import call
from emulate.mininet.setup import Setup
from emulate.mininet.support import may_emulate
from emulate.mininet.tcp import TcpOutcome, refuse_control, tcp_replay
from emulate.transport import Transport
from topo.family.clos import LeafSpine, leaf_spine
from topo.route import equal_cost
from topo.unit import PS_PER_MS, PS_PER_US
from traffic.emulator import FLOW

_MISSING = may_emulate()

DILATION = 10_000
SIZE = 4_000_000
WIRE_PS = SIZE * 20  # at 400 Gbps, without any header


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    fabric = leaf_spine(LeafSpine(hosts=4, leaves=2, spines=2))
    with network(fabric, what="a test", base=tmp_path_factory.mktemp("run")) as made:
        yield made


def _flows(made: Network, *sources: int) -> np.ndarray:
    hosts = [node.index for node in made.fabric.hosts]
    rows = [
        (i, i, hosts[s], hosts[3], SIZE, 1, i, -1, True, 3, 20 * PS_PER_US)
        for i, s in enumerate(sources)
    ]
    return np.array(rows, FLOW)


def _replay(made: Network, flows: np.ndarray, control: str) -> TcpOutcome:
    fabric = made.fabric
    setup = Setup(fabric, equal_cost(fabric), Discipline(), Transport(), 1)
    with MininetEmulator(setup, made, dilation=DILATION, window_ps=PS_PER_MS) as live:
        live.advance(0)
        return tcp_replay(
            flows, made, control=control, dilation=DILATION, mtu=4096, until_ps=5 * PS_PER_MS
        )


@pytest.mark.root
@pytest.mark.skipif(_MISSING is not None, reason=f"no real frames here: {_MISSING}")
class TestTcp:
    @pytest.mark.parametrize("control", ["cubic", "bbr"])
    def test_a_lone_flow_is_bounded_by_its_links(self, made: Network, control: str) -> None:
        if control not in available_congestion():
            pytest.skip(f"the kernel has no {control}")
        took = int(_replay(made, _flows(made, 0), control).finish_ps[0]) - 20 * PS_PER_US
        assert WIRE_PS < took < 3 * WIRE_PS

    def test_two_flows_share_their_receivers_link(self, made: Network) -> None:
        finish = _replay(made, _flows(made, 0, 1), available_congestion()[0]).finish_ps
        took = finish - 20 * PS_PER_US
        assert (took > 1.5 * WIRE_PS).all()
        assert took.max() > 2 * WIRE_PS
        assert took.max() < 4 * WIRE_PS

    def test_the_hosts_queues_are_as_before(self, made: Network) -> None:
        port = made.ports[int(made.fabric.ports.first[made.fabric.hosts[0].index])]
        _replay(made, _flows(made, 0)[:0], available_congestion()[0])
        with inside(made.namespace(port.node)):
            assert "tbf" not in call("tc", "qdisc", "show", "dev", port.interface)


def test_a_control_that_the_kernel_has_not_is_refused() -> None:
    with pytest.raises(EmulationError, match=r"tcp 'none': this kernel has .*; write one of them"):
        refuse_control("none")
