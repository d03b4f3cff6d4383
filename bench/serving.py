"""What the request loop costs beside the network: processor time a request, and memory.

Requests of the base profile on 32 + 32 instances of gpt-oss-120b at 70 % of the prefill capacity,
over a network that costs nothing: every flow takes a microsecond, and the time spent in it is taken
off. A request passes four stages: queueing, prefill, hand-off, decode. Processor time of this
process, so that other load on the machine matters little:

    python bench/serving.py                       # a table of all modes
    python bench/serving.py --requests 1000000 --mode disaggregated
"""

import argparse
import resource
import time
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from traffic.compute.gpu import gpu
from traffic.emulator import COMPLETION, Advance, Table, Telemetry
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.serving.mode import Serving
from traffic.serving.run import serve
from traffic.source.workload import synthesise

STAGES = 4
INSTANCES = 32
NOTHING = np.zeros(0, COMPLETION)
MODES = {
    "disaggregated": Serving(),
    "growing memory": Serving(reserve="prompt"),
    "colocated": Serving("colocated"),
}


class Free:
    """A network in which every flow takes a microsecond; ``spent_s`` is what it cost to say so."""

    def __init__(self) -> None:
        self._under_way: list[tuple[int, int, int]] = []
        self.spent_s = 0.0

    def submit(self, flows: NDArray[np.void]) -> None:
        began = time.process_time()
        names = ("release_ps", "flow", "handoff")
        for at, flow, handoff in zip(*(flows[n].tolist() for n in names), strict=True):
            heappush(self._under_way, (at + 10**6, flow, handoff))
        self.spent_s += time.process_time() - began

    def advance(self, until_ps: int) -> Advance:
        began = time.process_time()
        done: list[tuple[int, int, int]] = []
        waiting = self._under_way
        now = min(until_ps, waiting[0][0]) if waiting else until_ps
        while waiting and waiting[0][0] == now:
            at, flow, handoff = heappop(waiting)
            done.append((flow, handoff, at))
        step = Advance(now, np.array(done, COMPLETION) if done else NOTHING)
        self.spent_s += time.process_time() - began
        return step

    def observe(self) -> Table:
        return {}

    def busy_ps(self) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)

    def telemetry(self) -> Telemetry:
        return Telemetry({}, {})


def main() -> None:
    """Print one row a mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--mode", choices=list(MODES), action="append")
    chosen = parser.parse_args()
    kind, card = model("gpt-oss-120b"), gpu("H100-SXM")
    pools = [
        Pool(tuple((first + i,) for i in range(INSTANCES)), kind, card, max_batch=64)
        for first in (0, INSTANCES)
    ]
    deployment = Deployment(*pools)
    rate = 0.7 * INSTANCES / (pools[0].prefill_cost.ps(550) / 1e12)
    print(f"{'mode':<16}{'requests':>11}{'us a request':>14}{'us a stage':>12}{'peak MiB':>10}")
    for name in chosen.mode or MODES:
        rules = MODES[name]
        shape = (2 * INSTANCES,) * 2 if rules.mode == "colocated" else (INSTANCES, INSTANCES)
        hops = np.full(shape, 4, np.int32)
        requests = synthesise(count=chosen.requests, rate_per_s=rate, seed=1)
        network = Free()
        began = time.process_time()
        router = policy("least_loaded", hops, seed=1)
        outcome = serve(requests, deployment, router, network, hops=hops, rules=rules)
        spent = time.process_time() - began - network.spent_s
        each = spent / chosen.requests * 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        assert not outcome.requests["status"].any()
        print(f"{name:<16}{chosen.requests:>11,}{each:>14.1f}{each / STAGES:>12.1f}{peak:>10.0f}")


if __name__ == "__main__":
    main()
