"""Quantities are read with their unit or refused in one line that says what to write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.error import UnitError
from topo.unit import (
    duration,
    frequency,
    length,
    propagation_ps,
    rate,
    share,
    show_duration,
    show_rate,
    show_size,
    size,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (rate, "400Gbps", 400 * 10**9),
        (rate, "0.8 Tbps", 800 * 10**9),
        (size, "64MiB", 64 * 2**20),
        (size, "25MB", 25 * 10**6),
        (duration, "600ns", 600_000),
        (duration, "1.5us", 1_500_000),
        (length, "150cm", 1.5),
        (frequency, "120/min", 2.0),
        (share, "12.5%", 0.125),
        (share, "1/8", 0.125),
    ],
)
def test_a_number_with_its_unit_becomes_base_units(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize("read", [rate, size, duration, length, frequency, share])
@pytest.mark.parametrize(
    "text",
    ["", "NaN", "nan Gbps", "inf s", "-5us", "-400Gbps", "400", "1e9bps", "4 0 0Gbps", "٣Gbps"],
)
def test_what_is_not_a_positive_number_with_a_unit_is_refused(read, text):
    with pytest.raises(UnitError) as refusal:
        read(text)
    assert "write" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_incomplete_unit_is_told_with_the_known_ones():
    with pytest.raises(UnitError, match=r"rate '400G': unknown unit 'G' .*write 400Gbps"):
        rate("400G")


def test_a_unit_of_another_kind_is_refused():
    with pytest.raises(UnitError, match="unknown unit"):
        size("400Gbps")
    with pytest.raises(UnitError, match="unknown unit"):
        duration("10m")


@pytest.mark.parametrize(
    ("text", "most"), [("999999999999999Tbps", "4611686Tbps"), ("999999999999999h", "1281h")]
)
def test_a_quantity_beyond_the_range_of_the_engine_is_refused_in_its_unit(text, most):
    read = rate if text.endswith("bps") else duration
    with pytest.raises(UnitError, match=f"too large; write at most {most}"):
        read(text)


def test_a_share_above_the_whole_is_refused():
    with pytest.raises(UnitError, match="above the whole"):
        share("101%")
    with pytest.raises(UnitError, match="above the whole"):
        share("9/8")


def test_a_long_wrong_text_is_cut_in_the_message():
    with pytest.raises(UnitError) as refusal:
        rate("x" * 10_000)
    assert len(str(refusal.value)) < 200


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_whole_nanoseconds_survive_the_text(count):
    assert duration(f"{count}ns") == count * 1000


def test_quantities_are_shown_with_three_digits():
    assert show_duration(2_480_000) == "2.48 us"
    assert show_size(25_000_000) == "25 MB"
    assert show_rate(12_800 * 10**9) == "12.8 Tbps"


def test_ten_metres_take_fifty_and_a_half_nanoseconds():
    assert propagation_ps(10) == 50_500
