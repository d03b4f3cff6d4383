"""Everything a fabric holds as flat attributes of nodes and links, with the unit in each name.

Node-link JSON and GraphML write the same attributes, so that a graph library reads either.
Rates are bit/s, delays and latencies picoseconds, lengths metres, buffers bytes: whole numbers,
so that nothing is rounded. An undirected edge has no first end; ``a`` names the node that the
link starts at, since graph libraries may swap ``source`` and ``target``.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from topo.fabric import Fabric, Kind, Role, Switch
from topo.format.draft import Draft, Where
from topo.format.text import shown
from topo.mistake import told

T = TypeVar("T", bound=Struct)

TIERS: Final = {"leaf": 1, "tor": 1, "spine": 2, "superspine": 3, "super_spine": 3, "core": 3}
"""Words for tiers of switches in other tools' files."""

Count = Annotated[int, Meta(ge=0, le=10_000_000)]
Number = Annotated[int, Meta(ge=-1, le=10_000_000)]
Rate = Annotated[int, Meta(ge=1, le=10**15)]
Time = Annotated[int, Meta(ge=0, le=10**15)]
Size = Annotated[int, Meta(ge=1, le=2**50)]
Metres = Annotated[float, Meta(ge=0, le=1e8)]


class NodeAttributes(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A node: ``id`` is its name; ``switch_*`` are those of a switch model, all or none."""

    id: str
    kind: Literal["host", "switch"] | None = None
    tier: Count | None = None
    rack: Number | None = None
    server: Number | None = None
    role: Literal["none", "prefill", "decode", "both", "storage"] | None = None
    switch_ports: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    switch_rate_bps: Rate | None = None
    switch_buffer_bytes: Size | None = None
    switch_latency_ps: Time | None = None


class LinkAttributes(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A link: ``index`` is its place in order, ports count from 0 in that order at each node."""

    source: str
    target: str
    index: Count | None = None
    key: int | str | None = None
    a: str | None = None
    a_port: Count | None = None
    b_port: Count | None = None
    rate_bps: Rate | None = None
    delay_ps: Time | None = None
    length_m: Metres | None = None


def of_nodes(fabric: Fabric) -> list[NodeAttributes]:
    """The nodes of a fabric in index order."""
    return [
        NodeAttributes(
            id=n.name,
            kind=n.kind.value,
            tier=n.tier,
            rack=n.rack,
            server=n.server,
            role=n.role.value,
            switch_ports=n.switch.ports if n.switch else None,
            switch_rate_bps=n.switch.rate_bps if n.switch else None,
            switch_buffer_bytes=n.switch.buffer_bytes if n.switch else None,
            switch_latency_ps=n.switch.latency_ps if n.switch else None,
        )
        for n in fabric.nodes
    ]


def of_links(fabric: Fabric) -> list[LinkAttributes]:
    """The links of a fabric in index order."""
    return [
        LinkAttributes(
            source=fabric.nodes[link.a].name,
            target=fabric.nodes[link.b].name,
            index=link.index,
            a=fabric.nodes[link.a].name,
            a_port=link.a_port,
            b_port=link.b_port,
            rate_bps=link.rate_bps,
            delay_ps=link.delay_ps,
            length_m=link.length_m,
        )
        for link in fabric.links
    ]


def made(draft: Draft, where: Where, kind: type[T], given: Mapping[str, str]) -> T:
    """Attributes from their texts; an unknown one or a value of the wrong kind is refused."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        place, words = told(str(error), kind, dict(given))
        raise draft.error(where, f"{' '.join(map(str, place))} {words}".lstrip()) from None


def add_node(draft: Draft, node: NodeAttributes, where: Where) -> None:
    """Declare a node from its attributes."""
    model = (
        node.switch_ports,
        node.switch_rate_bps,
        node.switch_buffer_bytes,
        node.switch_latency_ps,
    )
    ports, rate, buffer, latency = model
    switch = None
    if ports is not None and rate is not None and buffer is not None and latency is not None:
        switch = Switch(ports, rate, buffer, latency)
    elif any(value is not None for value in model):
        raise draft.error(
            where,
            f"node {shown(node.id)}: a part of a switch model; write all of switch_ports, "
            "switch_rate_bps, switch_buffer_bytes and switch_latency_ps, or none",
        )
    draft.node(
        node.id,
        where,
        kind=None if node.kind is None else Kind(node.kind),
        tier=node.tier,
        rack=node.rack,
        server=-1 if node.server is None else node.server,
        role=Role.NONE if node.role is None else Role(node.role),
        switch=switch,
    )


def add_links(draft: Draft, links: list[tuple[Where, LinkAttributes]]) -> None:
    """Add cables in the order of ``index``, or in the order given when none has one.

    Errors: an end that is no node, an index that is missing or stands twice, a port that is not
    the next free one of its node.
    """
    indexed = Counter(link.index for _, link in links if link.index is not None)
    if indexed:
        if indexed.total() != len(links) or set(indexed) != set(range(len(links))):
            where, wrong = next(
                (w, x)
                for w, x in links
                if x.index is None or indexed[x.index] > 1 or x.index >= len(links)
            )
            raise draft.error(
                where,
                f"index {wrong.index}: the links of a file are numbered 0 .. {len(links) - 1}, "
                "each once; number them so, or leave out every index",
            )
        links = sorted(links, key=lambda pair: pair[1].index or 0)
    used: dict[str, int] = {}
    for where, link in links:
        a, b = link.source, link.target
        if link.a is not None and link.a not in (a, b):
            raise draft.error(where, f"a {shown(link.a)}: not an end of this link")
        if link.a is not None and link.a == b:
            a, b = b, a
        for end, given in ((a, link.a_port), (b, link.b_port)):
            if not draft.knows(end):
                raise draft.error(where, f"node {shown(end)}: no such node; declare it")
            free = used.get(end, 0)
            if given is not None and given != free:
                raise draft.error(
                    where,
                    f"port {given} of {shown(end)}: "
                    + ("already has a cable" if given < free else f"the next free one is {free}")
                    + "; ports count up from 0 in the order of the links; leave them out to have "
                    "them numbered",
                )
            used[end] = free + 1
        draft.cable(
            (a, str(used[a] - 1)),
            (b, str(used[b] - 1)),
            where,
            rate_bps=link.rate_bps,
            delay_ps=link.delay_ps,
            length_m=link.length_m,
        )
