"""Several models on one fabric: each in pools of its own, all in one network."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from topo.error import KvfabricError
from traffic.emulator import Emulator
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.release import Releases
from traffic.request import RequestTable, request_table
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all

MS = 10**9
QWEN = model("Qwen3-8B")


def of_model(table: RequestTable, number: int) -> RequestTable:
    assert table.model is not None
    rows = np.flatnonzero(table.model == number)
    return replace(table.take(rows, table.arrival_ps[rows]), model=None)


def mixed(count: int = 60) -> RequestTable:
    rng = np.random.default_rng(3)
    table = request_table(
        arrival_ps=np.cumsum(rng.exponential(4 * MS, count)).astype(np.int64),
        input_tokens=rng.integers(1, 900, count),
        output_tokens=rng.integers(0, 40, count),
    )
    return replace(table, model=rng.integers(0, 2, count).astype(np.int32))


@pytest.fixture
def two(pools: Callable[..., Deployment]) -> list[Service]:
    """Llama on 2 + 1 instances and Qwen on 1 + 2."""
    llama, other = pools(2, 1), pools(1, 2)
    qwen = Deployment(
        Pool(((5000,),), QWEN, other.prefill.gpu), Pool(((6000,), (6001,)), QWEN, other.decode.gpu)
    )
    made = []
    for deployment in (llama, qwen):
        shape = (len(deployment.prefill.instances), len(deployment.decode.instances))
        hops = np.full(shape, 4, np.int32)
        made.append(Service(deployment, policy("round_robin", hops), hops))
    return made


def test_models_that_share_nothing_but_a_free_network_run_as_if_alone(
    two: list[Service], run: Callable[..., Outcome], wire: Callable[..., Emulator]
) -> None:
    table = mixed()
    together = serve_all(table, two, wire())
    number = together.requests["model"]
    assert table.model is not None
    assert number.tolist() == table.model.tolist()
    first = {"prefill": (0, 2), "decode": (0, 1)}
    for which, service in enumerate(two):
        alone = run(of_model(table, which), service.deployment, "round_robin")
        for name, column in alone.requests.items():
            if name in ("request", "model"):
                continue
            expected = column
            if name in first:
                expected = np.where(column < 0, -1, column + first[name][which])
            assert together.requests[name][number == which].tolist() == expected.tolist(), name


def test_flows_are_numbered_once_over_all_models_and_carry_the_bytes_of_their_own(
    two: list[Service], wire: Callable[..., Emulator]
) -> None:
    outcome = serve_all(mixed(), two, wire())
    flows, table = outcome.flows, outcome.requests
    assert flows["flow"].tolist() == list(range(len(flows)))
    moved = np.zeros(len(table["request"]), np.int64)
    np.add.at(moved, flows["handoff"], flows["bytes"])
    served = table["output_tokens"] > 0
    assert moved[served].tolist() == table["kv_bytes"][served].tolist()
    kinds = [service.deployment.prefill.model for service in two]
    for number, tokens, size in zip(
        table["model"], table["input_tokens"], table["kv_bytes"], strict=True
    ):
        assert int(size) == kinds[number].kv_bytes(int(tokens))
    qwen = table["model"][flows["handoff"]] == 1
    assert set(flows["source"][qwen].tolist()) == {5000}
    assert set(flows["destination"][qwen].tolist()) == {6000, 6001}


def test_every_model_hears_of_its_own_hand_offs_alone(
    two: list[Service], wire: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[int, set[int]] = {}
    ready = Releases.ready

    def listened(releases: Releases, completions: np.ndarray) -> object:
        heard.setdefault(id(releases), set()).update(completions["handoff"].tolist())
        return ready(releases, completions)

    monkeypatch.setattr(Releases, "ready", listened)
    table = serve_all(mixed(), two, wire()).requests
    moved = table["output_tokens"] > 0
    assert [sorted(mine) for mine in heard.values()] == [
        np.flatnonzero(moved & (table["model"] == number)).tolist() for number in (0, 1)
    ]


def test_a_request_of_a_model_that_nobody_serves_is_refused(
    two: list[Service], wire: Callable[..., Emulator]
) -> None:
    with pytest.raises(KvfabricError, match=r"model 1: 1 service\(s\); give one a model"):
        serve_all(mixed(), two[:1], wire())
