"""Breakers by hand: closed, open, half-open, and who counts in each."""

from traffic.failure.breaker import Breakers
from traffic.failure.resilience import Circuit

RULE = Circuit(failures=3, successes=2, open_ps=100)


def opened() -> Breakers:
    breakers = Breakers(RULE, 2)
    assert breakers.failed(0, 1, 10) is None
    assert breakers.failed(0, 2, 11) is None
    assert breakers.failed(0, 3, 12) == 112
    return breakers


def test_failures_in_a_row_open_a_breaker_and_a_success_between_them_does_not() -> None:
    breakers = Breakers(RULE, 1)
    for request in range(20):
        assert breakers.failed(0, request, request) is None
        assert breakers.failed(0, request, request) is None
        breakers.succeeded(0, request)
    assert breakers.allows(0)
    breakers = opened()
    assert not breakers.allows(0)
    assert breakers.allows(1)
    assert breakers.opened == 1


def test_an_open_breaker_takes_no_notice_of_what_was_sent_before() -> None:
    breakers = opened()
    assert breakers.failed(0, 4, 20) is None
    breakers.succeeded(0, 5)
    assert not breakers.allows(0)


def test_a_half_open_breaker_lets_one_request_through_at_a_time_until_enough_succeeded() -> None:
    breakers = opened()
    breakers.tried(0)
    for trial in (7, 8):
        assert breakers.allows(0)
        breakers.sent(0, trial)
        assert not breakers.allows(0)
        breakers.succeeded(0, 3)  # sent before it opened: says nothing
        assert not breakers.allows(0)
        breakers.succeeded(0, trial)
    breakers.sent(0, 9)
    assert breakers.allows(0)  # closed: any number


def test_a_failed_trial_opens_it_again_and_one_that_left_makes_room_for_another() -> None:
    breakers = opened()
    breakers.tried(0)
    breakers.sent(0, 7)
    assert breakers.failed(0, 3, 150) is None
    assert breakers.failed(0, 7, 160) == 260
    breakers.tried(0)
    breakers.sent(0, 8)
    breakers.dropped(0, 8)
    assert breakers.allows(0)
    breakers.sent(0, 9)
    breakers.succeeded(0, 9)
    breakers.tried(0)
    breakers.sent(0, 10)
    breakers.succeeded(0, 10)
    assert breakers.allows(0)
    breakers.sent(0, 11)
    assert not breakers.allows(0)  # one success since it was half-open anew


def test_without_a_rule_nothing_opens() -> None:
    breakers = Breakers(None, 1)
    assert all(breakers.failed(0, request, request) is None for request in range(100))
    assert breakers.allows(0)
