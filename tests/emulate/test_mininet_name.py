"""Names of a run fit the kernel, carry the run's prefix, and differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulate.mininet.name import (
    MOST,
    address,
    fresh_prefix,
    interface_name,
    is_prefix,
    mac,
    owned_by,
)
from topo.family.clos import FatTree, fat_tree


@given(st.text())
def test_a_name_has_fifteen_characters_and_the_prefix(port: str) -> None:
    name = interface_name("kv01af", port)
    assert len(name) == MOST
    assert owned_by("kv01af", name)
    assert not owned_by("kv01ae", name)


def test_the_ports_of_a_large_fabric_have_different_names() -> None:
    fabric = fat_tree(FatTree(k=16))
    names = {interface_name("kv01af", fabric.port_name(p)) for p in range(len(fabric.ports.node))}
    assert len(names) == len(fabric.ports.node)


def test_a_fresh_prefix_is_one() -> None:
    assert is_prefix(fresh_prefix())


@pytest.mark.parametrize("text", ["", "kv", "kv01A0", "kv01a", "kv01aff", "eth0", "kv01af-"])
def test_other_texts_are_no_prefixes(text: str) -> None:
    assert not is_prefix(text)


@pytest.mark.parametrize("foreign", ["eth0", "kv01afx", "veth-kv01af-", "docker0", "s1-eth1"])
def test_foreign_interfaces_are_not_owned(foreign: str) -> None:
    assert not owned_by("kv01af", foreign)


@given(st.integers(0, 2**24 - 3), st.integers(0, 2**24 - 3))
def test_addresses_differ_where_numbers_do(a: int, b: int) -> None:
    assert (mac(a) == mac(b)) == (a == b)
    assert (address(a) == address(b)) == (a == b)


def test_a_mac_is_local_and_of_one_station() -> None:
    first = int(mac(0)[:2], 16)
    assert first & 0b10
    assert not first & 0b01
