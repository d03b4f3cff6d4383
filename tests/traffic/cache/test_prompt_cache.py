"""What is still known of a prompt: what it saves, what loading it costs, and how it is counted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.unit import PS_PER_S
from traffic.cache.lookup import prompt_ps
from traffic.cache.tier import Caching, Tier
from traffic.emulator import Emulator
from traffic.handoff.errand import Errand, number_of
from traffic.instance import Deployment
from traffic.model import model
from traffic.request import Prefix, RequestTable, request_table
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome

MS = 10**9
DELAY = 20 * 10**6
FLIGHT = 5 * 10**6
TOKENS = 512
LLAMA = model("Llama-3.1-8B")
BLOCK = LLAMA.kv_bytes(TOKENS)
ROOM = Tier("hbm", 1000 * BLOCK)
DRAM_BPS = 400 * 10**9
STORE = (5000, 5001, 5002)

Run = Callable[..., Outcome]


def asked(prompts: Sequence[Sequence[int]], gap_ps: int, extra: int = 88) -> RequestTable:
    """Requests with these whole blocks and ``extra`` tokens more, one every ``gap_ps``."""
    first = list(accumulate((len(blocks) for blocks in prompts), initial=0))
    flat = [block for blocks in prompts for block in blocks]
    return request_table(
        arrival_ps=[i * gap_ps for i in range(len(prompts))],
        input_tokens=[len(blocks) * TOKENS + extra for blocks in prompts],
        output_tokens=[2] * len(prompts),
        prefix=Prefix(np.array(first, np.int64), np.array(flat, np.int64), TOKENS),
    )


def took(outcome: Outcome, request: int) -> int:
    """From the turn of a prompt to its end."""
    start = outcome.requests["prefill_start_ps"][request]
    return int(outcome.requests["prefill_end_ps"][request] - start)


def cached(deployment: Deployment, *tiers: Tier, **rules: object) -> Deployment:
    more = {"storage": STORE, **rules}
    return replace(deployment, cache=Caching(tiers, **more))  # type: ignore[arg-type]


def row(outcome: Outcome, request: int) -> dict[str, int]:
    return {name: int(column[request]) for name, column in outcome.cache.items()}


def test_a_prompt_in_hbm_is_computed_from_its_first_unknown_block_on(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(), ROOM)
    time = deployment.prefill.step_time
    outcome = run(asked([[1, 2, 3], [1, 2, 9], [1, 2, 3]], 1000 * MS), deployment)
    tokens = 3 * TOKENS + 88
    assert took(outcome, 0) == time.prefill_ps(tokens)
    assert took(outcome, 1) == time.mixed_ps(0, 0, 0, [(2 * TOKENS, TOKENS + 88)])
    assert took(outcome, 2) == time.mixed_ps(0, 0, 0, [(3 * TOKENS, 88)])
    assert took(outcome, 2) < took(outcome, 1) < took(outcome, 0)
    assert row(outcome, 1)["cached_hbm_tokens"] == 2 * TOKENS
    assert row(outcome, 1)["load_ps"] == 0
    saved = 2 * took(outcome, 0) - took(outcome, 1) - took(outcome, 2)
    assert outcome.cached["saved_ps"] == saved
    assert outcome.cached["hbm.hit_bytes"] == 5 * BLOCK
    assert outcome.cached["missed_bytes"] == 4 * BLOCK


def test_the_last_token_is_always_computed_though_all_its_blocks_are_known(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(), ROOM)
    outcome = run(asked([[1, 2], [1, 2]], 1000 * MS, extra=0), deployment)
    assert row(outcome, 1)["cached_hbm_tokens"] == TOKENS
    assert took(outcome, 1) == prompt_ps(deployment.prefill.step_time, 2 * TOKENS, TOKENS)


@pytest.mark.parametrize("load", ["before", "overlapped"])
def test_a_hit_in_dram_takes_its_load_time_before_or_beside_the_rest(
    load: str, pools: Callable[..., Deployment], run: Run
) -> None:
    one_block = Tier("hbm", BLOCK)
    deployment = cached(pools(), one_block, Tier("dram", 9 * BLOCK, DRAM_BPS), load=load)
    outcome = run(asked([[1, 2, 3], [1, 2, 3]], 1000 * MS), deployment)
    time = deployment.prefill.step_time
    rest = time.mixed_ps(0, 0, 0, [(3 * TOKENS, 88)])
    loading = -(-2 * BLOCK * 8 * PS_PER_S // DRAM_BPS)  # 1 lies in HBM, 2 and 3 below
    assert row(outcome, 1)["cached_hbm_tokens"] == TOKENS
    assert row(outcome, 1)["cached_dram_tokens"] == 2 * TOKENS
    if load == "before":
        assert took(outcome, 1) == loading + rest
    else:
        layers = LLAMA.layers
        assert took(outcome, 1) == max(loading, rest) + -(-min(loading, rest) // layers)
    assert row(outcome, 1)["load_ps"] == took(outcome, 1) - rest


def test_what_one_instance_wrote_to_the_pool_another_reads_over_the_fabric(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(2, 1), ROOM, Tier("remote", 100 * BLOCK))
    outcome = run(asked([[1, 2, 3], [1, 2, 3]], 1000 * MS), deployment, "round_robin")
    assert outcome.requests["prefill"].tolist() == [0, 1]
    rest = deployment.prefill.step_time.mixed_ps(0, 0, 0, [(3 * TOKENS, 88)])
    assert took(outcome, 1) == DELAY + FLIGHT + DELAY + rest
    told = row(outcome, 1)
    assert (told["cached_hbm_tokens"], told["cached_remote_tokens"]) == (0, 3 * TOKENS)
    assert (told["read_bytes"], told["written_bytes"]) == (3 * BLOCK, 0)
    assert row(outcome, 0)["written_bytes"] == 3 * BLOCK
    flows = outcome.flows
    writes = flows[flows["handoff"] == number_of(Errand.WRITE, 0)]
    reads = flows[flows["handoff"] == number_of(Errand.READ, 1)]
    assert set(writes["source"].tolist()) == {0}
    assert set(reads["destination"].tolist()) == {1}
    assert writes["bytes"].sum() == reads["bytes"].sum() == 3 * BLOCK
    assert set(writes["destination"].tolist()) == set(reads["source"].tolist()) <= set(STORE)
    assert (writes["release_ps"] == outcome.requests["prefill_end_ps"][0] + DELAY).all()
    assert set(flows["handoff"][flows["handoff"] >= 0].tolist()) == {0, 1}


@pytest.mark.parametrize("flight", [FLIGHT, 500 * MS])
def test_an_overlapped_read_of_the_pool_hides_behind_all_layers_but_the_last(
    flight: int, pools: Callable[..., Deployment], run: Run, wire: Callable[..., Emulator]
) -> None:
    deployment = cached(pools(2, 1), Tier("remote", 100 * BLOCK), load="overlapped")
    outcome = run(
        asked([[1, 2, 3], [1, 2, 3]], 2000 * MS), deployment, "round_robin", emulator=wire(flight)
    )
    rest = deployment.prefill.step_time.mixed_ps(0, 0, 0, [(3 * TOKENS, 88)])
    arrives = DELAY + flight + DELAY
    assert took(outcome, 1) == max(rest, arrives + -(-rest // LLAMA.layers))


def test_what_two_instances_compute_at_once_is_written_once(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(2, 1), ROOM, Tier("remote", 100 * BLOCK))
    outcome = run(asked([[1, 2], [1, 2]], 0), deployment, "round_robin")
    assert sorted(outcome.cache["written_bytes"].tolist()) == [0, 2 * BLOCK]


def test_a_full_pool_forgets_the_least_recently_used_and_takes_them_again(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(), Tier("remote", 2 * BLOCK), write="back")
    prompts = [[1], [2], [1], [3], [1], [2]]  # 3 takes the place of 2, then 2 that of 3
    outcome = run(asked(prompts, 1000 * MS), deployment)
    known = (outcome.cache["cached_remote_tokens"] // TOKENS).tolist()
    assert known == [0, 0, 1, 0, 1, 0]
    assert (outcome.cache["written_bytes"] // BLOCK).tolist() == [1, 1, 0, 1, 0, 1]
    assert outcome.cached["remote.evicted"] == 2


def test_what_a_prompt_waits_for_in_line_hides_its_loads(
    pools: Callable[..., Deployment], run: Run
) -> None:
    # Two unknown prompts go first; what the last finds lies in the pool, and is read meanwhile.
    prompts = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3]]
    arrival = [0, 1000 * MS, 1000 * MS, 1000 * MS]
    requests = replace(asked(prompts, 0), arrival_ps=np.array(arrival, np.int64))
    tiers = Tier("remote", 100 * BLOCK)
    rest = pools().prefill.step_time.mixed_ps(0, 0, 0, [(3 * TOKENS, 88)])
    ahead = run(requests, cached(pools(), tiers, load="prefetched"))
    assert took(ahead, 3) == rest
    assert row(ahead, 3)["load_ps"] == 0
    at_its_turn = run(requests, cached(pools(), tiers))
    assert took(at_its_turn, 3) == DELAY + FLIGHT + DELAY + rest


def test_prompts_that_wait_load_from_dram_one_after_the_other(
    pools: Callable[..., Deployment], run: Run
) -> None:
    slow = 10**9  # 0.54 s a block
    start = 1000 * MS
    requests = replace(
        asked([[1], [2], [3], [9], [1], [2], [3]], 0),
        arrival_ps=np.array([0, 1, 2, *[start] * 4], np.int64),
    )
    tiers = Tier("hbm", BLOCK), Tier("dram", 9 * BLOCK, slow)
    outcome = run(requests, cached(pools(), *tiers, load="prefetched"))
    loading = -(-BLOCK * 8 * PS_PER_S // slow)
    end = outcome.requests["prefill_end_ps"]
    rest = pools().prefill.step_time.mixed_ps(0, 0, 0, [(TOKENS, 88)])
    assert int(end[4]) == start + loading + rest
    assert int(end[5]) == start + 2 * loading + rest  # loaded while 1 was loaded and computed
    # 3 lay in HBM when it joined the line, and had gone down when its turn came.
    assert int(end[6]) == int(end[5]) + loading + rest


def test_pool_blocks_written_back_are_those_that_left_the_last_tier(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(), Tier("hbm", 2 * BLOCK), Tier("remote", 9 * BLOCK), write="back")
    outcome = run(asked([[1, 2, 3], [7, 8], [1, 2, 3]], 1000 * MS), deployment)
    written = [row(outcome, request)["written_bytes"] // BLOCK for request in range(3)]
    assert written == [1, 2, 2]  # 3; then 2 and 1; 3 never left the pool, 8 and 7 come
    assert row(outcome, 2)["cached_remote_tokens"] == 3 * TOKENS
    assert outcome.cached["remote.read_bytes"] == 3 * BLOCK


def test_layers_are_released_as_the_shorter_prefill_computes_them(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = cached(pools(when="layer_wise"), ROOM)
    outcome = run(asked([[1, 2, 3], [1, 2, 3]], 1000 * MS), deployment)
    release = outcome.flows["release_ps"][outcome.flows["handoff"] == 1]
    start = int(outcome.requests["prefill_start_ps"][1])
    rest = took(outcome, 1)
    layers = LLAMA.layers
    expected = [start + rest * done // layers + DELAY for done in range(1, layers + 1)]
    assert sorted(release.tolist()) == expected


def test_prompts_that_share_nothing_are_served_as_without_a_cache(
    pools: Callable[..., Deployment], run: Run
) -> None:
    prompts = [[100 * i + j for j in range(1 + i % 4)] for i in range(40)]
    requests = asked(prompts, 3 * MS)
    without = run(requests, pools(2, 2))
    having = run(requests, cached(pools(2, 2), ROOM))
    assert having.flows.tobytes() == without.flows.tobytes()
    for name in without.requests:
        assert np.array_equal(having.requests[name], without.requests[name]), name
    assert without.cache == {}
    assert having.cached["cached_tokens"] == 0


def test_cost_aware_instances_compute_what_would_take_longer_to_load(
    pools: Callable[..., Deployment], run: Run
) -> None:
    requests = asked([[1, 2, 3], [1, 2, 3]], 1000 * MS)
    tiers = Tier("hbm", BLOCK), Tier("ssd", 99 * BLOCK, 10**8)  # 5 s a block: not worth a thing
    slow = run(requests, cached(pools(), *tiers))
    cost = run(requests, cached(pools(), *tiers, eviction="cost"))
    assert took(cost, 1) < took(cost, 0) < took(slow, 1)
    assert row(cost, 1)["cached_ssd_tokens"] == 0
    assert cost.cached["ssd.moved_in_bytes"] == 0
    assert slow.cached["ssd.moved_in_bytes"] == 4 * BLOCK


def test_colocated_instances_compute_the_rest_and_serve_others_while_a_prompt_is_loaded(
    pools: Callable[..., Deployment], run: Run
) -> None:
    rules = Serving(mode="colocated", chunk_tokens=4096)
    deployment = cached(pools(1, 1), Tier("hbm", 3 * BLOCK), Tier("dram", 99 * BLOCK, 10**9))
    # 1 goes down when 2 comes; then its loading, 0.5 s a block, lets the prompt after it pass.
    prompts = [[1], [1], [2, 3, 4], [2, 3, 4], [1], [1], [7]]
    arrival = [0, 0, 1000 * MS, 1000 * MS, 2000 * MS, 2000 * MS, 2001 * MS]
    requests = replace(asked(prompts, 0), arrival_ps=np.array(arrival, np.int64))
    outcome = run(requests, deployment, "round_robin", rules=rules)
    assert outcome.requests["prefill"].tolist() == [0, 1, 0, 1, 0, 1, 0]
    time = deployment.prefill.step_time
    loading = -(-BLOCK * 8 * PS_PER_S // 10**9)
    start, end = outcome.requests["prefill_start_ps"], outcome.requests["prefill_end_ps"]
    assert row(outcome, 4)["cached_dram_tokens"] == TOKENS
    assert row(outcome, 4)["load_ps"] == loading == int(start[4]) - 2000 * MS
    assert int(end[4] - start[4]) == time.mixed_ps(0, 0, 0, [(TOKENS, 88)])
    assert int(end[6]) == 2001 * MS + time.prefill_ps(TOKENS + 88) < int(start[4])
    assert len(outcome.flows) == 0


def test_colocated_instances_share_the_pool_of_both_roles(
    pools: Callable[..., Deployment], run: Run
) -> None:
    rules = Serving(mode="colocated", chunk_tokens=4096)
    deployment = cached(pools(1, 1), ROOM, Tier("remote", 99 * BLOCK))
    outcome = run(asked([[1, 2], [1, 2]], 1000 * MS), deployment, "round_robin", rules=rules)
    assert row(outcome, 1)["cached_remote_tokens"] == 2 * TOKENS
    reads = outcome.flows[outcome.flows["handoff"] == number_of(Errand.READ, 1)]
    assert set(reads["destination"].tolist()) == {1000}  # the instance of the decode pool
    assert row(outcome, 1)["load_ps"] == DELAY + FLIGHT + DELAY


def test_a_prompt_that_needs_no_load_does_not_wait_for_those_of_others(
    pools: Callable[..., Deployment], run: Run
) -> None:
    start = 1000 * MS
    requests = replace(
        asked([[1], [2], [1], [8]], 0), arrival_ps=np.array([0, 1, start, start], np.int64)
    )
    tiers = Tier("hbm", BLOCK), Tier("dram", 9 * BLOCK, 10**9)
    outcome = run(requests, cached(pools(), *tiers, load="prefetched"))
    assert row(outcome, 2)["load_ps"] > 500 * MS
    assert row(outcome, 3)["load_ps"] == 0


PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=25)


@settings(max_examples=40, deadline=None)
@given(
    paths=PROMPTS,
    room=st.integers(1, 8),
    eviction=st.sampled_from(["lru", "cost"]),
    load=st.sampled_from(["before", "overlapped", "prefetched"]),
    write=st.sampled_from(["through", "back"]),
    tiers=st.sampled_from(["hbm", "dram", "remote", "hbm remote", "hbm dram ssd remote"]),
    lifetime=st.sampled_from([0, 30 * MS]),
    when=st.sampled_from(["after_prefill", "layer_wise"]),
    mode=st.sampled_from(["disaggregated", "colocated"]),
    tp=st.sampled_from([1, 2]),
    gap=st.sampled_from([0, MS, 50 * MS]),
)
def test_what_is_looked_up_is_hit_declined_or_missed_and_all_requests_end(
    paths: list[list[int]],
    room: int,
    eviction: str,
    load: str,
    write: str,
    tiers: str,
    lifetime: int,
    when: str,
    mode: str,
    tp: int,
    gap: int,
    pools: Callable[..., Deployment],
    run: Run,
    wire: Callable[..., Emulator],
) -> None:
    number: dict[tuple[int, ...], int] = {}
    prompts = [
        [number.setdefault(tuple(path[: i + 1]), len(number)) for i in range(len(path))]
        for path in paths
    ]
    kinds = tiers.split()
    made = [
        Tier(kind, room * BLOCK, {"hbm": 0, "remote": DRAM_BPS}.get(kind, DRAM_BPS))
        for kind in kinds
    ]
    deployment = cached(
        pools(2, 2, tp=(tp, tp), when=when),
        *made,
        eviction=eviction,
        load=load,
        write=write,
        lifetime_ps=lifetime,
    )
    rules = Serving(mode=mode)
    outcome = run(asked(prompts, gap), deployment, "random", emulator=wire(FLIGHT), rules=rules)
    assert (outcome.requests["status"] == 0).all()
    told, sums = outcome.cache, outcome.cached
    assert sums["looked_up_bytes"] == BLOCK * sum(map(len, prompts))
    hits = sum(sums[f"{kind}.hit_bytes"] for kind in kinds)
    assert sums["looked_up_bytes"] == hits + sums["declined_bytes"] + sums["missed_bytes"]
    by_tier = {kind: int(told[f"cached_{kind}_tokens"].sum()) for kind in kinds}
    assert all(by_tier[kind] * BLOCK == sums[f"{kind}.hit_bytes"] * TOKENS for kind in kinds)
    assert sum(by_tier.values()) == sums["cached_tokens"]
    assert told["load_ps"].astype(np.int64).min() >= 0
    numbers = outcome.flows["handoff"]
    pooled = outcome.flows[numbers < -(1 << 40)]
    assert pooled["bytes"].sum() == told["read_bytes"].sum() + told["written_bytes"].sum()
    read, used = told["read_bytes"].sum(), sums.get("remote.hit_bytes", 0)
    assert read >= used if load == "prefetched" else read == used
    assert sums["load_ps"] == told["load_ps"].sum()
    handed = set(range(len(prompts))) if mode == "disaggregated" else set()
    assert set(numbers[numbers >= 0].tolist()) == handed
