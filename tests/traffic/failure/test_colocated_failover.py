"""Colocated instances that die: by hand, and by what holds for any deaths."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.cache.tier import Caching, Tier
from traffic.emulator import Emulator
from traffic.failure.outage import KINDS, SIDES, Outage
from traffic.failure.resilience import Circuit, Hazard, Health, Resilience, Retry
from traffic.failure.toll import DECODE_LOST
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.balance import RoundRobin
from traffic.policy.choice import NoSettings, Request, View
from traffic.policy.registry import policy
from traffic.record.ledger import FAILED, FINISHED, IN_FLIGHT
from traffic.request import Prefix, RequestTable, request_table
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all

MS = 10**9
TOKENS = 64
LLAMA = model("Llama-3.1-8B")
BLOCK = LLAMA.kv_bytes(TOKENS)

Serve = Callable[..., Outcome]
Some = Callable[..., RequestTable]


class Seen(RoundRobin):
    """Round robin that keeps what it saw last."""

    view: ClassVar[View | None] = None

    def prefill(self, request: Request, view: View) -> int:
        Seen.view = view
        return super().prefill(request, view)


@pytest.fixture(scope="session")
def serve(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator], calm: Resilience
) -> Serve:
    """Serves on 2 + 2 colocated instances, round robin unless named."""

    def served(
        requests: RequestTable,
        outages: Sequence[Outage],
        rules: Resilience | None = calm,
        *,
        name: str = "round_robin",
        cache: Caching | None = None,
        serving: Serving | None = None,
        **how: Any,
    ) -> Outcome:
        hops = np.zeros((4, 4), np.int32)
        hazard = None if rules is None else Hazard(outages, rules)
        chosen = Seen(NoSettings(), hops, 1) if name == "seen" else policy(name, hops, seed=1)
        deployment = replace(pools(2, 2, **how), cache=cache)
        service = Service(deployment, chosen, hops, hazard=hazard)
        return serve_all(requests, [service], wire(), rules=serving or Serving("colocated"), seed=1)

    return served


def test_a_prompt_that_is_computed_when_its_instance_dies_is_computed_anew(
    serve: Serve, some: Some
) -> None:
    whole = serve(some(0), []).requests
    outcome = serve(some(0), [Outage("fail", "prefill", 0, 3 * MS)])
    table, toll = outcome.requests, outcome.toll
    assert table["prefill"][0] == table["decode"][0] == 1
    assert toll["attempts"][0] == 2
    assert toll["wasted_prefill_ps"][0] == 3 * MS
    assert table["finish_ps"][0] - whole["finish_ps"][0] == 15 * MS


def test_an_outage_names_an_instance_by_its_pool_and_tables_number_them_through(
    serve: Serve, some: Some
) -> None:
    outcome = serve(some(0, 1, 2, 3), [Outage("fail", "decode", 1, 3 * MS)])
    assert outcome.toll["attempts"].tolist() == [1, 1, 1, 2]
    assert outcome.spells["instance"].tolist() == [3]
    assert outcome.spells["side"].tolist() == [0]


@pytest.mark.parametrize("loss", ["retry", "fail"])
def test_sequences_that_were_answering_are_lost_by_the_rule(
    loss: str, serve: Serve, some: Some, calm: Resilience
) -> None:
    whole = serve(some(0), []).requests
    died = (int(whole["first_token_ps"][0]) + int(whole["finish_ps"][0])) // 2
    rules = replace(calm, decode_loss=loss)
    outcome = serve(some(0), [Outage("fail", "prefill", 0, died)], rules)
    assert outcome.toll["wasted_prefill_ps"][0] == whole["prefill_end_ps"][0]
    failed = loss == "fail"
    assert outcome.requests["status"][0] == (FAILED if failed else FINISHED)
    assert outcome.toll["reason"][0] == (DECODE_LOST if failed else 0)


def test_drained_and_late_instances_get_what_they_may(serve: Serve, some: Some) -> None:
    arrivals = range(1, 400 * MS, 10 * MS)
    outages = [
        Outage("drain", "prefill", 0, 100 * MS),
        Outage("join", "decode", 1, 200 * MS),
    ]
    table = serve(some(*arrivals), outages).requests
    chosen, arrival = table["prefill"], table["arrival_ps"]
    assert set(chosen[arrival < 100 * MS].tolist()) == {0, 1, 2}
    assert set(chosen[(arrival > 100 * MS) & (arrival < 200 * MS)].tolist()) == {1, 2}
    assert set(chosen[arrival > 200 * MS].tolist()) == {1, 2, 3}
    assert (table["status"] == FINISHED).all()


def test_with_nothing_that_befalls_the_same_bytes_come_out(serve: Serve, some: Some) -> None:
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(rng.exponential(3 * MS, 80)).astype(np.int64).tolist()
    plain, guarded = (
        serve(some(*arrivals), [], rules, name="least_loaded") for rules in (None, Resilience())
    )
    for column in plain.requests:
        assert plain.requests[column].tobytes() == guarded.requests[column].tobytes()


@pytest.mark.parametrize("timeout", [10 * MS, 400 * MS])
def test_a_prompt_whose_blocks_are_loaded_when_its_instance_dies_is_offered_only_once(
    timeout: int, serve: Serve, some: Some, calm: Resilience
) -> None:
    # 15 blocks in DRAM load for 101 ms; the instance dies 10 ms into that.
    at, blocks = 1000 * MS, 15
    requests = request_table(
        arrival_ps=[0, at],
        input_tokens=[1000, 1000],
        output_tokens=[2, 100],
        prefix=Prefix(np.array([0, blocks, 2 * blocks]), np.tile(np.arange(blocks), 2), TOKENS),
    )
    cache = Caching((Tier("dram", 99 * BLOCK, 10**10),))
    outages = [
        Outage("drain", side, number, MS) for side, number in (("prefill", 1), ("decode", 0))
    ]
    outages.append(Outage("fail", "prefill", 0, at + 10 * MS))
    rules = replace(calm, timeout_ps=timeout, health=Health(MS, 0, 1, 1))
    outages.append(Outage("drain", "decode", 1, MS, at + MS))  # the only one left for the retry
    outcome = serve(requests, outages, rules, name="seen", cache=cache)
    table = outcome.requests
    assert table["status"].tolist() == [FINISHED, FINISHED]
    assert outcome.toll["attempts"].tolist() == [1, 2]
    assert table["prefill"].tolist() == [0, 3]
    assert table["prefill_start_ps"][1] == at + 12 * MS + timeout
    alone = serve(some(0, output=100), []).requests
    assert table["finish_ps"][1] - table["prefill_start_ps"][1] == alone["finish_ps"][0]
    assert Seen.view is not None
    assert not Seen.view.prefill_requests.any()


@pytest.mark.parametrize("died", [False, True])
def test_prefix_blocks_die_with_their_instance(died: bool, serve: Serve) -> None:
    requests = request_table(
        arrival_ps=[0, 1000 * MS],
        input_tokens=[1000, 1000],
        output_tokens=[2, 2],
        prefix=Prefix(np.array([0, 15, 30]), np.tile(np.arange(15), 2), TOKENS),
    )
    cache = Caching((Tier("hbm", 99 * BLOCK),))
    outages = [Outage("drain", *one, 1) for one in (("prefill", 1), ("decode", 0), ("decode", 1))]
    if died:
        outages.append(Outage("fail", "prefill", 0, 500 * MS, 600 * MS))
    found = serve(requests, outages, cache=cache).cache["cached_hbm_tokens"]
    assert found.tolist() == [0, 0 if died else 15 * TOKENS]


TIMES = st.integers(0, 300 * MS)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(TIMES, st.integers(1, 2000), st.integers(0, 40)), min_size=1, max_size=20
    ),
    drawn=st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.sampled_from(SIDES),
            st.integers(0, 1),
            TIMES,
            st.none() | st.integers(1, 200 * MS),
        ),
        max_size=5,
    ),
    health=st.sampled_from([0, 10 * MS]),
    breaker=st.none() | st.just(Circuit(1, 1, 20 * MS)),
    timeout=st.sampled_from([1, 30 * MS]),
    wait=st.sampled_from([0, 500 * MS]),
    load=st.none() | st.sampled_from(["before", "prefetched"]),
    reserve=st.sampled_from(["whole", "prompt"]),
)
def test_no_request_is_lost_and_no_load_remains(
    rows: list[tuple[int, int, int]],
    drawn: list[tuple[str, str, int, int, int | None]],
    health: int,
    breaker: Circuit | None,
    timeout: int,
    wait: int,
    load: str | None,
    reserve: str,
    serve: Serve,
    calm: Resilience,
    befallen: Callable[..., list[Outage]],
) -> None:
    outages = befallen(drawn, 2, 0)
    rules = replace(
        calm,
        health=Health(health, 0, 1, 1),
        breaker=breaker,
        timeout_ps=timeout,
        wait_ps=wait,
        retry=Retry(2, MS),
    )
    arrival, tokens, output = zip(*sorted(rows), strict=True)
    counts = [count // TOKENS for count in tokens]
    requests = request_table(
        arrival_ps=arrival,
        input_tokens=tokens,
        output_tokens=output,
        prefix=Prefix(
            np.array([0, *itertools.accumulate(counts)], np.int64),
            np.concatenate([np.arange(count) for count in counts]),
            TOKENS,
        ),
    )
    tiers = (Tier("dram", 20 * BLOCK, 10**11), Tier("remote", 99 * BLOCK))
    cache = None if load is None else Caching(tiers, load=load, storage=(5000,))

    def once() -> Outcome:
        return serve(
            requests,
            outages,
            rules,
            name="seen",
            cache=cache,
            serving=Serving("colocated", reserve=reserve),
            max_batch=3,
            memory=LLAMA.kv_bytes(2500),
        )

    outcome = once()
    status, toll = outcome.requests["status"], outcome.toll
    assert not (status == IN_FLIGHT).any()
    assert ((toll["reason"] > 0) == (status == FAILED)).all()
    assert (toll["attempts"] <= 3).all()
    done = status == FINISHED
    names = ("arrival_ps", "prefill_start_ps", "prefill_end_ps", "finish_ps")
    for before, after in itertools.pairwise(names):
        assert (outcome.requests[before][done] <= outcome.requests[after][done]).all()
    assert Seen.view is not None
    assert not Seen.view.prefill_requests.any()
    assert not Seen.view.prefill_tokens.any()
    again = once()
    for column in outcome.requests:
        assert again.requests[column].tobytes() == outcome.requests[column].tobytes(), column
