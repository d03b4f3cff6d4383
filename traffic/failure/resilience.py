"""How a router lives with instances that fail: health checks, breakers, retries, patience.

Defaults are those that the resilience page of SGLang's model gateway publishes
(lightseekorg/smg, docs/configuration/resilience.md): a health check every 60 s that takes 5 s at
most, 3 failures down and 2 successes up; a breaker that opens after 10 failures in a row, for 60 s,
and closes after 3 successes; 5 retries, the first after 50 ms, each 1.5 times later up to 30 s,
spread by 20 %; 60 s in the router's queue. They suit services that run for weeks: a study of
seconds sets its own. The retry budget, absent by default as there, is Envoy's
(config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget: 20 % of the active requests, at least 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from topo.unit import PS_PER_MS, PS_PER_S, show_duration
from traffic.draw import draw
from traffic.error import ServingError
from traffic.failure.outage import Outage, ordered

LOSSES: Final = ("retry", "fail")
_SPREAD: Final = 2**32


@dataclass(frozen=True, slots=True)
class Health:
    """Probes at whole multiples of ``interval_ps``; 0: none.

    A living instance answers at once, a dead or loading one is given up ``timeout_ps`` later.
    ``failures`` in a row take an instance out, ``successes`` in a row bring it back.
    """

    interval_ps: int = 60 * PS_PER_S
    timeout_ps: int = 5 * PS_PER_S
    failures: int = 3
    successes: int = 2

    def __post_init__(self) -> None:
        if self.interval_ps < 0 or self.timeout_ps < 0:
            raise ServingError("failover.health: negative time; write 0s or more")
        if self.interval_ps and self.timeout_ps > self.interval_ps:
            raise ServingError(
                f"failover.health.timeout {show_duration(self.timeout_ps)}: longer than the "
                f"interval of {show_duration(self.interval_ps)}, so that answers would come out of "
                "order; write at most it"
            )
        _counts("failover.health", failures=self.failures, successes=self.successes)


@dataclass(frozen=True, slots=True)
class Circuit:
    """A breaker for each instance: ``failures`` in a row open it for ``open_ps``; then it lets one
    request through at a time, and ``successes`` of them close it, a failure opens it again."""

    failures: int = 10
    successes: int = 3
    open_ps: int = 60 * PS_PER_S

    def __post_init__(self) -> None:
        if self.open_ps < 1:
            raise ServingError(
                f"failover.breaker.open {show_duration(self.open_ps)}: write a time above 0"
            )
        _counts("failover.breaker", failures=self.failures, successes=self.successes)


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt after one that failed: at most ``retries`` a request.

    Retry n (from 0) waits min(``backoff_ps`` x ``factor`` ** n, ``most_ps``), times 1 - ``jitter``
    to 1 + ``jitter``. With a ``budget`` there may be at most that share of the active requests, or
    ``least``, in a retry at one time; an attempt beyond is not made.
    """

    retries: int = 5
    backoff_ps: int = 50 * PS_PER_MS
    factor: float = 1.5
    most_ps: int = 30 * PS_PER_S
    jitter: float = 0.2
    budget: float | None = None
    least: int = 3

    def __post_init__(self) -> None:
        if self.retries < 0 or self.least < 0 or min(self.backoff_ps, self.most_ps) < 0:
            raise ServingError("failover.retry: negative number; write 0 or more")
        if not 0 <= self.jitter <= 1:
            raise ServingError(f"failover.retry.jitter {self.jitter:g}: write 0% to 100%")
        if self.factor < 1:
            raise ServingError(f"failover.retry.factor {self.factor:g}: write 1 or more")

    def delay_ps(self, retry: int, request: int, seed: int) -> int:
        """The wait before a retry, counted from 0.

        >>> [Retry(jitter=0).delay_ps(n, 7, 1) // PS_PER_MS for n in range(5)]
        [50, 75, 112, 168, 253]
        """
        plain = min(self.backoff_ps * self.factor**retry, self.most_ps)
        turn = 2 * draw(seed, f"retry {retry}", request, _SPREAD) / (_SPREAD - 1) - 1
        return int(plain * (1 + self.jitter * turn))

    def admits(self, retrying: int, active: int) -> bool:
        """Whether one more retry may start beside ``retrying``, of ``active`` requests in all."""
        return self.budget is None or retrying < max(self.budget * active, self.least)


@dataclass(frozen=True, slots=True)
class Resilience:
    """The rules of a router.

    timeout_ps: from a request's sending to a dead instance, or from the death of one that has it,
        until the router gives that attempt up: a closed connection at once, a silent host late.
    wait_ps: how long a request waits while nobody healthy may be chosen; then it fails.
    load_ps: an instance's model load, from its start to its first work.
    discovery_ps: from then until the router knows of it.
    decode_loss: whether a sequence that a decode instance took with it is tried again from its
        prompt (``retry``), or has failed (``fail``), as where its first tokens were sent out.
    """

    health: Health = field(default_factory=Health)
    breaker: Circuit | None = field(default_factory=Circuit)
    retry: Retry = field(default_factory=Retry)
    timeout_ps: int = PS_PER_S
    wait_ps: int = 60 * PS_PER_S
    load_ps: int = 0
    discovery_ps: int = 0
    decode_loss: str = "retry"

    def __post_init__(self) -> None:
        if self.timeout_ps < 1:
            raise ServingError(
                f"failover.timeout {show_duration(self.timeout_ps)}: a failure takes time to be "
                "noticed; write e.g. 1ms"
            )
        if min(self.wait_ps, self.load_ps, self.discovery_ps) < 0:
            raise ServingError("failover: negative time; write 0s or more")
        if self.decode_loss not in LOSSES:
            raise ServingError(
                f"failover.decode_loss {self.decode_loss[:40]!r}: write {' or '.join(LOSSES)}"
            )


@dataclass(frozen=True, slots=True)
class Hazard:
    """What befalls the instances of a service, and how its router lives with it."""

    outages: Sequence[Outage] = ()
    rules: Resilience = field(default_factory=Resilience)

    def ordered(self, sizes: tuple[int, int]) -> "Hazard":
        """The same with its outages by time, checked against the pools: see `outage.ordered`."""
        return replace(self, outages=ordered(self.outages, sizes, self.rules.load_ps))


def _counts(place: str, **counts: int) -> None:
    for key, value in counts.items():
        if value < 1:
            raise ServingError(f"{place}.{key} {value}: write 1 or more")
