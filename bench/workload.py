"""Workloads that every simulator can run: a k-ary fat tree, flows of whole frames, pinned paths.

A flow is a pair of host numbers and a lane. Hosts are counted pod by pod and edge by edge. A lane
names the way up: aggregation switch ``lane // (k / 2)`` of the pod, core ``lane % (k / 2)`` of that
switch; the way down follows. All frames of a flow are full, so that headers of different sizes can
be levelled by the payload: what is the same everywhere is the frame on the wire.
"""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Switch
from topo.family.registry import build
from traffic.emulator import FLOW

STORED_LESS = 20
FRAME = 4178
"""Wire bytes of a full data frame: 4096 B of payload and 82 B of RoCEv2 over Ethernet."""
HTSIM_PAYLOAD = FRAME - 64
"""What htsim takes for the payload of such a frame; it counts its thresholds in these."""


@dataclass(frozen=True)
class Workload:
    """Flows over a k-ary fat tree; ``delay_ps`` is one way on every cable, switches add none.

    flows: (source, destination, lane). packets: full frames a flow. stop_bytes, go_bytes: wire
    bytes in an ingress group above which its sender is stopped, and below which it may go on:
    static thresholds, htsim's own 15 and 12 of its payloads. apart_ps: every cable is longer by a
    delay of its own below this, in steps of grain_ps, so that frames do not meet at the same
    instants for ever. slower_ns: every cable takes longer for a full frame by a whole number of
    its own of nanoseconds below this (which gives it a rate of its own). back: lanes of the ACKs,
    one a flow; hashed without it.
    """

    name: str
    k: int
    gbps: int
    packets: int
    flows: tuple[tuple[int, int, int], ...]
    frame: int = FRAME
    delay_ps: int = 1_000_000
    stop_bytes: int = 15 * HTSIM_PAYLOAD
    go_bytes: int = 12 * HTSIM_PAYLOAD
    apart_ps: int = 0
    grain_ps: int = 1
    slower_ns: int = 0
    back: tuple[int, ...] = ()

    @property
    def hosts(self) -> int:
        """Hosts of the full tree."""
        return self.k**3 // 4

    def hops(self, source: int, destination: int) -> int:
        """Links between two hosts: 2 below one edge switch, 4 in one pod, 6 across pods."""
        half = self.k // 2
        if source // half == destination // half:
            return 2
        return 4 if source // half**2 == destination // half**2 else 6

    @property
    def stored(self) -> tuple[int, int]:
        """``stop_bytes`` and ``go_bytes`` where a frame is stored without preamble and gap."""
        share = 1 - STORED_LESS / self.frame
        return round(self.stop_bytes * share), round(self.go_bytes * share)

    @property
    def data_hops(self) -> int:
        """Links crossed by all data frames, each sent once."""
        return sum(self.hops(s, d) for s, d, _ in self.flows) * self.packets

    def fabric(self, buffer_bytes: int) -> Fabric:
        """The tree, with that much memory in every switch."""
        rate = self.gbps * 10**9
        model = Switch(max(self.k, 2), rate, buffer_bytes, latency_ps=0)
        metres = self.delay_ps / 5_050
        fabric = build("fat_tree", {"k": self.k, "nic_bps": rate, "switch": model,
                                    "cable_m": metres})  # fmt: skip
        wrong = {link.delay_ps for link in fabric.links} - {self.delay_ps}
        if wrong:
            raise ValueError(f"delay {self.delay_ps} ps: cables came out at {wrong} ps")
        return self._parted(fabric) if self.apart_ps or self.slower_ns else fabric

    def apart(self, tier: int, low: int, up: int) -> int:
        """What the cable of two nodes has beyond ``delay_ps``: Knuth's multiplicative hash of both.

        tier: of the lower node, hosts 0. low, up: their numbers in their tiers; a host's cable has
        up 0. Cores are counted over the aggregation switches of a pod first, as htsim does.
        """
        own = self._hash(tier, low, up) * self.apart_ps >> 32
        return own // self.grain_ps * self.grain_ps

    def rate_bps(self, tier: int, low: int, up: int) -> int:
        """Of the cable of two nodes, numbered as for `apart`.

        A full frame takes 0.02 ns more than a whole number, so that a simulator that cuts its
        times to nanoseconds loses no more than that.
        """
        if not self.slower_ns:
            return self.gbps * 10**9
        whole = 8 * self.frame // self.gbps
        own = self._hash(tier, low, up + 128) * self.slower_ns >> 32
        return 8 * self.frame * 10**12 // (1000 * (whole + own) + 20)

    @staticmethod
    def _hash(tier: int, low: int, up: int) -> int:
        return (tier * 65536 + low * 256 + up) * 2654435761 % 2**32

    def _parted(self, fabric: Fabric) -> Fabric:
        half = self.k // 2
        parted = Fabric(fabric.family, name=fabric.name)
        number: list[int] = []
        seen: dict[int, int] = {}
        for node in fabric.nodes:
            number.append(seen.setdefault(node.tier, 0))
            seen[node.tier] += 1
            if node.switch is None:
                parted.add_host(node.name, rack=node.rack, server=node.server)
            else:
                parted.add_switch(node.name, tier=node.tier, switch=node.switch, rack=node.rack)
        for link in fabric.links:
            tier, up = fabric.nodes[link.a].tier, number[link.b]
            up = (0, up, up // half + up % half * half)[tier]
            ends = tier, number[link.a], up
            delay = link.delay_ps + self.apart(*ends)
            parted.connect(link.a, link.b, rate_bps=self.rate_bps(*ends), delay_ps=delay)
        return parted

    def table(self, fabric: Fabric, overhead: int) -> NDArray[np.void]:
        """`FLOW` rows: payload so that a full frame has ``frame`` bytes on the wire."""
        hosts = [node.index for node in fabric.hosts]
        rows = np.zeros(len(self.flows), FLOW)
        rows["flow"] = rows["handoff"] = rows["entropy"] = np.arange(len(rows))
        rows["source"] = [hosts[s] for s, _, _ in self.flows]
        rows["destination"] = [hosts[d] for _, d, _ in self.flows]
        rows["path"] = [self.pinned(lane) for _, _, lane in self.flows]
        rows["bytes"] = self.packets * (self.frame - overhead)
        rows["descriptors"], rows["write"], rows["priority"] = 1, True, 3
        return rows

    def pinned(self, lane: int) -> int:
        """The path number of a lane: its digits in the order in which a packet meets them."""
        half = self.k // 2
        return lane // half + half * (lane % half)


def permutation(k: int, gbps: int, packets: int, seed: int = 1) -> Workload:
    """Every host sends to one other and receives from one other; lanes are drawn."""
    rng = random.Random(seed)
    count = k**3 // 4
    while True:
        to = rng.sample(range(count), count)
        if all(i != t for i, t in enumerate(to)):
            break
    lanes = (k // 2) ** 2
    flows = tuple((i, t, rng.randrange(lanes)) for i, t in enumerate(to))
    return Workload("permutation", k, gbps, packets, flows)


def incast(k: int, gbps: int, packets: int, senders: int = 32, seed: int = 1) -> Workload:
    """That many hosts, drawn, send to the last host."""
    rng = random.Random(seed)
    last = k**3 // 4 - 1
    lanes = (k // 2) ** 2
    sources = sorted(rng.sample(range(last), senders))
    flows = tuple((s, last, rng.randrange(lanes)) for s in sources)
    return Workload(f"incast {senders}:1", k, gbps, packets, flows)


def bipartite(k: int, gbps: int, packets: int, seed: int = 1) -> Workload:
    """Every host of the first half sends to one of the second, drawn, so that some get several."""
    rng = random.Random(seed)
    half = k**3 // 8
    lanes = (k // 2) ** 2
    flows = tuple((s, half + rng.randrange(half), rng.randrange(lanes)) for s in range(half))
    return Workload("bipartite", k, gbps, packets, flows)


def funnel(k: int, gbps: int, packets: int) -> Workload:
    """Four hosts to the last: three behind its first aggregation switch, one behind another.

    Fair by ingress port, the one has half of the receiver, the others a quarter down to an eighth.
    """
    half, pod, last = k // 2, k**2 // 4, k**3 // 4 - 1
    flows = ((0, last, 0), (pod, last, 1), (2 * pod, last, 0), (2 * pod + 1, last, half))
    return Workload("funnel", k, gbps, packets, flows)


NAMES = {"funnel": funnel, "permutation": permutation, "incast": incast, "bipartite": bipartite}
