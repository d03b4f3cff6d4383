"""A closed loop: N users, each of whom asks again only after the answer, and a time of thought.

The number of users bounds what is under way, so that a slow system slows its load down; an open
loop goes on sending (Schroeder, Wierman and Harchol-Balter, NSDI 2006). What a user asks, thinks
and belongs to depends on the seed and the user alone: alternatives see the same users, who ask at
other times. With throughput X, mean response R and mean thought Z, N = X (R + Z), the interactive
response-time law (Denning and Buzen, Computing Surveys 10(3), 1978).

What a user asks is drawn from a profile, thoughts being exponential, or follows the sessions of an
agent (`traffic.source.session`), one after the other, with its pauses for tools and thought; only
these carry prefix blocks.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from topo.unit import show_duration
from traffic.draw import draw
from traffic.error import RequestError
from traffic.record.ledger import Ledger
from traffic.request import NO_SESSION
from traffic.seed import generator
from traffic.source.profile import Lengths
from traffic.source.session import Played
from traffic.source.tenant import Tenant, pick

_BLOCK = 64


class Turn(NamedTuple):
    """A request of a user, and the thought before it; ``session`` counts the user's own, and
    ``row`` is what is played of it."""

    input_tokens: int
    output_tokens: int
    pause_ps: int
    session: int = NO_SESSION
    row: int = -1


class Script(Protocol):
    """What users ask, each turn by turn.

    ``block_tokens`` are those of a prefix block, 0 where requests have none.
    """

    block_tokens: int

    def turn(self, user: int) -> Turn:
        """The next turn of a user."""
        ...

    def blocks(self, turn: Turn, session: int) -> NDArray[np.int64]:
        """The prefix blocks of a turn, whose session is the given one of all that are played."""
        ...


class Talk:
    """Single requests of a profile, or of each tenant's own, after exponential thoughts."""

    block_tokens = 0

    def __init__(self, lengths: Sequence[Lengths], think_ps: int, seed: int) -> None:
        self._lengths = lengths  # of every user, again and again
        self._think = think_ps
        self._seed = seed
        self._turns: dict[int, list[Turn]] = {}
        self._place: dict[int, int] = {}

    def turn(self, user: int) -> Turn:
        """The next of a block of turns that are drawn together."""
        place = self._place.get(user, 0)
        self._place[user] = place + 1
        if place % _BLOCK == 0:
            whose = f" of user {user} block {place // _BLOCK}"
            inputs, outputs = self._lengths[user % len(self._lengths)].draw(
                _BLOCK, self._seed, whose
            )
            thoughts = generator(self._seed, "thought" + whose).exponential(self._think, _BLOCK)
            rows = zip(inputs.tolist(), outputs.tolist(), thoughts.tolist(), strict=True)
            self._turns[user] = [Turn(i, o, round(thought)) for i, o, thought in rows]
        return self._turns[user][place % _BLOCK]

    def blocks(self, turn: Turn, session: int) -> NDArray[np.int64]:  # noqa: ARG002 -- has none
        """None."""
        return np.zeros(0, np.int64)


class Work:
    """Sessions of an agent, drawn for each user from one pool and played to their ends."""

    def __init__(self, played: Played, seed: int) -> None:
        self._played = played
        self._seed = seed
        self.block_tokens = played.block_tokens
        self._now: dict[int, tuple[int, int, int]] = {}  # user -> (next row, last row, session)

    def turn(self, user: int) -> Turn:
        """The next attempt of the session, or the first of the next one."""
        row, end, session = self._now.get(user, (0, 0, -1))
        if row == end:
            session += 1
            key = (user << 32) + session
            chosen = draw(self._seed, "user session", key, len(self._played))
            row, end = self._played.rows(chosen)
        self._now[user] = (row + 1, end, session)
        return Turn(*self._played.attempt(row), session, row)

    def blocks(self, turn: Turn, session: int) -> NDArray[np.int64]:
        """Those of the context so far."""
        return self._played.blocks(turn.row, session)


class Asked:
    """The prefix blocks of the requests so far: keeps `traffic.cache.prompt.Blocks`."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._blocks: list[NDArray[np.int64]] = []

    def add(self, blocks: NDArray[np.int64]) -> None:
        """Those of the next request."""
        self._blocks.append(blocks)

    def of(self, request: int) -> NDArray[np.int64]:
        """The blocks of one request, first token first."""
        return self._blocks[request]


class Users:
    """Keeps `traffic.loop.Crowd`: who asks, and when.

    ``users``: how many; ``count``: requests until the run ends, at least one a user; ``models``:
    shares of the served models, or none. A thought comes before the first request.
    """

    def __init__(
        self,
        users: int,
        count: int,
        script: Script,
        seed: int,
        *,
        tenants: Sequence[Tenant] = (),
        models: Sequence[float] = (),
    ) -> None:
        if not 1 <= users <= count:
            raise RequestError(
                f"closed.users {users} for {count} requests: write at least 1 user, and "
                "requests.count of at least one a user"
            )
        self.count = count
        self.users = users
        self._script = script
        self.prefix = Asked(script.block_tokens) if script.block_tokens else None
        """The blocks of what has been asked, where it has some."""
        self._tenants = tenants
        self._planned = 0
        self._next: dict[int, Turn] = {}
        self._user = array("q")  # of every request
        self._session: dict[tuple[int, int], int] = {}
        shares = [tenant.share for tenant in tenants] or [1.0]
        self._tenant = [pick(shares, seed, "user tenant", user) for user in range(users)]
        shares = list(models) or [1.0]
        self._model = [pick(shares, seed, "user model", user) for user in range(users)]

    def first(self) -> list[tuple[int, int]]:
        """(arrival, user) of the first requests."""
        self._planned = self.users
        return [(self._think(user), user) for user in range(self.users)]

    def _think(self, user: int) -> int:
        turn = self._next[user] = self._script.turn(user)
        return turn.pause_ps

    def in_turn(self) -> NDArray[np.int64]:
        """What ``count`` requests would be if the users asked by turns; uses up their scripts.

        One row a request: model, input tokens, output tokens, thought before it in picoseconds.
        """
        users = [number % self.users for number in range(self.count)]
        rows = [(self._model[user], *self._script.turn(user)[:3]) for user in users]
        return np.array(rows, np.int64)

    def enter(self, user: int, ledger: Ledger, now: int) -> int:
        """Enter the user's request in the ledger."""
        turn, request = self._next.pop(user), ledger.arrived
        ledger.arrived += 1
        self._user.append(user)
        ledger.arrival_ps[request] = now
        ledger.input_tokens[request] = turn.input_tokens
        ledger.output_tokens[request] = turn.output_tokens
        if turn.session != NO_SESSION:
            known = self._session
            session = known.setdefault((user, turn.session), len(known))
            ledger.session[request] = session
            if self.prefix is not None:
                self.prefix.add(self._script.blocks(turn, session))
        ledger.model[request] = self._model[user]
        ledger.tenant[request] = self._tenant[user]
        if self._tenants:
            ledger.priority[request] = self._tenants[self._tenant[user]].priority
        return request

    def after(self, request: int, now: int) -> tuple[int, int] | None:
        """When the user asks again: a thought after the answer, or after a refusal."""
        if self._planned >= self.count:
            return None
        self._planned += 1
        user = self._user[request]
        return now + self._think(user), user


def talk(users: int, tenants: Sequence[Tenant], lengths: Lengths, think_ps: int, seed: int) -> Talk:
    """What users of these tenants ask: of the tenant's own lengths, or of ``lengths``."""
    if think_ps < 0:
        raise RequestError(f"closed.think {show_duration(think_ps)}: negative; write 0s or more")
    shares = [tenant.share for tenant in tenants] or [1.0]
    own = [(tenant.lengths or lengths) for tenant in tenants] or [lengths]
    return Talk([own[pick(shares, seed, "user tenant", u)] for u in range(users)], think_ps, seed)
