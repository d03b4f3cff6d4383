"""What is left of mu(P, D) when one thing fails: a link, a switch, a leaf, a plane.

A *leaf* is a switch with hosts, a *switch* any other or a leaf, a *plane* one of several sets of
switches that no cable joins (planes, rails, separate groups). What lies inside a server does not
fail here. A lost host cable takes its NIC's share with it. Components that are twins on their face,
the parallel links of a trunk and the cables of hosts of one group, are tried once. Where more
remain than ``most``, a sample is tried, drawn evenly from the kinds of component that colour
refinement tells apart, and the coverage says so.
"""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.skeleton import Skeleton, flow, quotient, skeleton

KINDS: Final = ("link", "switch", "leaf", "plane")


@dataclass(frozen=True, slots=True)
class Loss:
    """The worst single loss of one kind.

    what: the component. mu_bps: what is left of the maximum flow. residual: the same as a share
    of the healthy one. tried, total: components whose loss was computed (twins of a tried one
    included), and all there are.
    """

    kind: str
    what: str
    mu_bps: int
    residual: float
    tried: int
    total: int

    @property
    def whole(self) -> bool:
        """Was every component of the kind tried?"""
        return self.tried == self.total


@dataclass(frozen=True, slots=True)
class _Part:
    """Components that are twins: one name, how many, which edges lose how much, which nodes go."""

    what: str
    twins: int
    edges: tuple[tuple[int, int], ...] = ()
    nodes: tuple[int, ...] = ()


def worst_losses(
    fabric: Fabric, *, kinds: Iterable[str] = KINDS, most: int = 4_096, seed: int = 1
) -> dict[str, Loss]:
    """The worst loss of each kind that the fabric has, by kind.

    ``most`` bounds the losses computed of each kind. Errors: no prefill or no decode host, an
    unknown kind, ``most`` below 1.
    """
    if most < 1:
        raise FabricError(f"losses {most}: at least one must be tried; write 1 or more")
    graph = skeleton(fabric)
    healthy = flow(graph)
    found: dict[str, Loss] = {}
    for kind in kinds:
        if kind not in KINDS:
            raise FabricError(f"loss of {kind!r}: unknown; write one of {', '.join(KINDS)}")
        parts = _links(fabric, graph) if kind == "link" else _nodes(fabric, graph, kind)
        if not parts:
            continue
        chosen = _sample(graph, parts, most, seed)
        left, what = min(((_after(graph, part), part.what) for part in chosen), key=lambda p: p[0])
        found[kind] = Loss(
            kind,
            what,
            left,
            left / healthy if healthy else 0.0,
            sum(part.twins for part in chosen),
            sum(part.twins for part in parts),
        )
    return found


def worst(losses: dict[str, Loss]) -> Loss | None:
    """The worst of all kinds but planes: what N-1 stands for; None where nothing can fail."""
    single = [loss for kind, loss in losses.items() if kind != "plane"]
    return min(single, key=lambda loss: loss.mu_bps, default=None)


def _after(graph: Skeleton, part: _Part) -> int:
    capacity = graph.capacity
    if part.edges:
        capacity = capacity.copy()
        for edge, lost in part.edges:
            capacity[edge] -= lost
    alive = None
    if part.nodes:
        alive = np.ones(graph.nodes, np.bool_)
        alive[list(part.nodes)] = False
    return flow(graph, capacity, alive)


def _links(fabric: Fabric, graph: Skeleton) -> list[_Part]:
    """Cables by what they do to the skeleton; those inside a server are not cables."""
    edge = {pair: i for i, pair in enumerate(zip(graph.tail, graph.head, strict=True))}
    kinds: dict[tuple[tuple[int, int], ...], list[str]] = defaultdict(list)
    inside = _inside(fabric)
    for link in fabric.links:
        if link.a in inside and link.b in inside:
            continue
        lost = {
            edge[a, b]
            for near, far in ((link.a, link.b), (link.b, link.a))
            for a in graph.node[near]
            for b in graph.node[far]
            if (a, b) in edge
        }
        name = f"{fabric.nodes[link.a].name}-{fabric.nodes[link.b].name}"
        kinds[tuple(sorted((i, link.rate_bps // graph.unit_bps) for i in lost))].append(name)
    return [_Part(names[0], len(names), edges=edges) for edges, names in kinds.items()]


def _inside(fabric: Fabric) -> set[int]:
    """Switches of tier 0, and the hosts that hang on one."""
    inner = {node.index for node in fabric.switches if node.tier == 0}
    hosts: set[int] = set()
    for link in fabric.links if inner else []:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if far in inner and fabric.nodes[host].kind is Kind.HOST:
                hosts.add(host)
    return inner | hosts


def _called(fabric: Fabric, plane: list[int]) -> str:
    first = fabric.nodes[plane[0]].name
    return f"the {len(plane)} switches of {first}" if len(plane) > 1 else first


def _nodes(fabric: Fabric, graph: Skeleton, kind: str) -> list[_Part]:
    outer = [node.index for node in fabric.switches if node.tier > 0]
    if kind == "plane":
        planes = planes_of(fabric)
        if len(planes) < 2:
            return []
        return [_Part(_called(fabric, plane), 1, nodes=_of(graph, plane)) for plane in planes]
    if kind == "leaf":
        leaves = set(leaves_of(fabric))
        outer = [node for node in outer if node in leaves]
    return [_Part(fabric.nodes[node].name, 1, nodes=_of(graph, [node])) for node in outer]


def _of(graph: Skeleton, nodes: list[int]) -> tuple[int, ...]:
    return tuple(part for node in nodes for part in graph.node[node])


def leaves_of(fabric: Fabric) -> list[int]:
    """Switches outside servers that a host, or its NIC, hangs on; in index order."""
    found: set[int] = set()
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            node = fabric.nodes[near]
            low = fabric.nodes[far].kind is Kind.HOST or fabric.nodes[far].tier == 0
            if node.kind is Kind.SWITCH and node.tier > 0 and low:
                found.add(near)
    return sorted(found)


def planes_of(fabric: Fabric) -> list[list[int]]:
    """Switches outside servers, by what cables between them join; larger tiers come along."""
    outer = {node.index for node in fabric.switches if node.tier > 0}
    near: dict[int, list[int]] = {node: [] for node in sorted(outer)}
    for link in fabric.links:
        if link.a in outer and link.b in outer:
            near[link.a].append(link.b)
            near[link.b].append(link.a)
    planes: list[list[int]] = []
    seen: set[int] = set()
    for start in near:
        if start in seen:
            continue
        seen.add(start)
        plane, todo = [start], [start]
        while todo:
            fresh = [node for node in near[todo.pop()] if node not in seen]
            for node in dict.fromkeys(fresh):
                seen.add(node)
                plane.append(node)
                todo.append(node)
        planes.append(sorted(plane))
    return planes


def _sample(graph: Skeleton, parts: list[_Part], most: int, seed: int) -> list[_Part]:
    """At most ``most`` parts, taken in turn from the kinds that the graph's colours tell apart."""
    if len(parts) <= most:
        return parts
    ends = graph.senders + graph.receivers
    colour = np.full(graph.nodes, 2, np.int64)
    colour[: graph.senders] = 0
    colour[graph.senders : ends] = 1
    classes = quotient(graph, colour, graph.capacity).tolist()
    kinds: dict[tuple[object, ...], list[_Part]] = defaultdict(list)
    for part in parts:
        touched = [(classes[graph.tail[e]], classes[graph.head[e]]) for e, _ in part.edges]
        kinds[(*sorted(touched), *sorted(classes[n] for n in part.nodes))].append(part)
    chance = random.Random(seed)  # noqa: S311
    queues = [chance.sample(members, len(members)) for members in kinds.values()]
    chosen: list[_Part] = []
    while len(chosen) < most:
        queues = [queue for queue in queues if queue]
        chosen += [queue.pop() for queue in queues[: most - len(chosen)]]
    return chosen
