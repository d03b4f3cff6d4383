"""The switch's decision classes: buffer, pause, mark, schedule, go-back-N, each by its own rule."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulate import _engine
from emulate.bound import MOST_BYTES
from emulate.headroom import SONIC_XOFF, HeadroomError, sonic
from emulate.marking import PROFILES
from topo.unit import PROPAGATION_PS_PER_M

ONE = 65536  # alpha 1
NEVER = 2**63 - 1


def buffer(**changes):
    values = {
        "total": 1_000_000,
        "reserve": 0,
        "xon_offset": 0,
        "alpha_q16": ONE,
        "egress_q16": ONE,
        "lossless": 1 << 3,
        "headroom": [0] * 8,
    }
    return _engine.SharedBuffer(**(values | changes))


def fill(shared, ports, frame=100):
    """Rounds of one frame a port until every one of them must stop; their counts."""
    stopped = set()
    while len(stopped) < len(ports):
        for port in ports:
            if port not in stopped and (
                not shared.admit(port, 3, 7, frame) or shared.over(port, 3)
            ):
                stopped.add(port)
    return [shared.occupied(port, 3) for port in ports]


@pytest.mark.parametrize(("alpha", "n"), [*itertools.product([1 / 8, 1 / 4, 1, 4], [1, 2, 5])])
def test_n_congested_groups_stop_at_the_dynamic_threshold(alpha, n):
    # Choudhury and Hahne: each gets alpha * B / (1 + n * alpha).
    shared = buffer(alpha_q16=round(alpha * ONE))
    for count in fill(shared, range(n)):
        assert count == pytest.approx(alpha * 1_000_000 / (1 + n * alpha), abs=2 * 100 * (1 + n))


def test_a_group_fills_reserve_then_shared_then_headroom_and_drains_in_reverse():
    shared = buffer(total=4_000, reserve=300, headroom=[500, 0, 0, 0, 0, 0, 0, 0])
    assert shared.pool == 4_000 - 500 - 8 * 300
    frames = 0
    while not shared.over(0, 3):
        assert shared.admit(0, 3, 1, 100)
        frames += 1
    # 300 in reserve; the sixth frame in the shared pool takes it to 600, above 1,100 - 600.
    assert (frames, shared.used, shared.headroom_used(0, 3)) == (9, 600, 0)
    for _ in range(5):
        assert shared.admit(0, 3, 1, 100)
    assert shared.headroom_used(0, 3) == 500
    assert not shared.admit(0, 3, 1, 100)
    assert shared.occupied(0, 3) == shared.queued(1, 3) == 1400
    for headroom, used in [(400, 600), (300, 600), (200, 600), (100, 600), (0, 600), (0, 500)]:
        shared.release(0, 3, 1, 100)
        assert (shared.headroom_used(0, 3), shared.used) == (headroom, used)
    assert shared.occupied(0, 3) == 300 + 500


def test_the_egress_that_holds_most_of_a_group_is_told_the_lowest_of_equals():
    shared = buffer()
    for port, egress, count in [(0, 5, 2), (0, 2, 2), (0, 7, 1), (1, 7, 9)]:
        for _ in range(count):
            assert shared.admit(port, 3, egress, 100)
    assert (shared.holder(0, 3), shared.holder(1, 3)) == (2, 7)
    shared.release(0, 3, 2, 100)
    assert shared.holder(0, 3) == 5


def test_a_group_is_released_below_its_threshold_by_the_offset():
    shared = buffer(xon_offset=10_000, headroom=[5_000] + [0] * 7)
    fill(shared, [0])
    while not shared.under(0, 3):
        shared.release(0, 3, 7, 100)
    assert shared.headroom_used(0, 3) == 0
    assert shared.occupied(0, 3) <= shared.threshold - 10_000
    assert shared.occupied(0, 3) > shared.threshold - 10_000 - 300


def test_a_group_is_not_released_while_it_uses_headroom():
    # Five others leave: the threshold rises far above the group, whose headroom is still used.
    shared = buffer(total=10_000, headroom=[500] + [0] * 7)
    fill(shared, range(1, 6))
    while not shared.over(0, 3):
        assert shared.admit(0, 3, 7, 100)
    assert shared.admit(0, 3, 7, 100)
    assert shared.headroom_used(0, 3) == 100
    for port in range(1, 6):
        while shared.occupied(port, 3):
            shared.release(port, 3, 7, 100)
    assert shared.threshold > 2 * shared.occupied(0, 3)
    assert not shared.under(0, 3)
    shared.release(0, 3, 7, 100)
    assert shared.under(0, 3)


def test_a_lossy_queue_drops_at_its_egress_threshold():
    shared = buffer(egress_q16=ONE // 2)
    count = 0
    while shared.admit(count % 5, 0, 7, 100):
        count += 1
    assert count * 100 == pytest.approx(1_000_000 / 3, abs=200)
    assert not shared.over(0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(64, 9000)), max_size=200)
)
def test_what_was_admitted_and_released_leaves_an_empty_buffer(frames):
    shared = buffer(total=100_000, reserve=1_000, headroom=[2_000] * 8)
    kept = []
    for port, lossless, size in frames:
        priority = 3 if lossless else 0
        if shared.admit(port, priority, 5, size):
            kept.append((port, priority, size))
        assert 0 <= shared.used <= shared.pool
    for port, priority, size in kept:
        shared.release(port, priority, 5, size)
    assert shared.used == 0
    assert all(shared.occupied(p, q) == 0 for p in range(8) for q in (0, 3))
    assert all(shared.queued(5, q) == 0 for q in (0, 3))


def test_a_stopped_sender_is_stopped_again_at_half_the_pause():
    sender = _engine.PauseSender(1_000)
    assert sender.stop(100)
    assert not sender.stop(101)
    assert not sender.expire(599)
    assert sender.expire(600)
    assert not sender.expire(600)
    assert sender.next_ps == 1_100
    assert sender.resume()
    assert not sender.resume()
    assert not sender.expire(1_100)


def test_a_paused_class_starts_again_by_xon_or_when_the_time_is_over():
    receiver = _engine.PauseReceiver()
    receiver.stop(100, 1_000)
    receiver.stop(600, 1_000)
    assert not receiver.expire(1_100)
    assert receiver.expire(1_600)
    receiver.stop(2_000, 1_000)
    assert receiver.resume(2_300)
    assert not receiver.resume(2_300)
    assert receiver.spent(9_999) == 1_500 + 300


@given(
    kmin=st.integers(0, 10**6),
    span=st.one_of(st.integers(1, 10**6), st.integers(2**32, MOST_BYTES - 10**6)),
    pmax=st.floats(0, 1),
    at=st.floats(0, 1),
)
@example(kmin=0, span=2**34, pmax=1.0, at=0.5)
def test_a_mark_is_drawn_with_the_probability_of_the_formula(kmin, span, pmax, at):
    marker = _engine.Marker(kmin, kmin + span, round(pmax * 2**32))
    queue = kmin + round(at * span)
    share = pmax * (queue - kmin) / span
    for draw in (0.0, share - 1e-6, share + 1e-6, 1 - 2**-40):
        if 0 <= draw < 1 and abs(draw - share) > 1e-9:
            assert marker.mark(queue, int(draw * 2**64)) == (draw < share and queue > kmin)
    assert not marker.mark(kmin, 0)
    assert marker.mark(kmin + span + 1, 2**64 - 1)


def test_draws_are_uniform_and_differ_by_attempt():
    draws = [
        _engine.mark_draw(seed=1, flow=2, sequence=s, attempt=a, port=3) / 2**64
        for s in range(2_000)
        for a in range(2)
    ]
    assert len(set(draws)) == len(draws)
    mean = sum(draws) / len(draws)
    assert abs(mean - 0.5) < 4 * (1 / 12 / len(draws)) ** 0.5
    below = sum(d < 0.05 for d in draws) / len(draws)
    assert abs(below - 0.05) < 4 * (0.05 * 0.95 / len(draws)) ** 0.5


def test_strict_priorities_go_first_and_the_highest_of_them():
    scheduler = _engine.Scheduler(0b1100_0000, [1] * 8)
    assert scheduler.pick(0b0100_1001, [100] * 8) == 6
    assert scheduler.pick(0b1100_1001, [100] * 8) == 7
    assert scheduler.pick(0b0000_1000, [100] * 8) == 3


@given(
    weights=st.lists(st.integers(1, 20), min_size=8, max_size=8),
    sizes=st.lists(st.integers(64, 9000), min_size=8, max_size=8),
    eligible=st.integers(1, 255),
)
def test_deficit_round_robin_shares_bytes_by_weight(weights, sizes, eligible):
    scheduler = _engine.Scheduler(0, weights)
    served = [0] * 8
    for _ in range(4_000):
        pick = scheduler.pick(eligible, sizes)
        served[pick] += sizes[pick]
    classes = [p for p in range(8) if eligible >> p & 1]
    if len(classes) > 1:
        rounds = [served[p] / (256 * weights[p]) for p in classes]
        # Each has had the same number of quanta, but for one and for less than one frame.
        slack = 1 + max(sizes[p] / (256 * weights[p]) for p in classes)
        assert max(rounds) - min(rounds) <= slack + 1


def test_a_class_that_empties_loses_what_it_saved():
    # A frame of 1,000 B needs four quanta of 256; three are lost when its class empties.
    sizes = [100, 1000] + [0] * 6
    fresh, emptied = _engine.Scheduler(0, [1] * 8), _engine.Scheduler(0, [1] * 8)
    waited = 0
    while fresh.pick(0b11, sizes) == 0:
        waited += 1
    assert waited >= 4 * 256 // 100 - 1
    for _ in range(waited - 1):
        assert emptied.pick(0b11, sizes) == 0
    emptied.emptied(1)
    again = 0
    while emptied.pick(0b11, sizes) == 0:
        again += 1
    assert again > waited // 2


def test_a_gap_is_answered_once_and_the_sender_goes_back():
    sender, receiver = _engine.GoBackNSender(10), _engine.GoBackNReceiver()
    verdict = _engine.Verdict
    for _ in range(6):
        assert not sender.take(0, 1_000)
    got = [receiver.receive(s) for s in (0, 1, 3, 4, 5)]
    assert got == [verdict.accepted] * 2 + [verdict.gap] + [verdict.gap_again] * 2
    assert sender.reject(receiver.expected, 50, 1_000)
    assert (sender.next, sender.acked, sender.attempt, sender.deadline_ps) == (2, 2, 1, 1_050)
    assert sender.take(60, 1_000)
    assert receiver.receive(2) == verdict.accepted
    assert receiver.receive(2) == verdict.duplicate
    assert receiver.receive(4) == verdict.gap


def test_the_timer_goes_back_to_the_oldest_unacknowledged_packet():
    sender = _engine.GoBackNSender(4)
    for now in (0, 10, 20, 30):
        sender.take(now, 1_000)
    sender.acknowledge(1, 500, 1_000)
    assert sender.deadline_ps == 1_500
    assert not sender.expire(1_499, 1_000)
    assert sender.expire(1_500, 1_000)
    assert sender.next == 1
    sender.acknowledge(4, 1_600, 1_000)
    assert sender.done
    assert sender.deadline_ps == NEVER


def test_the_first_packet_after_a_timeout_asks_for_an_ack_and_after_a_nak_none_does():
    sender = _engine.GoBackNSender(4)
    for now in (0, 10):
        sender.take(now, 1_000)
    assert sender.reject(0, 20, 1_000)
    assert not sender.asks
    sender.take(30, 1_000)
    assert not sender.expire(1_019, 1_000)
    assert not sender.asks
    assert sender.expire(1_020, 1_000)
    assert sender.asks
    sender.take(1_030, 1_000)
    assert not sender.asks


def test_an_old_nak_is_ignored():
    sender = _engine.GoBackNSender(4)
    for _ in range(4):
        sender.take(0, 1_000)
    sender.acknowledge(3, 10, 1_000)
    assert not sender.reject(2, 20, 1_000)
    assert sender.next == 4


@pytest.mark.parametrize("gbps", SONIC_XOFF)
def test_the_sonic_headroom_is_that_of_the_vendors_table(gbps):
    for metres, xoff in SONIC_XOFF[gbps]:
        assert sonic(gbps * 10**9, metres * PROPAGATION_PS_PER_M, 4096) == xoff


@pytest.mark.parametrize(
    ("gbps", "bytes_at"), [(100, (44_032, 49_152, 83_968)), (400, (86_016, 104_448, 243_712))]
)
def test_the_sonic_headroom_of_5_40_and_300_m_is_the_published_one(gbps, bytes_at):
    # SONiC, pg_profile_lookup.ini of the SN5610N, column xoff.
    delays = [metres * PROPAGATION_PS_PER_M for metres in (5, 40, 300)]
    assert tuple(sonic(gbps * 10**9, delay, 4096) for delay in delays) == bytes_at


def test_the_sonic_headroom_grows_with_length_and_rate_and_ends_with_the_table():
    lengths = [0, 5, 6, 39, 40, 41, 150, 300, 500]
    for gbps in (10, 100, 150, 400, 800):
        values = [sonic(gbps * 10**9, m * PROPAGATION_PS_PER_M, 4096) for m in lengths]
        assert values == sorted(values)
        assert all(value % 1024 == 0 for value in values)
    with pytest.raises(HeadroomError, match="800 Gbps"):
        sonic(3600 * 10**9, 0, 4096)


def test_the_marking_profiles_are_the_published_ones():
    def at(name, gbps):
        t = PROFILES[name].threshold(gbps * 10**9)
        return t.kmin_bytes, t.kmax_bytes, t.pmax

    assert at("sonic", 100) == at("sonic", 400) == (1_048_576, 2_097_152, 0.05)
    assert at("hpcc", 25) == (100_000, 400_000, 0.2)
    assert at("hpcc", 400) == (1_600_000, 6_400_000, 0.2)
    assert at("dctcp", 10) == (30_000, 30_000, 1.0)
    assert at("paper", 40) == (5_000, 200_000, 0.01)
