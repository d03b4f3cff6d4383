"""What cannot be is refused in one line, in the units that a scenario is written in."""

import re

import pytest

from emulate.discipline import Discipline, Watchdog
from emulate.fault import Fault
from emulate.headroom import sonic
from emulate.marking import Threshold
from emulate.packet import FlowError, PacketEmulator
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.route import equal_cost

G = 10**9
MS = 10**9
KIB = 2**10

SETTINGS = {
    "rto 20000s: cannot be counted; write at most 10000s": lambda: Transport(rto_ps=2 * 10**16),
    "rto 0ps: must be above 0; write e.g. 67ms": lambda: Transport(rto_ps=0),
    "mtu 64KiB: write 256B to 9KiB, as 4KiB": lambda: Transport(mtu=64 * KIB),
    "drain 10Kbps: write 1Mbps to 8Tbps": lambda: Transport(drain_bps=10_000),
    "drain 50Gbps: not with infiniband": lambda: Transport(
        kind="infiniband", control="none", drain_bps=50 * G
    ),
    "issue (per_descriptor) 360000s: cannot be counted": lambda: Transport(issue_ps=36 * 10**16),
    "headroom 65TiB: cannot be counted; write at most 64TiB": lambda: Discipline(
        headroom=65 * 2**40
    ),
    "headroom 'old': no such rule; write sonic, mlx5, hpcc, or a size, as 40KiB": lambda: (
        Discipline(headroom="old")
    ),
    "xon_offset -4KiB: must not be negative; write 0B": lambda: Discipline(
        xon_offset_bytes=-4 * KIB
    ),
    "response -2us: must not be negative": lambda: Discipline(response_ps=-2_000_000),
    "deadlock 0ps: must be above 0; write 10ms": lambda: Discipline(deadlock_ps=0),
    "watchdog detect 0ps: must be above 0; write 200ms": lambda: Watchdog(0),
    "kmin 2MiB, kmax 1MiB: a queue marks from kmin up": lambda: Threshold(2**21, 2**20, 0.1),
    "down from 5ms until 1.5ms: write": lambda: Fault("down", 0, 5 * MS, 1_500_000_000),
    "degraded share is missing: write what is left": lambda: Fault("degraded", 0, 0),
    "degraded share 150%: write what is left": lambda: Fault("degraded", 0, 0, share=1.5),
    "headroom 'sonic' at 900 Gbps: the table ends at": lambda: sonic(900 * G, 0, 4096),
}


def star(lab, discipline, transport=None, faults=(), **model):
    fabric = lab.star(8, **model)
    PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1, faults=faults)


FABRICS = {
    "link 'h0' to 's' rate 900Kbps: the packet engine takes 1Mbps to 8Tbps": (
        lambda lab: star(lab, Discipline(), gbps=0.0009)
    ),
    "switch 's' buffer 65TiB: cannot be counted; write at most 64TiB": (
        lambda lab: star(lab, Discipline(), buffer=65 * 2**40)
    ),
    "switch 's': headrooms and reserves of 8 ports need 524320KiB of its buffer of 64MiB": (
        lambda lab: star(lab, Discipline(headroom=64 * KIB * KIB))
    ),
    "switch 's': its highest threshold, 1018B by alpha 1.52588e-05 of its buffer of 64MiB, is not "
    "above xon_offset 3KiB": lambda lab: star(lab, Discipline(alpha=2**-16)),
    "switch 's': alpha 64 of its buffer of 2TiB is above 64TiB": (
        lambda lab: star(lab, Discipline(alpha=64), buffer=2 * 2**40)
    ),
    "switch 's' buffer 2KiB: below a frame of 4158B at mtu 4KiB; write a larger buffer": (
        lambda lab: star(lab, Discipline(), buffer=2 * KIB)
    ),
    "credits 1KiB: below the 4160B of one frame": lambda lab: star(
        lab, Discipline(), Transport(kind="infiniband", control="none", credits=KIB)
    ),
    "credits 2MiB: 8 virtual lanes of 8 ports need 128MiB, above the buffer of switch 's', 64MiB": (
        lambda lab: star(
            lab, Discipline(), Transport(kind="infiniband", control="none", credits=2**21)
        )
    ),
    "drain 50Gbps: not with switches that cut through": lambda lab: star(
        lab, Discipline(cut_through=True), Transport(drain_bps=50 * G)
    ),
    "receive_buffer 20KiB: headrooms and reserves of the NIC of host 'h0' need 48KiB": lambda lab: (
        star(lab, Discipline(), Transport(drain_bps=50 * G, receive_buffer=20 * KIB))
    ),
    "storm: no class is under PFC": lambda lab: star(
        lab, Discipline(pfc=False), faults=[Fault("storm", 0, 0, MS)]
    ),
    "s:0>h0:0 degraded to 100Kbps: the packet engine takes 1Mbps or more": lambda lab: star(
        lab, Discipline(), faults=[Fault("degraded", 0, 0, share=1e-6)]
    ),
    "s:0>h0:0 degraded from 1ms: already so until 5ms": lambda lab: star(
        lab,
        Discipline(),
        faults=[
            Fault("degraded", 0, 0, 5 * MS, 0.5),
            Fault("degraded", 0, MS, 2 * MS, 0.5),
        ],
    ),
}


def held_to(line, made):
    with pytest.raises(KvfabricError) as refused:
        made()
    told = str(refused.value)
    assert told.startswith(line)
    assert "write" in told
    assert not re.search(r"[0-9] (ps|B|bit/s)\b|\n", told)


@pytest.mark.parametrize("line", SETTINGS)
def test_a_setting_that_cannot_be_is_told_with_its_value_and_what_to_write(line):
    held_to(line, SETTINGS[line])


@pytest.mark.parametrize("line", FABRICS)
def test_what_a_fabric_cannot_hold_is_told_with_both_values(lab, line):
    held_to(line, lambda: FABRICS[line](lab))


def test_a_flow_has_at_most_as_many_packets_as_can_be_numbered(lab):
    fabric = lab.star(2)
    emulator = PacketEmulator(fabric, equal_cost(fabric), transport=Transport(mtu=256), seed=1)
    most = (2**32 - 1) * 256
    emulator.submit(lab.flows((1, 2, most, 0)))
    assert emulator.telemetry().flows["packets"].tolist() == [2**32 - 1]
    for size, descriptors in ((most + 1, 1), (most, 2), (64 * 2**40, 1)):
        with pytest.raises(FlowError, match=r"B take more than 2\^32 - 1 packets of 256B"):
            emulator.submit(lab.flows((1, 2, size, 0), first=1, descriptors=descriptors))
