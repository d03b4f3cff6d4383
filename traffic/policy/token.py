"""Policies that weigh what is queued: token_jsq, vllm, power_of_two.

All are blind to fabric and caches and choose prefill and decode apart from each other, over the
healthy instances.
"""

# ruff: noqa: ARG002 -- blind policies take the protocol's arguments and ignore some of them

from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.policy.balance import Blind
from traffic.policy.choice import NOBODY, NoSettings, Request, Sight, Tie, View

WAITING_WEIGHT = 4
"""What a waiting request weighs against a running one in vLLM (vllm/v1/engine/core_client.py,
DPLBAsyncMPClient: ``score = waiting * 4 + running``)."""


class TokenSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``decode``: what counts as pending at a decode instance. ``requests``: one token a request,
    that of its next step, as splitwise-sim books it; ``prompts``: the tokens of their prompts."""

    decode: Literal["requests", "prompts"] = "requests"


class TokenJsq(Blind):
    """The fewest pending tokens, in each pool apart; ties are drawn, see `Tie`.

    At a prefill instance these are the tokens of the prompts that wait or run.
    """

    name: ClassVar[str] = "token_jsq"
    settings: ClassVar[type[Struct]] = TokenSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load"})
    source: ClassVar[str] = "Mutinifni/splitwise-sim, scheduler.py, KVTokenJSQScheduler"

    def __init__(self, settings: TokenSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prompts = settings.decode == "prompts"
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest tokens of prompts."""
        return self._prefill.least(view.prefill_tokens, request.request, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance with the fewest pending tokens."""
        load = view.decode_tokens if self._prompts else view.decode_requests
        return self._decode.least(load, request.request, view.decode_healthy)


class Vllm(Blind):
    """The least 4 x waiting + running, in each pool apart; ties go round in turn.

    LLMServingSim divides by ``max_num_seqs``, which is equal for all instances of a pool and so
    decides nothing. Of tied instances the first one after the last choice is taken. vLLM itself
    sees counts that are up to 100 ms old; here they are of the moment.
    """

    name: ClassVar[str] = "vllm"
    sees: ClassVar[frozenset[Sight]] = frozenset({"load"})
    source: ClassVar[str] = (
        "casys-kaist/LLMServingSim, serving/core/router.py; vllm v1 DPLBAsyncMPClient"
    )

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._last = {"prefill": -1, "decode": -1}

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the least score."""
        score = _score(view.prefill_requests, view.prefill_running)
        return self._turn("prefill", score, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance with the least score."""
        score = _score(view.decode_requests, view.decode_running)
        return self._turn("decode", score, view.decode_healthy)

    def _turn(self, side: str, score: NDArray[np.int64], healthy: NDArray[np.bool_]) -> int:
        found = healthy.nonzero()[0]
        if not found.size:
            return NOBODY
        part = score[found]
        tied = found[part == part.min()]
        place = int(tied.searchsorted(self._last[side], side="right"))
        self._last[side] = chosen = int(tied[place % tied.size])
        return chosen


def _score(requests: NDArray[np.int64], running: NDArray[np.int64]) -> NDArray[np.int64]:
    return WAITING_WEIGHT * requests - (WAITING_WEIGHT - 1) * running


class PowerOfTwoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``load``: what is compared. The gateway takes ``tokens`` when it knows them of both, and
    falls back to ``requests``; here they are always known."""

    load: Literal["tokens", "requests"] = "tokens"


class PowerOfTwo(Blind):
    """Two different instances, drawn; the one with less load, the first of them on a tie.

    Tokens are those of prompts that wait or run at a prefill instance, and of the prompts of all
    requests at a decode instance.
    """

    name: ClassVar[str] = "power_of_two"
    settings: ClassVar[type[Struct]] = PowerOfTwoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load"})
    source: ClassVar[str] = "sgl-project/sglang, sgl-model-gateway/src/policies/power_of_two.rs"

    def __init__(self, settings: PowerOfTwoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._tokens = settings.load == "tokens"
        self._seed = seed

    def prefill(self, request: Request, view: View) -> int:
        """The less loaded of two prefill instances."""
        load = view.prefill_tokens if self._tokens else view.prefill_requests
        return self._better("prefill", request.request, load, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The less loaded of two decode instances."""
        load = view.decode_tokens if self._tokens else view.decode_requests
        return self._better("decode", request.request, load, view.decode_healthy)

    def _better(
        self, side: str, request: int, load: NDArray[np.int64], healthy: NDArray[np.bool_]
    ) -> int:
        found = healthy.nonzero()[0]
        count = found.size
        if count < 2:
            return int(found[0]) if count else NOBODY
        one = draw(self._seed, f"policy first {side}", request, count)
        more = draw(self._seed, f"policy second {side}", request, count - 1)
        first, second = int(found[one]), int(found[(one + 1 + more) % count])
        return first if load[first] <= load[second] else second
