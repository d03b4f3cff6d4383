"""One scenario on real frames: the serving loop over a Mininet network, under the real clock.

A packet run of the same scenario comes first: it says how long the network is busy, and so how long
the emulation will take. Results land in the same tables, with the guard's verdict beside them; of
an invalid run no number is kept.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from analysis import lossless
from analysis.record import (
    Cell,
    CellManifest,
    StudyManifest,
    cell_directory,
    write_cell,
    write_study,
)
from emulate.mininet.control import controls
from emulate.mininet.dilation import patience_s, prospect, refuse_wall
from emulate.mininet.emulator import MininetEmulator, refuse_window
from emulate.mininet.feed import LEAD_NS, busy_ps
from emulate.mininet.guard import Control, Verdict
from emulate.mininet.kernel import lead_ps
from emulate.mininet.network import Network, network, refuse_size
from emulate.mininet.plane import refuse_dilation, refuse_discipline
from emulate.mininet.record import FOLDER
from emulate.mininet.requirement import demand_kernel
from emulate.mininet.setup import Setup, refuse_frames
from emulate.mininet.support import demand_drivers, demand_support
from kvfabric.build import Stage
from kvfabric.progress import stages
from kvfabric.run import CellJob, run_cell
from topo.unit import PS_PER_MS, PS_PER_S, show_duration
from traffic.emulator import Emulator
from traffic.replay import replay

LIMITS: Final = (
    "The emulation proves drivers, clocks and frames; switches and NICs decide by the same classes "
    "as the packet emulator, so that agreement with it does not prove the model.",
    "Timers of the kernel are not slowed down: kernel TCP senders see a network of the dilated "
    "rates with timeouts of the real clock.",
    "Times are those of the fabric: what the machine took, divided by the dilation.",
)
"""What a reader of an emulated result should know."""

Tell = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and a short note."""


@dataclass(frozen=True)
class LiveStage(Stage):
    """A stage whose packets are moved by real frames."""

    live: Emulator | None = None

    def emulator(self, kind: str, seed: int) -> Emulator:
        """The live emulator in place of the packet emulator; the fluid as before."""
        return (
            self.live
            if kind == "packet" and self.live is not None
            else super().emulator(kind, seed)
        )


@dataclass(frozen=True)
class Outlook:
    """What a run will be, known before anything is created."""

    dilation: int
    why: str
    busy_ps: int
    packet: Cell

    @property
    def not_lossless(self) -> list[str]:
        """What `analysis.lossless` tells of the packet run: its frames are no better."""
        asked = self.packet.manifest
        lost = {f"{asked.fabric} with {asked.policy}": lossless.frames(asked.totals)}
        return lossless.told(lost, faults=lossless.faulty(asked))

    @property
    def wall_s(self) -> float:
        """Real seconds that the network is busy."""
        return self.busy_ps * self.dilation / PS_PER_S


def setup_of(ready: Stage, seed: int) -> Setup:
    """What is emulated of a stage."""
    return Setup(
        ready.fabric,
        ready.routes,
        ready.discipline,
        ready.transport,
        seed,
        ready.faults,
        ready.headrooms,
    )


def outlook(
    job: CellJob,
    dilation: int | None,
    most_s: float,
    *,
    tell: Callable[[str], None],
    tcp: str | None = None,
) -> Outlook:
    """Check everything, choose the dilation, and say how long it takes; nothing is created.

    ``dilation`` None: by calibration. ``tell``: called with what comes next, in a few words, once
    the scenario is one that can be. ``tcp``: the kernel dataplane's congestion control, None for
    switches in software. Raises `EmulationError` in one line for what cannot be.
    """
    setup = setup_of(job.stage, job.seed)
    refuse_frames(setup)
    refuse_size(setup.fabric)
    if tcp is not None:
        refuse_discipline(setup.discipline)
    demand_support()
    if tcp is None:
        demand_drivers()
    else:
        demand_kernel(tcp)
    given = dilation is not None
    if dilation is None:
        tell("measuring this machine")
        found = setup.calibration()
        dilation, why = found.dilation, found.text()
    else:
        why = f"dilation {dilation:,}: as given"
    if tcp is not None:
        refuse_dilation(setup, dilation)
    refuse_window(dilation, int(job.alternative.scenario.run.control_delay))
    tell("running its packets first")
    packet = run_cell(job)
    flows = packet.flows
    done = flows["finish_ps"].astype(np.int64) >= 0
    busy = busy_ps(
        flows["release_ps"].astype(np.int64)[done],
        flows["finish_ps"].astype(np.int64)[done],
        LEAD_NS * 1000 // dilation if tcp is None else lead_ps(dilation),
    )
    refuse_wall(busy, dilation, most_s, given=given)
    return Outlook(dilation, why, busy, packet)


@dataclass(frozen=True)
class Emulated:
    """The cell of a run, the guard's verdict, and when Ctrl-C ended it, if it did.

    limits: what a reader of it should know.
    """

    cell: Cell
    verdict: Verdict
    stopped_ps: int | None = None
    limits: tuple[str, ...] = LIMITS


def emulated(
    job: CellJob, seen: Outlook, *, memory: bool, tell: Tell, base: Path = FOLDER
) -> Emulated:
    """Serve one cell over a network of its own, which is removed however this ends."""
    setup, ready = setup_of(job.stage, job.seed), job.stage
    what = f"{job.alternative.scenario.name}: {job.alternative.fabric}"
    with network(
        setup.fabric, what=what, memory=memory, progress=part(tell, 0, 0.05), base=base
    ) as made:
        tell(0.05, "control experiments")
        found = control_run(setup, made, seen.dilation)
        tell(0.1, "serving")
        with MininetEmulator(
            setup,
            made,
            dilation=seen.dilation,
            window_ps=int(job.alternative.scenario.run.control_delay),
            watch=watching(tell, seen),
            most_s=patience_s(seen.busy_ps, seen.dilation),
        ) as live:
            cell = served(job, ready, live)
            judged = live.judged(found)
            links = "wires in memory" if memory else "veth pairs"
            how = f"Mininet, {seen.why}; links between switches are {links}"
            stopped_ps = live.interrupted_ps
            return Emulated(kept(cell, judged, how, stopped_ps), judged, stopped_ps)


def write_emulated(place: Path, manifest: StudyManifest, done: Emulated) -> None:
    """Write a results folder with the one cell, and the whole verdict as ``fidelity.json``."""
    write_study(place, msgspec.structs.replace(manifest, limits=[*manifest.limits, *done.limits]))
    write_cell(cell_directory(place, done.cell.manifest.cell), done.cell)
    encoded = msgspec.json.format(msgspec.json.encode(done.verdict), indent=1)
    (place / "fidelity.json").write_bytes(encoded + b"\n")


def shell(job: CellJob, dilation: int | None, *, memory: bool, base: Path = FOLDER) -> None:
    """Open Mininet's command line on the network of a cell, its switches forwarding, none serving.

    ``dilation`` None: by calibration. Rates of ping and iperf are those of the fabric over it.
    """
    setup = setup_of(job.stage, job.seed)
    refuse_frames(setup)
    refuse_size(setup.fabric)
    demand_support()
    demand_drivers()
    from mininet.cli import CLI
    from mininet.log import setLogLevel

    what = f"{job.alternative.scenario.name}: shell"
    with ExitStack() as ending:
        with stages(what) as say:
            say("measuring this machine")
            chosen = dilation or setup.calibration().dilation
            say("making the network")
            made = ending.enter_context(network(setup.fabric, what=what, memory=memory, base=base))
            live = MininetEmulator(setup, made, dilation=chosen, window_ps=PS_PER_S)
            ending.enter_context(live).advance(0)
        setLogLevel("output")
        CLI(made.net)


def control_run(setup: Setup, made: Network, dilation: int) -> list[Control]:
    """The control experiments on a network, with what they gave."""
    wanted = controls(setup.fabric, setup.routes, setup.twin())
    most_s = patience_s(wanted.end_ps, dilation)
    with MininetEmulator(
        setup, made, dilation=dilation, window_ps=PS_PER_MS, most_s=most_s
    ) as live:
        finish = replay(wanted.flows, live, until_ps=2 * wanted.end_ps)
        live.telemetry()
    return wanted.judged(finish)


def kept(cell: Cell, judged: Verdict, how: str, stopped_ps: int | None) -> Cell:
    """The cell with what emulated it and how; without numbers when it is invalid."""
    notes = list(cell.manifest.notes)
    if stopped_ps is not None:
        notes.append(
            f"Partial: interrupted after {show_duration(stopped_ps)} of the fabric's time; "
            "what had not completed by then is in flight."
        )
    settings = {
        **cell.manifest.settings,
        "emulation": how,
        "fidelity": judged.text(),
        "fidelity limits": ", ".join(
            f"{name} {value:g}" for name, value in msgspec.structs.asdict(judged.limits).items()
        ),
    }
    manifest: CellManifest = msgspec.structs.replace(
        cell.manifest, emulator="mininet", settings=settings, notes=notes
    )
    if judged.standing != "invalid":
        return Cell(manifest, cell.requests, cell.flows, cell.ports, cell.observed)
    reason = f"the emulation was not faithful, its numbers are withheld: {judged.reasons[0]}"
    return Cell(
        msgspec.structs.replace(manifest, impossible=reason, totals={}, duration_ps=0, notes=notes)
    )


class Stoppable(Protocol):
    """An emulator that can be told to end."""

    stopped_ps: int | None

    def stop(self) -> None:
        """End the run here."""
        ...


class Live(Emulator, Stoppable, Protocol):
    """An emulator under the real clock."""


def served(job: CellJob, ready: Stage, live: Live) -> Cell:
    """The cell of a job that ``live`` serves in real time, until it ends or is stopped."""
    given = {f.name: getattr(ready, f.name) for f in fields(Stage)}
    with stopping(live):
        return run_cell(replace(job, stage=LiveStage(**given, live=live)))


@contextmanager
def stopping(live: Stoppable) -> Iterator[None]:
    """Ctrl-C ends the run and keeps what is complete; a second one gives up."""

    def stop(*_: object) -> None:
        if live.stopped_ps is not None:
            raise KeyboardInterrupt
        live.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watching(tell: Tell, seen: Outlook) -> Callable[[int], None]:
    """Tell how much of the busy time is over, and how long the rest takes."""

    def watch(busy_ps: int) -> None:
        share, note = prospect(busy_ps, seen.busy_ps, seen.dilation)
        tell(0.1 + 0.9 * share, note)

    return watch


def part(tell: Tell, begin: float, end: float) -> Tell:
    """Tell the share of a part as one of the whole."""
    return lambda share, note: tell(begin + (end - begin) * share, note)
