"""One loss of each kind: cables between tiers, switches by tier, and what hosts go with."""

from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.single import singles

SWITCH = Switch(ports=16, rate_bps=10**11)


def test_a_fat_tree_of_four_has_two_kinds_of_cables_and_three_of_switches() -> None:
    found = {one.names: (one.count, one.cuts) for one in singles(build("fat_tree", {"k": 4}))}
    # k^3/4 cables from edge to aggregation and as many to cores; k^2/2, k^2/2, k^2/4 switches
    assert found == {
        ("edge0", "agg0"): (16, False),
        ("agg0", "core0"): (16, False),
        ("edge0",): (8, True),
        ("agg0",): (8, False),
        ("core0",): (4, False),
    }


def test_cables_of_one_pair_are_lost_together_and_other_rates_are_another_kind() -> None:
    fabric = Fabric("mine")
    leaves = [fabric.add_switch(f"leaf{n}", tier=1, switch=SWITCH) for n in range(3)]
    spine = fabric.add_switch("spine", tier=2, switch=SWITCH)
    for number, leaf in enumerate(leaves):
        fabric.connect(fabric.add_host(f"h{number}"), leaf, rate_bps=10**11)
        fabric.connect(leaf, spine, rate_bps=10**11)
    fabric.connect(leaves[0], spine, rate_bps=10**11)
    fabric.connect(leaves[0], leaves[1], rate_bps=10**11)
    fabric.connect(leaves[1], leaves[2], rate_bps=4 * 10**11)
    found = {one.names: one.count for one in singles(fabric) if len(one.names) == 2}
    assert found == {
        ("leaf0", "spine"): 1,
        ("leaf1", "spine"): 2,
        ("leaf0", "leaf1"): 1,
        ("leaf1", "leaf2"): 1,
    }


def test_a_single_switch_takes_all_hosts_along() -> None:
    (one,) = singles(build("single_switch", {"hosts": 4}))
    assert one.cuts


def test_taking_links_out_keeps_nodes_rates_and_lengths_and_closes_the_ports_up() -> None:
    whole = build("leaf_spine", {"hosts": 8, "leaves": 2, "spines": 2, "cable_m": 7.0})
    gone = {link.index for link in whole.links if link.b == whole.node("spine0").index}
    gone |= {link.index for link in whole.links if link.a == whole.node("spine0").index}
    left = whole.without(gone)
    assert left.nodes == whole.nodes
    kept = [link for link in whole.links if link.index not in gone]
    same = ("a", "b", "rate_bps", "delay_ps", "length_m")
    assert [[getattr(link, name) for name in same] for link in left.links] == [
        [getattr(link, name) for name in same] for link in kept
    ]
    assert [link.index for link in left.links] == list(range(len(kept)))
    first = left.ports.first
    spine = left.node("spine0").index
    assert first[spine + 1] == first[spine]
    assert len(left.ports.node) == 2 * len(kept)
