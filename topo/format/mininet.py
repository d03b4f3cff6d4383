"""A Mininet topology script: a `Topo` class for ``mn --custom``, as text and never run here.

Software forwards some Mbit/s where hardware forwards Gbit/s, and Mininet leaves out a bandwidth
above 1,000 Mbit/s with a mere log line. So the script slows time: rates are divided and delays
multiplied by one factor, and what is counted in bytes (buffers, thresholds) stays as it is. Names
are those of a table at the top, written as Python literals: Mininet makes interfaces of them
(``s12-eth3``, at most 15 characters), which the fabric's names would not fit.
"""

from typing import Final

from topo.fabric import Fabric, Kind
from topo.format.written import Written, told_inside
from topo.unit import PS_PER_US

FASTEST_MBPS: Final = 100
"""What the fastest cable of a script runs at, in Mbit/s; a laptop forwards some of these."""

FRAME_BYTES: Final = 1514
"""Bytes of a full Ethernet frame, in which Mininet counts queues."""

_HEAD: Final = '''\
"""A fabric for Mininet: sudo mn --custom {file} --topo fabric --link tc

Time runs {slower} times slower: rates are divided and delays multiplied by {slower}; bytes stay.
Loops need a controller that knows them or spanning tree: plain learning switches storm.
"""

from mininet.topo import Topo

NAMES = {{
{names}
}}
"""Name in Mininet -> name in the fabric."""

LINKS = [
{links}
]
"""Node, node, port, port, Mbit/s, delay, packets of queue."""


class FabricTopo(Topo):
    def build(self):
        for name in NAMES:
            if name.startswith("h"):
                self.addHost(name)
            else:
                self.addSwitch(name)
        for a, b, port_a, port_b, bw, delay, packets in LINKS:
            self.addLink(
                a, b, port_a, port_b, bw=bw, delay=delay, max_queue_size=packets
            )


topos = {{"fabric": FabricTopo}}
'''


def write(fabric: Fabric) -> Written:
    """A fabric as a Mininet script; the fastest cable runs at `FASTEST_MBPS`."""
    fastest = max((link.rate_bps for link in fabric.links), default=FASTEST_MBPS * 10**6)
    slower = max(1, -(-fastest // (FASTEST_MBPS * 10**6)))
    called = [f"{'h' if n.kind is Kind.HOST else 's'}{n.index + 1}" for n in fabric.nodes]
    names = [
        f"    {name!r}: {node.name!r}," for name, node in zip(called, fabric.nodes, strict=True)
    ]
    links = []
    for link in fabric.links:
        models = [fabric.nodes[end].switch for end in (link.a, link.b)]
        shares = [m.buffer_bytes // (m.ports * FRAME_BYTES) for m in models if m is not None]
        row = (
            called[link.a],
            called[link.b],
            link.a_port + 1,
            link.b_port + 1,
            link.rate_bps / slower / 1e6,
            f"{link.delay_ps * slower / PS_PER_US:.3f}us",
            max(1, min(shares, default=1000)),
        )
        links.append(f"    {row!r},")
    text = _HEAD.format(
        file="fabric.py", slower=slower, names="\n".join(names), links="\n".join(links)
    )
    notes = [
        f"Rates are divided and delays multiplied by {slower}, for software to keep up; divide "
        "measured times by it.",
        "Each queue is an equal share of its switch's buffer in whole frames; Mininet has no "
        "shared buffer, PFC or pipeline latency.",
        "Tiers, racks, servers and roles are not in the file; the names stand in a table.",
        "Loops need a controller that knows them, or spanning tree.",
        *told_inside(fabric),
    ]
    return Written({"": text}, notes)
