"""htsim's fat-tree text form (``.topo``), as Broadcom/csg-htsim's `FatTreeTopology::load` reads it.

The form names counts, not cables: nodes, tiers (2 or 3), hosts a pod; then for each tier the speed
and latency of its downlinks, its radix down and up, its bundle (parallel cables) and the switch
latency. htsim wires the rest itself. So only a regular tree can be written: every pod alike, all
leaves of a pod linked to all its aggregation switches, each core to the same place of every pod.
Whether a fabric is one is checked cable by cable; what is not is refused with the first difference.

Limits read from its source (sim/datacenter/fat_tree_topology.cpp): hosts have one cable; speeds
are whole Gbit/s and latencies whole ns of at least 1; the leaves' down radix over their up radix
must be a whole oversubscription, with hosts and leaf uplinks of one speed. Queue sizes are left
out on purpose: given in the file as well as on its command line, htsim stops.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from topo.fabric import Fabric, Kind
from topo.format.text import FormatError, shown
from topo.format.written import Written, lost_roles, lost_servers
from topo.unit import PS_PER_NS, rate_text

MOST_LEAF_PORTS: Final = 96
MOST_PORTS: Final = 64
"""Ports that htsim allows a leaf and any other switch; beyond, it aborts."""


@dataclass(frozen=True, slots=True)
class _Tier:
    """One tier: radix down and up, bundle, and speed and latency of downlinks and switches."""

    down: int
    up: int
    bundle: int
    gbps: int
    link_ns: int
    switch_ns: int


def write(fabric: Fabric) -> Written:
    """A regular two- or three-tier tree as a ``.topo`` file.

    Errors: `FormatError` with the first thing that is not a regular tree's.
    """
    tiers = sorted({node.tier for node in fabric.switches})
    if tiers not in ([1, 2], [1, 2, 3]):
        raise _refusal(f"switches in tiers {tiers}: a tree of 2 or 3 tiers is written")
    top = len(tiers)
    _check_ends(fabric)
    facts = [_tier(fabric, tier, top) for tier in tiers]
    pods = _pods(fabric, top)
    sizes = {len(pod) for pod in pods}
    if len(sizes) != 1:
        raise _refusal(f"pods of {sorted(sizes)} hosts: all must be alike")
    size = sizes.pop()
    first, second = facts[0], facts[1]
    if first.gbps != second.gbps or first.down % first.up:
        raise _refusal(
            f"{first.down} hosts of {first.gbps} Gbps over {first.up} uplinks of {second.gbps} "
            "Gbps on a leaf: the speeds must agree and the ratio be whole"
        )
    if top == 3:
        _check_core(fabric, pods, facts)
    lines = [f"Nodes {len(fabric.hosts)}", f"Tiers {top}", f"Podsize {size}"]
    for number, tier in enumerate(facts):
        lines += ["", f"Tier {number}", f"Downlink_speed_Gbps {tier.gbps}"]
        lines.append(f"Radix_Down {tier.down}")
        if number < top - 1:
            lines.append(f"Radix_Up {tier.up}")
            over = (tier.down * tier.gbps) / (tier.up * facts[number + 1].gbps)
            if over != int(over):
                raise _refusal(f"oversubscription {over:g} in tier {number}: must be whole")
            lines.append(f"Oversubscribed {int(over)}")
        lines.append(f"Bundle {tier.bundle}")
        lines.append(f"Downlink_Latency_ns {tier.link_ns}")
        lines.append(f"Switch_Latency_ns {tier.switch_ns}")
    notes = [
        "Names, racks, lengths, port numbers and buffers are not in the file; give htsim the queue "
        "size on its command line.",
        *lost_roles(fabric),
        *lost_servers(fabric),
    ]
    exact = all(link.delay_ps % PS_PER_NS == 0 for link in fabric.links)
    if not exact:
        notes.append("Cable delays are rounded to whole nanoseconds, at least 1.")
    return Written({"": "\n".join(lines) + "\n"}, notes)


def _refusal(why: str) -> FormatError:
    return FormatError(f"htsim's form holds regular fat trees only: {why}")


def _check_ends(fabric: Fabric) -> None:
    degree: Counter[int] = Counter()
    for link in fabric.links:
        a, b = fabric.nodes[link.a], fabric.nodes[link.b]
        if abs(a.tier - b.tier) != 1:
            raise _refusal(
                f"a cable from {shown(a.name)} (tier {a.tier}) to {shown(b.name)} (tier {b.tier})"
            )
        degree.update(end.index for end in (a, b) if end.kind is Kind.HOST)
    for host in fabric.hosts:
        if degree[host.index] != 1:
            raise _refusal(f"host {shown(host.name)} has {degree[host.index]} cables, not 1")


def _tier(fabric: Fabric, tier: int, top: int) -> _Tier:
    """The facts of one tier, which must be the same of all its switches and downlinks."""
    down: Counter[int] = Counter()
    up: Counter[int] = Counter()
    bundles: Counter[tuple[int, int]] = Counter()
    speeds: set[tuple[int, int]] = set()
    for link in fabric.links:
        low, high = sorted((link.a, link.b), key=lambda n: fabric.nodes[n].tier)
        if fabric.nodes[high].tier == tier:
            down[high] += 1
            bundles[high, low] += 1
            speeds.add((link.rate_bps, link.delay_ps))
        elif fabric.nodes[low].tier == tier:
            up[low] += 1
    switches = [node for node in fabric.switches if node.tier == tier]
    latencies = {node.switch.latency_ps for node in switches if node.switch is not None}
    sides = {(down[node.index], up[node.index]) for node in switches}
    for what, found in (
        ("radix down and up", sides),
        ("parallel cables", set(bundles.values())),
        ("speed and delay of downlinks", speeds),
        ("switch latency", latencies),
    ):
        if len(found) != 1:
            raise _refusal(f"{len(found)} kinds of {what} in tier {tier}: all must be alike")
    (rate_bps, delay_ps), (below, above) = speeds.pop(), sides.pop()
    if rate_bps % 10**9:
        raise _refusal(f"{rate_text(rate_bps)} in tier {tier}: must be whole Gbps")
    most = MOST_LEAF_PORTS if tier == 1 else MOST_PORTS
    if below + above > most:
        raise _refusal(f"{below + above} cables on a switch in tier {tier}: at most {most}")
    if (above == 0) != (tier == top):
        raise _refusal(f"tier {tier} of {top} has {above} uplinks")
    return _Tier(
        below,
        above,
        next(iter(bundles.values())),
        rate_bps // 10**9,
        max(1, round(delay_ps / PS_PER_NS)),
        round(latencies.pop() / PS_PER_NS),
    )


def _pods(fabric: Fabric, top: int) -> list[list[int]]:
    """Hosts of each pod; in every pod each leaf must be linked to each aggregation switch."""
    above: dict[int, set[int]] = defaultdict(set)
    hosts: dict[int, list[int]] = defaultdict(list)
    for link in fabric.links:
        low, high = sorted((link.a, link.b), key=lambda n: fabric.nodes[n].tier)
        if fabric.nodes[low].kind is Kind.HOST:
            hosts[high].append(low)
        elif fabric.nodes[low].tier == 1:
            above[low].add(high)
    pods: dict[frozenset[int], list[int]] = defaultdict(list)
    for leaf in (node.index for node in fabric.switches if node.tier == 1):
        pods[frozenset(above[leaf])] += hosts[leaf]
    seen = Counter(switch for pod in pods for switch in pod)
    if max(seen.values()) > 1:
        name = fabric.nodes[seen.most_common(1)[0][0]].name
        raise _refusal(f"leaves that share {shown(name)} are not linked to the same switches")
    if len({len(pod) for pod in pods}) != 1 or (top == 2 and len(pods) != 1):
        raise _refusal(f"{len(pods)} groups of leaves that differ, or lie apart")
    return list(pods.values())


def _check_core(fabric: Fabric, pods: list[list[int]], facts: list[_Tier]) -> None:
    """Every core is linked to one switch of each pod, and those it joins share all their cores."""
    above: dict[int, set[int]] = defaultdict(set)
    below: dict[int, set[int]] = defaultdict(set)
    for link in fabric.links:
        low, high = sorted((link.a, link.b), key=lambda n: fabric.nodes[n].tier)
        if fabric.nodes[high].tier == 3:
            above[low].add(high)
            below[high].add(low)
    for core, joined in below.items():
        if len(joined) != len(pods) or len({frozenset(above[j]) for j in joined}) != 1:
            raise _refusal(
                f"core {shown(fabric.nodes[core].name)} is not linked to the same place of each of "
                f"{len(pods)} pods"
            )
    if facts[2].down != len(pods) * facts[2].bundle:
        raise _refusal(f"a core with {facts[2].down} cables to {len(pods)} pods")
