"""The same flows through every emulator: bytes/bandwidth, fluid, packets, and real frames.

The packet run serves the scenario; its flows, with their releases, are then replayed open loop by
the others, so that nothing differs but what moves the bytes. A hand-off's time is from its first
release to its last byte. Each emulator is told with what it leaves out.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.lossless import frames
from emulate.fluid import FluidEmulator
from emulate.mininet.dilation import patience_s, prospect, refuse_wall
from emulate.mininet.emulator import MininetEmulator, refuse_window
from emulate.mininet.feed import LEAD_NS, busy_ps
from emulate.mininet.guard import Verdict
from emulate.mininet.kernel import lead_ps
from emulate.mininet.network import network, refuse_size
from emulate.mininet.record import FOLDER
from emulate.mininet.setup import Setup, refuse_frames
from emulate.mininet.support import demand_drivers, demand_support
from emulate.mininet.tcp import refuse_control, tcp_replay
from kvfabric.emulate import Tell, control_run, setup_of, stopping
from kvfabric.run import CellJob, nic_rate, served
from topo.error import KvfabricError
from topo.unit import PS_PER_MS, PS_PER_S
from traffic.emulator import Telemetry
from traffic.replay import replay

Times = NDArray[np.int64]

PACKET: Final = "packet"
MININET: Final = "Mininet"

LEAVES_OUT: Final = {
    "bytes/bandwidth": "everything but the sender's line rate: shared links, headers, latency",
    "fluid": "queues, bursts, pauses, marks and retransmissions; rates are max-min fair at once",
    PACKET: "drivers, clocks and wire formats; time is exact",
    MININET: "nothing of the switch and NIC logic, which it shares with packet; clocks are those "
    "of this machine, as late as the guard says",
}
"""What each emulator leaves out, for the reader of its numbers."""

TCP_LEAVES_OUT: Final = (
    "RDMA, and the fabric's time for the kernel's timers, which are those of the real clock"
)
"""The same of kernel TCP."""

HANDOFF: Final = np.dtype(
    [
        ("handoff", np.int64),
        ("source", np.int32),  # node index of the sending host of its first flow
        ("destination", np.int32),  # and of its receiving host
        ("bytes", np.int64),
    ]
)
"""One row a hand-off that crosses the fabric."""

P50_OFF: Final = 0.10
TAIL_OFF: Final = 0.20
"""How far Mininet may be off the packet emulator at P50 and in the tail of hand-offs."""

TAIL: Final = 0.95
BEYOND: Final = 10
"""The tail is read at P95, or where fewer hand-offs lie beyond, at the quantile with so many."""


@dataclass(frozen=True)
class Checked:
    """One emulator's times of the same hand-offs, in picoseconds, -1 for one that did not finish.

    marked, pauses, drops: sums over all ports, None of an emulator without such things; lossless:
    those of the drops that a lossless class lost. partial: it was interrupted, and tells only of
    what had finished by then.
    """

    name: str
    handoff_ps: Times
    marked: int | None = None
    pauses: int | None = None
    drops: int | None = None
    lossless: int = 0
    partial: bool = False

    def beside(self, other: "Checked") -> "Checked":
        """The hand-offs that the other has finished too, all of them where it is not partial."""
        if not other.partial:
            return self
        return replace(self, handoff_ps=self.handoff_ps[other.handoff_ps >= 0])

    def quantile_ps(self, share: float) -> float:
        """The time that a share of all hand-offs does not exceed; infinite when it never ended."""
        ordered = np.sort(np.where(self.handoff_ps < 0, np.inf, self.handoff_ps.astype(np.float64)))
        return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])


@dataclass(frozen=True)
class Crosscheck:
    """All emulators side by side; ``verdicts`` are the guard's, by emulator, of those on frames.

    absent: why they did not run, or why numbers are withheld.
    """

    checked: tuple[Checked, ...]
    dilation: int = 0
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    absent: str | None = None

    def of(self, name: str) -> Checked | None:
        """One emulator, None when it is not there."""
        return next((one for one in self.checked if one.name == name), None)

    @property
    def off(self) -> tuple[float, float] | None:
        """How far Mininet is off the packet emulator at P50 and in the tail, as shares."""
        packet, frames = self.of(PACKET), self.of(MININET)
        if packet is None or frames is None or frames.partial:
            return None
        tail = max(0.5, min(TAIL, 1 - BEYOND / len(packet.handoff_ps)))
        middle, end = (frames.quantile_ps(q) / packet.quantile_ps(q) - 1 for q in (0.5, tail))
        return middle, end

    @property
    def agrees(self) -> bool | None:
        """Whether it is within `P50_OFF` and `TAIL_OFF`; None where there is nothing to compare."""
        if self.off is None:
            return None
        return abs(self.off[0]) <= P50_OFF and abs(self.off[1]) <= TAIL_OFF


@dataclass(frozen=True)
class Rehearsal:
    """The flows of a packet run, with its own times and counters."""

    flows: NDArray[np.void]
    of_handoffs: int
    """How many of the flows belong to hand-offs; the others are background traffic."""
    packet: Telemetry
    setup: Setup

    @property
    def finish_ps(self) -> Times:
        """When each flow finished in the packet run."""
        return np.asarray(self.packet.flows["finish_ps"], np.int64)

    @property
    def _own(self) -> NDArray[np.bool_]:
        """Which flows belong to hand-offs."""
        own: NDArray[np.bool_] = self.flows["handoff"] >= 0
        own[self.of_handoffs :] = False
        return own

    @property
    def handoffs(self) -> NDArray[np.void]:
        """One row a hand-off, in the order of their times: `HANDOFF`."""
        own = self.flows[self._own]
        number, first, place = np.unique(own["handoff"], return_index=True, return_inverse=True)
        rows = np.zeros(len(number), HANDOFF)
        rows["handoff"] = number
        rows["source"], rows["destination"] = own["source"][first], own["destination"][first]
        np.add.at(rows["bytes"], place, own["bytes"])
        return rows

    def handoff_ps(self, finish_ps: Times) -> Times:
        """The time of every hand-off from the finish of every flow, -1: never."""
        own, finish = self.flows[self._own], finish_ps[self._own]
        _, place = np.unique(own["handoff"], return_inverse=True)
        count = int(place.max(initial=-1)) + 1
        first, last = np.full(count, 2**62), np.full(count, -1)
        np.minimum.at(first, place, own["release_ps"])
        np.maximum.at(last, place, np.where(finish < 0, 2**62, finish))
        return np.where(last >= 2**62, -1, last - first).astype(np.int64)


def rehearsed(job: CellJob) -> Rehearsal:
    """Serve a cell by packets, and replay its flows once more as the others will."""
    outcome, emulator, _ = served(job)
    beside = emulator.rows.copy()
    own = outcome.flows
    beside["flow"] = np.arange(len(own), len(own) + len(beside))
    flows = np.concatenate([own, beside])
    if not (flows["handoff"][: len(own)] >= 0).any():
        raise KvfabricError(f"{job.alternative.scenario.name}: no hand-off crosses the fabric")
    setup = setup_of(job.stage, job.seed)
    twin = setup.twin()
    replay(flows, twin)
    return Rehearsal(flows, len(own), twin.telemetry(), setup)


def cheap(heard: Rehearsal) -> list[Checked]:
    """What takes no root and no time: the two estimates, and the packet run itself."""
    setup = heard.setup
    nic = nic_rate(setup.fabric)
    alone = -(-heard.flows["bytes"] * 8 * (PS_PER_S // 10**6) // (nic // 10**6))
    fluid = FluidEmulator(setup.fabric, setup.routes, seed=setup.seed, mtu=setup.transport.mtu)
    return [
        Checked("bytes/bandwidth", heard.handoff_ps(heard.flows["release_ps"] + alone)),
        Checked("fluid", heard.handoff_ps(replay(heard.flows, fluid))),
        _of_frames(PACKET, heard, heard.finish_ps, heard.packet),
    ]


def refuse_real(setup: Setup, dilation: int | None, *controls: str | None) -> None:
    """Raise `EmulationError`, in one line, for what cannot be put on frames; creates nothing.

    controls: of kernel TCP, None for the NICs in software. What depends on the flows or on the
    dilation that is yet to be chosen, `on_frames` refuses.
    """
    refuse_frames(setup)
    refuse_size(setup.fabric)
    demand_support()
    demand_drivers()
    for control in controls:
        if control is not None:
            refuse_control(control)
    if dilation is not None:
        # Nothing waits for a completion here: it may be told a millisecond of the fabric late.
        refuse_window(dilation, PS_PER_MS)


def on_frames(
    heard: Rehearsal,
    *,
    name: str,
    dilation: int | None,
    most_s: float,
    memory: bool,
    tell: Tell,
    base: Path = FOLDER,
    tcp: str | None = None,
) -> tuple[Checked, Verdict, int]:
    """Replay the flows on a Mininet network: their times, the guard's verdict, the dilation.

    tcp: by kernel TCP with this congestion control, in place of the NICs in software. Refuses in
    one line, before anything is created, what cannot be. Ctrl-C ends the replay and keeps what is
    complete, which is marked partial; before it, and with TCP, it ends everything.
    """
    setup = heard.setup
    refuse_real(setup, dilation, tcp)
    if dilation is None:
        tell(0.0, "measuring this machine")
    chosen = dilation or setup.calibration().dilation
    refuse_window(chosen, PS_PER_MS)
    finish = heard.finish_ps
    done = finish >= 0
    lead = LEAD_NS * 1000 // chosen if tcp is None else lead_ps(chosen)
    busy = busy_ps(heard.flows["release_ps"][done], finish[done], lead)
    refuse_wall(busy, chosen, most_s, given=dilation is not None)

    def watch(now_ps: int) -> None:
        share, note = prospect(now_ps, busy, chosen)
        tell(0.1 + 0.9 * share, note)

    until = int(finish.max()) + PS_PER_MS + busy
    with network(setup.fabric, what=name, memory=memory, base=base) as made:
        tell(0.05, "control experiments")
        found = control_run(setup, made, chosen)
        with MininetEmulator(
            setup,
            made,
            dilation=chosen,
            window_ps=PS_PER_MS,
            watch=watch,
            most_s=patience_s(busy, chosen),
        ) as live:
            if tcp is None:
                with stopping(live):
                    took = replay(heard.flows, live, until_ps=until)
            else:
                live.advance(0)
                took = tcp_replay(
                    heard.flows,
                    made,
                    control=tcp,
                    dilation=chosen,
                    mtu=setup.transport.mtu,
                    until_ps=until + busy,
                    watch=watch,
                ).finish_ps
            told = live.telemetry()
            label = MININET if tcp is None else f"TCP {tcp}"
            checked = _of_frames(label, heard, took, told)
            partial = live.interrupted_ps is not None
            return replace(checked, partial=partial), live.judged(found), chosen


def _of_frames(name: str, heard: Rehearsal, finish_ps: Times, told: Telemetry) -> Checked:
    marked, pauses, drops = (
        int(np.asarray(told.ports[column]).sum()) for column in ("marked", "pauses", "drops")
    )
    lost = frames(told.totals)
    return Checked(name, heard.handoff_ps(finish_ps), marked, pauses, drops, lost)
