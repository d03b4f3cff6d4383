"""The fabric between two pools, as a router sees it that polls its switches and NICs.

Every ``staleness_ps`` the state of all links is read, and every choice until the next reading sees
the same picture: queues and pauses as they are at that time, utilisation as the mean since the
reading before, as counters give it. The emulator itself latches queues every 10 us.

A picture of a pair is the mean over the ports of each hop (`traffic.view.way`), and then the sum or
the worst of the hops. Where instances have several ranks, the worst pair of ranks counts, since the
cache is ready when the last of them has read.
"""

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import PS_PER_MS, PS_PER_S, PS_PER_US, show_duration
from traffic.emulator import Table
from traffic.policy.choice import PolicyError
from traffic.view.way import Instances, Ways

DEFAULT_STALENESS_PS: Final = 50 * PS_PER_MS
"""How often llm-d's endpoint picker polls what it chooses by (--refresh-metrics-interval; in
gateway-api-inference-extension, DefaultRefreshMetricsInterval). Streaming telemetry of switches is
mostly slower."""

LEAST_STALENESS_PS: Final = 10 * PS_PER_US
"""The emulators latch their queues so often."""


class Network:
    """A `NetworkView` of the ways from prefill to decode instances; `look` takes a new picture.

    The ways are followed, and a picture is worked out, when somebody first asks.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        prefill: Instances,
        decode: Instances,
        staleness_ps: int = DEFAULT_STALENESS_PS,
    ) -> None:
        if staleness_ps < LEAST_STALENESS_PS:
            raise PolicyError(
                f"staleness {show_duration(staleness_ps)}: link state is latched every "
                f"{show_duration(LEAST_STALENESS_PS)}; write that or more"
            )
        self.staleness_ps = staleness_ps
        self.at_ps = 0
        """When the picture was taken."""
        self._routes = routes
        self._pools = prefill, decode
        self._rate = fabric.ports.rate_bps.astype(np.float64)
        idle = np.zeros(len(self._rate))
        self._busy = idle.astype(np.int64)
        self._seen = {"queued": idle, "used": idle, "paused": idle}
        self._hops: dict[str, NDArray[np.float64]] = {}

    @cached_property
    def _ways(self) -> Ways:
        return Ways(self._routes, *self._pools)

    @cached_property
    def _slowest(self) -> NDArray[np.float64]:
        return self._ways.least(self._rate)

    def look(self, state: Table, busy_ps: NDArray[np.int64], now_ps: int) -> None:
        """Take a picture of what an emulator's ``observe`` and ``busy_ps`` say now."""
        passed = now_ps - self.at_ps
        bits = state["queued_bytes"].astype(np.float64) * 8
        self._seen["queued"] = bits * PS_PER_S / self._rate
        self._seen["paused"] = np.asarray(state["paused"], np.bool_).astype(np.float64)
        if passed > 0:
            self._seen["used"] = np.clip((busy_ps - self._busy) / passed, 0.0, 1.0)
        self._busy, self.at_ps = busy_ps, now_ps
        self._hops.clear()

    def _of_hops(self, name: str, lost: float) -> NDArray[np.float64]:
        """What was seen of the ports, by hop."""
        found = self._hops.get(name)
        if found is None:
            found = self._hops[name] = self._ways.mean(self._seen[name], lost=lost)
        return found

    def queued_ps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The time that the bytes queued on the way need, all hops together."""
        queued = self._of_hops("queued", 0.0)
        sums = [queued[hops].sum(axis=0) for hops in self._ways.of(prefill, decode)]
        whole: NDArray[np.int64] = np.rint(_worst(sums)).astype(np.int64)
        return whole

    def utilisation(
        self, prefill: int | None = None, decode: int | None = None
    ) -> NDArray[np.float64]:
        """The share of time that the busiest hop was sending, 0 to 1."""
        used = self._of_hops("used", 1.0)
        return _worst([used[hops].max(axis=0) for hops in self._ways.of(prefill, decode)])

    def paused(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.float64]:
        """The share of ports that stand paused at the hop with most of them, 0 to 1."""
        paused = self._of_hops("paused", 1.0)
        return _worst([paused[hops].max(axis=0) for hops in self._ways.of(prefill, decode)])

    def rate_bps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The rate of the slowest hop; 0 without a path."""
        slow = self._slowest
        least = [slow[hops].min(axis=0) for hops in self._ways.of(prefill, decode)]
        whole: NDArray[np.int64] = (-_worst([-rate for rate in least])).astype(np.int64)
        return whole


def _worst(values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    found = values[0]
    for more in values[1:]:
        found = np.maximum(found, more)
    return found
