"""A policy that moves the time to first token and not the hand-off is not without effect."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.record import StudyManifest, read_study
from analysis.summary import Sample, samples
from analysis.waiting import waiting

MS = 10**9


@pytest.fixture
def two(tmp_path: Path, make_study: Callable[..., Path]) -> tuple[list[Sample], StudyManifest]:
    place = make_study(tmp_path, fabrics=["fat tree"], policies=["random", "round_robin"])
    study = read_study(place)
    return list(samples(study)), study.manifest


def later(sample: Sample, by_ms: tuple[float, ...]) -> Sample:
    """The sample with first tokens later, by ms for each of its seeds."""
    parts = zip(sample.budgets, by_ms, strict=True)
    moved = tuple(replace(b, ttft=b.ttft + np.int64(ms * MS)) for b, ms in parts)
    return replace(sample, budgets=moved)


def test_a_longer_wait_for_the_first_token_is_told_with_its_interval(
    two: tuple[list[Sample], StudyManifest],
) -> None:
    (first, _), study = two
    peer = replace(first, policy="slow")
    (line,) = waiting([first, later(peer, (90, 100, 110))], study)
    assert line.startswith("Policy matters to users' waiting: the mean TTFT with random is 100 ms")
    assert "shorter than with slow (75.2 ms to 125 ms, 3 common seeds)" in line
    assert study.ttft_ps == 500 * MS
    assert "with random is 100 ms (20 % of the TTFT objective) shorter" in line


@pytest.mark.parametrize("by_ms", [(0.0, 0.0, 0.0), (-90, 10, 100), (30, 30.1, 29.9)])
def test_no_wait_is_told_that_is_equal_uncertain_or_within_a_tenth_of_the_objective(
    two: tuple[list[Sample], StudyManifest], by_ms: tuple[float, ...]
) -> None:
    (first, _), study = two
    study = msgspec.structs.replace(study, ttft_ps=500 * MS)
    assert waiting([first, later(replace(first, policy="slow"), by_ms)], study) == []
