"""Consistent hashing: stickiness, failover clockwise, the bound on load."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.policy.choice import NOBODY, PolicyError, Request, View
from traffic.policy.hashing import (
    BoundedConsistentHash,
    BoundedHashSettings,
    ConsistentHash,
    HashSettings,
    Ring,
)

FLAT = [[4] * 4] * 4
Picture = Callable[..., View]


def ask(number: int = 0, session: int = 3, **more: object) -> Request:
    return Request(number, 550, 150, 1000, session=session)._replace(**more)


def test_requests_of_a_session_stay_at_one_instance_and_sessions_spread(picture: Picture) -> None:
    state = picture(FLAT)
    policy = ConsistentHash(HashSettings(), state.hops, 0)
    assert len({policy.prefill(ask(i), state) for i in range(50)}) == 1
    chosen = Counter(policy.decode(ask(0, session=s), 0, state) for s in range(2000))
    # 150 places each: shares within 10 % or so of a quarter.
    assert all(350 < chosen[i] < 650 for i in range(4))


def test_a_failure_moves_only_the_keys_of_the_instance_that_failed(picture: Picture) -> None:
    state = picture(FLAT)
    policy = ConsistentHash(HashSettings(), state.hops, 0)
    before = [policy.prefill(ask(0, session=s), state) for s in range(500)]
    state.prefill_healthy[2] = False
    during = [policy.prefill(ask(0, session=s), state) for s in range(500)]
    assert all(d == b for b, d in zip(before, during, strict=True) if b != 2)
    moved = Counter(d for b, d in zip(before, during, strict=True) if b == 2)
    assert 2 not in moved
    assert len(moved) == 3  # clockwise is another instance at every place
    state.prefill_healthy[2] = True
    assert [policy.prefill(ask(0, session=s), state) for s in range(500)] == before


def test_the_owner_is_the_next_place_clockwise_of_a_ring_drawn_by_hand() -> None:
    ring = Ring(3, 1, 0, "prefill")
    order = [int(i) for i in ring._owners[:3]]
    everyone = np.ones(3, np.bool_)
    for key in range(30):
        first = ring.owner(key, everyone)
        without = everyone.copy()
        without[first] = False
        following = order[(order.index(first) + 1) % 3]
        assert ring.owner(key, without) == following
        without[following] = False
        assert ring.owner(key, without) == order[(order.index(first) + 2) % 3]


def test_other_keys_are_the_tenant_and_the_first_prefix_block(picture: Picture) -> None:
    state = picture(FLAT)
    tenant = ConsistentHash(HashSettings(key="tenant"), state.hops, 0)
    assert len({tenant.prefill(ask(i, i, tenant=5), state) for i in range(20)}) == 1
    prefix = ConsistentHash(HashSettings(key="prefix"), state.hops, 0)
    same = {prefix.prefill(ask(i, i, blocks=(77, i)), state) for i in range(20)}
    assert len(same) == 1


@pytest.mark.parametrize("key", ["session", "prefix"])
def test_requests_without_the_key_are_spread(picture: Picture, key: str) -> None:
    state = picture(FLAT)
    settings = HashSettings(key="session" if key == "session" else "prefix")
    policy = ConsistentHash(settings, state.hops, 0)
    chosen = Counter(policy.prefill(ask(i, session=-1), state) for i in range(2000))
    assert all(400 < chosen[i] < 600 for i in range(4))


def test_the_bounded_form_leaves_an_instance_above_one_and_a_half_times_the_mean(
    picture: Picture,
) -> None:
    state = picture(FLAT)
    policy = BoundedConsistentHash(BoundedHashSettings(), state.hops, 0)
    home = policy.prefill(ask(), state)
    others = [i for i in range(4) if i != home]
    # Mean 4, bound 6: at 6 it stays, at 7 (mean 4.25, bound 6.375) it goes.
    state.prefill_requests[others] = [3, 3, 4]
    state.prefill_requests[home] = 6
    assert policy.prefill(ask(), state) == home
    state.prefill_requests[home] = 7
    spilled = policy.prefill(ask(), state)
    assert spilled != home
    strict = ConsistentHash(HashSettings(), state.hops, 0)
    assert strict.prefill(ask(), state) == home
    # The one it goes to is the next clockwise, as when the preferred one is down.
    state.prefill_healthy[home] = False
    assert strict.prefill(ask(), state) == spilled


def test_an_instance_at_the_bound_still_takes_what_spills_over(picture: Picture) -> None:
    state = picture(FLAT)
    policy = BoundedConsistentHash(BoundedHashSettings(), state.hops, 0)
    home = policy.prefill(ask(), state)
    state.prefill_healthy[home] = False
    following = policy.prefill(ask(), state)
    state.prefill_healthy[home] = True
    # 10 + 6 of 4 instances: a mean of 4 and a bound of 6.
    state.prefill_requests[home], state.prefill_requests[following] = 10, 6
    assert policy.prefill(ask(), state) == following
    state.prefill_requests[following] = 7  # 17: a bound of 6.375
    assert policy.prefill(ask(), state) not in (home, following)


def test_the_only_healthy_instance_of_many_is_found_from_everywhere() -> None:
    ring = Ring(64, 20, 0, "decode")
    usable = np.zeros(64, np.bool_)
    usable[37] = True
    assert {ring.owner(key, usable) for key in range(300)} == {37}


def test_the_mean_is_that_of_healthy_instances(picture: Picture) -> None:
    state = picture(FLAT)
    policy = BoundedConsistentHash(BoundedHashSettings(), state.hops, 0)
    home = policy.prefill(ask(), state)
    dead = (home + 1) % 4
    state.prefill_requests[:] = 2
    state.prefill_requests[home] = 5  # mean of the healthy 3, bound 4.5
    state.prefill_requests[dead] = 90
    state.prefill_healthy[dead] = False
    assert policy.prefill(ask(), state) not in (home, dead)


def test_on_idle_pools_the_bounded_form_keeps_the_preferred_instance(picture: Picture) -> None:
    state = picture(FLAT)
    strict = ConsistentHash(HashSettings(), state.hops, 0)
    policy = BoundedConsistentHash(BoundedHashSettings(), state.hops, 0)
    for session in range(50):
        asked = ask(0, session)
        assert policy.decode(asked, 0, state) == strict.decode(asked, 0, state)


@given(
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.integers(0, 30), min_size=5, max_size=5),
    st.integers(-1, 10**9),
)
def test_hashing_never_takes_an_unhealthy_instance(
    healthy: list[bool], load: list[int], session: int
) -> None:
    state = View.idle(np.full((5, 5), 4, np.int32))
    state.prefill_healthy[:] = state.decode_healthy[:] = healthy
    state.prefill_requests[:] = state.decode_requests[:] = load
    policy = BoundedConsistentHash(BoundedHashSettings(virtual_nodes=20), state.hops, 0)
    for chosen in (policy.prefill(ask(0, session), state), policy.decode(ask(0), 0, state)):
        assert chosen == NOBODY if not any(healthy) else healthy[chosen]


def test_impossible_rings_and_bounds_are_refused(picture: Picture) -> None:
    state = picture(FLAT)
    with pytest.raises(PolicyError, match="consistent_hash virtual_nodes 0"):
        ConsistentHash(HashSettings(virtual_nodes=0), state.hops, 0)
    with pytest.raises(PolicyError, match="bounded_consistent_hash bound 0"):
        BoundedConsistentHash(BoundedHashSettings(bound=0.5), state.hops, 0)


def test_the_published_defaults() -> None:
    assert HashSettings().virtual_nodes == 150
    assert BoundedHashSettings().bound == 1.5
