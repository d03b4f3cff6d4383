"""The search for goodput: brackets around known capacities, and what is told of them."""

from math import ceil, log, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.attainment import method
from analysis.goodput import (
    COLUMNS,
    DOUBLINGS,
    Point,
    Search,
    Trial,
    bracket,
    next_rate,
    rounded,
    rounds_left,
    row,
    sentences,
)
from analysis.plot.attainment import attainment


def searched(holds: "object", start: float, precision: float) -> dict[float, bool]:
    """Every rate tried on a server that meets the goal at a rate if ``holds(rate)``."""
    met: dict[float, bool] = {}
    while (rate := next_rate(met, start, precision)) is not None:
        assert rate not in met
        met[rate] = bool(holds(rate))  # type: ignore[operator]
    return met


@given(st.floats(0.01, 1e5), st.floats(0.1, 1e4), st.sampled_from([0.01, 0.05, 0.2, 1.0]))
def test_a_server_of_known_capacity_is_bracketed_within_the_precision(
    capacity: float, start: float, precision: float
) -> None:
    met = searched(lambda rate: rate <= capacity, start, precision)
    low, high = bracket(met, rounded(start))
    if low and high:
        assert low <= capacity < high <= low * (1 + precision) * 1.001
    elif low:
        assert capacity >= low >= start * 2 ** (DOUBLINGS - 1)
    else:
        assert capacity < high <= start / 2 ** (DOUBLINGS - 1)
    assert len(met) <= DOUBLINGS + 1 + ceil(log2(log(2.01) / log(1 + precision)) + 1)


def test_it_is_known_how_many_rates_are_still_to_be_tried() -> None:
    met: dict[float, bool] = {}
    left = [rounds_left(met, 100, 0.05)]
    while (rate := next_rate(met, 100, 0.05)) is not None:
        met[rate] = rate <= 130
        left.append(rounds_left(met, 100, 0.05))
    assert left[-1] == 0
    assert left[2:] == sorted(left[2:], reverse=True)


def test_a_coarse_search_is_refined_by_the_rates_it_has_tried() -> None:
    coarse = searched(lambda rate: rate <= 97, 100, 0.5)
    fine = dict(coarse)
    while (rate := next_rate(fine, 100, 0.01)) is not None:
        fine[rate] = rate <= 97
    assert fine == searched(lambda rate: rate <= 97, 100, 0.01)
    assert set(coarse) < set(fine)


def search(share: dict[float, float], start: float = 100, **more: object) -> Search:
    """A search with 100 requests in each of two seeds, at given attainments."""
    points = tuple(
        Point(
            rate,
            tuple(
                Trial(
                    rate_per_s=rate,
                    seed=seed,
                    counted=100,
                    met=round(100 * met),
                    unserved=0,
                    late_first=100 - round(100 * met),
                    late_token=3 if met < 0.9 else 0,
                )
                for seed in (1, 2)
            ),
        )
        for rate, met in sorted(share.items())
    )
    return Search("mesh", "random", 8, points, start, **more)  # type: ignore[arg-type]


def test_a_row_tells_rate_rate_a_gpu_bracket_attainment_and_who_was_late() -> None:
    found = search({100: 1.0, 200: 0.2, 141.4: 0.6, 118.9: 0.93, 129.7: 0.85, 124.2: 0.95})
    told = dict(zip(COLUMNS, row(found), strict=True))
    assert told["goodput (requests/s)"] == "124.2"
    assert told["a GPU"] == "15.5"
    assert told["missed at (requests/s)"] == "129.7"
    assert told["attainment"].startswith("95 % (")
    assert told["attainment there"].startswith("85 % (")
    assert told["there: late TTFT, late TPOT, unserved"] == "15 %, 3.0 %, 0 %"
    assert sentences([found])[0] == "Highest: 124.2 requests/s on mesh with random."


def test_a_token_costs_an_hours_dollars_over_an_hours_tokens_at_the_goodput() -> None:
    counted = [
        Trial(
            rate_per_s=10, seed=seed, counted=100, met=95, unserved=0, late_first=5, late_token=0,
            tokens=tokens,
        )
        for seed, tokens in ((1, 9_000), (2, 11_000))
    ]  # fmt: skip
    found = Search("mesh", "random", 8, (Point(10, tuple(counted)),), 10, usd_per_hour=36.0)
    assert found.points[0].tokens_per_s == 10 * 100
    assert found.usd == pytest.approx(36 / 3.6)
    assert dict(zip(COLUMNS, row(found), strict=True))["$ a million tokens"] == "$10"
    assert any("Cheapest a token at its goodput: mesh" in told for told in sentences([found]))
    uncounted = search({100: 1.0}, usd_per_hour=36.0)
    assert row(uncounted)[-1] == "n/a"
    assert not any("Cheapest a token" in told for told in sentences([uncounted]))


def test_exactly_the_goal_is_met() -> None:
    assert search({100: 0.9}).met == {100: True}
    assert search({100: 0.89}).met == {100: False}


def test_rates_that_speak_against_a_threshold_are_told() -> None:
    # Missed at 100, met at 50; found later: missed at 60, met at 90.
    found = search({100: 0.5, 50: 1.0, 70.71: 0.95, 84.09: 0.7, 60: 0.6, 90: 0.99})
    assert found.bracket[0] is not None
    assert found.bracket[0].rate_per_s == 70.71
    assert found.odd == [60, 90]
    assert any("60, 90 requests/s say otherwise" in sentence for sentence in sentences([found]))
    assert search({100: 0.5, 50: 1.0, 70.71: 0.95}).odd == []


def test_an_end_whose_interval_holds_the_goal_is_told_as_unsure() -> None:
    sure = search({100: 1.0, 104: 0.0}, precision=0.05)
    unsure = search({100: 0.91, 50: 1.0, 200: 0.0})
    assert not any("interval" in sentence for sentence in sentences([sure]))
    assert any("1 of 1 brackets have an end" in sentence for sentence in sentences([unsure]))


def test_a_search_that_never_missed_or_never_met_says_so() -> None:
    met = searched(lambda _: True, 1, 0.05)
    above = search(dict.fromkeys(met, 1.0), start=1)
    assert row(above)[2:5] == (">= 4,096", ">= 512", "n/a")
    first, second = sentences([above])[:2]
    assert first == "Highest: at least 4,096 requests/s on mesh with random."
    assert second.startswith("1 of 1 met the objectives at the highest rate tried")
    below = search(dict.fromkeys(searched(lambda _: False, 100, 0.05), 0.1))
    assert row(below)[2:4] == ("none", "n/a")
    lost = Search("mesh", "random", 8, (), 100, reason="no path")
    assert row(lost)[2] == "impossible"
    assert "mesh with random: impossible, no path." in sentences([lost])


def test_policies_within_the_precision_are_told_together() -> None:
    best = search({100: 1.0, 200: 0.0})
    close = dict.fromkeys((50, 70.71, 84.09, 91.7, 95.76), 1.0) | {100: 0.0}
    near = Search("mesh", "near", 8, search(close).points, 100)
    far = Search("mesh", "far", 8, search({50: 1.0, 100: 0.0}).points, 100)
    told = sentences([far, near, best])
    assert "Highest: 100 requests/s on mesh with random." in told
    assert any("Within its search's precision" in s and "near" in s for s in told)
    assert not any("mesh with far" in s for s in told)


def test_the_plot_has_every_rate_and_its_numbers_beside() -> None:
    found = search({100: 1.0, 200: 0.2, 141.4: 0.95})
    plot = attainment([found])
    assert [r[2] for r in plot.rows] == [100, 141.4, 200]
    assert [r[6] for r in plot.rows] == [1, 1, 0]
    assert plot.rows[0][3] == pytest.approx(1.0)
    title = plot.figure.axes[0].get_title(loc="left")
    assert title == "mesh\ngoal met up to 141.4/s, random"
    never = attainment([search({100: 0.1})]).figure.axes[0].get_title(loc="left")
    assert never == "mesh\ngoal met at no rate tried"
    assert "90 % of the requests" in method([found])
    assert "interval over 2 seeds" in method([found])
