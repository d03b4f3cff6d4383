"""What holds for any failures: nobody is lost, nothing stays held, same seed, same bytes."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from numpy.typing import NDArray

from traffic.cache.tier import Caching, Tier
from traffic.emulator import Emulator
from traffic.failure.outage import KINDS, SIDES, Outage
from traffic.failure.resilience import Circuit, Hazard, Health, Resilience, Retry
from traffic.handoff.orchestration import Orchestration
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.choice import OPTIONAL, NoSettings, Policy, Request, Sight, View
from traffic.policy.registry import POLICIES, policy
from traffic.record.ledger import FAILED, FINISHED, IN_FLIGHT, REJECTED
from traffic.request import Prefix, request_table
from traffic.serving.local import Local
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all

MS = 10**9
LLAMA = model("Llama-3.1-8B")
TOKENS = 64
BLOCK = LLAMA.kv_bytes(TOKENS)
MESSAGES = Orchestration(message_bytes=100)
CHOICES = [
    (name, order)
    for name, kind in sorted(POLICIES.items())
    for order in ("prefill_first", "decode_first", "joint")
    if order != "joint" or hasattr(kind, "pair") or hasattr(kind, "scores")
]

STAGES = (
    *("arrival_ps", "prefill_start_ps", "prefill_end_ps", "kv_ready_ps"),
    *("decode_start_ps", "first_token_ps", "finish_ps"),
)


class Watched:
    """A policy that passes every question on and keeps the view."""

    name: ClassVar[str] = "watched"
    sees: ClassVar[frozenset[Sight]] = frozenset({"cache"})
    source: ClassVar[str] = "this test"
    settings: ClassVar[type[Struct]] = NoSettings

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.view: View | None = None

    def prefill(self, request: Request, view: View) -> int:
        self.view = view
        return self.inner.prefill(request, view)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return self.inner.decode(request, prefill, view)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        return self.inner.pairs(hops)

    def __getattr__(self, name: str) -> Any:
        if name not in OPTIONAL:
            raise AttributeError(name)
        inner = getattr(self.inner, name)

        def asked(*question: Any) -> Any:
            if question:
                self.view = question[-1]
            return inner(*question)

        return asked


REQUESTS = st.lists(
    st.tuples(st.integers(0, 300 * MS), st.integers(1, 2000), st.integers(0, 40)),
    min_size=1,
    max_size=25,
)
TIMES = st.integers(0, 400 * MS)
OUTAGES = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(SIDES),
        st.integers(0, 2),
        TIMES,
        st.none() | st.integers(1, 200 * MS),
    ),
    max_size=6,
)
RULES = st.builds(
    Resilience,
    health=st.builds(
        Health,
        interval_ps=st.sampled_from([0, 10 * MS, 50 * MS]),
        timeout_ps=st.sampled_from([0, 10 * MS]),
        failures=st.integers(1, 3),
        successes=st.integers(1, 3),
    ),
    breaker=st.none()
    | st.builds(
        Circuit,
        failures=st.integers(1, 3),
        successes=st.integers(1, 2),
        open_ps=st.sampled_from([MS, 100 * MS]),
    ),
    retry=st.builds(
        Retry,
        retries=st.integers(0, 4),
        backoff_ps=st.sampled_from([0, 5 * MS]),
        budget=st.none() | st.just(0.2),
        least=st.integers(0, 2),
    ),
    timeout_ps=st.sampled_from([1, MS, 30 * MS]),
    wait_ps=st.sampled_from([0, 20 * MS, 1000 * MS]),
    load_ps=st.sampled_from([0, 7 * MS]),
    discovery_ps=st.sampled_from([0, 9 * MS]),
    decode_loss=st.sampled_from(["retry", "fail"]),
)
SETTINGS: Any = st.fixed_dictionaries(
    {
        "choice": st.sampled_from(CHOICES),
        "how": st.sampled_from(
            [
                {},
                {"when": "layer_wise", "layers_per_chunk": 16},
                {"direction": "pull", "orchestration": MESSAGES},
                {"orchestration": MESSAGES, "copy_bps": 10**12, "staging": "host"},
                {"cache_bytes": 40 * BLOCK},
            ]
        ),
        "reserve": st.sampled_from(["whole", "prompt"]),
        "flight": st.integers(1, 30 * MS),
        "cache": st.none() | st.sampled_from(["before", "overlapped", "prefetched"]),
        "local": st.none() | st.just(Local(when="prefill_load", prefill_busy=0.0)),
    }
)


@settings(max_examples=60, deadline=None)
@given(rows=REQUESTS, drawn=OUTAGES, rules=RULES, chosen=SETTINGS)
def test_every_request_that_arrived_has_finished_was_rejected_or_failed_for_a_reason(
    rows: list[tuple[int, int, int]],
    drawn: list[tuple[str, str, int, int, int | None]],
    rules: Resilience,
    chosen: dict[str, Any],
    pools: Callable[..., Deployment],
    wire: Callable[..., Emulator],
    befallen: Callable[..., list[Outage]],
) -> None:
    # Whole decode memories are asked for at the end: none may be held by whom it was lost to.
    rows = [*sorted(rows), *[(5000 * MS, 2490, 10)] * 3]
    arrival, tokens, output = (list(column) for column in zip(*rows, strict=True))
    counts = [count // TOKENS for count in tokens]
    requests = request_table(
        arrival_ps=arrival,
        input_tokens=tokens,
        output_tokens=output,
        prefix=Prefix(
            np.array([0, *itertools.accumulate(counts)], np.int64),
            np.concatenate([np.arange(count) + 100 * (i % 3) for i, count in enumerate(counts)]),
            TOKENS,
        ),
    )
    deployment = pools(3, 3, max_batch=3, memory=LLAMA.kv_bytes(2500), **chosen["how"])
    if chosen["cache"] is not None:
        tiers = (Tier("hbm", 20 * BLOCK), Tier("remote", 99 * BLOCK, 10**12))
        cache = Caching(tiers, load=chosen["cache"], storage=(5000, 5001))
        deployment = replace(deployment, cache=cache)
    hops = np.full((3, 3), 4, np.int32)
    hazard = Hazard(befallen(drawn, 3, rules.load_ps), rules)

    name, order = chosen["choice"]
    watched = Watched(policy(name, hops, seed=3))

    def served() -> Outcome:
        watched.inner = policy(name, hops, seed=3)
        service = Service(
            deployment,
            watched,
            hops,
            np.full((3, 3), MS, np.int64),
            order,
            chosen["local"],
            hazard=hazard,
        )
        return serve_all(
            requests,
            [service],
            wire(chosen["flight"]),
            rules=Serving(reserve=chosen["reserve"]),
            seed=3,
        )

    outcome = served()
    status = outcome.requests["status"]
    counts = {kind: int((status == kind).sum()) for kind in (FINISHED, REJECTED, FAILED)}
    assert sum(counts.values()) == len(rows)
    assert not (status == IN_FLIGHT).any()
    toll = outcome.toll
    assert ((toll["reason"] > 0) == (status == FAILED)).all()
    assert ((toll["failed_ps"] >= 0) == (status == FAILED)).all()
    assert (toll["attempts"] <= rules.retry.retries + 1).all()
    assert (toll["attempts"][status == FINISHED] >= 1).all()
    assert (toll["wasted_prefill_ps"] >= 0).all()
    once = toll["attempts"] <= 1
    fine = once & (status == FINISHED)
    assert not toll["wasted_prefill_ps"][fine].any()
    assert not toll["wasted_bytes"][fine].any()

    kept = np.ones(len(outcome.flows), bool)
    kept[outcome.strays] = False
    sent = np.zeros(len(rows), np.int64)
    kept &= outcome.flows["handoff"] >= 0
    np.add.at(sent, outcome.flows["handoff"][kept], outcome.flows["bytes"][kept])
    moved = (status == FINISHED) & (outcome.requests["arrived_ps"] >= 0)
    whole = np.where(moved, outcome.requests["kv_bytes"], 0)
    assert (sent <= whole).all()
    if "cache_bytes" not in chosen["how"]:
        assert (sent == whole).all()

    table = outcome.requests
    for before, after in itertools.pairwise(STAGES):
        both = (status == FINISHED) & (table[before] >= 0) & (table[after] >= 0)
        assert (table[before][both] <= table[after][both]).all(), (before, after)
    assert watched.view is not None
    for field in ("prefill_requests", "prefill_tokens", "prefill_running"):
        assert not getattr(watched.view, field).any(), field
    for field in ("decode_requests", "decode_tokens", "decode_bytes", "decode_running"):
        assert not getattr(watched.view, field).any(), field

    again = served()
    assert again.flows.tobytes() == outcome.flows.tobytes()
    for name in outcome.requests:
        assert again.requests[name].tobytes() == outcome.requests[name].tobytes(), name
    for name in toll:
        assert again.toll[name].tobytes() == toll[name].tobytes(), name
