"""The cable map: one row a cable, for the people who pull them and for the labels they print.

Rack units, lanes, planes and rails are columns to be filled by whoever places the devices; a
fabric does not know them. The medium is a rule of thumb by length, as buyers use it: copper (DAC)
up to 3 m, active optical (AOC) up to 30 m, single mode with DR4 optics up to 500 m and FR4 beyond
(IEEE 802.3bs 400GBASE-DR4 reaches 500 m, 400GBASE-FR4 2 km); of a cable of 0 m, none is named.
"""

from typing import Final

from topo.fabric import Fabric
from topo.floor import is_inside
from topo.format.written import Written, interface, plural, table
from topo.price import AOC_M, DAC_M

COLUMNS: Final = (
    *("cable_id", "a_rack", "a_u", "a_device", "a_port", "a_lane"),
    *("b_rack", "b_u", "b_device", "b_port", "b_lane"),
    *("rate_gbps", "media", "length_m", "plane", "rail", "tier", "label_a", "label_b", "status"),
)
_REACH: Final = ((DAC_M, "DAC"), (AOC_M, "AOC"), (500.0, "SMF-DR4"), (float("inf"), "SMF-FR4"))
_FORMULA: Final = ("=", "+", "-", "@")


def medium(length_m: float) -> str:
    """The medium that a cable of that length is usually bought in; empty for 0 m.

    >>> medium(3), medium(10), medium(100)
    ('DAC', 'AOC', 'SMF-DR4')
    """
    return next(name for reach, name in _REACH if length_m <= reach) if length_m else ""


def cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one that could be gets a leading quote.

    >>> cell("=1+1"), cell("leaf0")
    ("'=1+1", 'leaf0')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def write(fabric: Fabric) -> Written:
    """A fabric's cables as CSV; tier is that of the higher end, rates are in Gbit/s."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    cables = [link for link in fabric.links if not is_inside(fabric, link.a, link.b)]
    for link in cables:
        a, b = fabric.nodes[link.a], fabric.nodes[link.b]
        ports = interface(a.kind, link.a_port), interface(b.kind, link.b_port)
        rows.append(
            (
                *(link.index, "" if a.rack < 0 else a.rack, "", cell(a.name), ports[0], ""),
                *("" if b.rack < 0 else b.rack, "", cell(b.name), ports[1], ""),
                *(f"{link.rate_bps / 1e9:g}", medium(link.length_m), f"{link.length_m:g}"),
                *("", "", max(a.tier, b.tier)),
                *(cell(f"{a.name}:{ports[0]}"), cell(f"{b.name}:{ports[1]}"), "planned"),
            )
        )
    notes = [
        "Rack units, lanes, planes and rails are left empty: a fabric does not know them.",
        "Ports are named swp1 ... and eth1 ...; rename them to those of the devices.",
        "The medium is a rule of thumb by length; confirm it with the switch vendor's list.",
    ]
    inside = len(fabric.links) - len(cables)
    if inside:
        notes.append(f"{plural(inside, 'link')} inside servers are no cables and left out.")
    quoted = sum(node.name.startswith(_FORMULA) for node in fabric.nodes)
    if quoted:
        notes.append(
            f"{plural(quoted, 'name')} that a spreadsheet would take for a formula got a quote in "
            "front."
        )
    return Written({"": table(rows)}, notes)
