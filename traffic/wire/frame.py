"""Frames of the wire, built by Scapy: RoCEv2 data, ACK, NAK and CNP, and priority pause frames.

Scapy builds some five hundred packets a second: right for tests, captures and single frames, never
for a stream. It is imported when a frame is asked for, since not everybody installs it. Formats:
InfiniBand specification, 9.2 and annex A17 (RoCEv2); annex A17.9.3 (CNP); IEEE 802.1Qbb (pause).
The class of a frame is its DSCP; data and ACKs say that their transport knows congestion marks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from topo.error import KvfabricError

PAUSE_MAC: Final = "01:80:c2:00:00:01"
"""Where pause frames go: to the other end of the cable, and no further (IEEE 802.1Q, table 8-1)."""

ROCE_PORT: Final = 4791
"""UDP destination port of RoCEv2 (IANA service names)."""

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 6, 7, 8, 10
"""Opcodes of a reliable connection's RDMA write (InfiniBand specification, table 38)."""

_ACKNOWLEDGE: Final = 0x11
_NAK_SEQUENCE: Final = 0x60
_ECT: Final = 2
_MARKED: Final = 3


class FrameError(KvfabricError):
    """A frame that cannot be built."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Who sends to whom; ``source_port`` of UDP carries the entropy that decides the path."""

    source_mac: str
    destination_mac: str
    source_ip: str
    destination_ip: str
    source_port: int = 49_152


def data_frame(
    ends: Ends,
    *,
    queue_pair: int,
    sequence: int,
    payload: bytes,
    priority: int = 3,
    opcode: int = WRITE_MIDDLE,
    asks: bool = False,
    marked: bool = False,
) -> bytes:
    """One packet of an RDMA write, from Ethernet to ICRC; ``asks`` for an ACK.

    The first and the only packet of a message begin with a RETH of 16 bytes, which is made of
    zeros here, so that their payload must not hold one. ``marked``: by a switch, as congested.
    """
    scapy = _scapy()
    bth = scapy.BTH(
        opcode=opcode,
        dqpn=queue_pair,
        psn=sequence,
        ackreq=int(asks),
        padcount=-len(payload) % 4,
    )
    reth = bytes(16) if opcode in (WRITE_FIRST, WRITE_ONLY) else b""
    body = scapy.Raw(reth + payload + bytes(-len(payload) % 4))
    return bytes(_below(scapy, ends, priority, _MARKED if marked else _ECT) / bth / body)


def ack_frame(
    ends: Ends, *, queue_pair: int, sequence: int, priority: int = 3, lost: bool = False
) -> bytes:
    """An acknowledgement up to ``sequence``, or a NAK that asks for it when it was ``lost``."""
    scapy = _scapy()
    bth = scapy.BTH(opcode=_ACKNOWLEDGE, dqpn=queue_pair, psn=sequence)
    aeth = scapy.AETH(syndrome=_NAK_SEQUENCE if lost else 0)
    return bytes(_below(scapy, ends, priority, _ECT) / bth / aeth)


def cnp_frame(ends: Ends, *, queue_pair: int, priority: int = 6) -> bytes:
    """A congestion notification packet: opcode 0x81, and sixteen reserved bytes of zeros."""
    scapy = _scapy()
    layers = _below(scapy, ends, priority, _ECT)
    return bytes(layers / scapy.cnp(queue_pair))


def pause_frame(source_mac: str, quanta: Mapping[int, int]) -> bytes:
    """A priority pause frame of 60 bytes: quanta of 512 bit times by class; 0 lets it go on.

    >>> pause_frame("02:00:00:00:00:01", {3: 65535})[12:26].hex()  # doctest: +SKIP
    '8808010100080000000000000000ffff'
    """
    for priority, value in quanta.items():
        if not (0 <= priority <= 7 and 0 <= value <= 0xFFFF):
            raise FrameError(
                f"pause of class {priority} for {value} quanta: write 0 to 7, and 0 to 65535"
            )
    scapy = _scapy()
    fields: dict[str, int] = {}
    for priority, value in quanta.items():
        fields[f"c{priority}_enabled"] = 1
        fields[f"c{priority}_pause_time"] = value
    frame = scapy.Ether(src=source_mac, dst=PAUSE_MAC, type=0x8808) / scapy.Pause(**fields)
    return bytes(frame).ljust(60, b"\0")


def _below(scapy: Any, ends: Ends, priority: int, ecn: int) -> Any:
    """Ethernet, IPv4 and UDP. RoCEv2 leaves the UDP checksum 0: the ICRC covers more."""
    if not 0 <= priority <= 7:
        raise FrameError(f"priority {priority}: write 0 to 7")
    return (
        scapy.Ether(src=ends.source_mac, dst=ends.destination_mac)
        / scapy.IP(
            src=ends.source_ip,
            dst=ends.destination_ip,
            tos=priority << 2 | ecn,
            id=0,
            flags="DF",
            ttl=64,
        )
        / scapy.UDP(sport=ends.source_port, dport=ROCE_PORT, chksum=0)
    )


class _Layers:
    """The layers of Scapy that frames are built of."""

    def __init__(self) -> None:
        from scapy.contrib.mac_control import MACControlClassBasedFlowControl
        from scapy.contrib.roce import AETH, BTH, cnp
        from scapy.layers.inet import IP, UDP
        from scapy.layers.l2 import Ether
        from scapy.packet import Raw

        self.Ether, self.IP, self.UDP, self.Raw = Ether, IP, UDP, Raw
        self.BTH, self.AETH, self.cnp = BTH, AETH, cnp
        self.Pause = MACControlClassBasedFlowControl


def _scapy() -> Any:
    try:
        return _Layers()
    except ImportError:
        raise FrameError(
            "frames are built by Scapy, which is missing; write: pip install 'kvfabric[mininet]'"
        ) from None
