"""What holds for any requests: budgets add up, stages are in order, nothing is lost or random."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from numpy.typing import NDArray

from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.choice import NoSettings, Policy, Request, Sight, View
from traffic.policy.registry import POLICIES, policy
from traffic.request import request_table
from traffic.serving.run import Outcome, serve

US = 10**6
MS = 10**9
DELAY = 20 * US
LLAMA = model("Llama-3.1-8B")


class Watched:
    """A policy that passes every question on and keeps the view."""

    name: ClassVar[str] = "watched"
    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset()
    source: ClassVar[str] = "a test"

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.view: View | None = None

    def prefill(self, request: Request, view: View) -> int:
        self.view = view
        return self._inner.prefill(request, view)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return self._inner.decode(request, prefill, view)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        return self._inner.pairs(hops)


REQUESTS = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(1, 2000), st.integers(0, 40)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(
    rows=REQUESTS,
    name=st.sampled_from(sorted(POLICIES)),
    flight=st.integers(1, 30 * MS),
    prefill=st.integers(1, 3),
    decode=st.integers(1, 3),
    max_batch=st.integers(1, 4),
)
def test_the_four_budgets_add_up_to_the_picosecond_and_stages_never_run_backwards(
    rows: list[tuple[int, int, int]],
    name: str,
    flight: int,
    prefill: int,
    decode: int,
    max_batch: int,
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    wire: Callable[..., Emulator],
) -> None:
    rows.sort()
    arrival, tokens, output = (list(column) for column in zip(*rows, strict=True))
    requests = request_table(arrival_ps=arrival, input_tokens=tokens, output_tokens=output)
    memory = LLAMA.kv_bytes(2500)
    deployment = pools(prefill, decode, max_batch=max_batch, memory=memory)
    table = run(requests, deployment, name, emulator=wire(flight)).requests
    stages = [name for name in table if name.endswith("_ps")]
    for i in range(len(rows)):
        got = {name: int(column[i]) for name, column in table.items()}
        assert got["status"] == 0
        assert got["prefill_start_ps"] >= got["arrival_ps"]
        if not got["output_tokens"]:
            continue
        times = [got[name] for name in stages]
        assert times == sorted(times), stages
        queueing = (got["prefill_start_ps"] - got["arrival_ps"]) + (
            got["decode_start_ps"] - got["kv_ready_ps"]
        )
        busy = got["prefill_end_ps"] - got["prefill_start_ps"]
        handoff = got["kv_ready_ps"] - got["prefill_end_ps"]
        decoding = got["finish_ps"] - got["decode_start_ps"]
        assert queueing + busy + handoff + decoding == got["finish_ps"] - got["arrival_ps"]
        assert got["handoff_release_ps"] >= got["prefill_end_ps"] + DELAY
        assert got["decode_start_ps"] >= got["kv_ready_ps"] + DELAY
    for instance in range(decode):
        mine = table["decode"] == instance
        starts, ends = table["decode_start_ps"][mine], table["finish_ps"][mine]
        held = table["handoff_release_ps"][mine] - DELAY
        need = [
            LLAMA.kv_bytes(int(i + o))
            for i, o in zip(table["input_tokens"][mine], table["output_tokens"][mine], strict=True)
        ]
        for at in starts.tolist():
            assert ((starts <= at) & (ends > at)).sum() <= max_batch
        for at in held.tolist():
            assert sum(n for n, h, e in zip(need, held, ends, strict=True) if h <= at < e) <= memory


def test_the_router_is_told_what_the_busiest_nic_moves_of_a_cache(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    hops = np.full((1, 1), 4, np.int32)
    watched = Watched(policy("round_robin", hops))
    requests = request_table(arrival_ps=[0], input_tokens=[100], output_tokens=[5])
    serve(requests, pools(tp=(4, 8)), watched, wire(), hops=hops)
    assert watched.view is not None
    assert watched.view.nic_share == pytest.approx(1 / 4)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_same_seed_gives_the_same_bytes_and_shared_load_returns_to_zero(
    name: str, pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    rng = np.random.default_rng(5)
    requests = request_table(
        arrival_ps=np.cumsum(rng.exponential(MS, 200)).astype(np.int64),
        input_tokens=rng.integers(1, 1000, 200),
        output_tokens=rng.integers(0, 50, 200),
    )
    deployment = pools(4, 4)
    hops = np.full((4, 4), 4, np.int32)

    first, again = (Watched(policy(name, hops, seed=9)) for _ in range(2))
    one = serve(requests, deployment, first, wire(), hops=hops, seed=9)
    two = serve(requests, deployment, again, wire(), hops=hops, seed=9)
    assert one.flows.tobytes() == two.flows.tobytes()
    for column in one.requests:
        assert one.requests[column].tobytes() == two.requests[column].tobytes()
    assert first.view is not None
    for field in ("prefill_requests", "prefill_tokens", "decode_requests", "decode_bytes"):
        assert not getattr(first.view, field).any(), field
