"""Placement: pools of the asked size, kept apart, rack by rack, or mixed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.error import FabricError
from topo.fabric import Fabric, Role
from topo.family.registry import build
from topo.placement import WAYS, place


def racks(fabric: Fabric) -> list[str]:
    """The roles rack by rack, as letters."""
    found: dict[int, str] = {}
    for host in fabric.hosts:
        found[host.rack] = found.get(host.rack, "") + str(host.role)[0]
    return list(found.values())


def four_racks() -> Fabric:
    return build("leaf_spine", {"hosts": 16, "leaves": 4, "gpus_per_server": 4})


def test_separate_fills_the_first_hosts_with_prefill():
    assert racks(place(four_racks(), prefill=6, decode=10, by="separate")) == [
        "pppp", "ppdd", "dddd", "dddd",
    ]  # fmt: skip


def test_rack_alternates_whole_racks():
    placed = place(four_racks(), prefill=8, decode=8, by="rack")
    assert racks(placed) == ["pppp", "dddd", "pppp", "dddd"]


def test_rack_gives_racks_in_proportion_to_the_pools():
    placed = place(four_racks(), prefill=4, decode=12, by="rack")
    assert sorted(racks(placed)) == ["dddd", "dddd", "dddd", "pppp"]


def test_rack_shares_a_rack_only_where_a_pool_ends():
    placed = place(four_racks(), prefill=6, decode=10, by="rack")
    assert sum(len(set(rack)) > 1 for rack in racks(placed)) == 1


def test_interleaved_mixes_inside_every_rack():
    assert racks(place(four_racks(), prefill=8, decode=8, by="interleaved")) == ["pdpd"] * 4


def test_rail_gives_whole_rails_in_turn():
    placed = place(four_racks(), prefill=8, decode=8, by="rail")
    assert racks(placed) == ["pdpd"] * 4
    uneven = place(four_racks(), prefill=4, decode=12, by="rail")
    assert {tuple(sorted(set(rack))) for rack in racks(uneven)} == {("d", "p")}
    assert racks(uneven)[0].count("p") == 1


def test_rail_follows_the_server_and_not_the_rack():
    fabric = build("rail_optimised", {"hosts": 16, "rails": 4})
    placed = place(fabric, prefill=8, decode=8, by="rail")
    assert sorted(racks(placed)) == ["dddd", "dddd", "pppp", "pppp"]
    assert [str(h.role)[0] for h in placed.hosts if h.server == 0] == ["p", "d", "p", "d"]


def test_rail_without_servers_is_refused():
    with pytest.raises(FabricError, match=r"'h0' is in no server.*write fabric: \{gpus_per_server"):
        place(build("leaf_spine", {"hosts": 8}), prefill=4, decode=4, by="rail")


@pytest.mark.parametrize("by", WAYS)
def test_storage_takes_the_last_hosts(by):
    placed = place(four_racks(), prefill=4, decode=4, storage=6, by=by)
    assert placed.hosts_with(Role.STORAGE) == list(range(10, 16))
    assert len(placed.hosts_with(Role.PREFILL)) == len(placed.hosts_with(Role.DECODE)) == 4


def test_hosts_beyond_the_pools_are_idle():
    placed = place(four_racks(), prefill=3, decode=3, by="separate")
    assert len(placed.hosts_with(Role.NONE)) == 10


@settings(deadline=None)
@given(st.sampled_from(WAYS), st.integers(1, 15), st.data())
def test_every_way_gives_each_pool_its_size(by, prefill, data):
    decode = data.draw(st.integers(1, 16 - prefill))
    placed = place(four_racks(), prefill=prefill, decode=decode, by=by)
    assert len(placed.hosts_with(Role.PREFILL)) == prefill
    assert len(placed.hosts_with(Role.DECODE)) == decode


def test_pinned_roles_are_kept():
    fabric = build("bipartite", {"prefill": 4, "decode": 8})
    for by in WAYS:
        placed = place(fabric, prefill=4, decode=8, by=by)
        assert [h.role for h in placed.hosts] == [h.role for h in fabric.hosts]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"prefill": 10, "decode": 7}, r"has only 16 hosts; write hosts: 17"),
        ({"prefill": 0, "decode": 7}, "prefill 0: a pool needs hosts"),
        ({"prefill": 8, "decode": 4, "storage": 5}, r"4 decode \+ 5 storage: .* write hosts: 17"),
        ({"prefill": 8, "decode": 4, "storage": -1}, "storage -1: must not be negative"),
        ({"prefill": 1, "decode": -1}, "decode -1: a pool needs hosts"),
        ({"prefill": 1, "decode": 1, "by": "row"}, "write one of separate, rack, interleaved"),
    ],
)
def test_an_impossible_placement_is_refused(asked, told):
    with pytest.raises(FabricError, match=told):
        place(four_racks(), **asked)


def test_counts_that_contradict_pinned_roles_are_refused():
    fabric = build("bipartite", {"prefill": 4, "decode": 8})
    with pytest.raises(FabricError, match="pins 8 hosts to decode; write decode: 8"):
        place(fabric, prefill=4, decode=4)
