"""The plan of a run carries the packet engine's settings, number for number."""

from pathlib import Path

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.mininet.plan import NodePlan, Plan, PlanError, PortPlan, packed, read_plan, unpacked
from emulate.setting import (
    dcqcn_columns,
    discipline_columns,
    fabric_columns,
    port_headroom,
    route_columns,
    transport_columns,
)
from emulate.transport import Transport
from topo.family.clos import LeafSpine, leaf_spine
from topo.route import equal_cost


def _plan(folder: Path) -> Plan:
    fabric = leaf_spine(LeafSpine(hosts=8, leaves=2, spines=2))
    discipline, transport = Discipline(), Transport()
    headroom = port_headroom(fabric, discipline, transport)
    return Plan(
        prefix="kv0000",
        folder=str(folder),
        dilation=10_000,
        seed=3,
        tick_ps=10_000_000,
        mtu_bytes=9_216,
        fabric=packed(fabric_columns(fabric)),
        routes=packed(route_columns(equal_cost(fabric))),
        discipline=packed(discipline_columns(fabric, discipline, headroom)),
        dcqcn=packed(dcqcn_columns(transport)),
        transport=packed(transport_columns(fabric, transport)),
        nodes=[NodePlan(0, "host0", "host", 4242, "10.0.0.1")],
        ports=[PortPlan(0, 0, "kv0000-abc", "02:00:00:00:00:01")],
    )


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    plan.write()
    assert read_plan(plan.path) == plan


def test_the_settings_come_back_with_values_and_types(tmp_path: Path) -> None:
    fabric = leaf_spine(LeafSpine(hosts=8, leaves=2, spines=2))
    plan = _plan(tmp_path)
    plan.write()
    columns = fabric_columns(fabric)
    back = unpacked(read_plan(plan.path).fabric)
    assert back.keys() == columns.keys()
    for name, column in columns.items():
        assert back[name].dtype == column.dtype
        np.testing.assert_array_equal(back[name], column)


def test_the_engine_takes_what_comes_back(tmp_path: Path) -> None:
    from emulate import _engine

    plan = _plan(tmp_path)
    plan.write()
    back = read_plan(plan.path)
    dcqcn = _engine.dcqcn_setting(**unpacked(back.dcqcn))
    _engine.Core(
        fabric=_engine.fabric_setting(**unpacked(back.fabric)),
        routes=_engine.route_setting(**unpacked(back.routes)),
        discipline=_engine.discipline_setting(**unpacked(back.discipline)),
        transport=_engine.transport_setting(dcqcn=dcqcn, **unpacked(back.transport)),
        faults=[],
        seed=back.seed,
        tick_ps=back.tick_ps,
    )


def test_a_namespace_is_that_of_its_process() -> None:
    assert NodePlan(0, "a", "host", 4242).namespace == "/proc/4242/ns/net"


@pytest.mark.parametrize("text", ["", "{}", '{"prefix": 3}'])
def test_what_is_no_plan_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(PlanError, match=r"plan\.json: not a plan of a run") as caught:
        read_plan(file)
    assert "\n" not in str(caught.value)


def test_a_run_without_a_plan_yet_is_still_being_set_up(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"^run {tmp_path.name}: is still being set up"):
        read_plan(tmp_path / "plan.json")
