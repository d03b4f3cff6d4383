"""The ``failover`` of a scenario: how the router lives with instances that fail, as told."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kvfabric.part import Part, Small
from kvfabric.quantity import Duration, Factor, Share, written
from topo.unit import show_duration
from traffic.failure.resilience import Circuit, Health, Resilience, Retry

Few = Annotated[int, Meta(ge=0, le=1000)]
Label = Annotated[str, Meta(min_length=1, max_length=80)]


class HealthPart(Part, frozen=True):
    """Health checks: so many failures in a row take an instance out, successes bring it back.

    ``label`` names them where `compare` lists several.
    """

    label: Label | None = None
    interval: Duration = written(Duration, "60s")
    timeout: Duration = written(Duration, "5s")
    failures: Small = 3
    successes: Small = 2


class BreakerPart(Part, frozen=True):
    """A circuit breaker for every instance; ``label`` names it where `compare` lists several."""

    label: Label | None = None
    failures: Small = 10
    successes: Small = 3
    open: Duration = written(Duration, "60s")


class RetryPart(Part, frozen=True):
    """Attempts after the first: ``count`` a request, ``budget`` of the active requests at once."""

    count: Few = 5
    backoff: Duration = written(Duration, "50ms")
    factor: Factor = written(Factor, "1.5")
    cap: Duration = written(Duration, "30s")
    jitter: Share = written(Share, "20%")
    budget: Share | None = None
    least: Few = 3


class FailoverPart(Part, frozen=True):
    """How the router lives with instances that fail: see docs/failures.md."""

    health: bool | HealthPart = True
    breaker: bool | BreakerPart = True
    retry: RetryPart = msgspec.field(default_factory=RetryPart)
    timeout: Duration = written(Duration, "1s")
    wait: Duration = written(Duration, "60s")
    load: Duration = written(Duration, "0s")
    discovery: Duration = written(Duration, "0s")
    decode_loss: Literal["retry", "fail"] = "retry"


def resilience_of(part: FailoverPart) -> Resilience:
    """The router's rules; what cannot be is a `ServingError`."""
    health = part.health if isinstance(part.health, HealthPart) else HealthPart()
    breaker = part.breaker if isinstance(part.breaker, BreakerPart) else BreakerPart()
    return Resilience(
        health=Health(
            0 if part.health is False else int(health.interval),
            int(health.timeout) if part.health is not False else 0,
            health.failures,
            health.successes,
        ),
        breaker=None
        if part.breaker is False
        else Circuit(breaker.failures, breaker.successes, int(breaker.open)),
        retry=Retry(
            part.retry.count,
            int(part.retry.backoff),
            float(part.retry.factor),
            int(part.retry.cap),
            float(part.retry.jitter),
            None if part.retry.budget is None else float(part.retry.budget),
            part.retry.least,
        ),
        timeout_ps=int(part.timeout),
        wait_ps=int(part.wait),
        load_ps=int(part.load),
        discovery_ps=int(part.discovery),
        decode_loss=part.decode_loss,
    )


def failover_told(part: FailoverPart) -> str:
    """Every rule in one line."""
    rules = resilience_of(part)
    health, retry = rules.health, rules.retry
    told = [
        f"health check every {show_duration(health.interval_ps)} (timeout "
        f"{show_duration(health.timeout_ps)}), out after {health.failures}, back after "
        f"{health.successes}"
        if health.interval_ps
        else "no health checks",
        "no breaker"
        if rules.breaker is None
        else f"breaker opens after {rules.breaker.failures} failures for "
        f"{show_duration(rules.breaker.open_ps)}, closes after {rules.breaker.successes}",
        f"{retry.retries} retries, the first after {show_duration(retry.backoff_ps)} "
        f"+- {100 * retry.jitter:g}%, then x {retry.factor:g} up to {show_duration(retry.most_ps)}",
        "no retry budget"
        if retry.budget is None
        else f"retries at most {100 * retry.budget:g}% of the active requests, or {retry.least}",
        f"attempts given up after {show_duration(rules.timeout_ps)}",
        f"at most {show_duration(rules.wait_ps)} for somebody healthy",
        f"model load {show_duration(rules.load_ps)}, discovery {show_duration(rules.discovery_ps)}",
        f"sequences of a dead decode instance: {rules.decode_loss}",
    ]
    return "; ".join(told)
