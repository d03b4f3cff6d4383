"""Warm-up detection: a planted transient is found, noise is left alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.handoff import handoffs
from analysis.record import Cell, StudyManifest
from analysis.summary import Sample
from analysis.warmup import durations, mser, notices, transient

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]
Floats = NDArray[np.float64]


def lasting(runs: Sequence[Floats], make: Rows, ask: StudyManifest, **more: object) -> Sample:
    """An alternative with one seed for each run of hand-off times in ms."""
    cells = []
    for times in runs:
        rows = [
            {"arrival_ps": at, "prefill_end_ps": at, "handoff_release_ps": at}
            | {"kv_ready_ps": at + int(time * MS)}
            for at, time in enumerate(times.tolist())
        ]
        cells.append(make(rows, **more))
    return Sample("f", "p", tuple(cells), tuple(handoffs(c, ask) for c in cells), (), None)


def noisy(rng: np.random.Generator, count: int, early: int = 0) -> Floats:
    """Log-normal times around 2 ms, the first ``early`` of them at a third."""
    times = 2 * rng.lognormal(0, 0.4, count)
    times[:early] /= 3
    return times


def test_a_step_is_cut_where_it_stands() -> None:
    series = np.concatenate([np.full(20, 9.0), np.tile([1.0, 2.0], 90)])
    assert mser(series) == 20


def test_mser_minimises_the_standard_error_of_what_it_leaves() -> None:
    series = np.random.default_rng(1).exponential(1, 200)
    series[:15] += 5
    means = series.reshape(-1, 5).mean(axis=1)
    errors = [means[cut:].var() / len(means[cut:]) for cut in range(36)]
    assert mser(series) == 5 * int(np.argmin(errors))


def test_a_constant_series_is_not_cut() -> None:
    assert mser(np.full(100, 3.0)) == 0


def test_fewer_than_ten_batches_tell_nothing() -> None:
    assert mser(np.arange(49.0)) == 0
    assert mser(np.arange(50.0)) > 0


@given(st.lists(st.floats(0, 1e6), max_size=120), st.floats(0.1, 1e3))
def test_the_cut_is_whole_batches_and_does_not_depend_on_the_unit(
    values: list[float], unit: float
) -> None:
    series = np.array(values)
    cut = mser(series)
    assert cut % 5 == 0
    assert cut <= max(0, len(series) - 25)
    assert mser(np.round(series)) == mser(np.round(series) * 1024)


def test_short_first_hand_offs_are_found(make_rows: Rows, make_question: Ask) -> None:
    rng = np.random.default_rng(3)
    sample = lasting([noisy(rng, 200, 40) for _ in range(5)], make_rows, make_question())
    found = transient(sample)
    assert found is not None
    assert 35 <= found.cut <= 45
    assert found.steady
    assert found.beyond.value == pytest.approx(-2 * 2 / 3 * 1.083 * MS, rel=0.2)


def test_noise_alone_is_seldom_called_a_transient(make_rows: Rows, make_question: Ask) -> None:
    rng = np.random.default_rng(8)
    ask, wrong, moved = make_question(), 0, 0
    for _ in range(60):
        runs = [noisy(rng, 60) for _ in range(6)]
        wrong += transient(lasting(runs, make_rows, ask)) is not None
        moved += mser(np.mean(runs, axis=0)) > 0
    # the minimum alone would have cut many of them
    assert wrong <= 4
    assert moved > 12


def test_one_seed_tells_no_transient_as_bursts_alone_would_make_many(
    make_rows: Rows, make_question: Ask
) -> None:
    rng, ask = np.random.default_rng(4), make_question()
    for _ in range(40):
        bursts = np.repeat(noisy(rng, 20), 10)
        assert transient(lasting([bursts], make_rows, ask)) is None


def test_what_all_seeds_replay_tells_no_transient(make_rows: Rows, make_question: Ask) -> None:
    times = noisy(np.random.default_rng(3), 200, 40)
    drawn = lasting([times, times * 1.01, times * 0.99], make_rows, make_question())
    assert transient(drawn) is not None
    for cell in drawn.cells:
        cell.requests["input_tokens"] = np.arange(200)
    assert transient(drawn) is None


def test_a_load_that_grows_without_end_has_no_steady_state(
    make_rows: Rows, make_question: Ask
) -> None:
    rng = np.random.default_rng(5)
    growth = 1 + np.arange(120) / 20
    sample = lasting([noisy(rng, 120) * growth for _ in range(6)], make_rows, make_question())
    found = transient(sample)
    assert found is not None
    assert not found.steady
    (line,) = notices([sample])
    assert line.startswith("No steady state in 1 of 1 alternative")


def test_the_notice_says_what_to_write_and_is_silent_once_it_is_written(
    make_rows: Rows, make_question: Ask
) -> None:
    rng, ask = np.random.default_rng(3), make_question()
    runs = [noisy(rng, 200, 40) for _ in range(5)]
    sample = lasting(runs, make_rows, ask)
    found = transient(sample)
    assert found is not None
    (line,) = notices([sample])
    assert "run.warmup leaves out 0" in line
    assert line.endswith(f"Write warmup: {found.cut} requests.")
    assert notices([lasting(runs, make_rows, ask, warmup_requests=found.cut)]) == []


def test_the_series_is_in_order_of_arrival_and_leaves_out_what_did_not_move(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [
        {"arrival_ps": 9, "prefill_end_ps": 9, "handoff_release_ps": 9, "kv_ready_ps": 12},
        {"arrival_ps": 1, "prefill_end_ps": 2, "handoff_release_ps": 2, "kv_ready_ps": 7},
        {"arrival_ps": 5, "prefill_end_ps": 6, "kv_ready_ps": 6},
        {"arrival_ps": 6, "prefill_end_ps": 6, "handoff_release_ps": 6, "kv_ready_ps": -1},
    ]
    assert durations(make_rows(rows)).tolist() == [5, 5, 3]


def test_a_cell_that_cannot_run_has_no_transient(make_rows: Rows, make_question: Ask) -> None:
    sample = lasting([noisy(np.random.default_rng(1), 60)], make_rows, make_question())
    assert transient(replace(sample, impossible="no path")) is None
