"""same_rack, network_aware, netkv and prfaas by hand, with and without a network to see."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.unit import PS_PER_MS, PS_PER_US
from traffic.policy.choice import NOBODY, PolicyError, Request, View
from traffic.policy.congestion import (
    Netkv,
    NetkvSettings,
    NetworkAware,
    NetworkAwareSettings,
    Ways,
)
from traffic.policy.offload import OffloadSettings, Prfaas
from traffic.policy.rack import RackSettings, SameRack

Picture = Callable[..., View]
FLAT = [[4, 4, 4, 4]]
RACKS = [[2, 2, 4, 4], [4, 4, 2, 2]]


def ask(number: int = 0, tokens: int = 100, decode: int = -1) -> Request:
    """12.5 kB a token: 1 us a token at 100 Gbit/s."""
    return Request(
        number, tokens, 150, tokens * 12_500, blocks=(1, 2, 3, 4), block_tokens=25, decode=decode
    )


def test_a_hand_off_is_stretched_by_use_and_pauses_after_what_is_queued(picture: Picture) -> None:
    state = picture(
        FLAT,
        busy=[[0, 0.5, 0, 1.0]],
        paused=[[0, 0, 0.75, 0]],
        queued=[[7 * PS_PER_US, 0, 0, 0]],
    )
    assert state.network is not None
    took = Ways().transfer_ps(state.network, 1_250_000, 0, None) / PS_PER_US
    # 100 us alone: 107, / 0.5, / 0.25, / 0.05.
    assert took.tolist() == pytest.approx([107, 200, 400, 2000])


def test_a_new_picture_is_looked_at_and_the_present_one_only_once(picture: Picture) -> None:
    state = picture(FLAT, busy=[[0.0, 0.5, 0.5, 0.5]])
    policy = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 0
    assert state.network is not None
    state.network.utilisation(0)[:] = [0.5, 0.5, 0.0, 0.5]
    assert policy.decode(ask(), 0, state) == 0
    state.network.at_ps = 7  # type: ignore[misc]
    assert policy.decode(ask(), 0, state) == 2


def test_same_rack_prefers_the_rack_whatever_its_load(picture: Picture) -> None:
    state = picture(RACKS, decode_requests=[9, 8, 0, 0])
    policy = SameRack(RackSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 1
    assert policy.decode(ask(), 1, state) in (2, 3)


def test_same_rack_leaves_the_rack_when_it_has_no_room(picture: Picture) -> None:
    need = ask().kv_bytes
    state = picture(
        RACKS, decode_capacity_bytes=2 * need, decode_bytes=[need + 1, 2 * need, need, 0]
    )
    state.decode_requests[:] = [0, 0, 3, 2]
    policy = SameRack(RackSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 3
    state.decode_bytes[:] = 2 * need  # nobody has room: the rack again
    assert policy.decode(ask(), 0, state) in (0, 1)


def test_same_rack_works_from_the_decode_side_and_for_pairs(picture: Picture) -> None:
    state = picture(RACKS, prefill_requests=[5, 0], decode_requests=[0, 1, 4, 4])
    policy = SameRack(RackSettings(), state.hops, 0)
    assert policy.prefill(ask(), state) == 1
    assert policy.prefill(ask(decode=0), state) == 0
    # 5 + 0 in one rack, 0 + 4 in the other: the less loaded rack, not the cheapest pair across.
    assert np.argwhere(policy.scores(ask(), state) == policy.scores(ask(), state).min())[
        0
    ].tolist() == [1, 2]


def test_network_aware_takes_the_quickest_way_among_those_not_overloaded(picture: Picture) -> None:
    state = picture(FLAT, busy=[[0.5, 0.0, 0.2, 0.9]])
    policy = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 1
    # Load 8: at most ceil(1.5 x 9 / 4) = 4 with this request, so 4 of them rule it out.
    state.decode_requests[:] = [1, 4, 1, 2]
    assert policy.decode(ask(), 0, state) == 2
    wide = NetworkAware(NetworkAwareSettings(bound=3), state.hops, 0)
    assert wide.decode(ask(), 0, state) == 1


def test_of_equal_ways_the_less_loaded_instance_is_taken(picture: Picture) -> None:
    state = picture(FLAT, busy=[[0.1] * 4], decode_requests=[3, 2, 1, 2])
    assert NetworkAware(NetworkAwareSettings(), state.hops, 0).decode(ask(), 0, state) == 2


def test_estimates_within_a_tenth_count_as_equal_and_the_fewest_links_win(
    picture: Picture,
) -> None:
    # 100, 109, 111 and 200 us: the first two are equal, and the second is nearer.
    state = picture([[4, 2, 2, 2]], busy=[[0.0, 1 - 100 / 109, 1 - 100 / 111, 0.5]])
    policy = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 1
    assert NetworkAware(NetworkAwareSettings(equal=0), state.hops, 0).decode(ask(), 0, state) == 0
    wide = NetworkAware(NetworkAwareSettings(equal=0.2), state.hops, 0)
    state.decode_requests[1] = 1
    assert wide.decode(ask(), 0, state) == 2


def test_an_estimate_is_of_what_the_busiest_nic_moves(picture: Picture) -> None:
    # 100 us and 8 us of queue count as equal, an eighth of it, 12.5 us, and 8 us of queue do not.
    state = picture([[4, 2, 4, 4]], queued=[[0] + [8 * PS_PER_US] * 3])
    aware = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    netkv = Netkv(NetkvSettings(step_weight=0, tier_weight=0), state.hops, 0)
    assert aware.decode(ask(), 0, state) == 1
    assert netkv.decode_cost(ask(), 0, state)[1] / PS_PER_US == pytest.approx(108)
    state.nic_share = 1 / 8
    assert aware.decode(ask(), 0, state) == 0
    assert netkv.decode_cost(ask(), 0, state)[1] / PS_PER_US == pytest.approx(20.5)


def test_netkv_takes_a_tier_more_for_twice_as_slow(picture: Picture) -> None:
    # 100 us at rest: x 2 for half the rate, x 2 for a tier, x 3 for two, x 10.
    state = picture([[2, 4, 6, 2]], busy=[[0.5, 0.0, 0.0, 0.9]])
    policy = Netkv(NetkvSettings(step_weight=0), state.hops, 0)
    cost = policy.decode_cost(ask(), 0, state) / PS_PER_US
    assert cost.tolist() == pytest.approx([200, 200, 300, 1000])
    flat = Netkv(NetkvSettings(step_weight=0, tier_weight=0), state.hops, 0)
    assert flat.decode(ask(), 0, state) in (1, 2)


def test_without_a_network_view_the_fewest_links_win(picture: Picture) -> None:
    state = picture([[4, 2, 6, 2]], decode_requests=[0, 1, 0, 0])
    policy = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 3
    assert Netkv(NetkvSettings(), state.hops, 0).decode(ask(), 0, state) == 3


def test_network_aware_is_the_same_from_the_decode_side_and_for_pairs(picture: Picture) -> None:
    busy = [[0.5, 0.2], [0.0, 0.9]]
    state = picture([[4, 4], [4, 4]], busy=busy)
    policy = NetworkAware(NetworkAwareSettings(), state.hops, 0)
    assert policy.prefill(ask(decode=0), state) == 1
    assert policy.prefill(ask(decode=1), state) == 0
    assert policy.scores(ask(), state).argmin() == 2


def test_netkv_weighs_the_way_against_the_step(picture: Picture) -> None:
    # A sequence adds 1 ms to a step, 12.5 kB a token x 100 tokens take 100 us at rest.
    state = picture(FLAT, busy=[[0.0, 0.9, 0.9, 0.9]], decode_requests=[1, 0, 0, 0], times=True)
    policy = Netkv(NetkvSettings(), state.hops, 0)
    # 1000 + 100 us against 1000 us.
    assert policy.decode(ask(), 0, state) != 0
    # With twice the weight on the network: 1000 + 200 against 2000.
    assert Netkv(NetkvSettings(network_weight=2), state.hops, 0).decode(ask(), 0, state) == 0


def test_netkv_moves_only_what_is_missing(picture: Picture) -> None:
    # All of it at half the rate, or a quarter of it at a tenth: 200 against 250 us.
    state = picture(FLAT, busy=[[0.5, 0.9, 1, 1]], held_decode=[0, 3, 0, 0])
    policy = Netkv(NetkvSettings(step_weight=0), state.hops, 0)
    cost = policy.decode_cost(ask(), 0, state) / PS_PER_US
    assert cost.tolist() == pytest.approx([200, 250, 2000, 2000])


def test_netkv_puts_instances_without_room_last(picture: Picture) -> None:
    need = ask().kv_bytes
    state = picture(
        FLAT,
        busy=[[0, 0.9, 0.9, 0.95]],
        decode_capacity_bytes=need,
        decode_bytes=[1, 0, 0, 0],
        decode_requests=[0, 0, 1, 0],
        times=True,
    )
    assert Netkv(NetkvSettings(), state.hops, 0).decode(ask(), 0, state) == 1


def test_netkv_prefills_where_the_wait_is_least(picture: Picture) -> None:
    state = picture(
        [[4], [4]],
        prefill_free_ps=[5 * PS_PER_MS, 3 * PS_PER_MS],
        prefill_tokens=[0, 9],
        times=True,
    )
    policy = Netkv(NetkvSettings(), state.hops, 0)
    assert policy.prefill(ask(), state) == 1
    state.time = None
    assert policy.prefill(ask(), state) == 0


REMOTE = [[4, 4], [4, 4], [8, 8], [8, 8]]


def test_long_prompts_go_far_and_short_ones_stay(picture: Picture) -> None:
    state = picture(REMOTE, prefill_requests=[3, 4, 2, 1])
    policy = Prfaas(OffloadSettings(threshold_tokens=1000), state.hops, 0)
    assert policy.prefill(ask(tokens=1000), state) == 3
    assert policy.prefill(ask(tokens=999), state) == 0
    assert policy.counters() == {"offloaded": 1, "kept": 1}


def test_what_is_cached_near_by_is_not_long(picture: Picture) -> None:
    state = picture(REMOTE, held=[0, 2, 0, 0])
    policy = Prfaas(OffloadSettings(threshold_tokens=1000), state.hops, 0)
    assert policy.prefill(ask(tokens=1040), state) in (0, 1)  # 990 are left
    assert policy.prefill(ask(tokens=1050), state) in (2, 3)


def test_long_prompts_stay_while_the_way_back_is_full(picture: Picture) -> None:
    state = picture(REMOTE, busy=[[0, 0], [0, 0], [0.9, 0.8], [0.9, 0.8]])
    policy = Prfaas(OffloadSettings(threshold_tokens=100), state.hops, 0)
    assert policy.prefill(ask(), state) in (0, 1)
    wide = Prfaas(OffloadSettings(threshold_tokens=100, most_utilisation=0.9), state.hops, 0)
    assert wide.prefill(ask(), state) in (2, 3)


def test_a_side_without_a_healthy_instance_hands_over_to_the_other(picture: Picture) -> None:
    state = picture(REMOTE, prefill_healthy=[True, True, False, False])
    policy = Prfaas(OffloadSettings(threshold_tokens=100), state.hops, 0)
    assert policy.prefill(ask(), state) in (0, 1)
    state.prefill_healthy[:] = [False, False, True, True]
    assert policy.prefill(ask(tokens=1), state) in (2, 3)
    state.prefill_healthy[:] = False
    assert policy.prefill(ask(), state) == NOBODY


def test_decode_of_a_local_prompt_stays_in_its_domain(picture: Picture) -> None:
    state = picture([[4, 8], [8, 8]], decode_requests=[5, 0])
    policy = Prfaas(OffloadSettings(), state.hops, 0)
    assert policy.decode(ask(), 0, state) == 0
    assert policy.decode(ask(), 1, state) == 1
    state.decode_healthy[0] = False
    assert policy.decode(ask(), 0, state) == 1


@given(st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 99))
def test_only_healthy_instances_with_a_path_are_chosen(healthy: list[bool], number: int) -> None:
    state = View.idle(np.array([[2, 4, -1], [4, 2, 2], [-1, 2, 2]], np.int32))
    state.prefill_healthy[:] = state.decode_healthy[:] = healthy
    for policy in (
        SameRack(RackSettings(), state.hops, 0),
        NetworkAware(NetworkAwareSettings(), state.hops, 0),
        Netkv(NetkvSettings(), state.hops, 0),
        Prfaas(OffloadSettings(), state.hops, 0),
    ):
        for i in range(3):
            usable = state.decode_healthy & (state.hops[i] >= 0)
            chosen = policy.decode(ask(number), i, state)
            assert usable[chosen] if usable.any() else chosen == NOBODY
            usable = state.prefill_healthy & (state.hops[:, i] >= 0)
            chosen = policy.prefill(ask(number, decode=i), state)
            assert usable[chosen] if usable.any() else chosen == NOBODY


def test_impossible_settings_are_refused(picture: Picture) -> None:
    hops = picture(FLAT).hops
    with pytest.raises(PolicyError, match="network_aware bound"):
        NetworkAware(NetworkAwareSettings(bound=0), hops, 0)
    with pytest.raises(PolicyError, match="netkv step_weight -1"):
        Netkv(NetkvSettings(step_weight=-1), hops, 0)
    with pytest.raises(PolicyError, match="prfaas most_utilisation 2"):
        Prfaas(OffloadSettings(most_utilisation=2), hops, 0)
    with pytest.raises(PolicyError, match="prfaas threshold_tokens -1"):
        Prfaas(OffloadSettings(threshold_tokens=-1), hops, 0)
