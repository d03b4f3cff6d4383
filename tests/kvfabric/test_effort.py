"""What a study will take is told before it starts, where that is some minutes."""

import re

import pytest

from kvfabric import effort
from kvfabric.compare import jobs_of, run_study
from kvfabric.effort import HOPS_PER_S, foretold, hops_of, left_out, packet_hops
from kvfabric.load import load
from kvfabric.run import run_cell

TEXT = """
name: effort
fabric: {family: leaf_spine, nic: 100Gbps}
placement: {prefill: 8, decode: 8, storage: 2}
model: MODEL
gpu: H100-SXM
budget: {handoff: 6ms, allowed: 5%}
run: {emulator: EMULATOR, seeds: 2, warmup: 0 requests, limit: LIMIT}
"""
FAST = "policy: random\nrequests: {arrivals: {process: poisson, rate: 2000/s}, count: COUNT}\n"
SLOW = "policy: round_robin\nrequests: {arrivals: {process: poisson, rate: 100/s}, count: 40}\n"
COPIES = "instance: {decode: {tp: 8}}\n"
LAYERS = "handoff: {when: layer_wise, layers_per_chunk: 7}\n"
BLOCKS = "handoff: {block: 16 tokens, layout: hnd}\n"
USERS = "policy: round_robin\nrequests: {closed: {users: 8, think: 100ms}, count: 40}\n"
BESIDE = "background:\n  - "
EXPERTS = (
    BESIDE
    + "{kind: all_to_all, among: decode, group: 4, bytes: 1MiB, every: 1ms, duty: 50%, cycle: 20ms}"
)


def jobs(folder, count, emulator="packet", more=FAST, limit="1h", model="gpt-oss-120b"):
    path = folder / "effort.yaml"
    text = (TEXT + more).replace("COUNT", str(count)).replace("EMULATOR", emulator)
    text = text.replace("MODEL", model)
    path.write_text(text.replace("LIMIT", limit))
    return jobs_of(load(path))


def said(cells, processes):
    return foretold(cells, hops_of(cells), processes)


def taken(job):
    return run_cell(job).manifest.totals["packet_hops"]


@pytest.mark.parametrize("more", [FAST, SLOW, USERS])
def test_the_packet_hops_of_a_cell_are_about_those_that_it_takes(tmp_path, more):
    job = jobs(tmp_path, 30, more=more)[0]
    assert packet_hops(job) == pytest.approx(taken(job), rel=0.05)


@pytest.mark.parametrize("more", [LAYERS, BLOCKS, COPIES, COPIES + LAYERS, COPIES + BLOCKS])
def test_descriptors_and_copies_are_counted_as_they_are_sent(tmp_path, more):
    job = jobs(tmp_path, 5, more=FAST + more, model="Qwen3-30B-A3B")[0]
    assert packet_hops(job) == pytest.approx(taken(job), rel=0.1)


@pytest.mark.parametrize(
    "source",
    [
        EXPERTS,
        # More than the hosts can send: a burst takes 1.3 ms at least, and longer beside others.
        BESIDE + "{kind: all_to_all, among: decode, bytes: 16MiB, every: 1ms}",
        BESIDE + "{kind: all_reduce, group: 4, bytes: 4MiB, every: 5ms, start: 3ms}",
        BESIDE + "{kind: weights, among: decode, bytes: 600MB, every: 10s, start: 10ms}",
        BESIDE + "{kind: weights, among: decode, bytes: 60MB, every: 10ms}",
        BESIDE + "{kind: fetch, among: prefill, bytes: 1MiB, every: 2ms}",
    ],
)
def test_background_traffic_is_counted_until_the_last_hand_off(tmp_path, source):
    alone = packet_hops(jobs(tmp_path, 40, more=SLOW)[0])
    job = jobs(tmp_path, 40, more=SLOW + source)[0]
    whole = taken(job)
    assert whole > 1.5 * alone
    assert packet_hops(job) == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize("requests", [SLOW, USERS])
def test_background_traffic_goes_on_to_the_last_answer_under_a_policy_that_looks_at_links(
    tmp_path, requests
):
    blind = jobs(tmp_path, 40, more=requests + EXPERTS)[0]
    more = requests.replace("round_robin", "{kind: network_aware, staleness: 1ms}")
    job = jobs(tmp_path, 40, more=more + EXPERTS)[0]
    assert packet_hops(job) == pytest.approx(taken(job), rel=0.15)
    assert packet_hops(job) >= packet_hops(blind)


SESSIONS = """
requests:
  count: 40
  arrivals: {rate: 40/s}
  sessions:
    {first: {kind: constant, mean: 600}, tool: {kind: constant, mean: 90}, run: 20ms, think: 20ms,
    message: {kind: constant, mean: 50}, output: {kind: constant, mean: 40}, context: 2000,
    wait: 50ms, token: 1ms, shared: 256, block_tokens: 64}
serving: {mode: MODE}
cache: {tiers: [TIERS{kind: remote, size: 1TB}]}
"""


@pytest.mark.parametrize("mode", ["disaggregated", "colocated"])
def test_the_pool_of_prefix_blocks_is_counted_as_if_instances_kept_none(tmp_path, mode):
    more = SESSIONS.replace("MODE", mode)
    alone = jobs(tmp_path, 40, more=more.replace("TIERS", ""))[0]
    assert packet_hops(alone) == pytest.approx(taken(alone), rel=0.1)
    beside = jobs(tmp_path, 40, more=more.replace("TIERS", "{kind: hbm, size: 4GB}, "))[0]
    assert taken(beside) < packet_hops(beside) == packet_hops(alone)


@pytest.mark.parametrize("kind", ["all_reduce", "weights"])
def test_bursts_that_are_due_all_the_time_follow_each_other_as_the_way_lets_them(tmp_path, kind):
    source = BESIDE + f"{{kind: {kind}, among: decode, bytes: 8B, every: 1ps}}"
    job = jobs(tmp_path, 2, more=FAST + source)[0]
    assert packet_hops(job) == pytest.approx(taken(job), rel=0.1)


def test_background_traffic_goes_on_while_users_wait(tmp_path):
    job = jobs(tmp_path, 40, more=USERS + EXPERTS)[0]
    assert packet_hops(job) == pytest.approx(taken(job), rel=0.1)


def test_background_traffic_ends_with_the_run(tmp_path):
    alone, whole = (jobs(tmp_path, 40, more=SLOW + more)[0] for more in ("", EXPERTS))
    cut = jobs(tmp_path, 40, more=SLOW + EXPERTS, limit="100ms")[0]
    last_s = 0.54  # when the last prompt is computed
    beside = packet_hops(whole) - packet_hops(alone)
    found = packet_hops(cut) - packet_hops(alone)
    assert found == pytest.approx(beside * 0.1 / last_s, rel=0.05)


def test_colocated_instances_move_no_packets(tmp_path):
    job = jobs(tmp_path, 30, more=FAST + EXPERTS + "\nserving: {mode: colocated}\n")[0]
    assert packet_hops(job) == taken(job) == 0


def test_a_study_of_an_hour_is_told_and_one_of_seconds_is_not(tmp_path):
    assert said(jobs(tmp_path, 30), 2) is None
    many = jobs(tmp_path, 1_000_000)
    line = said(many, 2)
    assert line is not None
    assert line.startswith("2 cells, some ")
    minutes = packet_hops(many[0]) / HOPS_PER_S / 60
    told = re.search(r"about (\d+) min with 2 at once, without retransmissions; a smaller", line)
    assert told is not None
    assert int(told[1]) == round(minutes)


def test_each_policy_is_counted_by_what_it_looks_at(tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "HOPS_PER_S", 1_000)
    more = SLOW + EXPERTS + "\ncompare: {policy: [random, network_aware]}\n"
    both = [job for job in jobs(tmp_path, 40, more=more) if job.seed == 1]
    blind, looking = map(packet_hops, both)
    assert blind < looking
    assert f"some {(blind + looking) / 1e6:,.0f} million packet-hops" in str(said(both, 1))


def test_what_is_not_counted_is_told(tmp_path):
    more = (
        "policy: {kind: random, local: {tokens: 100}}\nhandoff: {cache: 1GB, orchestration: "
        "{message: 10kB}}\nfaults: [{kind: drain, instance: prefill 0, from: 1s}]\n"
    )
    requests = FAST.partition("\n")[2]
    (job, _) = jobs(tmp_path, 30, more=requests + more + EXPERTS)
    assert left_out(job.alternative.scenario) == [
        "retransmissions",
        "what prefix caches save",
        "what prompts that stay on the decode side save",
        "control messages",
        "what failures send again",
        "background traffic while requests queue",
    ]


def test_what_users_and_colocated_instances_move_beside_hand_offs_is_told(tmp_path):
    more = USERS + "serving: {mode: colocated}\ncache: {tiers: [{kind: remote, size: 1TB}]}\n"
    (job, _) = jobs(tmp_path, 30, more=more + EXPERTS)
    assert left_out(job.alternative.scenario) == [
        "retransmissions",
        "what prefix caches save",
        "the pool of prefix blocks of users",
        "background traffic beside the pool of prefix blocks",
    ]


def test_the_fluid_moves_no_packets(tmp_path):
    assert packet_hops(jobs(tmp_path, 30, "fluid")[0]) == 0
    assert said(jobs(tmp_path, 1_000_000, "fluid"), 2) is None


def test_it_is_told_once_before_the_cells_run(tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "HOPS_PER_S", 1_000)
    jobs(tmp_path, 20)
    study, out = load(tmp_path / "effort.yaml"), tmp_path / "out"
    told = []
    for _ in range(2):
        run_study(
            study,
            out,
            processes=1,
            progress=lambda share, note: None,
            reproduce="",
            announce=told.append,
        )
    (line,) = told
    assert line.startswith("2 cells, some ")
