"""Losses: mu after one link, switch, leaf or plane, by hand, by brute force and by sample."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.capacity import mu
from topo.error import FabricError
from topo.fabric import Fabric, Role, Switch
from topo.family.registry import build
from topo.loss import planes_of, worst, worst_losses
from topo.placement import place
from topo.skeleton import flow, skeleton

GBPS = 10**9


def leaf_spine(half: int, **values: object) -> Fabric:
    switch = Switch(ports=64, rate_bps=100 * GBPS)
    fabric = build(
        "leaf_spine", {"hosts": 2 * half, "nic_bps": 100 * GBPS, "switch": switch, **values}
    )
    return place(fabric, prefill=half, decode=half, by="separate")


def without(fabric: Fabric, links: set[int]) -> Fabric:
    left = Fabric(fabric.family)
    for n in fabric.nodes:
        if n.switch is None:
            left.add_host(n.name, rack=n.rack, role=n.role)
        else:
            left.add_switch(n.name, tier=n.tier, switch=n.switch, rack=n.rack)
    for link in fabric.links:
        if link.index not in links:
            left.connect(link.a, link.b, rate_bps=link.rate_bps)
    return left


@st.composite
def wild(draw: st.DrawFn) -> Fabric:
    """A few switches with hosts of any role and links of two rates anywhere between them."""
    fabric = Fabric("wild")
    count = draw(st.integers(1, 5))
    switches = [fabric.add_switch(f"s{i}", tier=1, switch=Switch()) for i in range(count)]
    for i in range(draw(st.integers(2, 8))):
        role = draw(st.sampled_from([Role.PREFILL, Role.DECODE, Role.BOTH, Role.NONE]))
        role = Role.PREFILL if i == 0 else Role.DECODE if i == 1 else role
        host = fabric.add_host(f"h{i}", role=role)
        for seat in draw(st.lists(st.sampled_from(switches), min_size=1, max_size=2)):
            fabric.connect(host, seat, rate_bps=draw(st.sampled_from([1, 2])) * GBPS)
    for a in range(count):
        for b in range(a):
            for _ in range(draw(st.integers(0, 2))):
                fabric.connect(
                    switches[a], switches[b], rate_bps=draw(st.sampled_from([1, 3])) * GBPS
                )
    return fabric


@settings(max_examples=60, deadline=None)
@given(wild())
def test_the_skeleton_keeps_the_maximum_flow(fabric):
    assert flow(skeleton(fabric)) == mu(fabric)


@settings(max_examples=40, deadline=None)
@given(wild())
def test_the_worst_link_is_that_of_taking_each_out_in_turn(fabric):
    def left(links):
        try:
            return mu(without(fabric, links))
        except FabricError:  # the last host of a pool lost its only cable
            return 0

    found = worst_losses(fabric, kinds=["link"])["link"]
    assert found.whole
    assert found.mu_bps == min(left({link.index}) for link in fabric.links)
    assert 0 <= found.residual <= 1


@settings(max_examples=40, deadline=None)
@given(wild())
def test_the_worst_switch_is_that_of_taking_all_its_links_out(fabric):
    def left(node):
        cut = {link.index for link in fabric.links if node in (link.a, link.b)}
        try:
            return mu(without(fabric, cut))
        except FabricError:
            return 0

    found = worst_losses(fabric, kinds=["switch"])["switch"]
    assert found.mu_bps == min(left(node.index) for node in fabric.switches)


def test_a_leaf_spine_loses_its_share_of_spines_and_leaves():
    fabric = leaf_spine(16, leaves=4, spines=4, trunk=2)
    losses = worst_losses(fabric)
    assert losses["link"].mu_bps == 1_500 * GBPS
    assert losses["leaf"].residual == 0.5
    assert losses["switch"].residual == 0.5
    assert worst(losses) == losses["switch"]
    assert {kind: loss.total for kind, loss in losses.items()} == {
        "link": 32 + 32,
        "switch": 8,
        "leaf": 4,
    }


def test_a_spine_that_no_leaf_depends_on_costs_its_links_only():
    fabric = leaf_spine(8, leaves=8, spines=4, trunk=1)
    spine = next(n for n in fabric.switches if n.tier == 2)
    cut = {link.index for link in fabric.links if spine.index in (link.a, link.b)}
    assert mu(without(fabric, cut)) == 8 * 100 * GBPS


def test_losing_a_plane_leaves_the_others():
    fabric = Fabric("planes")
    planes = [fabric.add_switch(f"plane{i}", tier=1, switch=Switch()) for i in range(4)]
    for i in range(4):
        host = fabric.add_host(f"h{i}", role=Role.PREFILL if i < 2 else Role.DECODE)
        for plane in planes:
            fabric.connect(host, plane, rate_bps=50 * GBPS)
    assert planes_of(fabric) == [[plane] for plane in planes]
    loss = worst_losses(fabric)["plane"]
    assert (loss.mu_bps, loss.residual, loss.total) == (300 * GBPS, 0.75, 4)


def test_a_fabric_of_one_plane_has_none_to_lose():
    assert "plane" not in worst_losses(leaf_spine(8))


def test_a_sample_says_what_it_covered_and_takes_every_kind():
    fabric = leaf_spine(32, leaves=8, spines=4, trunk=2)
    losses = worst_losses(fabric, kinds=["link", "switch"], most=3)
    assert not losses["link"].whole
    assert losses["switch"].tried == 3
    assert losses["switch"].total == 12
    assert losses == worst_losses(fabric, kinds=["link", "switch"], most=3)
    whole = worst_losses(fabric, kinds=["switch"])["switch"]
    assert losses["switch"].mu_bps == whole.mu_bps


@pytest.mark.parametrize(
    ("given", "told"),
    [({"most": 0}, "losses 0: at least one"), ({"kinds": ["rack"]}, "loss of 'rack': unknown")],
)
def test_what_cannot_be_tried_is_refused(given, told):
    with pytest.raises(FabricError, match=told):
        worst_losses(leaf_spine(4), **given)


def test_roles_are_needed():
    with pytest.raises(FabricError, match="no prefill host with a link"):
        worst_losses(build("leaf_spine", {"hosts": 8}))
