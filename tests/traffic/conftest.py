"""What the tests of this room share: a wire in place of a network, small pools, public traces.

Traces lie in ``KVFABRIC_DATA``, or in ``shared/data`` beside the repository.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from traffic.emulator import COMPLETION, Advance, Emulator, Table, Telemetry
from traffic.gpu import gpu
from traffic.handoff import Handoff
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.request import RequestTable
from traffic.serving import Outcome, serve

WIRE_PS = 5 * 10**6
LLAMA = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")


class Wire:
    """An emulator in which every flow takes the same time and a release in the past is an error."""

    def __init__(self, duration_ps: int = WIRE_PS) -> None:
        self._duration = duration_ps
        self._under_way: list[tuple[int, int, int]] = []
        self.now = 0

    def submit(self, flows: NDArray[np.void]) -> None:
        for row in flows:
            assert row["release_ps"] >= self.now
            finish = int(row["release_ps"]) + self._duration
            heappush(self._under_way, (finish, int(row["flow"]), int(row["handoff"])))

    def advance(self, until_ps: int) -> Advance:
        assert until_ps >= self.now
        done: list[tuple[int, int, int]] = []
        self.now = min([until_ps, *(f for f, _, _ in self._under_way[:1])])
        while self._under_way and self._under_way[0][0] == self.now:
            finish, flow, handoff = heappop(self._under_way)
            done.append((flow, handoff, finish))
        return Advance(self.now, np.array(done, COMPLETION))

    def observe(self) -> Table:
        return {}

    def telemetry(self) -> Telemetry:
        return Telemetry({}, {})


class Hole(Wire):
    """An emulator that delivers nothing."""

    def submit(self, flows: NDArray[np.void]) -> None:
        pass


@pytest.fixture(scope="session")
def wire() -> Callable[..., Emulator]:
    """Makes an emulator whose flows all take ``duration_ps``."""
    return Wire


@pytest.fixture(scope="session")
def hole() -> Callable[[], Emulator]:
    """Makes an emulator that delivers nothing."""
    return Hole


@pytest.fixture(scope="session")
def pools() -> Callable[..., Deployment]:
    """Makes Llama-3.1-8B on H100: ``memory`` bytes of KV cache a decode instance when given."""

    def made(
        prefill: int = 1,
        decode: int = 1,
        *,
        tp: tuple[int, int] = (1, 1),
        memory: int = 0,
        max_batch: int = 256,
        measured: Any = None,
        **how: Any,
    ) -> Deployment:
        p, d = tp
        card = replace(H100, memory_bytes=LLAMA.weight_bytes + memory) if memory else H100
        return Deployment(
            Pool(
                tuple(tuple(range(i * p, i * p + p)) for i in range(prefill)),
                LLAMA,
                H100,
                p,
                max_batch=max_batch,
                measured=measured,
            ),
            Pool(
                tuple(tuple(range(1000 + i * d, 1000 + i * d + d)) for i in range(decode)),
                LLAMA,
                card,
                d,
                max_batch=max_batch,
                reserve=0.0 if memory else 0.1,
                measured=measured,
            ),
            Handoff(**how),
        )

    return made


@pytest.fixture(scope="session")
def run() -> Callable[..., Outcome]:
    """Serves requests over a `Wire`, or what ``emulator`` is, with every pair of hosts 4 links
    apart; in colocated mode the policy sees one list of instances."""

    def served(
        requests: RequestTable, deployment: Deployment, name: str = "least_loaded", **more: Any
    ) -> Outcome:
        shape = (len(deployment.prefill.instances), len(deployment.decode.instances))
        rules = more.get("rules")
        if rules is not None and rules.mode == "colocated":
            shape = (sum(shape), sum(shape))
        hops = np.full(shape, 4, np.int32)
        chosen = policy(name, hops, seed=more.get("seed", 0))
        emulator = more.pop("emulator", None) or Wire()
        return serve(requests, deployment, chosen, emulator, hops=hops, **more)

    return served


@pytest.fixture(scope="session")
def row() -> Callable[..., dict[str, int]]:
    """One request of an outcome, by column."""

    def told(outcome: Outcome, request: int = 0) -> dict[str, int]:
        return {name: int(column[request]) for name, column in outcome.requests.items()}

    return told


@pytest.fixture(scope="session")
def public_trace() -> Callable[..., Path]:
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("KVFABRIC_DATA", root.parent / "shared" / "data"))

    def find(*names: str) -> Path:
        for name in names:
            if (folder / name).is_file():
                return folder / name
        pytest.skip(
            f"no {names[0]} in {folder}: fetch it with `kvfabric traffic get` and set KVFABRIC_DATA"
        )

    return find


@pytest.fixture(scope="session")
def azure_code(public_trace: Callable[..., Path]) -> Path:
    return public_trace("AzureLLMInferenceTrace_code.csv")


@pytest.fixture(scope="session")
def mooncake_conversation(public_trace: Callable[..., Path]) -> Path:
    return public_trace("conversation_trace.jsonl", "mooncake_conversation_trace.jsonl")
