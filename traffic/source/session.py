"""Agentic sessions: turns of a user, each a chain of model calls with tool calls in between.

A session is a growing context. Its first call carries a first prompt (instructions, tool
descriptions, the task); every later call carries all that was there before, the answers included,
and a tool's result or the user's next message. Between calls lie the answer, and a tool's run or
the user's thought. Some attempts fail and are sent again, unchanged.

Open loop: the time an answer takes is drawn here, from its length, and not taken from the serving
model, so that a slow fabric does not slow the users down. In a closed loop (`traffic.source.crowd`)
the same sessions wait for the answers of the serving model: `played`.

The stream is stationary: sessions that began before the run are in progress when it starts. A pool
of sessions is drawn, and each of them starts at random times of a Poisson process over all the
past and the run.
"""

from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_MS, PS_PER_S, duration_text
from traffic.error import RequestError
from traffic.request import Prefix, RequestTable, request_table
from traffic.seed import generator
from traffic.source.length import Length, Lognormal

POOL: Final = 4096
"""Different sessions that a stream is made of; beyond that many they come again."""

_MOST_RETRIES: Final = 3
_MOST_CALLS: Final = 10_000_000
_LONGEST_S: Final = 4_000_000
_ENDINGS: Final = 2**62
"""Numbers from here are those of partial blocks."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agent:
    """How sessions go. Counts are geometric with the given mean, times exponential.

    ``turns`` of the user a session and ``calls`` of the model a turn are the means of the GitHub
    Copilot coding agent traces (3.95 and 7.83; Azure/AzurePublicDataset,
    GitHubCopilotCodingAgentDataset2026.md, arXiv 2608.00101), and the mean of ``output`` is their
    completion tokens over calls (4.91e9 / 9.3e6). The mean of ``tool``, tokens that a tool's result
    adds, is solved so that without ``context`` the mean input is theirs: 631.4e9 / 9.3e6 = 67,900.
    All else is a choice: ``first`` prompt and ``message`` of the user in tokens; ``think`` of the
    user between turns and ``run`` of a tool between calls; an answer taking ``wait`` and ``token``
    for each of its tokens; an attempt failing with probability ``retry`` and sent again
    ``retry_after`` later, at most 3 times; the first ``shared`` tokens being the same in every
    session. A session ends before the call whose input and output exceed ``context`` tokens;
    its first call is made in any case.
    Prefix blocks stand for ``block_tokens`` tokens (512 as in the Mooncake traces); times are
    picoseconds.
    """

    turns: float = 3.95
    calls: float = 7.83
    first: Length = field(default_factory=lambda: Lognormal(20_000, 10_000))
    message: Length = field(default_factory=lambda: Lognormal(200, 200))
    tool: Length = field(default_factory=lambda: Lognormal(1_170, 2_000))
    output: Length = field(default_factory=lambda: Lognormal(528, 800))
    think_ps: int = 30 * PS_PER_S
    run_ps: int = 2 * PS_PER_S
    wait_ps: int = 500 * PS_PER_MS
    token_ps: int = 25 * PS_PER_MS
    retry: float = 0.01
    retry_after_ps: int = 5 * PS_PER_S
    shared: int = 8192
    context: int = 131_072
    block_tokens: int = 512

    def __post_init__(self) -> None:
        for name, mean in (("turns", self.turns), ("calls", self.calls)):
            if not (isfinite(mean) and 1 <= mean <= 1000):
                raise RequestError(f"sessions.{name} {mean:g}: a mean of 1 to 1000; write e.g. 4")
        for name in ("think_ps", "run_ps", "wait_ps", "token_ps", "retry_after_ps", "shared"):
            value: int = getattr(self, name)
            if value < 0:
                told = name.removesuffix("_ps")
                shown = duration_text(value) if told != name else f"{value}"
                raise RequestError(f"sessions.{told} {shown}: negative; write 0 up")
        if not 0 <= self.retry <= 0.5:
            raise RequestError(f"sessions.retry {self.retry:g}: write 0% to 50%")
        if self.context < 2:
            raise RequestError(f"sessions.context {self.context}: write tokens, e.g. 131072")
        if self.block_tokens < 1:
            raise RequestError(f"sessions.block_tokens {self.block_tokens}: write e.g. 512")


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Attempts of the pool's sessions, session by session and in time.

    ``begin`` has the first attempt of each session and the end; ``at_ps`` counts from the session's
    first; ``pause_ps`` is the thought, or the tool's run, before an attempt; ``call`` is equal for
    the attempts of one call; ``shared_tokens`` are the first tokens that the session has in common
    with others.
    """

    begin: Ints
    at_ps: Floats
    pause_ps: Floats
    call: Ints
    input_tokens: Ints
    output_tokens: Ints
    shared_tokens: Ints


class Played:
    """Sessions to be played call by call, where each call waits for the answer to the last."""

    def __init__(self, pool: "_Pool", agent: Agent) -> None:
        self._begin = pool.begin.tolist()
        self._pool = pool
        self.block_tokens = agent.block_tokens
        """Tokens of a prefix block."""
        self._head = agent.shared // agent.block_tokens
        self._longest = int(pool.input_tokens.max()) // agent.block_tokens + 1

    def __len__(self) -> int:
        return len(self._begin) - 1

    def rows(self, session: int) -> tuple[int, int]:
        """The first attempt of a session and the one after its last."""
        return self._begin[session], self._begin[session + 1]

    def attempt(self, row: int) -> tuple[int, int, int]:
        """Input and output tokens, and the pause before it in picoseconds."""
        pool = self._pool
        pause = round(float(pool.pause_ps[row]))
        return int(pool.input_tokens[row]), int(pool.output_tokens[row]), pause

    def blocks(self, row: int, session: int) -> Ints:
        """The prefix blocks of an attempt, in the ``session``-th session that is played.

        As in `sessions`: a session shares the blocks of its context with itself, and those of the
        head with all; a partial last block is shared with retries only.
        """
        full, partial = divmod(int(self._pool.input_tokens[row]), self.block_tokens)
        inside = np.arange(full, dtype=np.int64)
        common = int(self._pool.shared_tokens[row]) // self.block_tokens
        own = self._head + session * self._longest
        found = np.where(inside < common, inside, own + inside)
        if not partial:
            return found
        ending = _ENDINGS + session * _MOST_CALLS + int(self._pool.call[row])
        return np.append(found, np.int64(ending))


def played(agent: Agent, seed: int) -> Played:
    """The `POOL` sessions of a seed; the pause before the first call is a thought."""
    return Played(_pool(agent, seed), agent)


def sessions(agent: Agent, *, count: int, rate_per_s: float, seed: int) -> RequestTable:
    """The first ``count`` requests of a stationary stream of sessions, with prefix blocks.

    ``rate_per_s`` is the mean rate of requests, retries included. Sessions are numbered in the
    order in which they appear. Requests of one session share the blocks of their common context,
    all sessions those of the shared head; a partial last block is shared with retries only.
    """
    if count < 1:
        raise RequestError(f"count {count}: a workload needs at least 1 request")
    if not isfinite(rate_per_s) or rate_per_s <= 0:
        raise RequestError(f"arrival rate {rate_per_s:g}/s: must be above 0; write e.g. 400/s")
    pool = _pool(agent, seed)
    each = len(pool.at_ps) / POOL
    # Sessions bring their requests together: their number varies as that of sessions does.
    window_s = (count + 6 * sqrt(count * 4 * each) + 8 * each) / rate_per_s
    if window_s > _LONGEST_S:
        raise RequestError(
            f"{count} requests at {rate_per_s:g}/s: would last beyond {_LONGEST_S} s; "
            "raise the rate or lower the count"
        )
    random = generator(seed, "session start")
    while True:
        run, row, at = _played(pool, rate_per_s / each, window_s * PS_PER_S, random)
        if len(row) >= count:
            break
        window_s *= 2
    order = np.argsort(at, kind="stable")[:count]
    run, row, at = run[order], row[order], at[order]
    _, first, session = np.unique(run, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    session = number[session]
    return request_table(
        arrival_ps=np.rint(at).astype(np.int64),
        input_tokens=pool.input_tokens[row],
        output_tokens=pool.output_tokens[row],
        session=session,
        prefix=_prefix(agent, pool, session, row),
    )


def _pool(agent: Agent, seed: int) -> _Pool:
    """All attempts of `POOL` sessions; their times and tokens are sums within the session."""
    turns = generator(seed, "session turns").geometric(1 / agent.turns, POOL)
    calls = generator(seed, "session calls").geometric(1 / agent.calls, int(turns.sum()))
    total = int(calls.sum())
    if total > _MOST_CALLS:
        raise RequestError(
            f"sessions: {total} calls in {POOL} sessions; at most {_MOST_CALLS}: write fewer"
        )
    opens = np.zeros(total, np.bool_)
    opens[np.cumsum(calls) - calls] = True
    turn_begin = np.cumsum(turns) - turns
    begin = (np.cumsum(calls) - calls)[turn_begin]
    starts = np.zeros(total, np.bool_)
    starts[begin] = True

    def drawn(length: Length, what: str) -> Ints:
        return length.draw(total, generator(seed, f"session {what}")).astype(np.int64)

    added = np.where(opens, drawn(agent.message, "message"), drawn(agent.tool, "tool"))
    added = np.where(starts, drawn(agent.first, "first prompt"), added)
    output = drawn(agent.output, "output")
    of = np.cumsum(starts) - 1
    answered = np.where(starts, 0, np.concatenate(([0], output[:-1])))
    context = _within(added + answered, begin, of).astype(np.int64)

    retries = generator(seed, "session retry").geometric(1 - agent.retry, total) - 1
    retries = np.minimum(retries, _MOST_RETRIES)
    random = generator(seed, "session pause")
    pause = np.where(
        opens, random.exponential(agent.think_ps, total), random.exponential(agent.run_ps, total)
    )
    spent = agent.wait_ps + agent.token_ps * output + agent.retry_after_ps * retries
    gap = np.where(starts, 0.0, pause + np.concatenate(([0], spent[:-1])))
    at = _within(gap, begin, of)

    beyond = (context + output > agent.context) & ~starts
    kept = _within(beyond, begin, of) == 0
    call = np.repeat(np.flatnonzero(kept), 1 + retries[kept])
    first = np.concatenate(([True], call[1:] != call[:-1]))
    place = np.arange(len(call))
    attempt = place - np.maximum.accumulate(np.where(first, place, 0))
    sizes = np.bincount(of[call], minlength=POOL)
    return _Pool(
        begin=np.concatenate(([0], np.cumsum(sizes))),
        at_ps=at[call] + attempt * float(agent.retry_after_ps),
        pause_ps=np.where(attempt == 0, pause[call], float(agent.retry_after_ps)),
        call=call,
        input_tokens=context[call],
        output_tokens=output[call],
        shared_tokens=np.minimum(added[begin], agent.shared)[of[call]],
    )


def _within(values: NDArray[np.number | np.bool_], begin: Ints, of: Ints) -> Floats:
    """Running sums that start anew at every session; exact for whole numbers up to 2^53."""
    sums = np.cumsum(values, dtype=np.float64)
    before = sums[begin] - values[begin]
    return np.asarray(sums - before[of], np.float64)


def _played(
    pool: _Pool, sessions_per_s: float, window_ps: float, random: np.random.Generator
) -> tuple[Ints, Ints, Floats]:
    """Playing, attempt and arrival of all that falls into [0, window)."""
    lasts = pool.at_ps[pool.begin[1:] - 1]
    times = random.poisson(sessions_per_s / PS_PER_S / POOL * (lasts + window_ps))
    which = np.repeat(np.arange(POOL), times)
    start = random.random(len(which)) * (lasts[which] + window_ps) - lasts[which]
    # One sorted key for all sessions, so that a search finds where each playing enters and leaves.
    stride = lasts.max() + 1.0
    of = np.repeat(np.arange(POOL), np.diff(pool.begin))
    key = of * stride + pool.at_ps
    slack = stride * 1e-6
    low = np.searchsorted(key, which * stride + np.maximum(-start, 0) - slack)
    leaves = np.minimum(window_ps - start, lasts[which]) + slack
    high = np.searchsorted(key, which * stride + leaves, side="right")
    low = np.maximum(low, pool.begin[which])
    sizes = np.maximum(np.minimum(high, pool.begin[which + 1]) - low, 0)
    run = np.repeat(np.arange(len(which)), sizes)
    inside = np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row = low[run] + inside
    at = start[run] + pool.at_ps[row]
    kept = (at >= 0) & (at < window_ps)
    return run[kept], row[kept], at[kept]


def _prefix(agent: Agent, pool: _Pool, session: Ints, row: Ints) -> Prefix:
    """Blocks of every request: the shared head, the session's own, and a partial last one."""
    size, call, inputs = agent.block_tokens, pool.call[row], pool.input_tokens[row]
    full, partial = inputs // size, inputs % size > 0
    head = agent.shared // size
    longest = int(full.max()) + 1
    counts = full + partial
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    inside = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    own = head + session * longest
    common = np.repeat(pool.shared_tokens[row] // size, counts)
    blocks = np.where(inside < common, inside, np.repeat(own, counts) + inside)
    # Numbers beyond those of all full blocks: one for each call of each session.
    _, ending = np.unique((session * (int(call.max()) + 1) + call)[partial], return_inverse=True)
    blocks[first[1:][partial] - 1] = head + (int(session.max()) + 1) * longest + ending
    return Prefix(first, blocks, size)
