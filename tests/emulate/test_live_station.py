"""What a process of real frames refuses before it opens anything, in one line each."""

from typing import Any

import pytest

from emulate.discipline import Discipline
from emulate.setting import (
    discipline_setting,
    fabric_setting,
    port_headroom,
    route_setting,
    transport_setting,
)
from emulate.transport import Transport
from topo.route import equal_cost

_live = pytest.importorskip("emulate._live", reason="real frames need Linux")

GOOD = "02:00:00:00:00:01"


def process(lab, kind, **changed):
    fabric, discipline, transport = lab.star(2), Discipline(), Transport()
    first = fabric.ports.first.tolist()
    own = range(first[0], first[1]) if kind is _live.Switch else range(first[1], first[3])
    arguments: dict[str, Any] = {
        "fabric": fabric_setting(fabric),
        "routes": route_setting(equal_cost(fabric)),
        "discipline": discipline_setting(
            fabric, discipline, port_headroom(fabric, discipline, transport)
        ),
        "transport": transport_setting(fabric, transport),
        "ports": [(port, "", f"none{port}", GOOD) for port in own],
        "hosts": [(1, "10.0.0.1", GOOD), (2, "10.0.0.2", GOOD)],
        "seed": 1,
        "dilation": 1000,
        "tick_ps": 10**7,
        "mtu_bytes": 9600,
    }
    return kind(**(arguments | changed))


def test_an_interface_that_is_not_there_is_named(lab):
    with pytest.raises(OSError, match="interface none0"):
        process(lab, _live.Switch)


def test_a_namespace_that_is_not_there_is_named(lab):
    with pytest.raises(FileNotFoundError, match="namespace /run/netns/nosuch"):
        process(lab, _live.Switch, ports=[(0, "/run/netns/nosuch", "eth0", GOOD)])


def test_a_link_to_another_process_needs_an_interface(lab):
    with pytest.raises(ValueError, match="port 0: its peer is not in this process"):
        process(lab, _live.Switch, ports=[(0, "", "", ""), (1, "", "", "")])


@pytest.mark.parametrize("address", ["2:0", "02-00-00-00-00-01", "02:00:00:00:00:01:02", "g"])
def test_addresses_are_written_in_full(lab, address):
    with pytest.raises(ValueError, match=r"write it as 02:00:00:00:00:01"):
        process(lab, _live.Switch, hosts=[(1, "10.0.0.1", address)])
    with pytest.raises(ValueError, match=r"write it as 10\.0\.0\.1"):
        process(lab, _live.Switch, hosts=[(1, address, GOOD)])


def test_a_frame_of_the_transport_must_fit_the_interface(lab):
    with pytest.raises(ValueError, match="below a full frame"):
        process(lab, _live.Agent, mtu_bytes=1500)


def test_virtual_time_never_stands_still(lab):
    with pytest.raises(ValueError, match="dilation"):
        process(lab, _live.Switch, dilation=0, ports=[])
