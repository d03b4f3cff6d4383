"""The HPCC simulator's topology.txt and flow.txt, read by its many descendants (ASTRA-sim, m3).

Line 1 counts nodes, switches and links; line 2 lists the switches; then a line a link: source,
destination, rate, delay, error rate. Nodes are numbers. A flow file counts flows, then has a line
a flow in the order of start: source, destination, priority group, destination port, bytes, start
in seconds (alibaba-edu/High-Precision-Congestion-Control simulation/scratch/third.cc).

Times are ns-3's, whole nanoseconds unless its resolution is changed. The simulator keeps its links
by pairs of nodes, so that of parallel cables only the last carries traffic. Some descendants put
more numbers into line 1; they are refused rather than guessed at.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topo.error import UnitError
from topo.fabric import Fabric, Kind
from topo.format.draft import Assumed, Draft
from topo.format.text import FormatError, content, shown, whole
from topo.format.written import Written, lost_models, lost_roles, lost_servers, plural, told_inside
from topo.unit import PS_PER_NS, duration, duration_text, rate, size_text

MANY_NODES: Final = 4_000
"""Above some 4,000 nodes the simulator is known to crash (its repository's issue 9)."""


@dataclass(frozen=True, slots=True)
class HpccFlow:
    """One flow between two hosts by node index; bytes, and the start in picoseconds."""

    source: int
    destination: int
    size_bytes: int
    start_ps: int


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from topology.txt; hosts are named h0, h1 ..., switches s0 ... by their numbers.

    Errors: `FormatError` with the line: counts that disagree, a node out of range, a lossy link.
    """
    draft = Draft(path, assume=assume)
    lines = [
        (number, line.split())
        for number, line in enumerate(content(path).splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise draft.error(None, "empty; line 1 counts nodes, switches and links")
    line, head = lines.pop(0)
    counts = [whole(token) for token in head]
    if len(counts) != 3 or any(count is None or count < 0 for count in counts):
        raise draft.error(
            line,
            f"{shown(' '.join(head))}: not the three numbers of nodes, switches and links; forms "
            "with more are not read",
        )
    nodes, switches, links = (count or 0 for count in counts)
    draft.expect(line, nodes=nodes, links=links)
    if switches > nodes:
        raise draft.error(line, f"{switches} switches of {nodes} nodes: more than there are")
    tokens = [(number, token) for number, tokens in lines for token in tokens]
    if len(tokens) != switches + 5 * links:
        raise draft.error(
            tokens[-1][0] if tokens else line,
            f"{len(tokens)} values after line 1, not the {switches} switches and 5 for each of "
            f"{links} links that it counts; correct it or the list",
        )
    kinds = [Kind.HOST] * nodes
    for number, token in tokens[:switches]:
        index = _node(draft, number, token, nodes)
        if kinds[index] is Kind.SWITCH:
            raise draft.error(number, f"switch {index} is listed twice; list it once")
        kinds[index] = Kind.SWITCH
    names = [f"{'h' if kind is Kind.HOST else 's'}{i}" for i, kind in enumerate(kinds)]
    for name, kind in zip(names, kinds, strict=True):
        draft.node(name, line, kind=kind)
    used = [0] * nodes
    for at in range(switches, len(tokens), 5):
        number = tokens[at][0]
        source, destination, speed, delay, loss = (token for _, token in tokens[at : at + 5])
        ends = [_node(draft, number, token, nodes) for token in (source, destination)]
        if loss.strip("0.") or not loss.strip("."):
            raise draft.error(
                number, f"error rate {shown(loss)}: a fabric's cables lose nothing; write 0"
            )
        try:
            rate_bps, delay_ps = rate(speed.replace("b/s", "bps")), duration(delay)
        except UnitError as error:
            raise draft.error(number, str(error)) from None
        a, b = ((names[end], str(used[end])) for end in ends)
        draft.cable(a, b, number, rate_bps=rate_bps, delay_ps=delay_ps)
        for end in ends:
            used[end] += 1
    return draft.fabric()


def _node(draft: Draft, line: int, token: str, nodes: int) -> int:
    index = whole(token)
    if index is None or not 0 <= index < nodes:
        raise draft.error(line, f"node {shown(token)}: not one of 0 .. {nodes - 1}")
    return index


def write(fabric: Fabric) -> Written:
    """A fabric as topology.txt, nodes numbered by index."""
    lines = [
        f"{len(fabric.nodes)} {len(fabric.switches)} {len(fabric.links)}",
        " ".join(str(node.index) for node in fabric.switches),
    ]
    lines += [
        f"{link.a} {link.b} {_data_rate(link.rate_bps)} {_ns(link.delay_ps)}ns 0.000000"
        for link in fabric.links
    ]
    rounded = sum(link.delay_ps % PS_PER_NS != 0 for link in fabric.links)
    pairs = Counter(frozenset((link.a, link.b)) for link in fabric.links)
    parallel = sum(count - 1 for count in pairs.values())
    notes = [
        "Names, the family, tiers, racks and lengths are not in the file; nodes are numbers.",
        *lost_roles(fabric),
        *lost_servers(fabric),
        *lost_models(fabric),
        *told_inside(fabric),
    ]
    if rounded:
        notes.append(
            f"The delays of {plural(rounded, 'cable')} are rounded to whole nanoseconds, which is "
            "as fine as the simulator's clock."
        )
    if parallel:
        notes.append(
            f"{plural(parallel, 'cable')} beside another between the same two nodes: the simulator "
            "keeps the last of each pair and leaves the others idle."
        )
    if len(fabric.nodes) > MANY_NODES:
        notes.append(
            f"{len(fabric.nodes)} nodes: the simulator is known to crash above {MANY_NODES}."
        )
    return Written({"": "\n".join(lines) + "\n"}, notes)


def flow_file(
    fabric: Fabric, flows: Iterable[HpccFlow], *, group: int = 3, port: int = 100
) -> tuple[str, list[str]]:
    """The text of flow.txt for flows between hosts, in the order of start, and notes.

    Errors: an end that is no host or the other end, a size that is not 1 .. 2^32 - 1 bytes (the
    simulator counts them in 32 bits), a start before 0.
    """
    ordered = sorted(flows, key=lambda flow: flow.start_ps)
    lines = [str(len(ordered))]
    for flow in ordered:
        for end in (flow.source, flow.destination):
            if not 0 <= end < len(fabric.nodes) or fabric.nodes[end].kind is not Kind.HOST:
                raise FormatError(
                    f"flow from {flow.source} to {flow.destination}: {end} is no host"
                )
        if flow.source == flow.destination:
            raise FormatError(f"flow from {flow.source} to itself: write two different hosts")
        if not 0 < flow.size_bytes < 2**32 or flow.start_ps < 0:
            raise FormatError(
                f"flow of {size_text(flow.size_bytes)} at {duration_text(flow.start_ps)}: the "
                "simulator takes 1B to below 4GiB, from 0s on; split larger ones"
            )
        start = _ns(flow.start_ps)
        lines.append(
            f"{flow.source} {flow.destination} {group} {port} {flow.size_bytes} "
            f"{start // 10**9}.{start % 10**9:09d}"
        )
    rounded = sum(flow.start_ps % PS_PER_NS != 0 for flow in ordered)
    notes = [f"The starts of {plural(rounded, 'flow')} are rounded to ns."] if rounded else []
    return "\n".join(lines) + "\n", notes


def _data_rate(bps: int) -> str:
    """A rate as whole Gbps or less: ns-3 reads a double, and knows no Tbps (data-rate.cc, DoParse).

    >>> _data_rate(1_600 * 10**9), _data_rate(2_500_000_000)
    ('1600Gbps', '2500Mbps')
    """
    units = ((10**9, "Gbps"), (10**6, "Mbps"), (10**3, "Kbps"), (1, "bps"))
    unit, name = next((unit, name) for unit, name in units if bps % unit == 0)
    return f"{bps // unit}{name}"


def _ns(ps: int) -> int:
    return (ps + PS_PER_NS // 2) // PS_PER_NS
