"""NetBox's CSV import: devices.csv, interfaces.csv and cables.csv, to be imported in that order.

The cable table is the form of one row a cable and one termination a side (``side_a_device``,
``side_a_type``, ``side_a_name``, the same of b), which every version imports; several terminations
in one field are a breakout, which a fabric's cable is not. NetBox's export has other columns than
its import (netbox-community/netbox issue 5952): give it import columns. Rates are the speeds of
interfaces, in Kbps; lengths have two decimals; roles, tiers and models are device roles and types.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from topo.error import UnitError
from topo.fabric import Fabric, Kind, Node, Role, Switch
from topo.format.attribute import TIERS
from topo.format.draft import Assumed, Draft
from topo.format.text import content, located, shown, whole
from topo.format.written import (
    Written,
    interface,
    lost_delays,
    lost_servers,
    plural,
    table,
    told_inside,
)
from topo.unit import rate, rate_text

LONGEST_NAME: Final = 64
"""Characters of a device name in NetBox."""

_CABLE: Final = tuple(f"side_{side}_{what}" for side in "ab" for what in ("device", "type", "name"))
_METRES: Final = {"km": 1000.0, "m": 1.0, "cm": 0.01, "mi": 1609.344, "ft": 0.3048, "in": 0.0254}
_SLOTS: Final = {
    800: "800gbase-x-osfp",
    400: "400gbase-x-osfp",
    200: "200gbase-x-qsfp56",
    100: "100gbase-x-qsfp28",
    50: "50gbase-x-sfp56",
    40: "40gbase-x-qsfpp",
    25: "25gbase-x-sfp28",
    10: "10gbase-x-sfpp",
}
"""Gbit/s -> interface type (netbox-community/netbox netbox/dcim/choices.py); else ``other``."""

_TIER_ROLES: Final = {1: "leaf", 2: "spine", 3: "core"}
_TYPE_RATE: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9])?)(g|t)?base-.*")
_MODEL: Final = re.compile(r"switch-([0-9]{1,5})x([0-9]{1,15}(?:\.[0-9]{1,12})?[KMGT]?bps)")
_RACK: Final = re.compile(r"rack-([0-9]{1,6})")


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from a folder with cables.csv and, if there, the other two, or from one cable file.

    Racks named rack-3 keep their numbers; others are numbered as they come. Without devices.csv
    kinds are told by the number of cables, and without interfaces.csv rates must be assumed.

    Errors: `FormatError` with file and line: a column that is missing, a termination that is no
    interface or several, speeds of two ends that differ.
    """
    folder = path if path.is_dir() else None
    draft = Draft(path if folder is None else path / "cables.csv", assume=assume)
    draft.name = path.name
    speeds: dict[tuple[str, str], int] = {}
    if folder is not None:
        if (folder / "devices.csv").exists():
            _devices(draft, folder / "devices.csv")
        if (folder / "interfaces.csv").exists():
            speeds = _speeds(folder / "interfaces.csv")
    for line, row in _rows(draft.path, _CABLE):
        _cable(draft, line, row, speeds)
    return draft.fabric()


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(content(path), newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        for name in needed:
            if header.count(name) != 1:
                raise located(path, 1, f"no single column {name}; write the columns of the import")
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise located(
                    path,
                    reader.line_num,
                    f"{len(row)} fields under {len(header)} columns; quote fields with commas",
                )
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise located(path, reader.line_num, f"broken CSV: {error}") from None


def _devices(draft: Draft, path: Path) -> None:
    cables, draft.path = draft.path, path
    racks: dict[str, int] = {}
    rows = list(_rows(path, ("name", "role")))
    named = {row["rack"] for _, row in rows if row.get("rack")}
    own = all(_RACK.fullmatch(name) for name in named)
    for line, row in rows:
        rack: int | None = None
        if "rack" in row:
            name = row["rack"]
            found = _RACK.fullmatch(name) if own else None
            rack = (
                -1 if not name else int(found[1]) if found else racks.setdefault(name, len(racks))
            )
        kind, tier, role = _role(row["role"].strip().lower())
        model = _MODEL.fullmatch(row.get("device_type", ""))
        switch = None
        if model is not None and kind is Kind.SWITCH:
            plain = Switch()
            try:
                ports, speed = int(model[1]), rate(model[2])
            except UnitError as error:
                raise draft.error(line, str(error)) from None
            switch = Switch(max(ports, 1), max(speed, 1), plain.buffer_bytes, plain.latency_ps)
        draft.node(row["name"], line, kind=kind, tier=tier, rack=rack, role=role, switch=switch)
    draft.path = cables


def _role(told: str) -> tuple[Kind | None, int | None, Role]:
    """Kind, tier and role of a device role; nothing is made of one that is not known."""
    head, _, tail = told.partition("-")
    if told in TIERS:
        return Kind.SWITCH, TIERS[told], Role.NONE
    if head == "tier" and (number := whole(tail)) is not None and number >= 0:
        return Kind.SWITCH, number, Role.NONE
    if told in ("host", "server"):
        return Kind.HOST, None, Role.NONE
    if head == "host" and tail in set(Role):
        return Kind.HOST, None, Role(tail)
    return None, None, Role.NONE


def _speeds(path: Path) -> dict[tuple[str, str], int]:
    speeds: dict[tuple[str, str], int] = {}
    for line, row in _rows(path, ("device", "name")):
        port = (row["device"], row["name"])
        if port in speeds:
            raise located(path, line, f"{shown(': '.join(port))} stands twice; write it once")
        told = row.get("speed", "").strip()
        if told:
            kbps = whole(told)
            if kbps is None or not 0 < kbps <= 10**12:
                raise located(path, line, f"speed {shown(told)}: not a number of Kbps")
            speeds[port] = kbps * 1000
        elif (found := _TYPE_RATE.fullmatch(row.get("type", "").strip().lower())) is not None:
            unit = {"g": 10**9, "t": 10**12, None: 10**6}[found[2]]
            speeds[port] = int(float(found[1]) * unit)
    return speeds


def _cable(
    draft: Draft, line: int, row: dict[str, str], speeds: dict[tuple[str, str], int]
) -> None:
    ends: list[tuple[str, str]] = []
    for side in "ab":
        kind, name = row[f"side_{side}_type"].strip(), row[f"side_{side}_name"]
        if kind != "dcim.interface":
            raise draft.error(
                line, f"side_{side}_type {shown(kind)}: a fabric's cable ends at dcim.interface"
            )
        if "," in name:
            raise draft.error(
                line, f"side_{side}_name {shown(name)}: several ends; write one row for each cable"
            )
        ends.append((row[f"side_{side}_device"], name))
    status = row.get("status", "").strip().lower()
    if status not in ("", "planned", "connected"):
        raise draft.error(line, f"status {shown(status)}: leave out cables that are going away")
    rates = {speeds[end] for end in ends if end in speeds}
    if len(rates) > 1:
        low, high = sorted(rates)
        raise draft.error(
            line, f"ends of {rate_text(low)} and {rate_text(high)}; give both one speed"
        )
    draft.cable(
        ends[0],
        ends[1],
        line,
        rate_bps=rates.pop() if rates else None,
        length_m=_length(draft, line, row),
    )


def _length(draft: Draft, line: int, row: dict[str, str]) -> float | None:
    told = row.get("length", "").strip()
    if not told:
        return None
    unit = row.get("length_unit", "").strip().lower()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", told) is None or unit not in _METRES:
        raise draft.error(
            line,
            f"length {shown(told)} {shown(unit)}: write a number, and a unit: "
            + ", ".join(_METRES),
        )
    return float(told) * _METRES[unit]


def write(fabric: Fabric) -> Written:
    """A fabric as the three tables."""
    devices: list[tuple[object, ...]] = [
        ("name", "role", "manufacturer", "device_type", "status", "site", "rack")
    ]
    devices += [
        (
            n.name,
            _role_of(n),
            "generic",
            f"switch-{n.switch.ports}x{rate_text(n.switch.rate_bps)}" if n.switch else "host",
            "planned",
            "fabric",
            f"rack-{n.rack}" if n.rack >= 0 else "",
        )
        for n in fabric.nodes
    ]
    interfaces: list[tuple[object, ...]] = [("device", "name", "type", "enabled", "speed")]
    cables: list[tuple[object, ...]] = [(*_CABLE, "status", "label", "length", "length_unit")]
    for link in fabric.links:
        kbps = max(1, round(link.rate_bps / 1000))
        slot = _SLOTS.get(link.rate_bps // 10**9, "other")
        row: list[object] = []
        for node, port in ((link.a, link.a_port), (link.b, link.b_port)):
            name, called = fabric.nodes[node].name, interface(fabric.nodes[node].kind, port)
            interfaces.append((name, called, slot, "true", kbps))
            row += [name, "dcim.interface", called]
        cables.append((*row, "planned", f"cable-{link.index}", f"{link.length_m:.2f}", "m"))
    files = {
        "devices.csv": table(devices),
        "interfaces.csv": table(interfaces),
        "cables.csv": table(cables),
    }
    return Written(files, _notes(fabric))


def _role_of(node: Node) -> str:
    if node.kind is Kind.SWITCH:
        return _TIER_ROLES.get(node.tier, f"tier-{node.tier}")
    return "host" if node.role is Role.NONE else f"host-{node.role}"


def _notes(fabric: Fabric) -> list[str]:
    roles = sorted({_role_of(node) for node in fabric.nodes})
    notes = [
        "Before the import NetBox needs the site fabric, the manufacturer generic, the racks, the "
        f"device types and the device roles {', '.join(roles)}; then import devices.csv, "
        "interfaces.csv and cables.csv, in that order.",
        "The names of the fabric and its family, and buffers and latencies of switches, are not in "
        "the files.",
        *lost_servers(fabric),
        *told_inside(fabric),
        *lost_delays(fabric),
    ]
    rounded = sum(float(f"{link.length_m:.2f}") != link.length_m for link in fabric.links)
    if rounded:
        notes.append(f"The lengths of {plural(rounded, 'cable')} are rounded to centimetres.")
    coarse = sum(link.rate_bps % 1000 != 0 for link in fabric.links)
    if coarse:
        notes.append(f"The rates of {plural(coarse, 'cable')} are rounded to Kbps.")
    long = sum(len(node.name) > LONGEST_NAME for node in fabric.nodes)
    if long:
        notes.append(
            f"{plural(long, 'name')} longer than the {LONGEST_NAME} characters that NetBox takes."
        )
    return notes
