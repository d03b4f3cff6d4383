"""The keys under ``requests``: who asks for how much, and when.

`kvfabric.workload` makes a request table of them. Keys that are left out keep the defaults of the
rooms that own them (`traffic.source.session.Agent`, `traffic.source.modulation.Modulation`).
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kvfabric.part import Count, Part, Positive
from kvfabric.quantity import Duration, Frequency, Share, written

_WINDOW = "a start and an end, as [0s, 60s]"

Tokens = Annotated[int, Meta(ge=0, le=100_000_000)]


class ArrivalsPart(Part, frozen=True):
    """When requests arrive.

    ``cv`` is the coefficient of variation of gamma gaps. ``burst`` and ``lull`` are the mean
    periods of on_off arrivals, ``period`` and ``swing`` the day of diurnal ones.
    """

    process: Literal["poisson", "gamma", "deterministic", "on_off", "diurnal"] = "poisson"
    rate: Frequency = written(Frequency, "100/s")
    cv: Positive = 1.0
    burst: Duration = written(Duration, "1s")
    lull: Duration = written(Duration, "1s")
    period: Duration = written(Duration, "24h")
    swing: Share = written(Share, "50%")


class LengthPart(Part, frozen=True):
    """One distribution of whole tokens; ``mean`` and ``std`` are those of the lengths."""

    kind: Literal["normal", "lognormal", "gamma", "constant"]
    mean: Annotated[float, Meta(ge=0, le=1e8)]
    std: Annotated[float, Meta(ge=0, le=1e8)] = 0.0


class LengthsPart(Part, frozen=True):
    """Lengths of one's own in place of the profile's.

    Either ``input``, ``output`` and the rank ``correlation`` between them, or the rows of a
    ``table``: a file in any trace format, of which only the lengths are used.
    """

    input: LengthPart | None = None
    output: LengthPart | None = None
    correlation: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    table: str | None = None


class SessionsPart(Part, frozen=True):
    """Agentic sessions in place of single requests; see docs/workloads.md."""

    turns: Positive | None = None
    calls: Positive | None = None
    first: LengthPart | None = None
    message: LengthPart | None = None
    tool: LengthPart | None = None
    output: LengthPart | None = None
    think: Duration | None = None
    run: Duration | None = None
    wait: Duration | None = None
    token: Duration | None = None
    retry: Share | None = None
    retry_after: Duration | None = None
    shared: Tokens | None = None
    context: Tokens | None = None
    block_tokens: Tokens | None = None


class TenantPart(Part, frozen=True):
    """One tenant: its share of the requests, priority, and a profile of its own if it has one."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    share: Share
    priority: Annotated[int, Meta(ge=0, le=7)] = 0
    profile: str | None = None


class ClosedPart(Part, frozen=True):
    """A closed loop in place of arrivals: users who ask again when they have their answer and have
    thought for a while (exponential; with ``sessions``, as these say)."""

    users: Count
    think: Duration = written(Duration, "10s")


class TracePart(Part, frozen=True):
    """A recorded trace: a window of its time, played faster and with longer lengths."""

    file: str
    window: Annotated[tuple[Duration, Duration], Meta(description=_WINDOW)] | None = None
    scale_rate: Positive = 1.0
    scale_length: Positive = 1.0
    jitter: bool = True


class RequestsPart(Part, frozen=True):
    """The requests of one seed: lengths with arrivals, sessions, or a trace; ``count`` at most."""

    profile: str = "base"
    lengths: LengthsPart | None = None
    arrivals: ArrivalsPart = msgspec.field(default_factory=ArrivalsPart)
    sessions: SessionsPart | None = None
    closed: ClosedPart | None = None
    tenants: tuple[TenantPart, ...] = ()
    trace: TracePart | None = None
    tokens_per_word: Positive = 1.33
    count: Count = 100


def load_told(part: RequestsPart) -> str:
    """How much is asked for, in words.

    >>> load_told(RequestsPart())
    '100 requests/s'
    """
    if part.closed is not None:
        users = part.closed.users
        return f"{users:,} {'user' if users == 1 else 'users'} who wait for their answers"
    if part.trace is not None:
        faster = f", {part.trace.scale_rate:g} times as fast" * (part.trace.scale_rate != 1)
        return f"as recorded{faster}"
    what = "requests" if part.sessions is None else "sessions"
    return f"{part.arrivals.rate:,.10g} {what}/s"
