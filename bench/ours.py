"""Runs a workload in kvfabric, in a process of its own, so that its peak memory is its own.

What peers share is levelled by inputs: the payload follows from the frame on the wire, and a
static pause threshold from a memory so large that the dynamic one stands still.
"""

import dataclasses
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outcome import Outcome
from workload import Workload

from emulate import _engine
from emulate.discipline import Discipline
from emulate.headroom import headroom_bytes
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.path import Pathfinder
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import Routes, equal_cost

UNTIL = 10**13


def static_pause(workload: Workload, **more: Any) -> tuple[Fabric, Discipline]:
    """A fabric and a discipline that stop an ingress group at ``stop_bytes``, free it at fewer.

    The dynamic threshold is the least share that can be written, 2^-16, of a memory 2^16 times the
    static threshold: what is stored moves it by less than a hundred bytes. A switch stores a frame
    without preamble and gap; the thresholds shrink with it.
    """
    stop, go = workload.stored
    delay = workload.delay_ps + workload.apart_ps
    headroom = headroom_bytes("sonic", workload.gbps * 10**9, delay, workload.frame)
    buffer = workload.k * headroom + (stop << 16)
    offset = stop - go
    discipline = Discipline(
        ecn="off", alpha=2**-16, reserve_bytes=0, xon_offset_bytes=offset, **more
    )
    return workload.fabric(buffer), discipline


def emulator(workload: Workload, settings: dict[str, Any]) -> PacketEmulator:
    """The emulator of a workload, its flows submitted.

    settings: ``discipline`` and ``transport`` (keyword arguments; ``ecn`` as a name
    or kmin, kmax and pmax), ``buffer`` (bytes a switch; a
    static pause threshold without it), ``engine``, ``seed``, and ``jitter_ps``: the span of the
    releases, drawn; ``releases_ps``: one a flow.
    """
    transport = Transport(mtu=workload.frame - _engine.DATA_OVERHEAD, **settings["transport"])
    if "buffer" in settings:
        fabric = workload.fabric(settings["buffer"])
        asked = dict(settings["discipline"])
        if isinstance(asked.get("ecn"), list):
            asked["ecn"] = Threshold(*asked["ecn"])
        discipline = Discipline(**asked)
    else:
        fabric, discipline = static_pause(workload, **settings["discipline"])
    more = {"engine": settings["engine"]} if settings.get("engine") else {}
    routes = equal_cost(fabric)
    made = PacketEmulator(
        fabric, routes, discipline, transport, seed=settings.get("seed", 1), **more
    )
    table = workload.table(fabric, _engine.DATA_OVERHEAD)
    jitter = settings.get("jitter_ps", 0)
    if jitter:
        rng = np.random.default_rng(settings.get("seed", 1))
        table["release_ps"] = rng.integers(0, jitter, len(table))
    if "releases_ps" in settings:
        table["release_ps"] = settings["releases_ps"]
    if workload.back:
        _pin_back(workload, fabric, routes, table, settings.get("seed", 1))
    made.submit(table)
    return made


def _pin_back(
    workload: Workload, fabric: Fabric, routes: Routes, table: NDArray[np.void], seed: int
) -> None:
    """Gives every flow the least entropy whose hash takes its ACKs their lane."""
    finder = Pathfinder(fabric, routes, seed)
    for row, lane in zip(table, workload.back, strict=True):
        ends = int(row["destination"]), int(row["source"])
        asked = finder.path(*ends, 0, workload.pinned(lane))
        row["entropy"] = next(e for e in range(2**16) if finder.path(*ends, e) == asked)


def run(workload: Workload, settings: dict[str, Any]) -> Outcome:
    """Runs until every flow has finished and its last acknowledgement is back."""
    made = emulator(workload, settings)
    left = len(workload.flows)
    began = time.process_time()
    while left:
        step = made.advance(UNTIL)
        if not len(step.completions):
            break
        left -= len(step.completions)
    made.advance(made.now_ps + 100 * workload.delay_ps * workload.k)
    seconds = time.process_time() - began
    telemetry = made.telemetry()
    flows, totals = telemetry.flows, telemetry.totals
    done = flows["sender_done_ps"] - flows["release_ps"]
    return Outcome(
        settings.get("engine") or "kvfabric",
        [int(t) if end >= 0 else -1 for t, end in zip(done, flows["finish_ps"], strict=True)],
        seconds,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        totals["packet_hops"],
        totals["events"],
        totals["pause_frames"],
        totals["drops_lossless"],
        extra={"cnps": float(totals["cnps"]), "resent": float(flows["resent_bytes"].sum())},
    )


def measure(workload: Workload, settings: dict[str, Any]) -> Outcome:
    """`run` in a process of its own."""
    order = json.dumps({"workload": dataclasses.asdict(workload), "settings": settings})
    flags = ["-S"] if sys.flags.no_site else []
    done = subprocess.run(
        [sys.executable, *flags, __file__], input=order, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"kvfabric on {workload.name}: {done.stderr.strip()[-2000:]}")
    return Outcome(**json.loads(done.stdout))


def main() -> None:
    """Reads one order from standard input, writes the outcome."""
    order = json.load(sys.stdin)
    fields = order["workload"]
    fields["flows"] = tuple(tuple(flow) for flow in fields["flows"])
    fields["back"] = tuple(fields["back"])
    json.dump(dataclasses.asdict(run(Workload(**fields), order["settings"])), sys.stdout)


if __name__ == "__main__":
    main()
