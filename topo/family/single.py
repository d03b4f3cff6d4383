"""One switch with every host on it: the smallest fabric, and what any other is measured against.

n hosts take n ports. No cable joins switches, so that only the ports of the hosts can be congested.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.parameter import Parameters, add_hosts, join_hosts
from topo.family.tally import Tally, refuse_huge


class SingleSwitch(Parameters, frozen=True, kw_only=True):
    """Parameters of a single switch: those of every family. Nothing is oversubscribed."""


def single_switch(spec: SingleSwitch) -> Fabric:
    """Build one switch with all hosts. Errors: no number of hosts, more hosts than ports."""
    hosts = spec.total
    if hosts is None:
        raise FabricError("single_switch: the number of hosts is missing; write hosts: 16")
    if hosts > spec.switch.ports:
        raise FabricError(
            f"single_switch: {hosts} hosts do not fit a switch of {spec.switch.ports} ports; "
            "write fewer hosts, more ports a switch, or a leaf_spine"
        )
    refuse_huge("single_switch", Tally(hosts, 1, 0, hosts), 1)
    fabric = Fabric("single_switch")
    (rack,) = add_hosts(fabric, [hosts], spec.gpus_per_server)
    leaf = fabric.add_switch("leaf0", tier=1, switch=spec.switch, rack=0)
    join_hosts(fabric, spec, rack, leaf)
    return fabric
