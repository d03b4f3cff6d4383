"""The dilation follows from a frame's time and from what one processor forwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulate.mininet.dilation import (
    BUSY,
    Calibration,
    by_load,
    calibration,
    refuse_wall,
    rounded,
    wall_s,
)
from emulate.mininet.error import EmulationError
from topo.fabric import Fabric, Switch
from topo.family.clos import FatTree, fat_tree
from topo.route import equal_cost
from topo.unit import PS_PER_MS, PS_PER_S

G = 10**9


def _star(hosts: int, rate_bps: int) -> Fabric:
    fabric = Fabric("star")
    switch = fabric.add_switch("s", tier=1, switch=Switch())
    for i in range(hosts):
        fabric.connect(fabric.add_host(f"h{i}"), switch, rate_bps=rate_bps)
    return fabric


def test_the_load_is_that_of_all_nics_over_the_switches_of_a_path() -> None:
    fabric = _star(4, 400 * G)
    frames = 4 * 400 * G / 8 / 4178
    found = by_load(fabric, equal_cost(fabric), 4096, cost_ns=1000)
    assert found == pytest.approx(frames * 1e-6 / BUSY, rel=0.01)


def test_a_fat_tree_counts_the_switches_between_its_hosts() -> None:
    fabric = fat_tree(FatTree(k=4, nic_bps=400 * G))
    frames = 16 * 400 * G / 8 / 4178
    # Of 15 others 1 is behind one switch, 2 behind three and 12 behind five.
    switches = (1 * 1 + 2 * 3 + 12 * 5) / 15
    found = by_load(fabric, equal_cost(fabric), 4096, cost_ns=1000)
    assert found == pytest.approx(frames * switches * 1e-6 / BUSY, rel=0.01)


def test_a_machine_is_measured() -> None:
    fabric = _star(2, 100 * G)
    found = calibration(fabric, equal_cost(fabric), 4096, 2_000_000)
    assert 0 < found.wake_ns <= found.stall_ns
    assert found.dilation >= max(found.by_clock, found.by_stall, found.by_load)
    # Two microseconds of queue bridge the longest stall.
    assert found.by_stall * 2_000_000 >= found.stall_ns * 1000
    # A quarter of a frame's time is as long as sleeps end late.
    assert found.by_clock * 4178 * 80 / 4 >= found.wake_ns * 1000


def test_a_calibration_tells_its_times_with_their_units() -> None:
    assert Calibration(60_400, 4_000_000, 120, 30, 3_010).text() == (
        "dilation 3,100: sleeps end 60.4 us late (P99) and ask for 120; stalls of 4 ms ask for 30, "
        "forwarding at line rate for 3,010"
    )


def test_the_largest_limit_decides() -> None:
    assert Calibration(1, 2, 120, 30, 3_010).dilation == 3_100
    assert Calibration(1, 2, 9_900, 50, 30).dilation == 9_900
    assert Calibration(1, 2, 9_900, 20_000, 30).dilation == 20_000


@given(st.integers(1, 10**9))
def test_rounding_goes_up_by_less_than_a_tenth(value: int) -> None:
    assert value <= rounded(value) < value * 1.1 + 1
    assert rounded(rounded(value)) == rounded(value)


def test_a_run_takes_its_duration_times_the_dilation() -> None:
    assert wall_s(20 * PS_PER_MS, 10_000) == 200


def test_no_room_for_the_dilation_is_told_in_one_line() -> None:
    refuse_wall(20 * PS_PER_MS, 10_000, 200)
    with pytest.raises(EmulationError, match=r"20 ms of the fabric take 3\.33min") as caught:
        refuse_wall(20 * PS_PER_MS, 10_000, 100)
    told = "write a --dilation of at most 5,000, fewer requests (--count) or --wall 3.68min"
    assert str(caught.value).endswith(told)
    assert "\n" not in str(caught.value)


def test_a_measured_dilation_is_the_least_and_none_below_it_is_advised() -> None:
    with pytest.raises(EmulationError, match=r"write fewer requests \(--count\) or --wall 3\."):
        refuse_wall(20 * PS_PER_MS, 10_000, 100, given=False)


def test_where_no_dilation_fits_none_is_advised() -> None:
    with pytest.raises(EmulationError) as caught:
        refuse_wall(100 * PS_PER_S, 10_000, 60)
    assert "--dilation 0" not in str(caught.value)
