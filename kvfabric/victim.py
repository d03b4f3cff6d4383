"""Runs a cell twice, with and without the flows that congest it, to tell its victims.

The second run replays the other hand-off flows at the times at which the first released them, over
the same paths, by a fresh emulator of the same seed; marks are drawn anew. Background traffic is
taken away with the congesting flows.
"""

import numpy as np
from numpy.typing import NDArray

from analysis.victim import Victims, congesting, victims
from emulate.path import Pathfinder
from kvfabric.build import Stage
from kvfabric.run import CellJob, flow_table, served
from traffic.replay import replay


def victims_of(job: CellJob) -> Victims:
    """The victims of one alternative and seed. The alternative must be one that can run."""
    ready, seed = job.stage, job.seed
    outcome, emulator, _ = served(job)
    telemetry = emulator.telemetry()
    table = flow_table(ready, outcome, telemetry, emulator.rows, seed)
    kept = np.flatnonzero(~congesting(table))
    rest = outcome.flows[kept].copy()
    rest["flow"] = np.arange(len(rest))
    finish = replay(rest, ready.emulator(job.alternative.scenario.run.emulator, seed))
    alone = np.full(len(outcome.flows), -1, np.int64)
    alone[kept] = np.where(finish < 0, -1, finish - rest["release_ps"])
    paused = telemetry.ports["paused_ps"].astype(np.int64) > 0
    return victims(table, alone, _crosses(ready, seed, outcome.flows, paused))


def _crosses(
    ready: Stage, seed: int, flows: NDArray[np.void], marked: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which flows cross a marked port on their way."""
    finder = Pathfinder(ready.fabric, ready.routes, seed)
    ways = flows[["source", "destination", "entropy", "path"]].tolist()
    return np.array([bool(marked[finder.path(*way)].any()) for way in ways], bool)
