"""Slowdown against size: bins of equal count, ratios to the idle fabric, units on the axes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.plot.size import binned, size, sizes
from analysis.record import StudyManifest, read_study
from analysis.result import Result, result

MS = 10**9


@pytest.fixture
def found(tmp_path: Path, make_study: Callable[..., Path]) -> Result:
    place = make_study(tmp_path, fabrics=["full mesh"], policies=["random"], seeds=[1, 2, 3, 4])
    return result(read_study(place), place)


def sized(found: Result, slow: float) -> Result:
    """The same hand-offs with sizes of 1 to n MB, the larger half so many times slower."""
    (part,) = found.samples
    handoffs = []
    for each in part.handoffs:
        count = len(each.duration)
        ideal = np.full(count, float(MS))
        took = np.where(np.arange(count) < count // 2, ideal, slow * ideal)
        payload = 10**6 * (1 + np.arange(count))
        handoffs.append(replace(each, payload=payload, transfer=took, ideal=ideal))
    return replace(found, samples=(replace(part, handoffs=tuple(handoffs)),))


def test_bins_have_equal_counts_and_their_own_quantiles() -> None:
    large = np.arange(200.0)
    slowdown = np.where(large < 100, 1.0, 3.0)
    assert binned(large[::-1], slowdown[::-1], 2, 0.9) == [(49.0, 1.0, 1.0), (149.0, 3.0, 3.0)]


def test_large_hand_offs_that_are_slowed_stand_higher_on_the_right(found: Result) -> None:
    study: StudyManifest = found.study.manifest
    drawn = size(sized(found, 3.0).samples, study)
    assert drawn is not None
    assert [row[:2] for row in drawn.rows] == [("full mesh", "random")] * 2
    assert [row[5] for row in drawn.rows] == [1.0, 3.0]
    assert drawn.rows[0][3] < drawn.rows[1][3]  # type: ignore[operator]
    figure = drawn.figure
    assert figure.get_supxlabel() == "size of the hand-off (MB)"
    assert figure.get_supylabel() == "slowdown (times the idle fabric)"


def test_hand_offs_of_one_size_are_not_drawn(found: Result) -> None:
    assert sizes(found.samples) == {}
    assert size(found.samples, found.study.manifest) is None
