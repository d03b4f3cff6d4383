"""What the tests of this room share: a wire in place of a network, small pools, public traces.

Traces lie in ``KVFABRIC_DATA``, in ``traces`` where `kvfabric traffic get` puts them, or in
``shared/data`` beside the repository.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from traffic.compute.gpu import gpu
from traffic.emulator import COMPLETION, Advance, Emulator, Table, Telemetry
from traffic.handoff.flow import Handoff
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.policy.view import View
from traffic.request import RequestTable
from traffic.serving.run import Outcome, serve

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

    def busy_ps(self) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)

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
    given = os.environ.get("KVFABRIC_DATA")
    folders = [Path(given)] if given else [root / "traces", root.parent / "shared" / "data"]

    def find(*names: str) -> Path:
        for folder in folders:
            for name in names:
                if (folder / name).is_file():
                    return folder / name
        where = " or ".join(str(folder) for folder in folders)
        pytest.skip(f"no {names[0]} in {where}: fetch it with `kvfabric traffic get`")

    return find


@pytest.fixture(scope="session")
def azure_code(public_trace: Callable[..., Path]) -> Path:
    return public_trace("AzureLLMInferenceTrace_code.csv")


@pytest.fixture(scope="session")
def mooncake_conversation(public_trace: Callable[..., Path]) -> Path:
    return public_trace("conversation_trace.jsonl", "mooncake_conversation_trace.jsonl")


class Held:
    """Prefix blocks that instances hold, whatever the prompt is."""

    def __init__(self, prefill: list[int], decode: list[int], pool: int) -> None:
        self._prefill = np.array(prefill, np.int64)
        self._decode = np.array(decode, np.int64)
        self._pool = pool

    def matched(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        return np.minimum(self._prefill, len(blocks))

    def matched_decode(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        return np.minimum(self._decode, len(blocks))

    def best(self, blocks: Sequence[int]) -> int:
        return min(self._pool, len(blocks))


class Links:
    """A fabric in a state that is told pair by pair."""

    at_ps = 0

    def __init__(
        self,
        rate_bps: NDArray[np.int64],
        utilisation: NDArray[np.float64],
        paused: NDArray[np.float64],
        queued_ps: NDArray[np.int64],
    ) -> None:
        self._rate, self._busy, self._paused, self._queued = (
            rate_bps,
            utilisation,
            paused,
            queued_ps,
        )

    def queued_ps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        return _part(self._queued, prefill, decode)

    def utilisation(
        self, prefill: int | None = None, decode: int | None = None
    ) -> NDArray[np.float64]:
        return _part(self._busy, prefill, decode)

    def paused(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.float64]:
        return _part(self._paused, prefill, decode)

    def rate_bps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        return _part(self._rate, prefill, decode)


def _part(whole: NDArray[Any], prefill: int | None, decode: int | None) -> NDArray[Any]:
    rows = slice(None) if prefill is None else prefill
    return np.asarray(whole[rows, slice(None) if decode is None else decode])


class Times:
    """A token of a prompt takes 1 ms; a decode step 1 ms a sequence and 1 us a token."""

    def prefill_ps(self, tokens: int, cached: int = 0) -> int:
        return (tokens - cached) * 10**9

    def step_ps(self, batch: int, tokens: int) -> int:
        return batch * 10**9 + tokens * 10**6


@pytest.fixture
def picture() -> Callable[..., View]:
    """A view of pools that lie ``hops`` apart, with the given columns of `View` (lists by
    instance), ``held``, ``held_decode`` and ``pool`` blocks, ``busy``, ``paused`` and ``queued``
    by pair (any of which adds a network of 100 Gbit/s), and ``times``."""

    def view(
        hops: list[list[int]],
        *,
        held: list[int] | None = None,
        held_decode: list[int] | None = None,
        pool: int = 0,
        busy: list[list[float]] | None = None,
        paused: list[list[float]] | None = None,
        queued: list[list[int]] | None = None,
        times: bool = False,
        **columns: Any,
    ) -> View:
        out = View.idle(np.array(hops, np.int32), columns.pop("decode_capacity_bytes", 0))
        for name, values in columns.items():
            if isinstance(values, list):
                getattr(out, name)[:] = values
            else:
                setattr(out, name, values)
        shape = out.hops.shape
        if held is not None or held_decode is not None or pool:
            out.prefix = Held(held or [0] * shape[0], held_decode or [0] * shape[1], pool)
        if busy is not None or paused is not None or queued is not None:
            none = np.zeros(shape)
            out.network = Links(
                np.full(shape, 10**11, np.int64),
                none if busy is None else np.array(busy, np.float64),
                none if paused is None else np.array(paused, np.float64),
                none.astype(np.int64) if queued is None else np.array(queued, np.int64),
            )
        out.time = Times() if times else None
        return out

    return view
