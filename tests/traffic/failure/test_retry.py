"""Retries by their formula, the budget by Envoy's, and rules that cannot be."""

from collections.abc import Callable
from typing import Any

import pytest

from traffic.error import ServingError
from traffic.failure.resilience import Circuit, Health, Resilience, Retry

MS = 10**9


def test_waits_grow_by_the_factor_up_to_the_cap_and_jitter_spreads_them_evenly() -> None:
    rule = Retry(backoff_ps=100 * MS, factor=2, most_ps=350 * MS, jitter=0)
    assert [rule.delay_ps(n, 5, 1) // MS for n in range(4)] == [100, 200, 350, 350]
    rule = Retry(backoff_ps=100 * MS, jitter=0.2)
    waits = [rule.delay_ps(0, request, 1) for request in range(4000)]
    assert min(waits) >= 80 * MS
    assert max(waits) <= 120 * MS
    assert sum(waits) / len(waits) == pytest.approx(100 * MS, rel=0.01)
    assert waits == [rule.delay_ps(0, request, 1) for request in range(4000)]
    assert waits[:9] != [rule.delay_ps(0, request, 2) for request in range(9)]


def test_a_budget_admits_its_share_of_the_active_requests_and_never_fewer_than_the_least() -> None:
    rule = Retry(budget=0.2, least=3)
    assert [rule.admits(retrying, 5) for retrying in range(5)] == [True] * 3 + [False] * 2
    assert rule.admits(19, 100)
    assert not rule.admits(20, 100)
    assert Retry().admits(10**6, 1)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: Health(interval_ps=MS, timeout_ps=2 * MS), "longer than the interval"),
        (lambda: Health(failures=0), r"health\.failures 0: write 1 or more"),
        (lambda: Circuit(open_ps=0), r"breaker\.open 0 s"),
        (lambda: Circuit(successes=0), r"breaker\.successes 0"),
        (lambda: Retry(retries=-1), r"failover\.retry: negative"),
        (lambda: Retry(jitter=1.5), r"retry\.jitter 1\.5: write 0% to 100%"),
        (lambda: Retry(factor=0.5), r"retry\.factor 0\.5: write 1 or more"),
        (lambda: Resilience(timeout_ps=0), "takes time to be noticed"),
        (lambda: Resilience(wait_ps=-1), "failover: negative time"),
        (lambda: Resilience(decode_loss="ignore"), "'ignore': write retry or fail"),
    ],
)
def test_rules_that_cannot_be_are_refused(made: Callable[[], Any], told: str) -> None:
    with pytest.raises(ServingError, match=told):
        made()
