"""Pictures: every node has its place, roles their colours, and large fabrics a summary."""

import io
import math
import re
import sys
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex, to_rgb

from topo.draw import COLOUR, LOST, draw
from topo.error import FabricError
from topo.fabric import Fabric, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.layout import layout, line
from topo.overview import INK
from topo.placement import place

SWITCHLESS = {"host_mesh", "bipartite_direct"}
"""Too many cables for 320 hosts."""


def placed(family: str, half: int) -> Fabric:
    values = {"hosts": 2 * half, "prefill": half, "decode": half}
    return place(build(family, values), prefill=half, decode=half)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_node_has_a_place_of_its_own(family):
    fabric = placed(family, 16)
    spots = layout(fabric)
    assert set(spots) == {n.index for n in fabric.nodes}
    assert len({(round(x, 6), round(y, 6)) for x, y in spots.values()}) == len(spots)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in SWITCHLESS])
@pytest.mark.parametrize("half", [8, 160])
def test_every_family_is_drawn_small_and_summarised_large(family, half):
    if family == "single_switch":
        half = 8
    figure = draw(placed(family, half))
    out = io.BytesIO()
    figure.savefig(out, format="svg")
    assert f"{2 * half} hosts" in figure.axes[0].get_title(loc="left")
    marks = sum(len(c.get_offsets()) for c in figure.axes[0].collections if c.get_label()[0] != "_")
    assert marks == (16 if half == 8 else 0)


def test_roles_are_told_by_colour_and_in_the_legend():
    figure = draw(placed("leaf_spine", 8))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["prefill (8)", "decode (8)"]
    drawn = {to_hex(c.get_facecolor()[0]).upper() for c in figure.axes[0].collections[1:]}
    assert drawn == {COLOUR[Role.PREFILL], COLOUR[Role.DECODE]}


def texts(fabric: Fabric) -> set[str]:
    return {t.get_text() for t in draw(fabric).axes[0].texts}


def test_beyond_200_switches_each_tier_is_one_box():
    told = texts(placed("fat_tree", 400))
    assert {"400 prefill hosts", "400 decode hosts"} <= told
    assert "400 cables of 400 Gbps" in told


def test_a_large_direct_network_tells_its_shape_or_groups():
    torus = build("torus", {"shape": (6, 6, 6), "p": 1})
    assert "216 switches\nin a box of 6 x 6 x 6" in texts(torus)
    dragonfly = build("dragonfly", {"a": 8, "p": 1, "h": 4})
    assert "264 switches\nin 33 groups of 8" in texts(dragonfly)


def test_what_lies_inside_servers_is_counted_neither_as_hosts_nor_as_switches():
    fabric = placed("rail_only", 256)
    axes = draw(fabric).axes[0]
    bought = sum(node.tier > 0 for node in fabric.switches)
    assert bought < len(fabric.switches)
    assert axes.get_title(loc="left") == f"rail_only: 512 hosts, {bought} switches"
    told = [re.fullmatch(r"(\d+)( prefill| decode)?", t.get_text()) for t in axes.texts]
    assert sum(int(found[1]) for found in told if found) == 512


def test_a_torus_stands_as_a_box_and_no_cable_runs_through_a_switch():
    fabric = build("torus", {"shape": (4, 4), "p": 2})
    spots = layout(fabric)
    assert spots[fabric.node("at0-0").index][1] == spots[fabric.node("at0-3").index][1]
    for link in fabric.links:
        points = line(fabric, spots, link.a, link.b)
        for x, y in points[1:-1]:
            assert all(math.dist((x, y), spots[n.index]) > 0.05 for n in fabric.switches)
    around = fabric.node("at0-0").index, fabric.node("at0-3").index
    assert len(line(fabric, spots, *around)) > 2


def test_hosts_of_a_torus_stand_beside_its_columns_and_not_in_its_cables():
    fabric = build("torus", {"shape": (4, 4, 4), "p": 1})
    spots = layout(fabric)
    columns = {round(spots[n.index][0], 6) for n in fabric.switches}
    assert not columns & {round(spots[n.index][0], 6) for n in fabric.hosts}


@pytest.mark.parametrize("role", Role)
def test_words_in_the_colour_of_a_role_are_read_on_white(role):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(INK[role])
    ]
    light = sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
    assert 1.05 / (light + 0.05) >= 4.5  # WCAG 2, level AA


def test_cables_between_switches_of_one_row_are_arcs():
    fabric = placed("dragonfly_plus", 16)
    spots = layout(fabric)
    level = [
        link for link in fabric.links if fabric.nodes[link.a].tier == fabric.nodes[link.b].tier == 2
    ]
    assert level
    for link in level:
        points = line(fabric, spots, link.a, link.b)
        assert points[6][1] > spots[link.a][1]


def test_names_with_dollars_are_names_and_no_formulas():
    fabric = Fabric("any", name="$evil$ <b>")
    leaf = fabric.add_switch("$x^{$ $", tier=1, switch=Switch())
    fabric.connect(fabric.add_host("$\\frac{1}$"), leaf, rate_bps=1)
    figure = draw(fabric)
    out = io.BytesIO()
    figure.savefig(out, format="svg")
    assert "$x^{$ $" in {t.get_text() for t in figure.axes[0].texts}


def test_drawing_leaves_pyplot_alone():
    before = "matplotlib.pyplot" in sys.modules
    draw(placed("leaf_spine", 4))
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_groups_of_a_dragonfly_stand_together_and_are_named():
    fabric = build("dragonfly", {"hosts": 72, "p": 2, "a": 4, "h": 2})
    spots = layout(fabric)
    routers = fabric.switches
    turn = [math.dist(spots[a.index], spots[b.index]) for a, b in pairwise(routers)]
    inside = [turn[i] for i in range(len(turn)) if (i + 1) % 4]
    between = [turn[i] for i in range(len(turn)) if not (i + 1) % 4]
    assert min(between) > 1.5 * max(inside)
    told = {t.get_text() for t in draw(fabric).axes[0].texts}
    assert {f"group{i}" for i in range(9)} <= told


def test_planes_have_colours_and_a_lost_switch_is_red():
    fabric = placed("dual_tor", 16)
    spine = fabric.switches[-1].name
    colours = {to_hex(c).upper() for c in draw(fabric, spine).axes[0].collections[0].get_colors()}
    assert {"#56B4E9", "#D55E00", LOST} <= colours
    assert LOST not in {to_hex(c).upper() for c in draw(fabric).axes[0].collections[0].get_colors()}


def test_a_lost_switch_that_is_not_drawn_is_refused():
    with pytest.raises(FabricError, match="not in fabric"):
        draw(placed("leaf_spine", 8), "leaf99")
    with pytest.raises(FabricError, match="not drawn in the summary"):
        draw(placed("fat_tree", 400), "core0")
