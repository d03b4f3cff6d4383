"""The numbers in the book's chapter on fabrics are those that the code gives."""

import re
from pathlib import Path

import pytest

from topo.bom import bom
from topo.capacity import diameter, mean_distance, mu
from topo.fabric import Switch
from topo.family.registry import FAMILIES, build
from topo.placement import place

BOOK = Path(__file__).parents[2] / "docs" / "fabrics.md"


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "single_switch"])
def test_the_table_of_64_nics_is_what_the_code_builds(family):
    values = {"hosts": 64, "prefill": 32, "decode": 32, "switch": Switch(ports=32)}
    fabric = place(build(family, values), prefill=32, decode=32, by="rack")
    parts = bom(fabric)
    table = BOOK.read_text().split("## The same 64 NICs")[1]
    row = re.search(rf"^\| {family}\b.*$", table, re.MULTILINE)
    assert row is not None
    cells = [cell.strip() for cell in row[0].strip("|").split("|")][1:]
    switches = sum(parts.switches.values())
    assert cells[0] in (f"{switches}", f"{switches} of 8 ports")
    assert cells[1:] == [
        f"{parts.switch_cables}",
        f"{diameter(fabric)} links",
        f"{mean_distance(fabric):.2f} links",
        f"{mu(fabric) / 1e12:.1f} Tbit/s",
        f"{parts.cost_usd / 1000:.0f} k$",
    ]
