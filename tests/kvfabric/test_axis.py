"""An axis of `compare` that a study cannot judge, or that changes nothing, is refused."""

from pathlib import Path
from typing import Any

import pytest

from kvfabric.load import Study, load
from kvfabric.source import Place, ScenarioError

TEXT = """\
name: axis
fabric:
  {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
budget: {handoff: 5ms, allowed: 10%}
requests: {REQUESTS}
compare:
  COMPARE
"""
OWN = (
    "lengths: {input: {kind: constant, mean: 100}, output: {kind: constant, mean: 9}}, "
    "arrivals: {rate: 40/s}"
)
TRACE: dict[Place, Any] = {("requests", "trace", "file"): "trace.csv"}


def read(
    tmp_path: Path, compare: str, requests: str = "", overrides: dict[Place, Any] | None = None
) -> Study:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("COMPARE", compare).replace("REQUESTS", requests), "utf-8")
    return load(path, overrides=overrides)


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ("budget.handoff: [1ms, 5ms]", "judges all alternatives by one budget; write it outside"),
        ("budget: [{allowed: 1%}, {allowed: 2%}]", "run the study once for each, as with --budget"),
        ("slo.ttft: [1ms, 1s]", "by the same objectives; write them outside compare, and a scen"),
        ("run.seeds: [1, 3]", "one number of seeds; write it outside compare, or --seeds 12"),
        ("run: [{seeds: 1}, {seeds: 3}]", "one number of seeds"),
        ("name: [a, b]", "a study has one name; write it outside compare"),
        ("question: [a, b]", "a study asks one question; write it outside compare"),
    ],
)
def test_what_a_study_has_one_of_is_no_axis(tmp_path: Path, compare: str, told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path, f"policy: [random, round_robin]\n  {compare}")
    assert f"s.yaml:11: compare.{compare.partition(':')[0]}: a study " in str(refused.value)
    assert told in str(refused.value)


def test_it_may_be_a_list_of_one_and_be_left_out_of_sight(tmp_path: Path) -> None:
    assert len(read(tmp_path, "budget.handoff: [1ms]").alternatives) == 1
    assert read(tmp_path, "run.seeds: [2]").scenario.run.seeds == 2


@pytest.mark.parametrize("compare", ["profile: [base, long_short]", "arrivals.rate: [1/s, 2/s]"])
def test_requests_that_a_trace_takes_the_place_of_are_no_axis(tmp_path: Path, compare: str) -> None:
    axis = compare.partition(":")[0]
    told = rf"s\.yaml:10: compare\.requests\.{axis}: .* does nothing where requests\.trace takes"
    for requests, overrides in (("trace: {file: trace.csv}", None), ("", TRACE)):
        with pytest.raises(ScenarioError, match=told):
            read(tmp_path, f"requests.{compare}", requests, overrides)


def test_a_profile_is_none_where_lengths_take_its_place(tmp_path: Path) -> None:
    profiles = "requests.profile: [base, long_short]"
    with pytest.raises(ScenarioError, match=r"profile does nothing where requests\.lengths takes"):
        read(tmp_path, profiles, OWN)
    half = "lengths: {input: {kind: constant, mean: 100}}"
    assert len(read(tmp_path, profiles, half).alternatives) == 2
    assert len(read(tmp_path, "requests.arrivals.rate: [1/s, 2/s]", OWN).alternatives) == 2


def test_what_acts_beside_a_trace_and_what_one_alternative_uses_are_axes(tmp_path: Path) -> None:
    assert len(read(tmp_path, "requests.trace.scale_rate: [1, 2]", "", TRACE).alternatives) == 2
    assert len(read(tmp_path, "policy: [random, round_robin]", OWN, TRACE).alternatives) == 2
    either = "requests: [{profile: long_short}, {trace: {file: trace.csv}}]"
    assert len(read(tmp_path, either).alternatives) == 2
