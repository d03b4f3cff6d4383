"""The keys of serving: modes, measured times, several models and users who wait, from the file."""

from pathlib import Path

import numpy as np
import pytest

from kvfabric.cli import main
from kvfabric.compare import jobs_of
from kvfabric.demand import demand_of
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import run_cell, settings_of
from kvfabric.source import ScenarioError
from traffic.request import RequestTable
from traffic.serving.mode import Serving
from traffic.source.crowd import Users

TEXT = """\
name: serving
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps}}
placement: {prefill: 8, decode: 8}
model: Llama-3.1-8B
gpu: H100-SXM
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, emulator: fluid}
"""
REQUESTS = "requests: {arrivals: {rate: 100/s}, count: 30}\n"
TIMES = "phase,tokens,batch,seconds\nprefill,1,,0.002\nprefill,1000,,0.020\ndecode,1,1,0.005\n"


def written(tmp_path: Path, keys: str, requests: str = REQUESTS) -> Path:
    (tmp_path / "times.csv").write_text(TIMES, encoding="utf-8")
    path = tmp_path / "s.yaml"
    path.write_text(TEXT + requests + keys, encoding="utf-8")
    return path


def cells(path: Path) -> list[dict[str, np.ndarray]]:
    """The request table of every alternative."""
    found = []
    for job in jobs_of(load(path)):
        assert job.impossible is None
        table = run_cell(job).requests
        assert (table["status"] == 0).all()
        found.append(table)
    return found


def test_the_same_requests_go_through_every_mode(tmp_path: Path) -> None:
    modes = "{mode: disaggregated}, {mode: colocated, chunk: 512}, {mode: multi_node, span: 4}"
    path = written(tmp_path, f"compare: {{serving: [{modes}]}}\n")
    apart, together, spanning = cells(path)
    for name in ("arrival_ps", "input_tokens", "output_tokens", "kv_bytes"):
        assert apart[name].tolist() == together[name].tolist() == spanning[name].tolist()
    assert (apart["handoff_release_ps"] >= 0).all()
    assert together["prefill"].max() > 7  # instances of both pools serve
    assert spanning["prefill"].max() <= 3  # 16 GPUs in fours
    for table in (together, spanning):
        assert (table["handoff_release_ps"] < 0).all()
        assert (table["first_token_ps"] == table["prefill_end_ps"]).all()
    # The first prompt meets an idle instance: its compute, and the messages of its tokens.
    pool = jobs_of(load(path))[2].stage.deployment.prefill
    tokens = int(spanning["input_tokens"][0])
    took = int(spanning["prefill_end_ps"][0] - spanning["prefill_start_ps"][0])
    assert pool.collectives[0] is not None
    assert took == pool.prefill_cost.ps(tokens) + pool.collectives[0].step_ps(tokens)


def test_every_rule_reaches_the_traffic_room_and_the_report(tmp_path: Path) -> None:
    keys = (
        "serving: {mode: colocated, chunk: 1024, reserve: prompt, preemption: swap, "
        "swap: 400Gbps, order: priority}\n"
    )
    (job,) = jobs_of(load(written(tmp_path, keys)))
    assert job.stage.rules == Serving("colocated", 1024, "prompt", "swap", 400 * 10**9, "priority")
    told = settings_of(job.alternative.scenario, job.stage)["serving"]
    assert told == (
        "colocated, at most 1024 tokens a step, KV memory grows, swap when it is full at 400 Gbps, "
        "lines by priority"
    )
    sentences = " ".join(not_modelled(job.alternative.scenario))
    assert "no cache moves" in sentences
    assert "Priorities are recorded" not in sentences


def test_measured_times_are_read_beside_the_scenario_and_change_its_digest(tmp_path: Path) -> None:
    keys = "instance: {prefill: {times: times.csv}, decode: {times: times.csv}}\n"
    path = written(tmp_path, keys)
    (job,) = jobs_of(load(path))
    table = run_cell(job).requests
    took = table["prefill_end_ps"] - table["prefill_start_ps"]
    expected = [2 * 10**9 + (n - 1) * 18 * 10**9 // 999 for n in table["input_tokens"].tolist()]
    assert took.tolist() == expected
    decode = table["finish_ps"] - table["decode_start_ps"]
    assert (decode == table["output_tokens"] * 5 * 10**9).all()
    told = settings_of(job.alternative.scenario, job.stage)
    assert "times as measured" in told["prefill"]
    assert "interpolated between measurements" in " ".join(not_modelled(job.alternative.scenario))
    (tmp_path / "times.csv").write_text(TIMES + "decode,9,1,0.006\n", encoding="utf-8")
    assert jobs_of(load(path))[0].scenario_sha256 != job.scenario_sha256


def test_models_get_pools_of_their_own_and_requests_by_share(tmp_path: Path) -> None:
    keys = (
        "models:\n"
        "  - {model: Qwen3-8B, share: 40%, prefill: 3, decode: 2}\n"
        "  - {model: gpt-oss-20b, share: 20%, prefill: 1, decode: 1, gpu: A100-SXM}\n"
    )
    path = written(tmp_path, keys, "requests: {arrivals: {rate: 50/s}, count: 300}\n")
    (job,) = jobs_of(load(path))
    hosts = [
        {h for group in pool.instances for h in group}
        for one in job.stage.placed
        for pool in (one.deployment.prefill, one.deployment.decode)
    ]
    assert [len(mine) for mine in hosts] == [4, 5, 3, 2, 1, 1]
    assert len(set().union(*hosts)) == 16
    told = settings_of(job.alternative.scenario, job.stage)
    assert told["model"] == "Llama-3.1-8B (40%); Qwen3-8B (40%); gpt-oss-20b (20%)"
    assert "1 x A100-SXM" in told["prefill"]
    table = run_cell(job).requests
    parts = np.bincount(table["model"], minlength=3) / 300
    assert np.abs(parts - [0.4, 0.4, 0.2]).max() < 0.1
    first = [0, 4, 7]
    for number, (low, size) in enumerate(zip(first, (4, 3, 1), strict=True)):
        used = set(table["prefill"][table["model"] == number].tolist())
        assert used <= set(range(low, low + size))


def test_users_who_wait_are_served_to_the_count(tmp_path: Path) -> None:
    requests = "requests: {closed: {users: 6, think: 100ms}, count: 40}\n"
    path = written(tmp_path, "", requests)
    (table,) = cells(path)
    assert len(table["request"]) == 40
    arrival, finish = table["arrival_ps"], table["finish_ps"]
    for at in arrival.tolist():
        assert ((arrival <= at) & (finish > at)).sum() <= 6
    (job,) = jobs_of(load(path))
    assert "Closed loop: 6 users" in " ".join(run_cell(job).manifest.notes)


def test_sessions_are_played_in_a_closed_loop_by_tenants(tmp_path: Path) -> None:
    requests = (
        "requests:\n"
        "  closed: {users: 4}\n"
        "  count: 20\n"
        "  sessions: {first: {kind: constant, mean: 500}, think: 1s, retry: 0%}\n"
        "  tenants: [{name: a, share: 50%, priority: 2}, {name: b, share: 50%}]\n"
    )
    (table,) = cells(written(tmp_path, "", requests))
    assert set(table["tenant"].tolist()) == {0, 1}
    assert set(table["session"].tolist()) >= {0, 1, 2, 3}


def test_a_demand_is_a_table_or_a_crowd(tmp_path: Path) -> None:
    study = load(written(tmp_path, ""))
    table, _ = demand_of(study.scenario, study.source, 1)
    assert isinstance(table, RequestTable)
    study = load(written(tmp_path, "", "requests: {closed: {users: 2}, count: 5}\n"))
    users, _ = demand_of(study.scenario, study.source, 1)
    assert isinstance(users, Users)


def test_gpu_time_knows_the_gpus_of_the_instances_of_every_model(tmp_path: Path) -> None:
    models = (
        "models:\n  - {model: Qwen3-8B, share: 50%, prefill: 4, decode: 6, "
        "instance: {decode: {tp: 2}}}\n"
    )
    modes = "compare: {serving: [{mode: disaggregated}, {mode: colocated}]}\n"
    apart, together = (
        run_cell(job).manifest.totals for job in jobs_of(load(written(tmp_path, models + modes)))
    )
    told = {name: n for name, n in apart.items() if "_instances" in name or "_gpus" in name}
    assert told == {
        "prefill_instances": 8,
        "decode_instances": 5,
        **{"decode_instances.0": 2, "decode_gpus.0": 1},
        **{"decode_instances.1": 3, "decode_gpus.1": 2},
    }
    sizes = [together[f"prefill_gpus.{run}"] for run in range(4)]
    counts = [together[f"prefill_instances.{run}"] for run in range(4)]
    assert (sizes, counts, together["decode_instances"]) == ([1, 1, 1, 2], [4, 2, 4, 3], 13)


@pytest.mark.parametrize(
    ("keys", "requests", "told"),
    [
        ("serving: {mode: multi_node}\n", REQUESTS, "s.yaml:9: serving.mode: multi_node w"),
        ("serving: {span: 4}\n", REQUESTS, "disaggregated with a span: only multi_node has one"),
        ("serving: {mode: both}\n", REQUESTS, "s.yaml:9: serving.mode: "),
        ("serving: {preemption: swap}\n", REQUESTS, "only swap copies, and needs a rate"),
        ("serving: {mode: colocated, chunk: 64}\n", REQUESTS, "max_batch 256: one token each"),
        (
            "serving: {reserve: prompt, chunk: 256}\n",
            REQUESTS,
            "s.yaml:9: serving.chunk: max_batch",
        ),
        ("serving: {mode: multi_node, span: 16}\n", REQUESTS, "tp: 16: more tensor parallelism"),
        (
            "serving: {mode: multi_node, span: 3}\n",
            REQUESTS,
            "s.yaml:9: serving.span: 3: 8 prefill GPUs do not divide into instances of so many; "
            "write a divisor of 8",
        ),
        (
            "models:\n  - {model: Qwen3-8B, share: 40%, prefill: 3, decode: 2, "
            "instance: {prefill: {tp: 2}}}\n",
            REQUESTS,
            "s.yaml:10: models.0.prefill: 3 GPUs do not divide into instances of tp 2; write a "
            "multiple of 2",
        ),
        ("instance: {prefill: {times: none.csv}}\n", REQUESTS, "none.csv: no such file"),
        ("instance: {prefill: {times: s.yaml}}\n", REQUESTS, "s.yaml:1: missing column 'phase'"),
        (
            "models: [{model: Qwen3-8B, share: 40%, prefill: 8, decode: 2}]\n",
            REQUESTS,
            "s.yaml:9: models: 8 prefill GPUs of 8 in the placement: none is left",
        ),
        (
            "models: [{model: Qwen9, share: 40%, prefill: 2, decode: 2}]\n",
            REQUESTS,
            "s.yaml:9: models.0.model: 'Qwen9': not in the catalogue",
        ),
        (
            "models: [{model: Qwen3-8B, share: 100%, prefill: 2, decode: 2}]\n",
            REQUESTS,
            "s.yaml:9: models: shares of 0%, 100%",
        ),
        ("handoff: {classes: [3, 3]}\n", REQUESTS, "s.yaml:9: handoff.classes: "),
        ("", "requests: {closed: {users: 9}, count: 5}\n", "closed.users: 9 for 5 requests"),
        (
            "",
            "requests: {closed: {users: 2}, arrivals: {rate: 5/s}, count: 5}\n",
            "closed: users decide when they ask; remove arrivals",
        ),
    ],
)
def test_what_cannot_be_served_is_told_with_its_place(
    tmp_path: Path, keys: str, requests: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        jobs_of(load(written(tmp_path, keys, requests)))
    assert told in str(refused.value).replace(str(tmp_path) + "/", "")
    assert "\n" not in str(refused.value)


def test_alternatives_without_hand_offs_say_so_and_do_not_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = "compare: {serving: [{mode: disaggregated}, {mode: colocated, chunk: 512}]}\n"
    path = written(tmp_path, keys)
    with pytest.raises(SystemExit) as left:
        main(["compare", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert left.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for part in ("colocated", "chunk=512", "no hand-off", "TTFT P50", "1 no hand-off."):
        assert part in told


def test_the_example_of_serving_modes_names_its_alternatives() -> None:
    study = load(Path(__file__).parents[2] / "scenarios" / "serving-modes.yaml")
    assert [a.fabric for a in study.alternatives] == [
        "leaf-spine disaggregated",
        "leaf-spine colocated chunk=512",
        "leaf-spine colocated chunk=2048",
        "leaf-spine multi-node span=4",
    ]
    assert not any(job.impossible for job in jobs_of(study))
