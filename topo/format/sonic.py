"""Candidate SONiC configuration: what a simulated fabric suggests for a switch's config_db.json.

For each switch one file with the tables that lossless RoCE needs: CABLE_LENGTH (from the fabric),
BUFFER_PROFILE, WRED_PROFILE, QUEUE and PORT_QOS_MAP (which turns PFC on). They are candidates: the
first table of each file says so, and must be deleted by whoever has read the rest. Port names,
lanes and pools differ from platform to platform.

Table shapes: sonic-net/sonic-buildimage files/build_templates/qos_config.j2, and the dynamic
buffer model of sonic-net/SONiC doc/qos, where a profile of ``headroom_type`` dynamic has its
headroom computed on the switch from speed, cable length and MTU. The default thresholds are those
of the template's AZURE_LOSSLESS.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from topo.fabric import Fabric, Link
from topo.format.text import FormatError, shown
from topo.format.written import Written, told_inside
from topo.unit import size_text

MARK: Final = (
    "Candidate from a simulation, not a reviewed configuration: compare with the running one, "
    "then delete this table."
)
_CLASSES: Final = "3,4"
_SAFE: Final = frozenset("-_.")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The numbers of a lossless class, by default SONiC's own.

    kmin_bytes, kmax_bytes: ECN marking begins, and is certain, at that many bytes of the queue.
    pmax_percent: marking probability at kmax. dynamic_th: the shared buffer's alpha is 2 to this
    power. headroom: bytes of xoff by rate in bit/s and one-way delay in ps; None leaves the
    headroom to the switch. xon_bytes: size of the profile beside its headroom. lanes: numbers that
    a port takes in its name, so that port n is Ethernet(n x lanes).
    """

    kmin_bytes: int = 1_048_576
    kmax_bytes: int = 2_097_152
    pmax_percent: int = 5
    dynamic_th: int = 0
    headroom: Callable[[int, int], int] | None = None
    xon_bytes: int = 19_456
    lanes: int = 8

    def __post_init__(self) -> None:
        if not 0 < self.kmin_bytes <= self.kmax_bytes:
            raise FormatError(
                f"kmin {size_text(self.kmin_bytes)}, kmax {size_text(self.kmax_bytes)}: write "
                "0 < kmin <= kmax"
            )
        if not 0 < self.pmax_percent <= 100:
            raise FormatError(f"pmax {self.pmax_percent} %: write 1 to 100")
        if not 1 <= self.lanes <= 16 or not -8 <= self.dynamic_th <= 8 or self.xon_bytes < 1:
            raise FormatError(
                f"lanes {self.lanes}, dynamic_th {self.dynamic_th}, xon "
                f"{size_text(self.xon_bytes)}: write 1 to 16 lanes, a dynamic_th of "
                "-8 to 8 and an xon above 0"
            )


def write(fabric: Fabric, thresholds: Thresholds | None = None) -> Written:
    """One ``<switch>.candidate.json`` a switch outside servers.

    Errors: a switch whose name cannot be a file name, headroom that is not above 0.
    """
    given = thresholds or Thresholds()
    ports: list[list[tuple[int, Link]]] = [[] for _ in fabric.nodes]
    for link in fabric.links:
        ports[link.a].append((link.a_port, link))
        ports[link.b].append((link.b_port, link))
    files: dict[str, str] = {}
    for node in (switch for switch in fabric.switches if switch.tier > 0):
        if not all(c.isascii() and (c.isalnum() or c in _SAFE) for c in node.name) or (
            node.name.startswith(".")
        ):
            raise FormatError(
                f"switch {shown(node.name)}: a file is named for it; rename it to letters, digits, "
                "-, _ and ."
            )
        tables = _tables(ports[node.index], given)
        files[f"{node.name}.candidate.json"] = json.dumps(tables, indent=2) + "\n"
    if len({name.lower() for name in files}) != len(files):
        raise FormatError("switch names that differ by case alone: files are named for them")
    notes = [
        "These are candidates: every file begins with a table that says so, to be deleted after "
        "review.",
        f"Ports are named Ethernet0, Ethernet{given.lanes} ...; pools, lanes and port names are "
        "the platform's.",
        *told_inside(fabric),
        "Cable lengths are rounded up to whole metres, at least 1 m.",
        "Schedulers, DSCP maps, the watchdog's times and everything of hosts are not in the files.",
    ]
    if given.headroom is None:
        notes.append("Headroom is left to the switch (dynamic buffer model).")
    return Written(files, notes)


def _tables(ports: list[tuple[int, Link]], given: Thresholds) -> dict[str, Any]:
    lengths: dict[str, str] = {}
    profiles: dict[str, dict[str, str]] = {}
    groups: dict[str, dict[str, str]] = {}
    for number, link in ports:
        name = f"Ethernet{number * given.lanes}"
        metres = max(1, math.ceil(link.length_m))
        lengths[name] = f"{metres}m"
        profile = "lossless_dynamic"
        if given.headroom is None:
            profiles[profile] = {
                "pool": "ingress_lossless_pool",
                "headroom_type": "dynamic",
                "dynamic_th": str(given.dynamic_th),
            }
        else:
            xoff = given.headroom(link.rate_bps, link.delay_ps)
            if xoff < 1:
                raise FormatError(f"headroom {size_text(xoff)}: must be above 0; write 40KiB")
            profile = f"pg_lossless_{link.rate_bps // 10**6}_{metres}m_profile"
            known = int(profiles.get(profile, {}).get("xoff", 0))
            xoff = max(xoff, known)
            profiles[profile] = {
                "pool": "ingress_lossless_pool",
                "xon": str(given.xon_bytes),
                "xoff": str(xoff),
                "size": str(given.xon_bytes + xoff),
                "dynamic_th": str(given.dynamic_th),
            }
        groups[f"{name}|3-4"] = {"profile": profile}
    colours: dict[str, str] = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        colours |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_min_threshold": str(given.kmin_bytes),
            f"{colour}_max_threshold": str(given.kmax_bytes),
            f"{colour}_drop_probability": str(given.pmax_percent),
        }
    return {
        "CANDIDATE": {"kvfabric": {"note": MARK}},
        "CABLE_LENGTH": {"AZURE": lengths},
        "BUFFER_PROFILE": profiles,
        "BUFFER_PG": groups,
        "WRED_PROFILE": {"AZURE_LOSSLESS": colours},
        "QUEUE": {
            f"{name}|{queue}": {"wred_profile": "AZURE_LOSSLESS"}
            for name in lengths
            for queue in _CLASSES.split(",")
        },
        "PORT_QOS_MAP": {
            name: {"pfc_enable": _CLASSES, "pfcwd_sw_enable": _CLASSES} for name in lengths
        },
    }
