"""What the NIC runs: go-back-N over RoCEv2 or InfiniBand, and DCQCN in a published setting.

"DCQCN defaults" are at least three sets of numbers; each is a preset here, a literal table with its
source. Times are picoseconds, rates bit/s, sizes bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from emulate.bound import MOST_BYTES, MOST_COUNT, MOST_WAIT_PS, refuse_beyond
from topo.error import KvfabricError
from topo.unit import PS_PER_US, duration_text, rate_text, size_text

DEFAULT_MTU: Final = 4096
"""Payload of a full packet: the largest MTU of InfiniBand and so of RoCE (specification, 9.2)."""

DEFAULT_RTO_PS: Final = 4_096_000 << 14
"""Local ACK timeout 14: 4.096 us * 2^14 = 67 ms (InfiniBand specification, 9.9.2.1.1)."""

CREDITS: Final = 128 * 2**10
"""Default buffer of a virtual lane: 2,048 blocks, half the range of the 12-bit counters of
InfiniBand's flow control packets (specification, 7.9; recalled, not read)."""

_LEAST_MTU: Final = 256
_MOST_MTU: Final = 9216


class TransportError(KvfabricError):
    """A transport that cannot be."""


@dataclass(frozen=True, slots=True)
class Dcqcn:
    """Parameters of DCQCN's notification and reaction points.

    alpha_period_ps: alpha is updated this often; keep_q10: what it keeps, of 1024 (1 - g);
        initial_q10: its value at the first CNP, of 1024.
    cut_period_ps: least time between two rate cuts. A cut takes alpha / 2^gd_shift of the rate, and
        leaves at least ``least_percent`` of it.
    increase_period_ps, increase_bytes: the timer and the byte counter (0: none) of increases;
        recovery: how many of either recover to the target before it grows.
    clamp: every cut moves the target to the present rate; clamp_after_timer: so does a cut that
        follows an increase by timer.
    least_bps: the rate's floor. additive_bps, hyper_bps: growth of the target, at the line rate
        ``rate_bps`` and proportional to it, or at any rate if that is 0.
    cnp_interval_ps: least time between two CNPs of one flow.
    cut_grid: cuts lie whole cut periods after the first CNP, which alpha's first update leaves out,
        for simulators that check once a period; else a cut follows its CNP at once when the last
        one is a period old, and alpha's first update counts the first CNP.
    retimed: a packet that waits follows the present rate; else it keeps the rate at which the one
        before it was sent.
    """

    name: str
    source: str
    alpha_period_ps: int
    keep_q10: int
    initial_q10: int
    cut_period_ps: int
    gd_shift: int
    least_percent: int
    increase_period_ps: int
    increase_bytes: int
    recovery: int
    clamp: bool
    clamp_after_timer: bool
    least_bps: int
    additive_bps: int
    hyper_bps: int
    rate_bps: int
    cnp_interval_ps: int
    cut_grid: bool = False
    retimed: bool = True

    def additive(self, line_bps: int) -> int:
        """The additive step of a NIC of that rate, bit/s."""
        return self.additive_bps * line_bps // self.rate_bps if self.rate_bps else self.additive_bps

    def hyper(self, line_bps: int) -> int:
        """The hyper step of a NIC of that rate, bit/s."""
        return self.hyper_bps * line_bps // self.rate_bps if self.rate_bps else self.hyper_bps


_HPCC: Final = "alibaba-edu/High-Precision-Congestion-Control simulation/run.py"

# Firmware defaults of ConnectX-4 and later. rpg_gd is the base-2 logarithm of a
# number with 10 fractional bits: 11 stands for 2, so that a cut takes alpha / 2, as
# in the paper. rpg_byte_reset 32767 is in bytes by the text of Mellanox mlxconfig
# and of the FreeBSD mlx5ib driver; `connectx_2mb` is the other reading.
_CONNECTX: Final = Dcqcn(
    name="connectx",
    source="NVIDIA DOCA SDK, DCQCN CC parameters "
    "(networking-docs.nvidia.com/doca/archive/3-4-0/dcqcn-cc-parameters)",
    alpha_period_ps=1 * PS_PER_US,
    keep_q10=1019,
    initial_q10=1023,
    cut_period_ps=4 * PS_PER_US,
    gd_shift=11 - 10,
    least_percent=50,
    increase_period_ps=300 * PS_PER_US,
    increase_bytes=32_767,
    recovery=1,
    clamp=False,
    clamp_after_timer=True,
    least_bps=1_000_000,
    additive_bps=5_000_000,
    hyper_bps=50_000_000,
    rate_bps=0,
    cnp_interval_ps=4 * PS_PER_US,
)

# The simulator's vendor-like runs: steps grow with the rate, no byte counter. Its rules are not a
# NIC's (cnp_received_mlx, ReceiveUdp, UpdateNextAvail): every marked packet is answered, cuts are
# looked for once a period, and a packet that waits keeps its time. Its successor, the conweave
# ns-3, has the same.
_HPCC_DCQCN: Final = Dcqcn(
    name="hpcc",
    source=f"{_HPCC} (dcqcn) and src/point-to-point/model/rdma-hw.cc",
    alpha_period_ps=1 * PS_PER_US,
    keep_q10=1020,
    initial_q10=1024,
    cut_period_ps=4 * PS_PER_US,
    gd_shift=1,
    least_percent=0,
    increase_period_ps=300 * PS_PER_US,
    increase_bytes=0,
    recovery=1,
    clamp=False,
    clamp_after_timer=True,
    least_bps=1_000_000_000,
    additive_bps=5_000_000,
    hyper_bps=50_000_000,
    rate_bps=25_000_000_000,
    cnp_interval_ps=0,
    cut_grid=True,
    retimed=False,
)

PRESETS: Final[Mapping[str, Dcqcn]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            _CONNECTX,
            # The byte counter read as units of 64 bytes, as Spirent's RoCEv2 profile has it.
            replace(_CONNECTX, name="connectx_2mb", increase_bytes=32_767 * 64),
            # The paper's own: R_AI 40 Mb/s, F = 5, 10 MB, 1/256, CNPs 50 us apart; timers as the
            # HPCC simulator's dcqcn_paper runs them, and its floor. The hyper step is ten times
            # the additive one, as in ConnectX.
            Dcqcn(
                name="paper",
                source="Zhu et al., Congestion control for large-scale RDMA deployments, "
                f"SIGCOMM 2015; timers and floor {_HPCC} (dcqcn_paper)",
                alpha_period_ps=50 * PS_PER_US,
                keep_q10=1020,
                initial_q10=1024,
                cut_period_ps=50 * PS_PER_US,
                gd_shift=1,
                least_percent=0,
                increase_period_ps=55 * PS_PER_US,
                increase_bytes=10_000_000,
                recovery=5,
                clamp=True,
                clamp_after_timer=False,
                least_bps=1_000_000_000,
                additive_bps=40_000_000,
                hyper_bps=400_000_000,
                rate_bps=0,
                cnp_interval_ps=50 * PS_PER_US,
            ),
            _HPCC_DCQCN,
        )
    }
)
"""DCQCN presets by name."""


@dataclass(frozen=True, slots=True)
class Transport:
    """The transport of all NICs.

    kind: ``rocev2``, or ``infiniband``: links are run by credits instead of pause frames.
    control: ``dcqcn``, or ``none``: every queue pair sends at line rate. InfiniBand has no DCQCN.
    preset: a name of `PRESETS`. mtu: payload of a full packet in bytes.
    ack_every: the receiver acknowledges every so many packets, and the last of a flow (16: an
        assumption that keeps reverse traffic below 0.2 %; InfiniBand lets responders coalesce).
    window: packets of one flow in flight at most, 0 without a limit, as RoCE NICs do.
    ack_message: the last packet of every descriptor is acknowledged too.
    rto_ps: retransmission time. issue_ps: time to issue one descriptor of a flow, one after the
        other from its release on.
    issuers: 1 when one thread issues for all flows of a NIC's port, first come, first served; 0
        when every flow has a thread of its own.
    send_queue: descriptors of one flow that may be issued and not yet acknowledged, 0 without a
        limit. Flows without room are passed over until an ACK completes a descriptor.
    drain_bps: wire rate at which a host takes data from each of its NIC's ports, 0: as it comes;
        receive_buffer: bytes of each such port, an assumption. Such a NIC pauses its switch.
    cnp_priority: the strict, never paused class of CNPs.
    credits: bytes that the receiving end of a link advertises for each of its 8 virtual lanes, one
        a priority; of ``infiniband``.
    ack_priority: the class of ACKs and NAKs; None: that of their flow, as RoCE NICs do.
    cnp_interval_ps: least time between two CNPs of one flow; None: that of the preset. Simulators
        that answer every marked packet have 0.
    """

    kind: Literal["rocev2", "infiniband"] = "rocev2"
    control: Literal["dcqcn", "none"] = "dcqcn"
    preset: str = "connectx"
    mtu: int = DEFAULT_MTU
    ack_every: int = 16
    window: int = 0
    rto_ps: int = DEFAULT_RTO_PS
    issue_ps: int = 0
    issuers: int = 0
    send_queue: int = 0
    drain_bps: int = 0
    receive_buffer: int = 2**20
    ack_message: bool = False
    cnp_priority: int = 6
    credits: int = CREDITS
    ack_priority: int | None = None
    cnp_interval_ps: int | None = None

    def __post_init__(self) -> None:
        gap = 0 if self.cnp_interval_ps is None else self.cnp_interval_ps
        for name, value, most, unit in (
            ("rto", self.rto_ps, MOST_WAIT_PS, "ps"),
            ("issue (per_descriptor)", self.issue_ps, MOST_WAIT_PS, "ps"),
            ("cnp_interval", gap, MOST_WAIT_PS, "ps"),
            ("receive_buffer", self.receive_buffer, MOST_BYTES, "B"),
            ("credits", self.credits, MOST_BYTES, "B"),
            ("ack_every", self.ack_every, MOST_COUNT, "packets"),
            ("window", self.window, MOST_COUNT, "packets"),
            ("send_queue", self.send_queue, MOST_COUNT, "descriptors"),
        ):
            refuse_beyond(TransportError, name, value, most, unit)
        if self.kind not in ("rocev2", "infiniband"):
            raise TransportError(f"transport {self.kind!r}: write rocev2 or infiniband")
        if self.control not in ("dcqcn", "none"):
            raise TransportError(f"control {self.control!r}: write dcqcn or none")
        if self.kind == "infiniband" and self.control != "none":
            raise TransportError(f"control {self.control!r}: not of infiniband; write none")
        if self.preset not in PRESETS:
            raise TransportError(
                f"preset {self.preset!r}: no such DCQCN preset; write {', '.join(PRESETS)}"
            )
        if not _LEAST_MTU <= self.mtu <= _MOST_MTU:
            raise TransportError(f"mtu {size_text(self.mtu)}: write 256B to 9KiB, as 4KiB")
        if self.ack_every < 1:
            raise TransportError(f"ack_every {self.ack_every}: must be at least 1; write e.g. 16")
        if self.window and self.window < self.ack_every:
            raise TransportError(
                f"window {self.window} packets: below ack_every {self.ack_every}, no ACK would "
                "ever open it; write 0 for no limit, or more"
            )
        if self.rto_ps <= 0:
            raise TransportError(
                f"rto {duration_text(self.rto_ps)}: must be above 0; write e.g. 67ms"
            )
        if self.issue_ps < 0:
            raise TransportError(
                f"issue (per_descriptor) {duration_text(self.issue_ps)}: must not be negative; "
                "write 0us or more"
            )
        if self.issuers not in (0, 1):
            raise TransportError(
                f"issuers {self.issuers}: write 1 for one issuing thread a NIC, or 0 for one a flow"
            )
        if self.send_queue < 0:
            raise TransportError(
                f"send_queue {self.send_queue}: must not be negative; write 0 for no limit"
            )
        if self.send_queue and not self.ack_message and self.ack_every > 1:
            raise TransportError(
                f"send_queue {self.send_queue}: with an ACK every {self.ack_every} packets no ACK "
                "need come for a descriptor; write ack_message: true, or ack_every: 1"
            )
        if self.drain_bps and not 10**6 <= self.drain_bps <= 8 * 10**12:
            raise TransportError(
                f"drain {rate_text(self.drain_bps)}: write 1Mbps to 8Tbps, or leave it out for no "
                "limit"
            )
        if self.drain_bps and self.kind == "infiniband":
            raise TransportError(
                f"drain {rate_text(self.drain_bps)}: not with infiniband, whose hosts return "
                "credits at arrival; leave it out, or write kind: rocev2"
            )
        if not 0 <= self.cnp_priority <= 7:
            raise TransportError(f"cnp_priority {self.cnp_priority}: write 0 to 7")
        if self.ack_priority is not None and not 0 <= self.ack_priority <= 7:
            raise TransportError(
                f"ack_priority {self.ack_priority}: write 0 to 7, or leave it out for the flow's"
            )
        if self.cnp_interval_ps is not None and self.cnp_interval_ps < 0:
            raise TransportError(
                f"cnp_interval {duration_text(self.cnp_interval_ps)}: must not be negative; write "
                "0ps for a CNP a marked packet, or leave it out for the preset's"
            )

    @property
    def by_credits(self) -> bool:
        """Links are run by credits: no frame is dropped for want of memory."""
        return self.kind == "infiniband"

    @property
    def dcqcn(self) -> Dcqcn:
        """The parameters of the preset."""
        return PRESETS[self.preset]

    @property
    def cnp_gap_ps(self) -> int:
        """Least time between two CNPs of one flow: as given, else that of the preset."""
        preset = self.dcqcn.cnp_interval_ps
        return preset if self.cnp_interval_ps is None else self.cnp_interval_ps
