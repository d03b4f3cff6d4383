"""Differences on real cells: none where there is none, at the nominal rate, and 5 % found as 5 %.

The cells are packets of one small scenario: two prefill and two decode hosts on two leaves, so that
hand-offs collide at one uplink, and means of seeds are as skewed as bursts make them.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from analysis.comparison import compare_fabrics, means
from analysis.pairing import paired
from analysis.record import Study
from analysis.summary import samples
from kvfabric.compare import jobs_of, manifest_of
from kvfabric.load import load
from kvfabric.run import run_cell

TEXT = """\
name: nothing
fabric:
  family: leaf_spine
  label: pair
  leaves: 2
  spines: 1
  oversubscription: 2
  nic: 100Gbps
  switch: {ports: 8, rate: 100Gbps}
placement: {prefill: 2, decode: 2, by: rack}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 100/s}, count: 10, lengths: LENGTHS}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: SEEDS, emulator: packet}
compare:
  faults:
    - []
    - [{kind: degraded, link: [leaf0, spine0], share: 95%}]
"""
LENGTHS = "{input: {kind: normal, mean: 60, std: 15}, output: {kind: normal, mean: 4, std: 1}}"
POOL, SEEDS, REPLICATIONS = 120, 6, 200


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("null")


@cache
def ran(home: Path, seeds: int) -> Study:
    """The whole fabric and the one with a slower link, at so many seeds."""
    path = home / f"{seeds}.yaml"
    path.write_text(TEXT.replace("LENGTHS", LENGTHS).replace("SEEDS", str(seeds)), "utf-8")
    study = load(path)
    jobs = jobs_of(study)
    return Study(manifest_of(study, jobs, ""), tuple(run_cell(job) for job in jobs), 0)


def test_a_scenario_has_no_difference_from_itself_and_one_of_5_percent_from_a_slower_link(
    home: Path,
) -> None:
    study = ran(home, 12)
    whole, slow = samples(study)
    itself = replace(whole, fabric="again")
    none = compare_fabrics([whole, itself]).widest
    assert none is not None
    assert not none.found
    assert (none.ps.value, none.ps.low, none.ps.high) == (0.0, 0.0, 0.0)
    pair = compare_fabrics([whole, slow]).widest
    assert pair is not None
    assert pair.found
    assert pair.slow == slow.fabric
    assert 0.02 < pair.share < 0.08


@pytest.fixture(scope="module")
def pool(home: Path) -> tuple[np.ndarray, np.ndarray]:
    """Mean hand-offs of many seeds, ps: over the whole fabric, and over the slower link."""
    whole, slow = (means(sample) for sample in samples(ran(home, POOL)))
    assert len(whole) == len(slow) == POOL
    return tuple(np.array([mean[seed] for seed in sorted(mean)]) for mean in (whole, slow))


def wrong(pool: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether two runs of one scenario, at seeds of their own, are held to differ."""
    drawn = rng.choice(pool, 2 * SEEDS, replace=False)
    found = paired(dict(enumerate(drawn[:SEEDS])), dict(enumerate(drawn[SEEDS:])))
    assert found is not None
    return found.found


def test_of_200_comparisons_of_one_scenario_with_itself_one_in_twenty_differs(
    pool: tuple[np.ndarray, np.ndarray],
) -> None:
    rng = np.random.default_rng(11)
    rate = sum(wrong(pool[0], rng) for _ in range(REPLICATIONS)) / REPLICATIONS
    # within 2.5 standard errors of the nominal rate
    assert abs(rate - 0.05) <= 2.5 * np.sqrt(0.05 * 0.95 / REPLICATIONS)


def test_a_link_slower_by_5_percent_is_found_the_surer_the_more_seeds(
    pool: tuple[np.ndarray, np.ndarray],
) -> None:
    rng = np.random.default_rng(12)
    whole, slow = pool
    power = []
    for seeds in (2, 4, 8):
        right = 0
        for _ in range(REPLICATIONS):
            at = rng.choice(POOL, seeds, replace=False)
            gap = paired(dict(enumerate(whole[at])), dict(enumerate(slow[at])))
            assert gap is not None
            right += gap.found and gap.gap.value > 0
        power.append(right / REPLICATIONS)
    assert power[0] < power[1] < power[2]
    assert power[2] > 0.9
