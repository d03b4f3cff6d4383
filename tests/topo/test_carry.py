"""What a fabric carries, as text: shares, what was lost, and how much of all was tried."""

import pytest

from topo import throughput
from topo.carry import EVEN, LOST, carried, told
from topo.error import FabricError
from topo.fabric import Switch
from topo.family.registry import build
from topo.loss import Loss
from topo.measure import BUILT, REACHED, measure
from topo.placement import place
from topo.price import Range
from topo.route import equal_cost
from topo.skeleton import skeleton


def planes(count: int):
    values = {"hosts": 32, "planes": count, "attach": "every", "switch": Switch(ports=16)}
    return place(build("multi_plane", values), prefill=16, decode=16)


def test_a_plane_of_four_costs_a_quarter_and_leaves_have_no_path_to_another_plane():
    fabric = planes(4)
    cells = carried(fabric, equal_cost(fabric))
    assert tuple(cells) == (*LOST, *EVEN)
    assert cells["plane lost"].startswith("75.0% the ")
    assert cells["theta uniform"] == "1.000"
    assert cells["disjoint paths"] == "0 (64 of 66 tried)"


def test_an_oversubscribed_leaf_spine_carries_its_share_of_every_demand():
    fabric = build("leaf_spine", {"hosts": 24, "oversubscription": 3, "switch": Switch(ports=16)})
    fabric = place(fabric, prefill=12, decode=12)
    cells = carried(fabric, equal_cost(fabric))
    assert {cells[f"theta {demand}"] for demand in ("uniform", "hot", "longest")} == {"0.333"}
    assert cells["plane lost"] == "-"


@pytest.mark.parametrize(
    ("residual", "tried", "total", "expected"),
    [
        (0.5, 4, 4, "50.0% leaf0"),
        (1.0, 4, 4, "100.0% leaf0"),
        (0.99997, 64, 1_088, "99.9970% leaf0 (64 of 1,088 tried)"),
    ],
)
def test_a_loss_is_never_rounded_away_and_says_its_coverage(residual, tried, total, expected):
    assert told(Loss("switch", "leaf0", 1, residual, tried, total)) == expected


def test_stages_are_told_in_the_order_of_the_work():
    heard: list[str] = []
    cells = measure(planes(2), tell=heard.append)
    assert set(cells) == {*BUILT, *REACHED, *LOST}
    assert heard[0] == "routes, bill and mu"
    assert heard[-1] == "cuts"
    assert sum(note.startswith("theta") for note in heard) == 3


def test_many_equal_groups_are_matched_one_to_one_at_the_same_total_distance(monkeypatch):
    fabric = place(build("torus", {"shape": (4, 6), "p": 1}), prefill=12, decode=12)
    graph, routes = skeleton(fabric), equal_cost(fabric)
    first = [members[0] for members in graph.members]
    far = routes.distances(first[: graph.senders], first[graph.senders :])
    solved = throughput.longest(fabric, graph, routes)
    monkeypatch.setattr(throughput, "MOST_VARIABLES", 0)
    matched = throughput.longest(fabric, graph, routes)
    assert sorted(set(matched.ravel())) == [0, 1]
    assert (matched.sum(axis=0) == 1).all()
    assert (matched * far).sum() == pytest.approx((solved * far).sum())


def test_a_fabric_without_roles_has_nothing_to_carry():
    fabric = build("leaf_spine", {"hosts": 8})
    with pytest.raises(FabricError, match="place the roles first"):
        carried(fabric, equal_cost(fabric))


def test_ranges_print_their_ends_or_one_number():
    assert Range(1, 2).text() == "1.0..2.0"
    assert Range(12, 12).text() == "12"
    assert Range(1_500, 2_500).text(1e3) == "1.5..2.5"
