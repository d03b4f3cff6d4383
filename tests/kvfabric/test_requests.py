"""The keys under ``requests``: what they make, and what is refused with its place."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvfabric.build import requests_of
from kvfabric.compare import jobs_of, manifest_of
from kvfabric.load import load
from kvfabric.source import ScenarioError
from traffic.request import RequestTable
from traffic.source.workload import synthesise

HEAD = """\
name: small
fabric: {family: leaf_spine, nic: 100Gbps}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
budget: {handoff: 5ms}
"""


def made(tmp_path: Path, requests: str) -> tuple[RequestTable, list[str]]:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + f"requests:\n{requests}", encoding="utf-8")
    study = load(path)
    return requests_of(study.scenario, study.source, 1)


def test_the_base_profile_draws_what_it_always_drew(tmp_path: Path) -> None:
    table, notes = made(tmp_path, "  arrivals: {rate: 400/s}\n  count: 60\n")
    plain = synthesise(count=60, rate_per_s=400, seed=1)
    for name, column in table.columns().items():
        assert np.array_equal(column, plain.columns()[name])
    assert len(notes) == 1
    assert notes[0].startswith("Lengths: profile base, the shape of the llmperf runs")


@pytest.mark.parametrize(
    ("requests", "compared", "told"),
    [
        ("{arrivals: {rate: 1000/s}}", "", "1,000 requests/s"),
        ("{arrivals: {rate: 5/s}, sessions: {}}", "", "5 sessions/s"),
        ("{closed: {users: 8}}", "", "8 users who wait for their answers"),
        ("{trace: {file: t.csv}}", "", "as recorded"),
        ("{trace: {file: t.csv, scale_rate: 20}}", "", "as recorded, 20 times as fast"),
        (
            "{arrivals: {rate: 1/s}}",
            "compare: {requests.arrivals.rate: [400/s, 50/s]}\n",
            "400 requests/s and 50 requests/s",
        ),
        (
            "{arrivals: {rate: 1/s}}",
            "compare: {requests.arrivals.rate: [1/s, 2/s, 3/s, 4/s, 5/s, 6/s, 7/s]}\n",
            "7 loads, as compared",
        ),
    ],
)
def test_the_load_that_is_asked_for_is_told_as_it_is_written(
    tmp_path: Path, requests: str, compared: str, told: str
) -> None:
    (tmp_path / "t.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n" + "".join(f"{n},70,7\n" for n in range(40)),
        encoding="utf-8",
    )
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + f"requests: {requests}\n{compared}", encoding="utf-8")
    study = load(path)
    assert manifest_of(study, jobs_of(study), "").load == told


def test_lengths_of_ones_own_replace_those_of_the_profile(tmp_path: Path) -> None:
    table, notes = made(
        tmp_path,
        "  lengths: {input: {kind: gamma, mean: 9000, std: 3000}, correlation: 0.9}\n"
        "  count: 2000\n",
    )
    assert table.input_tokens.mean() == pytest.approx(9000, rel=0.05)
    assert table.output_tokens.mean() == pytest.approx(150, rel=0.05)
    assert np.corrcoef(table.input_tokens, table.output_tokens)[0, 1] > 0.8
    assert notes == ["Lengths: own, as the scenario says, rank correlation 0.9."]


def test_lengths_come_from_the_rows_of_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n0,70,7\n1,80,8\n", encoding="utf-8"
    )
    table, notes = made(tmp_path, "  lengths: {table: seen.csv}\n  count: 50\n")
    assert set(zip(table.input_tokens.tolist(), table.output_tokens.tolist(), strict=True)) == {
        (70, 7),
        (80, 8),
    }
    assert notes == ["Lengths: rows of seen.csv, a plain request table."]


def test_bursts_days_sessions_and_tenants_are_keys_and_are_told(tmp_path: Path) -> None:
    _, notes = made(tmp_path, "  arrivals: {process: on_off, burst: 2s, lull: 8s}\n")
    assert notes[1].startswith("Arrivals: bursts of 2 s and lulls of 8 s")
    _, notes = made(tmp_path, "  arrivals: {process: diurnal, period: 60s, swing: 30%}\n")
    assert notes[1] == "Arrivals: the rate swings by 30% around its mean in 60 s."
    table, notes = made(
        tmp_path,
        "  sessions: {turns: 2, output: {kind: constant, mean: 10}, think: 5s, retry: 2%}\n"
        "  tenants:\n"
        "    - {name: agents, share: 75%, priority: 1}\n"
        "    - {name: others, share: 25%}\n"
        "  count: 400\n",
    )
    assert set(table.output_tokens.tolist()) == {10}
    assert set(table.tenant.tolist()) == {0, 1}
    assert table.session.max() > 5
    assert notes[0].startswith("Sessions: 2 turns of 7.83 model calls on average")
    assert notes[1] == "Tenants: 0 agents 75% priority 1, 1 others 25% priority 0."


def test_a_trace_is_made_longer_by_a_key(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n0,70,7\n", encoding="utf-8"
    )
    table, _ = made(tmp_path, "  trace: {file: seen.csv, scale_length: 3}\n")
    assert (table.input_tokens.tolist(), table.output_tokens.tolist()) == ([210], [21])


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ("  profile: tiny\n", "s.yaml:8: requests.profile: 'tiny': not known; write one of base, "),
        ("  arrivals: {process: often}\n", ":8: requests.arrivals.process: 'often' is unknown; "),
        (
            "  arrivals: {swing: 2}\n",
            ":8: requests.arrivals.swing: share '2': a number needs its unit; write 1%",
        ),
        (
            "  arrivals: {process: on_off, burst: 0s}\n",
            ":8: requests.arrivals.burst: 0 s: must be above",
        ),
        ("  lengths: {input: {kind: zipf, mean: 5}}\n", ":8: requests.lengths.input.kind: 'zipf'"),
        ("  lengths: {input: {kind: gamma, mean: 5}}\n", ":7: requests: gamma length 5 "),
        (
            "  lengths: {input: {kind: constant, mean: 5, std: 1}}\n",
            ":7: requests: constant length 5 ",
        ),
        (
            "  lengths: {correlation: 2}\n",
            ":8: requests.lengths.correlation: 2: must be a number from -1 to 1",
        ),
        ("  lengths: {table: none.csv}\n", "requests: none.csv: no such file"),
        ("  lengths: {table: a, correlation: 0.5}\n", ":8: requests.lengths.table: its rows give"),
        ("  sessions: {}\n  profile: long_long\n", "sessions: have lengths of their own"),
        ("  sessions: {}\n  arrivals: {process: gamma}\n", "sessions start as a Poisson process"),
        ("  sessions: {turn: 2}\n", ":8: requests.sessions.turn: unknown key; did you mean"),
        ("  tenants: [{name: a, share: 50%}]\n", ":8: requests.tenants: shares add up to 50%"),
        (
            "  tenants: [{name: a, share: 1%, priority: 9}]\n",
            ":8: requests.tenants.0.priority: 9: must be a",
        ),
        (
            "  tenants: [{name: a, share: 100%, profile: b}]\n",
            ":7: requests: profile 'b': not known",
        ),
    ],
)
def test_a_mistake_under_requests_is_told_in_one_line_with_its_place(
    tmp_path: Path, requests: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        made(tmp_path, requests)
    assert "\n" not in str(refused.value)
    assert told in str(refused.value)


def test_a_trace_no_longer_than_the_warm_up_is_refused(write: Callable[..., Path]) -> None:
    path = write(
        requests="{trace: {file: seen.csv}, count: 9}", run="{warmup: 2 requests, seeds: 1}"
    )
    rows = "arrival_s,input_tokens,output_tokens\n0,70,7\n1,80,8\n"
    (path.parent / "seen.csv").write_text(rows, encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"run\.warmup: 2 of 2 requests a seed: noth"):
        jobs_of(load(path))
