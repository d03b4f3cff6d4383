"""Real frames on veth pairs: what a lone flow takes, what pauses save, what a capture shows.

Closed forms decide; the packet engine on the same flows stands beside them. Frames are slowed down
so far that a busy machine keeps up.
"""

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.mininet.emulator import MininetEmulator
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network, network
from emulate.mininet.setup import Setup
from emulate.mininet.support import may_network
from emulate.transport import Transport
from topo.route import equal_cost
from traffic.emulator import Telemetry

_MISSING = may_network()

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"no network here: {_MISSING}"),
]

US = 10**6
DILATION = 5_000
FREE = Transport(control="none", rto_ps=500 * US)
PAUSED = Discipline(ecn="off", alpha=1 / 8)
ETH_ALL = 3
SO_RCVBUFFORCE = 33


@dataclass
class Bench:
    """A star of four hosts at 100 Gbps as real interfaces; its last host receives."""

    lab: type
    net: Network

    @property
    def sources(self) -> list[int]:
        return self.lab.hosts(self.net.fabric)[:-1]

    @property
    def sink(self) -> int:
        return self.lab.hosts(self.net.fabric)[-1]

    def setup(self, discipline: Discipline, transport: Transport) -> Setup:
        fabric = self.net.fabric
        return Setup(fabric, equal_cost(fabric), discipline, transport, seed=1)

    def emulator(self, discipline, transport=FREE, dilation=DILATION) -> MininetEmulator:
        return MininetEmulator(self.setup(discipline, transport), self.net, dilation=dilation)

    def incast(self, size: int):
        return self.lab.flows(*((s, self.sink, size, 10 * US) for s in self.sources))

    def both(self, discipline, transport, flows, until) -> tuple[Telemetry, Telemetry]:
        """The tables of a run of real frames and of the packet engine."""
        with self.emulator(discipline, transport) as emulator:
            emulator.submit(flows)
            self.lab.finish(emulator, until)
            frames = emulator.telemetry()
        twin = self.setup(discipline, transport).twin()
        twin.submit(flows)
        self.lab.finish(twin, until)
        return frames, twin.telemetry()


@pytest.fixture(name="bench", scope="module")
def _bench(lab, tmp_path_factory) -> Iterator[Bench]:
    pytest.importorskip("emulate._live", reason="the drivers are not built here")
    fabric = lab.star(4, buffer=2**20)
    with network(fabric, what="a test", base=tmp_path_factory.mktemp("run")) as made:
        yield Bench(lab, made)


def times(told: Telemetry):
    return (told.flows["finish_ps"] - told.flows["release_ps"]).astype(float)


def test_a_lone_flow_takes_its_ideal_time(bench, lab):
    flows = lab.flows((bench.sources[0], bench.sink, 500_000, 10 * US))
    with bench.emulator(Discipline(), Transport()) as emulator:
        emulator.submit(flows)
        lab.finish(emulator, 10**9)
        frames = emulator.telemetry()
        late = emulator.measured.late
    assert times(frames)[0] == pytest.approx(frames.flows["ideal_ps"][0], rel=0.05)
    assert frames.flows["packets"][0] == 123
    # 123 packets and 8 ACKs over two links: each was sent, was taken in, and was late by something.
    assert frames.totals["frames_in"] == frames.totals["frames_out"] == 2 * (123 + 8)
    assert late["frames"].sum() == frames.totals["frames_out"]
    assert (late["from_ns"] < late["to_ns"]).all()
    assert set(late["rate_bps"].tolist()) == {100 * 10**9}


def test_pauses_save_every_frame_of_an_incast_and_share_its_link(bench):
    # Three senders of 100 Gbps into one: each gets a third, and ends when all bytes are through.
    flows = bench.incast(1_000_000)
    frames, packet = bench.both(PAUSED, FREE, flows, 10**9)
    assert frames.totals["drops_lossless"] == frames.totals["drops_buffer"] == 0
    assert frames.flows["resent_bytes"].sum() == 0
    assert frames.ports["pauses"].sum() > 10
    drained = 3 * 245 * 82 + 3_000_000
    assert times(frames).max() == pytest.approx(drained * 80, rel=0.05)
    assert times(frames) == pytest.approx(times(packet), rel=0.1)


def test_without_pauses_frames_of_an_incast_are_lost(bench):
    lossy = Discipline(pfc=False, ecn="off", alpha=1 / 8, egress_alpha=1 / 8)
    quick = Transport(control="none", rto_ps=100 * US)
    for told in bench.both(lossy, quick, bench.incast(400_000), 300 * US):
        assert told.totals["drops_buffer"] > 0
        assert told.ports["pauses"].sum() == 0
        assert told.flows["resent_bytes"].sum() > 0


def test_marks_and_dcqcn_end_the_pauses(bench):
    # The incast of the pauses above, at the same thresholds.
    marking = Discipline(ecn=Threshold(5_000, 100_000, 1.0), alpha=1 / 8)
    steep = Transport(preset="hpcc", rto_ps=500 * US)
    for told in bench.both(marking, steep, bench.incast(700_000), 10**9):
        assert told.flows["marked"].sum() > 0
        assert told.totals["drops_lossless"] == 0
        assert (told.flows["finish_ps"] > 0).all()
        # Cuts lie on a grid that the first notification begins: some stops come before the first
        # cuts, none in the hundreds of microseconds after.
        assert (told.stops["from_ps"] < 60 * US).all()
        assert told.flows["finish_ps"].min() > 300 * US


def test_a_capture_shows_the_frames_of_the_standards(bench):
    scapy_all = pytest.importorskip("scapy.layers.l2")
    control = pytest.importorskip("scapy.contrib.mac_control")
    roce = pytest.importorskip("scapy.contrib.roce")
    source = bench.sources[0]
    port = int(bench.net.fabric.ports.first[source])
    plan = next(p for p in bench.net.ports if p.port == port)
    with inside(bench.net.namespace(source)):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 2**26)
    tap.bind((plan.interface, ETH_ALL))
    marking = Discipline(ecn=Threshold(5_000, 100_000, 1.0), alpha=1 / 64)
    with tap, bench.emulator(marking, Transport(rto_ps=500 * US)) as emulator:
        emulator.submit(bench.incast(400_000))
        bench.lab.finish(emulator, 10**9)
        tap.settimeout(0.05)
        seen = []
        try:
            while True:
                seen.append(tap.recv(10_000))
        except TimeoutError:
            pass
    pauses = [f for f in seen if f[12:14] == b"\x88\x08"]
    assert pauses
    for frame in pauses:
        read = scapy_all.Ether(frame)
        layer = read[control.MACControlClassBasedFlowControl]
        assert read.dst == "01:80:c2:00:00:01"
        assert (layer.c3_enabled, layer.c3_pause_time in (0, 0xFFFF)) == (1, True)
        assert len(frame) == 60
    codes = {scapy_all.Ether(f)[roce.BTH].opcode for f in seen if f[23:24] == b"\x11"}
    # Write first, middle, last; acknowledge; congestion notification.
    assert codes == {0x06, 0x07, 0x08, 0x11, 0x81}
    for frame in [f for f in seen if f[23:24] == b"\x11"][:20]:
        built = scapy_all.Ether(frame)
        assert built[roce.BTH].compute_icrc(frame[42:-4]) == frame[-4:]


def test_ping_and_tcp_cross_the_switches(bench, lab):
    # 100 Gbps a hundred times slower.
    first, second = bench.sources[:2]
    address = {node.index: node.ip for node in bench.net.nodes}
    with bench.emulator(Discipline(), dilation=1_000) as emulator:
        emulator.advance(0)
        ping = ["ping", "-c", "3", "-i", "0.05", "-W", "2", "-s", "1400", address[second]]
        space = f"--net={bench.net.namespace(first)}"
        told = subprocess.run(
            ["nsenter", space, *ping], capture_output=True, text=True, check=False
        )
        assert "0% packet loss" in told.stdout, told.stdout + told.stderr
        with inside(bench.net.namespace(second)):
            server = socket.create_server((address[second], 5000))
        with inside(bench.net.namespace(first)):
            client = socket.create_connection((address[second], 5000), timeout=5)
        with server, client:
            taken, _ = server.accept()
            with taken:
                client.sendall(bytes(60_000))
                client.shutdown(socket.SHUT_WR)
                taken.settimeout(5)
                got = 0
                while data := taken.recv(65_536):
                    got += len(data)
        assert got == 60_000
        counters = emulator.telemetry().totals
        assert counters["drops_lossless"] == 0


@pytest.mark.parametrize("memory", [False, True], ids=["veth", "wires in memory"])
def test_a_flow_over_three_switches_takes_its_ideal_time(lab, memory, tmp_path):
    fabric = lab.leaf_spine(2, 1, 1)
    first, last = lab.hosts(fabric)
    flows = lab.flows((first, last, 300_000, 10 * US))
    with network(fabric, what="a test", memory=memory, base=tmp_path) as net:
        setup = Setup(fabric, equal_cost(fabric), Discipline(), Transport(), seed=1)
        with MininetEmulator(setup, net, dilation=DILATION) as emulator:
            emulator.submit(flows)
            lab.finish(emulator, 10**9)
            told = emulator.telemetry()
    assert times(told)[0] == pytest.approx(told.flows["ideal_ps"][0], rel=0.05)
    # 74 packets and 5 ACKs over four links, two of which have no interfaces in memory.
    assert told.totals["frames_out"] == (2 if memory else 4) * (74 + 5)
