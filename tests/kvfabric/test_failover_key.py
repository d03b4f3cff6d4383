"""Faults of instances and `failover`: read with units, told, refused in a line, run to a table."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.observed import read_observed
from analysis.record import cell_directory, read_study
from kvfabric.build import stage
from kvfabric.command.run import command
from kvfabric.failover import resilience_of
from kvfabric.hazard import hazards_of
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import settings_of
from kvfabric.source import ScenarioError
from topo.unit import PS_PER_MS, PS_PER_S
from traffic.failure.outage import Outage
from traffic.failure.resilience import Resilience
from traffic.handoff.errand import Errand, number_of

TEXT = """\
name: failing
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 100/s}, count: 60}
budget: {handoff: 50ms, allowed: 10%}
run: {seeds: 1, emulator: fluid, limit: 60s}
faults: FAULTS
failover: RULES
"""


def written(tmp_path: Path, faults: str, rules: str = "{}", more: str = "") -> Path:
    path = tmp_path / "s.yaml"
    text = TEXT.replace("FAULTS", faults).replace("RULES", rules)
    path.write_text(text + more, encoding="utf-8")
    return path


def befallen(tmp_path: Path, faults: str, rules: str = "{}", more: str = "", seed: int = 1):
    study = load(written(tmp_path, faults, rules, more))
    ready = stage(study.scenario, study.source)
    return study.scenario, ready, hazards_of(study.scenario, ready.placed, seed)


def test_outages_of_instances_stand_among_the_faults_of_links(tmp_path: Path) -> None:
    faults = (
        "[{kind: fail, instance: prefill 3, from: 1ms, until: 3ms}, "
        "{kind: drain, instance: decode 0, from: 2ms}, {kind: join, instance: decode 1, from: 5ms}]"
    )
    scenario, ready, (hazard,) = befallen(tmp_path, faults)
    assert hazard is not None
    assert list(hazard.outages) == [
        Outage("fail", "prefill", 3, PS_PER_MS, 3 * PS_PER_MS),
        Outage("drain", "decode", 0, 2 * PS_PER_MS),
        Outage("join", "decode", 1, 5 * PS_PER_MS),
    ]
    assert ready.faults == ()
    told = settings_of(scenario, ready)
    assert told["faults"] == (
        "prefill 3 fail from 1ms until 3ms; decode 0 drain from 2ms; decode 1 join from 5ms"
    )
    assert "breaker opens after 10 failures for 60 s" in told["failover"]
    limits = " ".join(not_modelled(scenario))
    assert "No link or switch fails." in limits
    assert "Instances fail whole" in limits


def test_without_faults_of_instances_nothing_is_told_and_nothing_befalls(tmp_path: Path) -> None:
    scenario, ready, hazards = befallen(tmp_path, "[]", "{timeout: 5ms}")
    assert hazards == [None]
    assert "failover" not in settings_of(scenario, ready)
    assert "No instance fails." in not_modelled(scenario)


def test_the_defaults_are_the_published_ones(tmp_path: Path) -> None:
    scenario, _, _ = befallen(tmp_path, "[]")
    assert resilience_of(scenario.failover) == Resilience()


def test_every_rule_is_read_with_its_unit(tmp_path: Path) -> None:
    rules = (
        "{health: {interval: 10ms, timeout: 1ms, failures: 2, successes: 1}, breaker: false, "
        "retry: {count: 2, backoff: 3ms, factor: 2, cap: 9ms, jitter: 0%, budget: 25%, least: 1}, "
        "timeout: 4ms, wait: 5s, load: 6ms, discovery: 7ms, decode_loss: fail}"
    )
    scenario, _, _ = befallen(tmp_path, "[]", rules)
    found = resilience_of(scenario.failover)
    assert found.health.interval_ps == 10 * PS_PER_MS
    assert found.breaker is None
    assert found.retry.budget == 0.25
    assert [found.retry.delay_ps(n, 0, 1) // PS_PER_MS for n in range(3)] == [3, 6, 9]
    assert (found.wait_ps, found.load_ps) == (5 * PS_PER_S, 6 * PS_PER_MS)
    assert found.decode_loss == "fail"
    scenario, _, _ = befallen(tmp_path, "[]", "{health: false, breaker: true}")
    assert resilience_of(scenario.failover).health.interval_ps == 0
    assert resilience_of(scenario.failover).breaker is not None


def test_mean_times_draw_failures_of_a_whole_side_anew_for_each_seed(tmp_path: Path) -> None:
    faults = "[{kind: fail, instance: decode, mtbf: 5s, mttr: 1s}]"
    _, _, (one,) = befallen(tmp_path, faults)
    _, _, (two,) = befallen(tmp_path, faults, seed=2)
    assert one is not None
    assert two is not None
    assert {outage.instance for outage in one.outages} == {0, 1, 2, 3}
    assert {outage.side for outage in one.outages} == {"decode"}
    assert max(outage.from_ps for outage in one.outages) < 60 * PS_PER_S
    assert one.outages != two.outages


def test_instances_are_numbered_over_all_models_as_in_the_tables(tmp_path: Path) -> None:
    more = "models: [{model: Llama-3.1-8B, share: 50%, prefill: 1, decode: 1}]\n"
    faults = "[{kind: drain, instance: prefill 3, from: 1ms}, {kind: fail, instance: decode 2}]"
    _, _, hazards = befallen(tmp_path, faults, more=more)
    assert [[o.name for o in hazard.outages] for hazard in hazards if hazard] == [
        ["decode 2"],
        ["prefill 0"],
    ]


@pytest.mark.parametrize(
    ("faults", "rules", "told"),
    [
        ("[{kind: fail, instance: gpu 3}]", "{}", "'gpu 3': write a side and a number"),
        ("[{kind: fail}]", "{}", "write a side and a number, as prefill 3"),
        ("[{kind: fail, instance: prefill}]", "{}", "'prefill': which one? write e.g. prefill 0"),
        ("[{kind: fail, instance: prefill 4}]", "{}", "prefill 4: the pool has 4; write prefill 0"),
        ("[{kind: fail, instance: prefill 1, mtbf: 1s}]", "{}", "write both, with kind: fail"),
        (
            "[{kind: drain, instance: prefill, mtbf: 1s, mttr: 1s}]",
            "{}",
            "mtbf and mttr draw failures over the whole run",
        ),
        (
            "[{kind: fail, instance: prefill 1, link: [leaf0, spine0]}]",
            "{}",
            "has no link, node, share or direction",
        ),
        (
            "[{kind: fail, instance: decode 1, from: 1ms}, {kind: fail, instance: decode 1}]",
            "{}",
            "decode 1: fail at 1 ms while its fail is not over",
        ),
        (
            "[{kind: fail, instance: decode 1}]",
            "{health: {interval: 1ms}}",
            "failover.health.timeout 5 s: longer than the interval",
        ),
        ("[{kind: fail, instance: decode 1}]", "{timeout: 0s}", "takes time to be noticed"),
    ],
)
def test_what_cannot_befall_is_refused_with_its_place(
    faults: str, rules: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        befallen(tmp_path, faults, rules)
    text = str(caught.value)
    assert "s.yaml:9: faults" in text
    assert told in text
    assert "\n" not in text


def test_an_instance_has_no_faults_of_links(tmp_path: Path) -> None:
    path = written(tmp_path, "[{kind: down, instance: prefill 1}]")
    path.write_text(path.read_text(encoding="utf-8").replace("fluid", "packet"), encoding="utf-8")
    study = load(path)
    with pytest.raises(ScenarioError, match="kind: down: of links and nodes; an instance can fail"):
        stage(study.scenario, study.source)


@pytest.mark.parametrize("serving", ["{mode: colocated}", "{mode: multi_node, span: 2}"])
def test_colocated_instances_fail_by_the_pool_of_their_gpus(serving: str, tmp_path: Path) -> None:
    faults = "[{kind: fail, instance: decode 1, from: 100ms, until: 200ms}]"
    rules = "{health: false, breaker: false, timeout: 5ms}"
    path, out = written(tmp_path, faults, rules, f"serving: {serving}\n"), tmp_path / "out"
    told = CliRunner().invoke(command, [str(path), "--out", str(out), "--jobs", "1"])
    assert told.exit_code == 0, told.output
    (cell,) = read_study(out).cells
    place = cell_directory(out, cell.manifest.cell)
    spells = read_observed(place, cell.manifest.digest, "spells")
    before = cell.manifest.totals["prefill_instances"] // 2
    assert spells["instance"].tolist() == [before + 1]
    assert cell.manifest.totals["failover.attempts"] > 60


def test_a_run_prints_the_phases_of_a_failure_and_keeps_its_tables(tmp_path: Path) -> None:
    faults = "[{kind: fail, instance: decode 0, from: 200ms, until: 400ms}]"
    rules = "{health: {interval: 50ms, timeout: 10ms, failures: 1, successes: 1}, timeout: 5ms}"
    path, out = written(tmp_path, faults, rules), tmp_path / "out"
    told = CliRunner().invoke(command, [str(path), "--out", str(out), "--jobs", "1"])
    assert told.exit_code == 0, told.output
    assert "failures of instances: " in told.output
    for phase in ("before", "during", "after"):
        assert phase in told.output
    (cell,) = read_study(out).cells
    place = cell_directory(out, cell.manifest.cell)
    toll, spells = (read_observed(place, cell.manifest.digest, name) for name in ("toll", "spells"))
    assert (toll["attempts"] > 1).any()
    assert spells["from_ps"].tolist() == [200 * PS_PER_MS]
    assert spells["unseen_ps"].tolist() == [210 * PS_PER_MS]
    assert spells["seen_ps"].tolist() == [400 * PS_PER_MS]
    totals = cell.manifest.totals
    assert totals["failover.attempts"] == int(toll["attempts"].sum())
    assert totals["failover.wasted_bytes"] == int(toll["wasted_bytes"].sum()) > 0
    # What moved in vain is a hand-off of nobody's.
    request = int(np.argmax(toll["wasted_bytes"]))
    lost = cell.flows["handoff"] == number_of(Errand.LOST, request)
    assert cell.flows["bytes"][lost].sum() == toll["wasted_bytes"][request]
    mine = cell.flows["handoff"] == request
    assert cell.flows["bytes"][mine].sum() == cell.requests["kv_bytes"][request]
    assert "Failures of instances" in (out / "report.html").read_text(encoding="utf-8")


def test_the_example_of_a_failing_instance_can_be_read(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    study = load(root / "scenarios" / "instance-failure.yaml")
    assert [a.scenario.failover.breaker is False for a in study.alternatives] == [False, True]
    for alternative in study.alternatives:
        stage(alternative.scenario, alternative.source)


def test_breakers_of_a_comparison_have_the_names_that_are_given_them(tmp_path: Path) -> None:
    more = "compare: {failover.breaker: [{label: quick, failures: 3}, {failures: 4}, false]}\n"
    study = load(written(tmp_path, "[]", more=more))
    names = [each.varied["failover.breaker"] for each in study.alternatives]
    assert names == [
        "quick",
        "breaker={failures: 4}",
        "no breaker",
    ]
