"""What every family is built from: the NICs, the switch model and the cables.

Numbers are in base units: rates in bit/s, lengths in metres. A field that is ``None`` is chosen
by the family. The structs carry their bounds, so that a JSON Schema can be made from them.
"""

from fractions import Fraction
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import fields

from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.unit import duration_text, rate_text, show_rate, size_text

_MOST: Final = 262_144
_BOUNDS: Final = {
    "nic_bps": (1, 10**14),
    "decode_nic_bps": (1, 10**14),
    "scale_up_bps": (1, 10**14),
    "seed": (0, 2**32 - 1),
    "cable_m": (0, 100_000),
    "host_cable_m": (0, 100_000),
    "oversubscription": (0.001, 1_000),
}

Count = Annotated[int, Meta(ge=1, le=_MOST)]
Rate = Annotated[int, Meta(ge=1, le=10**14)]
Metres = Annotated[float, Meta(ge=0, le=100_000)]
Ratio = Annotated[float, Meta(ge=0.001, le=1_000)]
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Shape = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=6)]

WRITTEN: Final = {
    "nic_bps": "nic",
    "decode_nic_bps": "decode_nic",
    "scale_up_bps": "scale_up",
    "cable_m": "cable",
    "host_cable_m": "host_cable",
}
"""Field -> the name by which a scenario writes it, where the two differ."""


def refuse_outside(field: str, value: object) -> None:
    """Raise `FabricError` for a number outside the bounds of its field, as a scenario writes it."""
    low, high = _BOUNDS.get(field, (1, _MOST))
    if isinstance(value, int | float) and not low <= value <= high:
        shown, least, most = (_shown(field, each) for each in (value, low, high))
        name = WRITTEN.get(field, field)
        raise FabricError(f"{name} {shown}: must be at least {least} and at most {most}")


def _shown(field: str, value: float) -> str:
    if field.endswith("_bps"):
        return rate_text(int(value))
    return f"{value:g}m" if field.endswith("_m") else str(value)


class Parameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters that every family takes.

    hosts: NICs in the fabric, one a GPU. prefill, decode: how many of them serve each role; only
    families that pin roles to places use them, others are given roles afterwards.
    nic_bps: NIC rate. switch: the model of every switch; its rate is that of the links between
    switches. cable_m: length of cables between switches. host_cable_m: length of host cables,
    ``cable_m`` when None. oversubscription: the most by which the NICs of a leaf may exceed its
    links to other switches, as a ratio of rates. breakout: every switch port is split into that
    many ports of an equal part of its rate (800G as 2 x 400G); `topo.family.registry.build`
    applies it, and every such part counts as a cable. gpus_per_server: consecutive hosts of a rack
    that share a server; no server is told when None, except by families that need one.
    """

    hosts: Count | None = None
    prefill: Count | None = None
    decode: Count | None = None
    nic_bps: Rate = 400_000_000_000
    switch: Switch = Switch()
    cable_m: Metres = 10.0
    host_cable_m: Metres | None = None
    oversubscription: Ratio | None = None
    breakout: Count | None = None
    gpus_per_server: Count | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            refuse_outside(field.name, getattr(self, field.name))
        model = self.switch
        if model.ports < 2 or model.rate_bps < 1 or model.buffer_bytes < 1 or model.latency_ps < 0:
            raise FabricError(
                f"switch with {model.ports} ports of {rate_text(model.rate_bps)}, "
                f"{size_text(model.buffer_bytes)} of buffer and "
                f"{duration_text(model.latency_ps)} of latency: a switch needs at least 2 ports, a "
                "rate and a buffer above 0, and a latency of 0 or more"
            )
        if self.nic_bps // self.nic_ports > model.rate_bps:
            each = "" if self.nic_ports == 1 else f" over {self.nic_ports} ports"
            raise FabricError(
                f"nic {show_rate(self.nic_bps)}{each}: faster than the switch port of "
                f"{show_rate(model.rate_bps)} that it plugs into; write a faster switch or a "
                "slower nic"
            )
        if self.hosts and self.prefill and self.decode and self.hosts < self.prefill + self.decode:
            raise FabricError(
                f"hosts {self.hosts}: fewer than {self.prefill} prefill + {self.decode} decode; "
                f"write hosts: {self.prefill + self.decode} or more"
            )

    @property
    def nic_ports(self) -> int:
        """Ports of a NIC that share its rate."""
        return 1

    @property
    def total(self) -> int | None:
        """Hosts asked for: ``hosts``, else prefill + decode, else None."""
        if self.hosts is not None or self.prefill is None or self.decode is None:
            return self.hosts
        return self.prefill + self.decode

    @property
    def allowed(self) -> float:
        """The oversubscription that may not be exceeded: 1 (non-blocking) unless given."""
        return 1.0 if self.oversubscription is None else self.oversubscription

    def uplinks(self, hosts: int, port_bps: int | None = None) -> int:
        """Fewest links at the switch rate that keep ``hosts`` NICs within the oversubscription.

        ``port_bps`` is the rate of each, ``nic_bps`` when None.
        """
        rate = self.nic_bps if port_bps is None else port_bps
        links = Fraction(hosts * rate, self.switch.rate_bps) / Fraction(str(self.allowed))
        return -(-links.numerator // links.denominator)

    def ratio(self, hosts: int, uplinks: int, port_bps: int | None = None) -> float:
        """Oversubscription of a leaf with that many NICs and links to other switches."""
        rate = self.nic_bps if port_bps is None else port_bps
        return hosts * rate / (uplinks * self.switch.rate_bps)

    def most_down(self, port_bps: int | None = None) -> int:
        """Most hosts a leaf takes when its other ports keep the oversubscription; 0 when none."""
        radix = self.switch.ports
        return max(
            (d for d in range(1, radix) if d + self.uplinks(d, port_bps) <= radix), default=0
        )

    def asked(self, *names: str) -> str:
        """``, name value`` for each of the parameters that was given, for a complaint."""
        given = ((name, getattr(self, name)) for name in names)
        return "".join(f", {name} {value}" for name, value in given if value is not None)

    @property
    def host_metres(self) -> float:
        """Length of a host cable."""
        return self.cable_m if self.host_cable_m is None else self.host_cable_m


def add_hosts(
    fabric: Fabric, counts: list[int], gpus_per_server: int | None = None
) -> list[list[int]]:
    """Add the hosts of each rack, numbered through, and return their node indices rack by rack.

    With ``gpus_per_server`` as many consecutive hosts share a server, which never leaves a rack.
    """
    racks: list[list[int]] = []
    number, server = len(fabric.nodes), 0
    for rack, count in enumerate(counts):
        members: list[int] = []
        for i in range(count):
            own = -1 if gpus_per_server is None else server + i // gpus_per_server
            members.append(fabric.add_host(f"h{number + i}", rack=rack, server=own))
        racks.append(members)
        number += count
        server += 0 if gpus_per_server is None else -(-count // gpus_per_server)
    return racks


def join_hosts(
    fabric: Fabric, spec: Parameters, hosts: list[int], leaf: int, port_bps: int | None = None
) -> None:
    """Cable hosts to their leaf at the NIC rate, or at that of one of the NIC's ports."""
    rate = spec.nic_bps if port_bps is None else port_bps
    for host in hosts:
        fabric.connect(host, leaf, rate_bps=rate, length_m=spec.host_metres)


def join_switches(fabric: Fabric, spec: Parameters, a: int, b: int, links: int = 1) -> None:
    """Cable two switches with parallel links at the switch rate."""
    for _ in range(links):
        fabric.connect(a, b, rate_bps=spec.switch.rate_bps, length_m=spec.cable_m)


def evenly(total: int, parts: int) -> list[int]:
    """``total`` split into ``parts`` numbers that differ by at most one, the larger first.

    >>> evenly(7, 3)
    [3, 2, 2]
    """
    least, more = divmod(total, parts)
    return [least + 1] * more + [least] * (parts - more)
