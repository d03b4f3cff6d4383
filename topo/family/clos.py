"""Folded Clos networks: two tiers (leaf-spine) and three tiers (fat tree).

A leaf with d hosts and u uplinks has oversubscription d c / (u c_u) for NIC rate c and link rate
c_u. Two tiers of k-port switches reach k^2 / 2 hosts without blocking: 64 ports carry 2,048 hosts
with 96 switches and 2,048 cables (DeepSeek-V3, ISCA 2025, table 3). Three tiers reach k^3 / 4 with
5 k^2 / 4 switches and k^3 / 2 cables (Al-Fares et al., SIGCOMM 2008).
"""

from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.parameter import (
    Count,
    Parameters,
    add_hosts,
    evenly,
    join_hosts,
    join_switches,
)


class LeafSpine(Parameters, frozen=True, kw_only=True):
    """Parameters of a leaf-spine.

    leaves: the fewest that fit, at least 2, when None. spines: the fewest that give every leaf the
    same number of links to each of them, at least 2 where a leaf has 2 uplinks, when None. trunk:
    parallel links between a leaf and a spine. oversubscription: 1 when None and spines or trunk
    are left to choose.
    """

    leaves: Count | None = None
    spines: Count | None = None
    trunk: Count | None = None


class FatTree(Parameters, frozen=True, kw_only=True):
    """Parameters of a fat tree.

    k: ports a switch of the tree, the smallest even number that fits the hosts when None; the
    tree is built of k-port switches with the rate, buffer and latency of ``switch``, which must
    have as many. Without ``hosts`` the tree is full. oversubscription: changes the hosts of an
    edge switch from k / 2 to what the ratio allows over its k / 2 uplinks (the edge switch then
    has more or fewer than k ports, at most those of ``switch``).
    """

    k: Count | None = None


def leaf_spine(spec: LeafSpine) -> Fabric:
    """Build a leaf-spine."""
    hosts, leaves, spines, trunk = _two_tiers(spec)
    fabric = Fabric("leaf_spine")
    racks = add_hosts(fabric, evenly(hosts, leaves), spec.gpus_per_server)
    lower = [
        fabric.add_switch(f"leaf{i}", tier=1, switch=spec.switch, rack=i) for i in range(leaves)
    ]
    upper = [fabric.add_switch(f"spine{i}", tier=2, switch=spec.switch) for i in range(spines)]
    for rack, leaf in zip(racks, lower, strict=True):
        join_hosts(fabric, spec, rack, leaf)
    for leaf in lower:
        for spine in upper:
            join_switches(fabric, spec, leaf, spine, trunk)
    return fabric


def _two_tiers(spec: LeafSpine) -> tuple[int, int, int, int]:
    """Hosts, leaves, spines, links a leaf-spine pair."""
    radix = spec.switch.ports
    hosts = spec.total
    if hosts is None:
        raise FabricError("leaf_spine: the number of hosts is missing; write hosts: 64")
    if spec.leaves is not None and spec.leaves > hosts:
        raise FabricError(
            f"leaf_spine: leaves {spec.leaves}: more than the {hosts} hosts; "
            f"write leaves: {hosts} or fewer"
        )
    if hosts < 2 or spec.leaves == 1:
        raise FabricError(
            f"leaf_spine: {hosts} hosts on {spec.leaves or 1} leaf: a spine joins at least "
            "2 leaves; write hosts: 2 and leaves: 2 or more"
        )
    choices = range(2, min(hosts, radix) + 1) if spec.leaves is None else [spec.leaves]
    for leaves in choices:
        each = -(-hosts // leaves)
        found = _spines(spec, leaves, each)
        if found is not None:
            return hosts, leaves, *found
    down = max(
        (d for d in range(1, radix) if d + spec.uplinks(d) <= radix),
        default=0,
    )
    asked = spec.asked("leaves", "spines", "trunk")
    raise FabricError(
        f"leaf_spine: {hosts} hosts{asked} do not fit two tiers of {radix}-port switches at "
        f"oversubscription {spec.allowed:g}; left to choose, {radix} leaves of {down} hosts "
        f"carry {radix * down}: write fewer hosts, more ports a switch, a higher "
        "oversubscription, or family: fat_tree"
    )


def _spines(spec: LeafSpine, leaves: int, each: int) -> tuple[int, int] | None:
    """Spines and links a pair for leaves of ``each`` hosts, or None when the ports do not allow.

    Of all that keep the oversubscription, the fewest spines, then the fewest links.
    """
    radix = spec.switch.ports
    need, room = spec.uplinks(each), radix - each
    free = spec.oversubscription is None and spec.spines is not None and spec.trunk is not None
    fewest = 1 if need == 1 or room < 2 else 2
    for spines in range(fewest, room + 1) if spec.spines is None else [spec.spines]:
        trunk = spec.trunk or -(-need // spines)
        enough = free or spines * trunk >= need
        if enough and spines * trunk <= room and leaves * trunk <= radix:
            return spines, trunk
    return None


def fat_tree(spec: FatTree) -> Fabric:
    """Build a k-ary fat tree, whole or cut down to the hosts asked for.

    A tree with fewer hosts keeps k / 2 uplinks on every edge and aggregation switch. It has the
    edge switches that its hosts need, in pods of about equal size; each aggregation switch of a
    pod reaches its own k / 2 cores, or fewer with parallel links to each where half the pods
    leave cores with free ports. A single pod needs no core.
    """
    k, each, hosts = _three_tiers(spec)
    half = k // 2
    edges = -(-hosts // each)
    pods = evenly(edges, -(-edges // half))
    tree = _model(spec.switch, k)
    fabric = Fabric("fat_tree")
    racks = add_hosts(fabric, evenly(hosts, edges), spec.gpus_per_server)
    model = _model(spec.switch, each + half)
    lower = [fabric.add_switch(f"edge{i}", tier=1, switch=model, rack=i) for i in range(edges)]
    for rack, edge in zip(racks, lower, strict=True):
        join_hosts(fabric, spec, rack, edge)
    middle = [fabric.add_switch(f"agg{i}", tier=2, switch=tree) for i in range(len(pods) * half)]
    begin = 0
    for pod, size in enumerate(pods):
        for edge in lower[begin : begin + size]:
            for aggregation in middle[pod * half : (pod + 1) * half]:
                join_switches(fabric, spec, edge, aggregation)
        begin += size
    if len(pods) == 1:
        return fabric
    cores = next(c for c in range(1, half + 1) if half % c == 0 and 2 * c >= len(pods))
    upper = [fabric.add_switch(f"core{i}", tier=3, switch=tree) for i in range(cores * half)]
    for number, aggregation in enumerate(middle):
        own = number % half
        for core in upper[own * cores : (own + 1) * cores]:
            join_switches(fabric, spec, aggregation, core, half // cores)
    return fabric


def _model(switch: Switch, ports: int) -> Switch:
    return Switch(ports, switch.rate_bps, switch.buffer_bytes, switch.latency_ps)


def _three_tiers(spec: FatTree) -> tuple[int, int, int]:
    """k, hosts an edge switch, hosts."""
    radix, hosts = spec.switch.ports, spec.total
    if spec.k is not None and (spec.k % 2 or spec.k > radix):
        raise FabricError(
            f"fat_tree: k {spec.k}: must be even and at most the {radix} ports of the switch; "
            f"write k: {min(spec.k + spec.k % 2, radix - radix % 2)}, or leave it out"
        )
    if spec.k is None and hosts is None:
        raise FabricError("fat_tree: neither hosts nor k is given; write hosts: 64 or k: 8")
    most = 0
    for k in range(2, radix + 1, 2) if spec.k is None else [spec.k]:
        each = _edge_hosts(spec, k)
        if each < 1 or each + k // 2 > radix:
            continue
        whole = each * k * k // 2
        most = max(most, whole)
        if hosts is None or hosts <= whole:
            return k, each, whole if hosts is None else hosts
    asked = f"k {spec.k}" if spec.k is not None else f"switches of {radix} ports"
    over = "" if spec.oversubscription is None else f" at oversubscription {spec.allowed:g}"
    raise FabricError(
        f"fat_tree: {hosts} hosts do not fit {asked}{over}; at most {most} do: "
        "write fewer hosts, a larger k or more ports a switch"
    )


def _edge_hosts(spec: FatTree, k: int) -> int:
    """Hosts an edge switch: k / 2, or what the oversubscription allows over k / 2 uplinks."""
    if spec.oversubscription is None:
        return k // 2
    each = int(spec.allowed * (k // 2) * spec.switch.rate_bps / spec.nic_bps)
    return min(each, spec.switch.ports - k // 2)
