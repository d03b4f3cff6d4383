"""Where a command works: an interface and its namespace, also told by a port of a running run.

``leaf0:3`` of a run is the fabric's own name of a port; the run's record and plan say which
interface of which namespace that is.
"""

from dataclasses import dataclass
from pathlib import Path

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import namespace_file
from emulate.mininet.plan import read_plan
from emulate.mininet.record import FOLDER, Record, records


@dataclass(frozen=True, slots=True)
class Place:
    """An interface, the file of its namespace (None: the present one), and what it is called."""

    interface: str
    namespace: Path | None
    label: str
    dilation: int = 1


def place(text: str, namespace: str | None = None, base: Path = FOLDER) -> Place:
    """What a user names: ``eth1``, or ``leaf0:3`` of the run that is under way."""
    if ":" not in text:
        return Place(text, None if namespace is None else namespace_file(namespace), text)
    if namespace is not None:
        raise EmulationError(
            f"port {text!r}: a port of a run has a namespace already; leave --namespace out"
        )
    running = [record for record in records(base) if record.alive]
    if not running:
        raise EmulationError(
            f"port {text!r}: no run is under way whose port it could be; write an interface"
        )
    found = [one for one in (_port(record, text) for record in running) if one is not None]
    if len(found) != 1:
        told = ", ".join(record.prefix for record in running)
        why = "more than one run has it" if found else "no such port"
        raise EmulationError(
            f"port {text!r}: {why} (runs under way: {told}); write switch:number, e.g. leaf0:3"
        )
    return found[0]


def _port(record: Record, text: str) -> Place | None:
    plan = read_plan(record.folder / "plan.json")
    node_name, _, number = text.partition(":")
    for node in plan.nodes:
        if node.name != node_name:
            continue
        own = [port for port in plan.ports if port.node == node.index]
        if not number.isdigit() or int(number) >= len(own):
            return None
        port = own[int(number)]
        if port.memory:
            raise EmulationError(
                f"port {text!r}: its link is a wire in memory, without an interface; run it with "
                "--links veth"
            )
        return Place(port.interface, Path(node.namespace), text, plan.dilation)
    return None
