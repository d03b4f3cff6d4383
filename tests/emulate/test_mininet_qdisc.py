"""The kernel's queues as they are asked for, and what becomes of one that is not as it was set."""

import re

import pytest

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.mininet import qdisc
from emulate.mininet.error import EmulationError
from emulate.mininet.judge import kernel_verdict
from emulate.mininet.kernel import Kept
from emulate.mininet.plane import queue_limit, refuse_dilation, refuse_discipline
from emulate.mininet.requirement import demand_kernel, missing
from emulate.mininet.setup import Setup
from emulate.mininet.support import may_network
from emulate.mininet.train import Train
from emulate.transport import Transport
from topo.family.clos import LeafSpine, leaf_spine
from topo.route import equal_cost

G = 10**9
MTU = 4096
FRAME = 4150  # 4,084 bytes of payload, 32 of TCP with time stamps, 20 of IPv4, 14 of Ethernet


def tree(discipline: Discipline, **more: int) -> dict[str, qdisc.Queue]:
    asked = {"rate_bps": 400 * G, "dilation": 100_000, "mtu": MTU} | more
    return {q.handle: q for q in qdisc.switch_port("x", discipline, 2**20, **asked)}


def step(kmin: int, kmax: int, pmax: float) -> Discipline:
    return Discipline(pfc=False, ecn=Threshold(kmin, kmax, pmax))


def test_rates_are_divided_by_the_dilation_and_bytes_are_not() -> None:
    discipline = step(20_480, 81_920, 0.2)
    slow, slower = (tree(discipline, dilation=d) for d in (10_000, 100_000))
    assert slow["1:"].expected["rate"] == 10 * slower["1:"].expected["rate"] == 5_000_000
    for handle in ("100:", "107:"):
        assert slow[handle].expected == slower[handle].expected
        assert slow[handle].expected["min"] == 20_480


def test_a_profile_is_read_at_the_fabrics_rate() -> None:
    found = tree(Discipline(pfc=False, ecn="hpcc", strict=()), rate_bps=25 * G)["100:"].expected
    assert (found["min"], found["max"]) == (100_000, 400_000)


def test_a_bucket_holds_two_full_frames_with_their_framing() -> None:
    assert qdisc.frame_bytes(MTU) == FRAME
    assert tree(step(1000, 2000, 0.1))["1:"].expected["burst"] == 2 * (FRAME + 24)


def test_a_step_is_a_red_of_one_byte_that_asks_for_no_probability() -> None:
    red = tree(step(65_536, 65_536, 1.0))["100:"]
    assert " min 65536 max 65537 " in red.line
    assert "probability" not in red.expected


def test_a_ramp_that_never_marks_is_a_step_at_its_end() -> None:
    assert " min 2000 max 2001 " in tree(step(1000, 2000, 0.0))["100:"].line


def test_the_average_is_as_short_as_tc_allows() -> None:
    # tc takes the least weight w with burst + 1 - min / avpkt <= (1 - (1 - w)^burst) / w.
    for kmin in (1, FRAME, 65_536, 1_600_000):
        line = qdisc.red("x", "1:1", "2:", 2**30, Threshold(kmin, kmin, 1.0), 10**6, FRAME).line
        burst = int(re.search(r"burst (\d+)", line)[1])  # type: ignore[index]
        asked = burst + 1 - kmin / FRAME
        assert 1 <= asked <= (1 - 0.5**burst) / 0.5 + 1e-9 or burst == 1


def test_strict_bands_come_first_and_every_priority_has_one() -> None:
    order = qdisc.bands(Discipline(strict=(5, 6)))
    assert order == [6, 5, 0, 1, 2, 3, 4, 7]
    filters = qdisc.sorted_by_dscp("x", Discipline(strict=(5, 6)))
    assert "dsfield 0x18 0xfc flowid 10:1" in filters[0]
    assert len(filters) == 8


def test_weights_become_quanta_of_full_frames() -> None:
    ets = qdisc.ets("x", Discipline(strict=(7,), weights=(1, 2, 1, 4, 1, 1, 1, 1)), FRAME)
    assert ets.expected["quanta"] == [FRAME * w for w in (1, 2, 1, 4, 1, 1, 1)]


def test_delay_and_rate_of_a_wire_are_dilated_together() -> None:
    wire = qdisc.wire("x", delay_ps=650_000, rate_bps=400 * G, dilation=100_000)
    assert wire.expected["delay.delay"] == pytest.approx(0.065)
    assert "delay 65000.000us rate 4000000bit 24" in wire.line


def test_a_buffer_that_is_full_before_the_thresholds_is_refused() -> None:
    with pytest.raises(EmulationError, match=r"is full before RED marks all at 2MiB"):
        tree(Discipline(pfc=False, ecn="sonic"))


@pytest.mark.parametrize(
    ("name", "told"),
    [("min", 65_535 - 1000), ("ecn", False), ("limit", None), ("kind", None)],
)
def test_what_does_not_read_back_is_one_clear_error(name: str, told: object) -> None:
    red = tree(step(65_536, 65_536, 1.0))["100:"]
    options = {**red.expected, name: told}
    if name == "kind":
        qdisc.refuse_difference(red, options)
        return
    with pytest.raises(EmulationError, match=rf"qdisc red {name} was set to .* reads back as"):
        qdisc.refuse_difference(red, options)


def test_the_grain_of_the_kernels_clock_is_no_difference() -> None:
    root = tree(step(1000, 2000, 0.1))["1:"]
    assert root.expected["burst"] == 8348
    qdisc.refuse_difference(root, {"rate": 500_000, "burst": "8350b/1", "overhead": 24})


def test_one_queue_may_take_what_the_dynamic_threshold_leaves_it() -> None:
    fabric = leaf_spine(LeafSpine(hosts=4, leaves=2, spines=2))
    node = fabric.switches[0]
    assert node.switch is not None
    for alpha, share in ((1.0, 1 / 2), (1 / 16, 1 / 17)):
        limit = queue_limit(fabric, node.index, Discipline(egress_alpha=alpha))
        assert limit == int(node.switch.buffer_bytes * share)


def test_pause_frames_and_marks_at_dequeue_are_refused() -> None:
    with pytest.raises(EmulationError, match="pfc true: the kernel's queues send no pause frames"):
        refuse_discipline(Discipline())
    with pytest.raises(EmulationError, match="marking dequeue"):
        refuse_discipline(Discipline(pfc=False, marking="dequeue"))


def test_a_dilation_at_which_handshakes_time_out_is_refused() -> None:
    fabric = leaf_spine(LeafSpine(hosts=4, leaves=2, spines=2))
    setup = Setup(fabric, equal_cost(fabric), Discipline(pfc=False), Transport(), 1)
    # Four cables of 50.5 ns and three pipelines of 600 ns, there and back.
    most = 10**12 // (2 * (4 * 50_500 + 3 * 600_000))
    refuse_dilation(setup, most)
    with pytest.raises(EmulationError, match=rf"write a dilation of at most {most:,}$"):
        refuse_dilation(setup, most + 1)


def train_of(late: float, gap: float = 1.0) -> Train:
    import numpy as np

    return Train(1000, 1000, round(1000 * gap), 1000, np.full(100, late))


def test_a_run_is_judged_by_its_train_its_looks_and_its_losses() -> None:
    good = Kept(0, 0, [0.01] * 10, elapsed_ns=10**9)
    assert kernel_verdict(good, train_of(0.1)).text() == "valid"
    assert "0.5 frame times off" in kernel_verdict(good, train_of(0.5)).text()
    assert "the rate of a train is 10 % off" in kernel_verdict(good, train_of(0.1, 1.1)).text()
    bad = {
        "had no connection at their release": Kept(1, 0, []),
        "too late for the serving loop": Kept(0, 2, []),
        "let go or seen to end 20 % of its time late": Kept(0, 0, [0.2] * 10),
        "in queues of hosts or wires": Kept(0, 0, [], outside_drops=1),
        "took far longer": Kept(0, 0, [], overran=1),
    }
    for told, kept in bad.items():
        found = kernel_verdict(kept, train_of(0.1))
        assert found.standing == "invalid"
        assert told in found.text()


@pytest.mark.root
@pytest.mark.skipif(may_network() is not None, reason="no namespaces here")
def test_a_kernel_without_red_is_told_what_it_lacks_and_both_ways_out() -> None:
    lacks = missing()
    if "qdisc red" not in lacks:
        pytest.skip("this kernel has RED")
    with pytest.raises(EmulationError) as refused:
        demand_kernel("cubic")
    told = str(refused.value)
    assert "no qdisc red" in told
    assert "make vm-test" in told
    assert "vagrant up" in told
    assert told.endswith("or write --dataplane softswitch")
    assert "\n" not in told
