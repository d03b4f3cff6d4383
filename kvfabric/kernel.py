"""One scenario over the kernel's own queues: Linux routers forward, its TCP sends.

As `kvfabric.emulate` does it with switches in software: a packet run first, the same tables after,
and a verdict that withholds the numbers of a run that could not keep up.
"""

from pathlib import Path
from typing import Final

from emulate.mininet.dilation import patience_s
from emulate.mininet.judge import kernel_verdict
from emulate.mininet.kernel import KernelEmulator
from emulate.mininet.network import network
from emulate.mininet.plane import kernel_plane
from emulate.mininet.record import FOLDER
from emulate.mininet.support import kernel
from emulate.mininet.train import train
from kvfabric.emulate import (
    Emulated,
    Outlook,
    Tell,
    kept,
    part,
    served,
    setup_of,
    watching,
)
from kvfabric.run import CellJob

KERNEL_LIMITS: Final = (
    "The kernel's timers are not slowed down: its least retransmission timeout of 200 ms and its "
    "delayed ACK of 40 ms are so much less of the fabric's time, by the dilation.",
    "A switch's shared buffer is one limit a queue, what one queue alone may take of it; several "
    "full queues may hold more than the switch has.",
    "RED averages over two packets and spaces its marks evenly: between Kmin and Kmax it marks up "
    "to twice as many packets as the packet emulator. ECMP hashes with a seed of the kernel's own: "
    "two runs take different paths.",
    "Flows are TCP connections of their own in place of the scenario's transport; descriptors, "
    "PCIe and NICs cost nothing.",
    "Queues are looked at now and then: the fullest one may have been fuller between two looks.",
    "Times are those of the fabric: what the machine took, divided by the dilation.",
)
"""What a reader of a result of the kernel dataplane should know."""


def kernel_emulated(
    job: CellJob, seen: Outlook, *, control: str, tell: Tell, base: Path = FOLDER
) -> Emulated:
    """Serve one cell over a kernel plane of its own, which is removed however this ends.

    control: the congestion control of all senders.
    """
    setup, ready = setup_of(job.stage, job.seed), job.stage
    what = f"{job.alternative.scenario.name}: {job.alternative.fabric}"
    with network(setup.fabric, what=what, progress=part(tell, 0, 0.04), base=base) as made:
        plane = kernel_plane(made, setup, dilation=seen.dilation, tell=part(tell, 0.04, 0.08))
        tell(0.08, "control experiment")
        before = train(plane)
        tell(0.1, "serving")
        with KernelEmulator(
            plane,
            control,
            window_ps=int(job.alternative.scenario.run.control_delay),
            watch=watching(tell, seen),
            most_s=patience_s(seen.busy_ps, seen.dilation),
        ) as live:
            cell = served(job, ready, live)
            live.telemetry()
            judged = kernel_verdict(live.kept, before)
            how = f"Linux {kernel()} routers, TCP {control}, {seen.why}"
            done = kept(cell, judged, how, live.interrupted_ps)
            return Emulated(done, judged, live.interrupted_ps, KERNEL_LIMITS)
