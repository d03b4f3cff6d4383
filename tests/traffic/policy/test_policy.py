"""Every policy against hand-worked cases, ties included."""

import numpy as np
import pytest
from numpy.typing import NDArray

from topo.error import KvfabricError
from traffic.draw import draw
from traffic.policy.choice import Policy, PolicyError, Request, View, check_reach, islands
from traffic.policy.registry import POLICIES, check_settings, policy


def request(number: int = 0) -> Request:
    return Request(number, 550, 150, 1000)


def view(
    hops: NDArray[np.int32], prefill: list[int] | None = None, decode: list[int] | None = None
) -> View:
    idle = View.idle(hops)
    if prefill is not None:
        idle.prefill_requests[:] = prefill
    if decode is not None:
        idle.decode_requests[:] = decode
    return idle


def flat(prefill: int, decode: int) -> NDArray[np.int32]:
    return np.full((prefill, decode), 4, np.int32)


def choices(policy: Policy, state: View, count: int = 400) -> tuple[list[int], list[int]]:
    """How often each instance was chosen."""
    prefills = [policy.prefill(request(i), state) for i in range(count)]
    decodes = [policy.decode(request(i), p, state) for i, p in enumerate(prefills)]
    rows, columns = state.hops.shape
    return (
        np.bincount(prefills, minlength=rows).tolist(),
        np.bincount(decodes, minlength=columns).tolist(),
    )


def test_random_is_uniform_and_its_two_choices_are_independent() -> None:
    hops = flat(4, 4)
    chosen = policy("random", hops, seed=1)
    pairs = np.zeros((4, 4))
    for i in range(8000):
        p = chosen.prefill(request(i), view(hops))
        pairs[p, chosen.decode(request(i), p, view(hops))] += 1
    # 16 cells of 500: chi-square with 15 degrees of freedom stays below 37.7 at 99.9 %.
    assert ((pairs - 500) ** 2 / 500).sum() < 37.7


def test_random_depends_on_the_seed_and_on_the_request_alone() -> None:
    hops = flat(8, 8)
    forward = [policy("random", hops, seed=1).prefill(request(i), view(hops)) for i in range(50)]
    chosen = policy("random", hops, seed=1)
    backward = [chosen.prefill(request(i), view(hops)) for i in reversed(range(50))]
    assert forward == backward[::-1]
    other = [policy("random", hops, seed=2).prefill(request(i), view(hops)) for i in range(50)]
    assert forward != other


def test_round_robin_counts_each_pool_apart_from_zero() -> None:
    hops = flat(3, 2)
    chosen = policy("round_robin", hops)
    state = view(hops, prefill=[9, 0, 0])
    assert [chosen.prefill(request(i), state) for i in range(5)] == [0, 1, 2, 0, 1]
    assert [chosen.decode(request(i), 0, state) for i in range(3)] == [0, 1, 0]


def test_least_loaded_takes_the_least_of_each_pool() -> None:
    hops = flat(3, 4)
    chosen = policy("least_loaded", hops)
    state = view(hops, prefill=[2, 1, 3], decode=[5, 4, 3, 4])
    assert chosen.prefill(request(), state) == 1
    assert chosen.decode(request(), 1, state) == 2


@pytest.mark.parametrize("name", ["least_loaded", "topology_aware", "static_groups"])
def test_ties_are_spread_evenly_and_by_the_seed(name: str) -> None:
    hops = flat(4, 4)
    prefill, decode = choices(policy(name, hops, seed=3), view(hops, [7, 1, 1, 7], [1, 1, 1, 1]))
    assert prefill[0] == prefill[3] == 0
    assert min(prefill[1:3]) > 150
    spread = [count for count in decode if count]
    assert len(spread) == (2 if name == "static_groups" else 4)
    assert min(spread) > 60


def test_static_groups_stay_inside_the_group_that_the_least_loaded_prefill_fixes() -> None:
    hops = flat(4, 6)
    chosen = policy("static_groups", hops, settings={"groups": 2})
    state = view(hops, prefill=[3, 3, 3, 0], decode=[0, 0, 0, 2, 1, 2])
    assert chosen.prefill(request(), state) == 3
    assert {chosen.decode(request(i), 3, state) for i in range(20)} == {4}
    assert {chosen.decode(request(i), 0, state) for i in range(20)} == {0, 1, 2}
    inside = np.kron(np.eye(2, dtype=bool), np.ones((2, 3), bool))
    assert chosen.pairs(hops).tolist() == inside.tolist()


def test_static_groups_follow_the_islands_of_the_fabric_even_when_numbers_interleave() -> None:
    hops = np.array([[3, -1, 3, -1], [-1, 3, -1, 3], [3, -1, 3, -1], [-1, 3, -1, 3]], np.int32)
    assert islands(hops) == [([0, 2], [0, 2]), ([1, 3], [1, 3])]
    chosen = policy("static_groups", hops)
    assert (chosen.pairs(hops) == (hops >= 0)).all()
    finer = policy("static_groups", hops, settings={"groups": 4})
    assert finer.pairs(hops).tolist() == np.eye(4, dtype=bool).tolist()
    with pytest.raises(PolicyError, match="groups 3: the fabric has 2 piece"):
        policy("static_groups", hops, settings={"groups": 3})
    with pytest.raises(PolicyError, match="write at most 4"):
        policy("static_groups", hops, settings={"groups": 6})


def test_a_chain_of_shared_neighbours_is_one_island() -> None:
    hops = np.array([[2, 2, -1, -1], [-1, 2, 2, -1], [-1, -1, 2, 2]], np.int32)
    assert islands(hops) == [([0, 1, 2], [0, 1, 2, 3])]


def test_topology_aware_prefers_the_nearest_then_the_least_loaded() -> None:
    hops = np.array([[4, 2, 2, 4]], np.int32)
    chosen = policy("topology_aware", hops)
    # Load 8: the bound is ceil(1.5 x 9 / 4) = 4, so a present load of 3 is still allowed.
    assert chosen.decode(request(), 0, view(hops, decode=[0, 3, 2, 3])) == 2
    assert chosen.decode(request(), 0, view(hops, decode=[0, 3, 5, 0])) == 1


def test_topology_aware_leaves_the_nearest_when_it_is_over_the_bound() -> None:
    hops = np.array([[4, 2, 4, 4]], np.int32)
    chosen = policy("topology_aware", hops)
    assert chosen.decode(request(), 0, view(hops, decode=[2, 4, 1, 2])) == 2
    looser = policy("topology_aware", hops, settings={"bound": 3.0})
    assert looser.decode(request(), 0, view(hops, decode=[2, 4, 1, 2])) == 1


def test_topology_aware_on_idle_pools_piles_nothing_on_one_instance() -> None:
    hops = np.array([[2, 4, 4, 4]], np.int32)
    chosen = policy("topology_aware", hops)
    state = view(hops)
    for i in range(40):
        state.decode_requests[chosen.decode(request(i), 0, state)] += 1
    # Never above ceil(1.5 x 40 / 4) = 15, and the nearest carries the most.
    assert state.decode_requests.max() <= 15
    assert int(state.decode_requests.argmax()) == 0
    assert state.decode_requests.min() > 0


def test_only_network_blind_policies_may_pick_a_pair_without_a_path() -> None:
    hops = np.array([[2, -1], [-1, 2]], np.int32)
    for name, kind in POLICIES.items():
        chosen = policy(name, hops)
        if "topology" in kind.sees:
            check_reach(chosen, hops)
        else:
            with pytest.raises(PolicyError, match=f"policy {name} may pick"):
                check_reach(chosen, hops)
        check_reach(chosen, np.abs(hops))


def test_an_instance_without_any_path_is_named() -> None:
    with pytest.raises(PolicyError, match="decode instance 1: no path to any prefill"):
        policy("topology_aware", np.array([[2, -1]], np.int32))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nearest", {}, "policy 'nearest': not known; write one of random, round_robin"),
        ("random", {"groups": 2}, "unknown field `groups`; known settings: none"),
        ("static_groups", {"groups": "two"}, "Expected `int | null`.*known settings: groups"),
        ("static_groups", {"groups": 0}, "groups 0"),
        ("topology_aware", {"bound": 0.5}, "bound 0.5: below 1"),
        ("topology_aware", {"bound": float("nan")}, "bound nan"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_line(
    name: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(KvfabricError, match=message):
        policy(name, flat(2, 2), settings=settings)


def test_settings_are_checked_without_a_fabric() -> None:
    assert check_settings("static_groups", {"groups": 4}) == POLICIES["static_groups"].settings(4)


def test_a_draw_never_leaves_its_range_and_depends_on_the_purpose() -> None:
    drawn = [draw(-5, "one", key, 3) for key in range(300)]
    assert set(drawn) == {0, 1, 2}
    assert drawn != [draw(-5, "two", key, 3) for key in range(300)]
