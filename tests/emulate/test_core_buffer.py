"""A shared buffer that hears late of what has left is only ever too strict."""

from hypothesis import given
from hypothesis import strategies as st

from emulate import _engine


def buffer():
    return _engine.SharedBuffer(
        total=60_000,
        reserve=4_000,
        xon_offset=3_000,
        alpha_q16=65536 // 2,
        egress_q16=65536 // 2,
        lossless=1 << 3,
        headroom=[5_000] * 3,
    )


def state(shared):
    return (
        shared.used,
        [shared.occupied(port, priority) for port in range(3) for priority in (0, 3)],
        [shared.queued(port, priority) for port in range(3) for priority in (0, 3)],
    )


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # ingress
        st.sampled_from([0, 3, 3]),  # priority: lossy, lossless
        st.integers(0, 2),  # egress
        st.sampled_from([64, 1_000, 4_158]),
        st.integers(0, 3),  # frames that leave first
    ),
    max_size=60,
)


@given(steps=steps, hears=st.integers(1, 9))
def test_what_it_surely_admits_fits_and_stops_nobody(steps, hears):
    exact, late = buffer(), buffer()
    held, unheard = [], []
    for ingress, priority, egress, size, leave in steps:
        for _ in range(min(leave, len(held))):
            frame = held.pop(0)
            exact.release(*frame)
            unheard.append(frame)
        frame = (ingress, priority, egress, size)
        if not late.headroom_used(ingress, priority) and late.admit_surely(*frame):
            assert exact.admit(*frame)
            assert not exact.over(ingress, priority)
            held.append(frame)
        if len(unheard) >= hears:
            for gone in unheard:
                late.release(*gone)
            unheard.clear()
            assert state(late) == state(exact)


@given(steps=steps)
def test_what_it_says_of_one_group_holds_whatever_has_left_of_the_others(steps):
    exact, late = buffer(), buffer()
    held, unheard = [], []

    def catch_up():
        for gone in unheard:
            late.release(*gone)
        unheard.clear()

    for ingress, _, egress, size, leave in steps:
        for _ in range(min(leave, len(held))):
            gone = held.pop(0)
            exact.release(*gone)
            if gone[0] > 0:
                unheard.append(gone)
                continue
            late.release(*gone)
            assert late.perhaps_under(0, 3) or not exact.under(0, 3)
        frame = (ingress, 3, egress, size)
        stopped = ingress == 0 or late.headroom_used(ingress, 3) > 0
        if not stopped and late.admit_surely(*frame):
            assert exact.admit(*frame)
            held.append(frame)
            continue
        full = ingress == 0 and late.surely_full(0, 3, size)
        if not full:
            catch_up()
        before = exact.headroom_used(ingress, 3)
        taken = exact.admit(*frame)
        assert late.admit(*frame) == taken
        assert exact.headroom_used(ingress, 3) == late.headroom_used(ingress, 3)
        if taken:
            assert not full or exact.headroom_used(0, 3) > before
            held.append(frame)


def test_a_group_is_surely_full_only_above_the_threshold_of_an_empty_memory():
    shared = buffer()
    # 4,000 in the reserve; the threshold of the empty pool of 33,000 is 16,500.
    for _ in range(20):
        assert not shared.surely_full(0, 3, 500)
        assert shared.admit(0, 3, 1, 500)
    assert not shared.surely_full(0, 3, 10_500)
    assert shared.surely_full(0, 3, 10_501)


def test_it_is_sure_of_nothing_once_a_group_would_be_over():
    shared = buffer()
    admitted = 0
    while shared.admit_surely(0, 3, 1, 1_000):
        admitted += 1
    # The pool has 60,000 - 3 * 9,000 bytes. After 4 frames in the reserve, 11 share it: 11,000 is
    # half of the 22,000 that they leave.
    assert admitted == 4 + 11
    assert not shared.over(0, 3)
    assert shared.admit(0, 3, 1, 1_000)
    assert shared.over(0, 3)
