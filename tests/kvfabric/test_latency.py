"""Count times latency, and what it causes: queues by hand, exact sums, the replay of a run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.observed import STAGES, read_observed
from analysis.record import cell_directory, read_cell
from kvfabric.cli import main
from kvfabric.collective import without_latency
from kvfabric.compare import jobs_of
from kvfabric.demand import demand_of
from kvfabric.latency import Served, caused
from kvfabric.load import load
from kvfabric.run import nic_rate, run_cell, serve_cell, served
from traffic.compute.collective import Collective
from traffic.compute.gpu import gpu
from traffic.emulator import FLOW, Table
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.recorded import Recorded
from traffic.request import RequestTable, request_table
from traffic.serving.mode import Serving
from traffic.serving.run import serve

US = 10**6
LLAMA = model("Llama-3.1-70B")  # 80 layers: 320 messages a step over two servers
H100 = gpu("H100-SXM")
DIRECT = 320 * 20 * US  # 20 us more a message
Told = tuple[Table, Table, dict[str, int]]


class Nowhere:
    """Nothing is handed over."""

    def observe(self) -> Table:
        return {}


def told(
    requests: RequestTable,
    *,
    latency_ps: int = 20 * US,
    max_batch: int = 256,
    mode: str = "disaggregated",
    chunk: int = 2048,
) -> Told:
    """What 20 us a message cost one prefill and one decode instance over two servers each."""
    waits = (Collective(320, latency_ps, (1, 1), 400 * 10**9),)
    prefill, decode = (
        Pool((tuple(range(at, at + 8)),), LLAMA, H100, 8, max_batch, collectives=waits)
        for at in (0, 8)
    )
    deployment = Deployment(prefill, decode)
    rules = Serving(mode, chunk_tokens=chunk)
    colocated = mode == "colocated"
    hops = np.zeros((2, 2), np.int32) if colocated else np.full((1, 1), 4, np.int32)

    def run(one: Deployment) -> Served:
        network = Recorded(np.zeros(0, FLOW), np.zeros(0, np.int64), 10**15, Nowhere())  # type: ignore[arg-type]
        chosen = policy("round_robin", hops, seed=1)
        outcome = serve(requests, one, chosen, network, hops=hops, rules=rules)
        return Served.of(outcome, [deployment], colocated=colocated)

    tables, totals = caused(run(deployment), run(without_latency(deployment)))
    return tables["latency"], tables["instances"], totals


def asked(at: list[int], tokens: int = 550, output: int = 0) -> RequestTable:
    count = len(at)
    return request_table(
        arrival_ps=at, input_tokens=[tokens] * count, output_tokens=[output] * count
    )


def test_a_lone_request_pays_its_messages_and_nothing_else() -> None:
    requests, instances, totals = told(asked([0], output=150))
    assert requests["messages"].tolist() == [320 * 151]
    assert requests["prompt_latency_ps"].tolist() == [DIRECT]
    assert requests["answer_latency_ps"].tolist() == [150 * DIRECT]
    assert [requests[f"caused_{name}_ps"].tolist() for name in STAGES] == [[0]] * 5
    assert totals["collective.compared_latency_ps"] == 151 * DIRECT  # 966.4 ms
    assert instances["side"].tolist() == [0, 1]
    assert instances["steps"].tolist() == [1, 150]
    assert instances["latency_ps"].tolist() == [DIRECT, 150 * DIRECT]
    more = instances["work_ps"].astype(np.int64) - instances["work_without_ps"].astype(np.int64)
    assert more.tolist() == [DIRECT, 150 * DIRECT]


def test_in_a_line_everyone_waits_for_the_messages_of_all_before() -> None:
    # Four prompts at once, one server: request k waits k services, each longer by its messages.
    requests, instances, totals = told(asked([0, 0, 0, 0]))
    assert requests["prompt_latency_ps"].tolist() == [DIRECT] * 4
    assert requests["caused_queueing_ps"].tolist() == [0, DIRECT, 2 * DIRECT, 3 * DIRECT]
    assert totals["collective.caused_queueing_ps"] == 6 * DIRECT
    assert [totals[f"collective.caused_{name}_ps"] for name in STAGES[1:]] == [0] * 4
    assert instances["latency_ps"].tolist() == [4 * DIRECT, 0]
    assert totals["collective.work_gpu_ps"] - totals["collective.work_without_gpu_ps"] == (
        8 * 4 * DIRECT
    )


def test_a_gap_that_the_latency_closes_is_what_it_causes() -> None:
    service = Pool((tuple(range(8)),), LLAMA, H100, 8).prefill_cost.ps(550)
    service += told(asked([0]), latency_ps=0)[1]["work_ps"].astype(np.int64).sum() - service
    # The second comes when the first would have been done for a third of its messages' time.
    late = int(service) + DIRECT // 3
    requests, _, _ = told(asked([0, late]))
    assert requests["caused_queueing_ps"].tolist() == [0, DIRECT - DIRECT // 3]


def test_a_queue_at_60_percent_pays_what_the_formula_of_m_d_1_says() -> None:
    # 60 % without latency; with it the service is 30 % longer, 78 % used, and the wait 3.07 times.
    bare = int(told(asked([0]), latency_ps=0)[1]["work_ps"][0])
    latency = round(0.3 * bare / 320)
    count = 20_000
    gaps = np.random.default_rng(3).exponential(bare / 0.6, count)
    _, _, totals = told(asked(np.cumsum(gaps).astype(np.int64).tolist()), latency_ps=latency)
    wait = [bare * k * rho / (2 * (1 - rho)) for k, rho in ((1, 0.6), (1.3, 0.78))]
    found = totals["collective.caused_queueing_ps"] / count
    assert found == pytest.approx(wait[1] - wait[0], rel=0.15)
    # A microsecond of message costs 6.2 of them in all.
    direct = totals["collective.compared_latency_ps"] / count
    assert (direct + found) / direct == pytest.approx(
        1 + (wait[1] - wait[0]) / (0.3 * bare), rel=0.1
    )


@pytest.mark.parametrize("chunk", [100, 128, 2048])
def test_a_chunked_prompt_waits_once_a_chunk(chunk: int) -> None:
    requests, instances, _ = told(asked([0], 600, 10), mode="colocated", chunk=chunk, max_batch=9)
    steps = -(-600 // chunk)
    assert requests["messages"].tolist() == [320 * (steps + 9)]
    assert requests["prompt_latency_ps"].tolist() == [steps * DIRECT]
    assert requests["answer_latency_ps"].tolist() == [9 * DIRECT]
    assert sum(int(requests[f"caused_{name}_ps"][0]) for name in STAGES) == 0
    assert sorted(instances["steps"].tolist()) == [0, steps + 9]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 400 * 10**9), st.integers(1, 4000), st.integers(0, 60)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["disaggregated", "colocated"]),
    st.integers(1, 4),
)
def test_direct_and_caused_parts_add_up_to_the_difference(
    rows: list[tuple[int, int, int]], mode: str, most: int
) -> None:
    at, tokens, output = zip(*sorted(rows), strict=True)
    table = request_table(arrival_ps=at, input_tokens=tokens, output_tokens=output)
    requests, instances, totals = told(table, mode=mode, max_batch=most)
    caused_ps = sum(totals[f"collective.caused_{name}_ps"] for name in STAGES)
    direct = totals["collective.compared_latency_ps"]
    bare = told(table, latency_ps=0, mode=mode, max_batch=most)[2]
    assert bare["collective.compared_latency_ps"] == 0
    assert totals["collective.compared_end_to_end_ps"] == (
        bare["collective.compared_end_to_end_ps"] + direct + caused_ps
    )
    assert totals["collective.compared"] == len(rows) == len(requests["request"])
    # In a line of one server nobody is earlier for a longer service.
    if mode == "disaggregated":
        assert (requests["caused_queueing_ps"].astype(np.int64) >= 0).all()
        assert instances["messages"].astype(np.int64).sum() >= 320 * len(rows)


SCENARIO = """\
name: spanning
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 8, decode: 8}
model: Llama-3.1-8B
gpu: H100-SXM
instance: {prefill: {tp: 4}, decode: {tp: 4}}
requests: {arrivals: {rate: 30/s}, count: 40}
collective: {extra: 20us}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, emulator: packet}
"""


def written(tmp_path: Path, keys: str = "", text: str = SCENARIO) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(text + keys, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "keys",
    [
        "",
        "policy: round_robin\nhandoff: {when: layer_wise, layers_per_chunk: 8}\n",
        "handoff: {direction: pull, orchestration: {message: 256B, handshake: 50us}}\n",
        "serving: {mode: colocated, chunk: 512}\n",
    ],
    ids=["after prefill", "layer-wise", "pulled, with messages", "colocated"],
)
def test_the_replay_of_a_run_with_its_own_durations_is_the_run(tmp_path: Path, keys: str) -> None:
    (job,) = jobs_of(load(written(tmp_path, keys)))
    outcome, emulator, _ = served(job)
    flows = emulator.telemetry().flows
    network = Recorded(
        outcome.flows,
        flows["finish_ps"].astype(np.int64),
        nic_rate(job.stage.fabric),
        job.stage.emulator("fluid", 1),
    )
    requests, _ = demand_of(job.alternative.scenario, job.alternative.source, job.seed)
    again = serve_cell(job, requests, job.stage.placed, network)
    assert network.unknown == 0
    for name, column in outcome.requests.items():
        assert again.requests[name].tolist() == column.tolist(), name


def test_a_cell_keeps_what_latency_costs_and_the_report_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "compare: {collective.extra: [0us, 20us]}\n")
    with pytest.raises(SystemExit) as left:
        main(["compare", str(path), "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "what the latency of messages in steps costs a request" in shown
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What the latency of messages costs" in page
    job = jobs_of(load(path))[1]
    place = cell_directory(tmp_path / "out", job.cell)
    cell = read_cell(place)
    names = ("latency", "instances")
    tables = {name: read_observed(place, cell.manifest.digest, name) for name in names}
    totals = cell.manifest.totals
    direct = sum(int(tables["latency"][f"{n}_latency_ps"].sum()) for n in ("prompt", "answer"))
    assert direct == totals["collective.compared_latency_ps"] == totals["collective.latency_ps"]
    assert len(tables["latency"]["request"]) == 40
    waited, gpus = (tables["instances"][n].astype(np.int64) for n in ("latency_ps", "gpus"))
    assert int((waited * gpus).sum()) == totals["collective.gpu_ps"]


def test_users_who_wait_are_not_compared_and_it_is_said(tmp_path: Path) -> None:
    text = SCENARIO.replace("{arrivals: {rate: 30/s}, count: 40}", "{closed: {users: 3}, count: 9}")
    (job,) = jobs_of(load(written(tmp_path, text=text)))
    cell = run_cell(job)
    assert cell.manifest.totals["collective.latency_ps"] > 0
    assert "collective.compared" not in cell.manifest.totals
    assert "users ask at other times" in " ".join(cell.manifest.notes)


def test_a_flow_without_a_measured_duration_takes_its_bytes_over_the_rate() -> None:
    flows = np.zeros(3, FLOW)
    flows["flow"], flows["handoff"], flows["release_ps"] = [0, 1, 2], [4, -5, 4], [10, 10, 20]
    network = Recorded(flows, np.array([15, 60, -1]), 8 * 10**12, Nowhere())  # type: ignore[arg-type]
    again = replace_rows(flows, release_ps=[100, 100, 100], bytes=[7, 7, 9])
    network.submit(again)
    extra = replace_rows(again[:1], flow=[3], bytes=[30])
    network.submit(extra)
    ends = []
    while (step := network.advance(1000)).completions.size:
        ends += [(int(row["flow"]), int(row["finish_ps"])) for row in step.completions]
    # 1 B/ps: the third had no end, and the fourth no counterpart.
    assert ends == [(0, 105), (2, 109), (3, 130), (1, 150)]
    assert network.unknown == 2


def replace_rows(flows: np.ndarray, **columns: list[int]) -> np.ndarray:
    made = flows.copy()
    for name, values in columns.items():
        made[name] = values
    return made


def test_latency_is_taken_out_and_bytes_stay() -> None:
    one = Collective(320, 20 * US, (8192, 1), 400 * 10**9)
    pool = Pool((tuple(range(8)), tuple(range(8, 16))), LLAMA, H100, 8, collectives=(one, None))
    other = Pool((tuple(range(16, 24)),), LLAMA, H100, 8)
    bare = without_latency(Deployment(pool, other))
    assert bare.prefill.collectives == (replace(one, latency_ps=0), None)
    assert bare.decode == other
    assert bare.prefill.time_of(0).prefill_ps(9) == pool.time_of(0).prefill_ps(9) - DIRECT
