"""Outages: what cannot be is refused in a line; drawn ones keep the means of a renewal process."""

import numpy as np
import pytest

from traffic.failure.outage import Outage, OutageError, drawn, ordered

S = 10**12


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("fail", "prefill", 4, S, None)], "prefill 4: the pool has 4; write prefill 0 to"),
        (
            [("fail", "decode", 1, S, 3 * S), ("drain", "decode", 1, 2 * S, None)],
            "decode 1: drain at 2 s while its fail is not over",
        ),
        (
            [("drain", "decode", 1, S, None), ("fail", "decode", 1, 9 * S, None)],
            "fail at 9 s while its drain is not over",
        ),
        (
            [("fail", "decode", 1, S, 2 * S), ("fail", "decode", 1, 2 * S + S // 2, None)],
            "while its fail is not over",
        ),
        (
            [("fail", "prefill", 0, S, 2 * S), ("join", "prefill", 0, 9 * S, None)],
            "join at 9 s while its fail is not over",
        ),
    ],
)
def test_outages_that_cannot_follow_each_other_are_refused(
    rows: list[tuple[str, str, int, int, int | None]], told: str
) -> None:
    with pytest.raises(OutageError, match=told):
        ordered([Outage(*row) for row in rows], (4, 4), load_ps=S)


def test_an_instance_may_fail_again_once_its_model_is_loaded() -> None:
    rows = [Outage("fail", "prefill", 2, 4 * S), Outage("fail", "prefill", 2, S, 2 * S)]
    assert [o.from_ps for o in ordered(rows, (4, 4), load_ps=S)] == [S, 4 * S]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("break", "prefill", 0, 0), "kind 'break': unknown; write fail or drain or join"),
        (("fail", "storage", 0, 0), "side 'storage': unknown; write prefill or decode"),
        (("fail", "prefill", 0, -1), "before the run"),
        (("fail", "prefill", 0, S, S), "not after from"),
        (("join", "prefill", 0, S, 2 * S), "an instance joins once"),
    ],
)
def test_an_outage_that_cannot_be_is_refused(row: tuple[str, str, int, int], told: str) -> None:
    with pytest.raises(OutageError, match=told):
        Outage(*row)


def test_drawn_failures_keep_the_availability_of_a_renewal_process() -> None:
    mtbf, mttr, load, until = 10 * S, 3 * S, 2 * S, 20_000 * S
    found = drawn(
        "decode",
        range(4),
        mtbf_ps=mtbf,
        mttr_ps=mttr,
        load_ps=load,
        until_ps=until,
        seed=5,
    )
    lost = np.array([o.until_ps + load - o.from_ps for o in found if o.until_ps is not None])
    down = lost.sum() / (4 * until)
    expected = (mttr + load) / (mtbf + mttr + load)  # 1/3
    # About 5,300 cycles; the share's standard error is near 0.004.
    assert down == pytest.approx(expected, abs=0.012)
    assert len(ordered(found, (1, 4), load_ps=load)) == len(found)


def test_more_instances_leave_the_failures_of_the_others_as_they_were() -> None:
    one, two = (
        drawn("prefill", n, mtbf_ps=S, mttr_ps=S, load_ps=0, until_ps=20 * S, seed=1)
        for n in ([3], [2, 3])
    )
    assert one == [o for o in two if o.instance == 3]
    other = drawn("prefill", [3], mtbf_ps=S, mttr_ps=S, load_ps=0, until_ps=20 * S, seed=2)
    assert one != other


def test_a_mean_of_nothing_is_refused() -> None:
    with pytest.raises(OutageError, match="mttr 0 s: must be above 0"):
        drawn("prefill", [0], mtbf_ps=S, mttr_ps=0, load_ps=0, until_ps=S, seed=1)
