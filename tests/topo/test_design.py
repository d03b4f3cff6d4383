"""Designs: what fits is within the ports, what does not says why; cuts and prices by hand."""

import csv
import re
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.cut import bisection, disjoint_paths, fewest_disjoint_paths
from topo.design import Spec, design
from topo.error import FabricError
from topo.fabric import Fabric, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.floor import Floor, lengths, racks
from topo.price import PriceError, Range, prices, quote

GBPS = 10**9


def test_every_family_answers_with_a_fabric_or_a_reason():
    found = design(Spec(prefill=64, decode=64, gpus_per_server=8))
    assert [d.family for d in found] == list(FAMILIES)
    for d in found:
        assert (d.fabric is None) == bool(d.reason)
        if d.fabric is not None:
            assert len(d.fabric.hosts_with(Role.PREFILL)) == 64
            assert len(d.fabric.hosts_with(Role.DECODE)) == 64
    assert sum(d.fabric is not None for d in found) >= 8


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([8, 16, 32]))
def test_no_design_uses_more_ports_than_the_switch_has(prefill, decode, ports):
    switch = Switch(ports=ports)
    for d in design(Spec(prefill=prefill, decode=decode, switch=switch), ["leaf_spine", "torus"]):
        if d.fabric is None:
            assert "\n" not in d.reason
            continue
        degree = [0] * len(d.fabric.nodes)
        for link in d.fabric.links:
            degree[link.a] += 1
            degree[link.b] += 1
        assert all(degree[n.index] <= ports for n in d.fabric.switches)


def test_a_switch_too_small_is_the_reason():
    (found,) = design(Spec(prefill=512, decode=512, switch=Switch(ports=8)), ["leaf_spine"])
    assert found.fabric is None
    assert "1024 hosts do not fit two tiers of 8-port switches" in found.reason


def test_what_is_no_question_is_refused():
    with pytest.raises(FabricError, match="design prefill 0: a pool needs hosts"):
        design(Spec(prefill=0, decode=1))
    with pytest.raises(FabricError, match="family 'ring': unknown; write one of single_switch"):
        design(Spec(prefill=1, decode=1), ["ring"])


def test_leaves_of_a_leaf_spine_have_as_many_disjoint_paths_as_uplinks():
    fabric = build("leaf_spine", {"hosts": 64, "leaves": 8, "spines": 4, "trunk": 2})
    assert disjoint_paths(fabric, fabric.node("leaf0").index, fabric.node("leaf5").index) == 8
    fewest = fewest_disjoint_paths(fabric)
    assert fewest is not None
    assert (fewest.paths, fewest.tried, fewest.total) == (8, 28, 28)
    sampled = fewest_disjoint_paths(fabric, most=5)
    assert sampled is not None
    assert (sampled.tried, sampled.total) == (5, 28)


def test_a_mesh_has_a_path_through_every_other_switch():
    fabric = build("full_mesh", {"hosts": 10, "leaves": 5, "trunk": 1})
    assert disjoint_paths(fabric, fabric.node("leaf0").index, fabric.node("leaf1").index) == 4
    with pytest.raises(FabricError, match="two different switches"):
        disjoint_paths(fabric, fabric.node("leaf0").index, fabric.node("leaf0").index)
    with pytest.raises(FabricError, match="not a switch"):
        disjoint_paths(fabric, fabric.hosts[0].index, fabric.node("leaf0").index)


@pytest.mark.parametrize("k", [4, 8])
def test_a_fat_tree_has_full_bisection(k):
    assert bisection(build("fat_tree", {"k": k})) == k**3 // 8 * 400 * GBPS


def test_a_mesh_is_cut_by_all_pairs_across():
    fabric = build("full_mesh", {"hosts": 12, "leaves": 6, "trunk": 2})
    assert bisection(fabric) == 3 * 3 * 2 * 400 * GBPS


@pytest.mark.parametrize(
    ("family", "values", "gbps"),
    [
        ("dual_tor", {"hosts": 64}, 32 * 400),
        ("rail_only", {"hosts": 64}, 32 * 400),
        ("multi_plane", {"hosts": 64}, 32 * 400),
        ("multi_plane", {"hosts": 64, "attach": "every"}, 32 * 400),
        ("host_mesh", {"hosts": 5}, 2 * 3 * 100),
        ("torus", {"shape": (4, 4, 4), "p": 1}, 32 * 400),
    ],
)
def test_hosts_on_several_switches_or_none_are_cut_with_their_own_cables(family, values, gbps):
    assert bisection(build(family, values)) == gbps * GBPS


def test_a_single_switch_is_cut_between_its_hosts():
    fabric = Fabric("file", name="one")
    switch = fabric.add_switch("s", tier=1, switch=Switch())
    for number in range(4):
        fabric.connect(fabric.add_host(f"h{number}"), switch, rate_bps=100 * GBPS)
    assert bisection(fabric) == 200 * GBPS


def test_rates_without_a_common_divisor_have_a_bisection_too():
    fabric = Fabric("file", name="odd")
    switches = [fabric.add_switch(f"s{n}", tier=1, switch=Switch()) for n in range(2)]
    for n, rate in enumerate((399_999_999_989, 400_000_000_003)):
        fabric.connect(fabric.add_host(f"h{n}"), switches[n], rate_bps=rate)
        fabric.connect(switches[0], switches[1], rate_bps=rate)
    assert bisection(fabric) == 799_999_999_992


def test_cables_are_as_long_as_their_way_over_the_floor():
    floor = Floor(servers_per_rack=1, hosts_per_server=4, switches_per_rack=4, racks_per_row=2)
    assert floor.length_m(0, 0) == 2.0
    assert floor.length_m(0, 1) == pytest.approx((0.6 + 4) * 1.1)
    assert floor.length_m(0, 3) == pytest.approx((0.6 + 3 + 4) * 1.1)
    fabric = build("leaf_spine", {"hosts": 8, "leaves": 2, "spines": 2})
    rack = racks(fabric, floor)
    assert [rack[n.index] for n in fabric.switches] == [0, 1, 2, 2]
    metres = lengths(fabric, floor)
    assert metres[:8] == [2.0] * 8
    assert sorted({round(m, 3) for m in metres[8:]}) == [7.7, 8.36]


def test_a_bill_counts_ends_and_adds_up_by_hand():
    fabric = build("leaf_spine", {"hosts": 8, "leaves": 2, "spines": 2, "trunk": 1})
    bill = quote(fabric, floor=Floor(row_m=100.0, racks_per_row=1, hosts_per_server=4))
    counts = {entry.item: entry.count for entry in bill.entries}
    assert counts["switch"] == 4
    assert counts["nic"] == 8
    assert counts["dac"] == 8
    assert counts["optic"] == 2 * counts["fibre"]
    switch = next(entry for entry in bill.entries if entry.item == "switch")
    assert switch.usd.low == pytest.approx(4 * 75_000, rel=0.001)
    assert switch.usd.low < 4 * 83_000 < switch.usd.high
    assert bill.usd.low == pytest.approx(sum(e.usd.low for e in bill.entries))
    assert bill.usd.low <= bill.usd.high
    assert bill.rack_units == Range(4, 8)


def test_a_figure_that_calls_itself_sourced_names_a_page_and_a_date():
    with (files("topo") / "price.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    sourced = [line for line in lines if line["basis"] == "sourced"]
    assert sourced
    for line in sourced:
        assert "https://" in line["source"]
        assert re.fullmatch(r"20\d\d(-\d\d)?", line["date"])


def test_a_quote_of_ones_own_replaces_a_line(tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "item,measure,low,high,basis,date,source\nnic,usd_per_gbps,1,1,quote,2026-11,our vendor\n"
    )
    table = prices(mine)
    assert table["nic", "usd_per_gbps"] == (Range(1, 1), False)
    assert table["switch", "usd_per_gbps"] == prices()["switch", "usd_per_gbps"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nic,usd_per_gbps,2,1,quote,2026,us", "2: 2 to 1: must rise"),
        ("nic,usd_per_gbps,x,1,quote,2026,us", "2: 'x' to '1': not numbers"),
        ("nic,usd_per_gbps,nan,1,quote,2026,us", "2: nan to 1: must rise"),
        ("nic,usd_per_gbps,1,1,quote,,us", "2: a price needs a date and a source"),
        ("nic,usd_per_gbps,1,1,guess,2026,us", "2: basis 'guess': write one of"),
        ("nick,usd_per_gbps,1,1,quote,2026,us", "2: unknown 'nick' 'usd_per_gbps'"),
        ("nic,usd_per_gbps", "2: 2 fields; write 7"),
    ],
)
def test_a_wrong_price_line_is_told_with_its_place(tmp_path, line, told):
    mine = tmp_path / "mine.csv"
    mine.write_text("item,measure,low,high,basis,date,source\n" + line + "\n")
    with pytest.raises(PriceError) as caught:
        prices(mine)
    assert f"mine.csv:{told}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_price_file_that_is_not_there_or_no_text_is_one_line(tmp_path):
    with pytest.raises(PriceError, match="no such file"):
        prices(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PriceError, match="not UTF-8"):
        prices(tmp_path / "bytes.csv")
