"""What a run leaves out, in sentences for its report."""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from analysis.review import UNHURT
from analysis.wording import count, listed
from kvfabric.cache import cache_left_out, pooled
from kvfabric.collective import awaited
from kvfabric.hazard import befalls
from kvfabric.load import Alternative
from kvfabric.scenario import OF_INSTANCES, HandoffPart, NetworkPart, Scenario
from kvfabric.serving import left_out
from traffic.handoff.reshard import paired

_NAMED = 4
"""Values of an axis that a sentence names, at most."""

_ALWAYS = (
    "The router sees exact and immediate loads; its decisions take effect after the control delay.",
    "Cost is a model of switches, each with all the ports it has (a fat tree's are of k, others of "
    "`fabric.switch.ports`), and the links between them; NICs and host cables are left out, being "
    "equal in every alternative.",
)
_PRICES = (
    "Tokens are paid by GPU hours, switches and the links between them; power and NICs of the "
    "fabric, and people, are left out where the prices of `cost` do not hold them."
)
_PACKET = (
    "Switches forward over equal-cost shortest paths; no virtual channels, "
    "flowlets, spray or adaptive routing; a host never pauses its switch.",
    "Every hand-off opens new queue pairs, which start at line rate.",
)
_DCQCN = "DCQCN's settings decide the tail of colliding flows: compare `network.transport.preset`."
_CREDITS = (
    "InfiniBand's frames are counted with RoCEv2's overhead; its congestion control, arbitration "
    "tables and subnet routes are left out."
)
_ROUTES = "Routes do not change when a link or switch fails: flows keep their paths and retransmit."
_REMOVED = (
    "Routes go round what was removed, from the start: what is lost until they do is not told; "
    "`kind: down` does."
)
_DEATHS = (
    "Instances fail whole and at once; flows that were released cross the fabric to their end; a "
    "retried request is computed anew from its prompt."
)
_FLUID = (
    "The fluid has no queues, pauses, marks, losses or congestion control: rates are max-min fair "
    "at every instant.",
)


_STAGES = {"gpu": "GPU", "host": "server's processor"}


def _of_handoff(part: HandoffPart) -> list[str]:
    """What the chosen way of handing over leaves out."""
    copies = "memory-copy or " if part.staging == "none" else ""
    told = [f"One NIC a GPU; no PCIe, {copies}host-processor limits."]
    if part.staging != "none":
        told.append(
            "Staging copies take time, but no compute or memory bandwidth of the "
            f"{_STAGES[part.staging]}."
        )
    around = part.orchestration
    if not (around.dispatch or around.handshake or around.align or around.message):
        told.append(
            "Hand-offs wait for the control delay alone: a public report has 29 ms of transfer in "
            "197 ms of hand-over (vllm-project/vllm#51919); see `handoff.orchestration`."
        )
    if part.orchestration.message is None:
        told.append("Control messages do not cross the fabric.")
    if part.when == "layer_wise":
        told.append(
            "Layers take equal shares of the prefill; each chunk of layers opens new queue pairs."
        )
    if part.direction == "pull":
        told.append("A read request is a delay and no packet; its answer is sent as a write is.")
    return told


def _of_times(scenario: Scenario) -> list[str]:
    """Where compute times come from."""
    parts = [scenario.instance, *(m.instance for m in scenario.models if m.instance is not None)]
    named = [side.times for part in parts for side in (part.prefill, part.decode)]
    if all(named):
        return ["Compute times are interpolated between measurements (`instance`, `times`)."]
    return ["Compute times are rooflines at stated efficiencies, not measurements."]


def _of_ranks(scenario: Scenario) -> list[str]:
    """What is said of degrees that no connector pairs."""
    sides = scenario.instance.prefill, scenario.instance.decode
    one, other = (side.tp // side.dp for side in sides)
    if paired(max(one, 1), max(other, 1)):
        return []
    return [
        f"No public connector hands over from {one} to {other} ranks, of which neither divides the "
        "other; heads are moved where they overlap."
    ]


def _of_packets(part: NetworkPart) -> list[str]:
    """What the packet engine leaves out of the chosen network."""
    if part.transport.kind == "infiniband":
        return [*_PACKET, _CREDITS]
    return [*_PACKET, *(() if part.transport.control == "none" else (_DCQCN,))]


def _of_faults(scenario: Scenario) -> list[str]:
    """What is said of links and switches that fail, or do not."""
    kinds = {part.kind for part in scenario.faults} - {*OF_INSTANCES}
    told = [_REMOVED] if "removed" in kinds else []
    return [*told, _ROUTES] if kinds - {"removed"} else told or [UNHURT]


def not_modelled(scenario: Scenario) -> list[str]:
    """One sentence each, most general first."""
    return [
        *left_out(scenario.serving),
        *_of_times(scenario),
        *_ALWAYS,
        *_of_handoff(scenario.handoff),
        *cache_left_out(scenario.cache),
        *_of_ranks(scenario),
        "Steps of instances that span servers do not wait for their collectives; see `collective`."
        if awaited(scenario) is None
        else "Collectives on the critical path are delays over an idle fabric: they neither queue "
        "behind other traffic nor add to it; `background` does.",
        "Background flows have no effect on what the GPUs compute."
        if scenario.background
        else "Nothing but hand-offs"
        + (" and the pool of prefix blocks" if pooled(scenario.cache) else "")
        + " crosses the fabric.",
        *(() if scenario.cost is None else (_PRICES,)),
        *_of_faults(scenario),
        _DEATHS if befalls(scenario) else "No instance fails.",
        *(_FLUID if scenario.run.emulator == "fluid" else _of_packets(scenario.network)),
    ]


def limits_of(alternatives: Sequence[Alternative]) -> list[str]:
    """The same for a comparison: what holds for some alternatives alone begins with their names.

    Faults are told of all at once: what one of them leaves out is no property of the others.
    """
    faults = tuple(dict.fromkeys(fault for each in alternatives for fault in each.scenario.faults))
    told: dict[str, list[int]] = {}
    for number, each in enumerate(alternatives):
        for line in not_modelled(msgspec.structs.replace(each.scenario, faults=faults)):
            told.setdefault(line, []).append(number)
    return [
        line if len(held) == len(alternatives) else f"{_which(alternatives, held)}: {line}"
        for line, held in told.items()
    ]


def _which(alternatives: Sequence[Alternative], held: Collection[int]) -> str:
    """Some alternatives by the values of one axis that no other has, else by their number."""
    for names in _named(alternatives):
        inside = list(dict.fromkeys(names[number] for number in held))
        outside = {name for number, name in enumerate(names) if number not in held}
        if not outside.intersection(inside):
            more = [f"{len(inside) - _NAMED + 1} more"] if len(inside) > _NAMED else []
            return listed([*inside[: _NAMED - len(more)], *more])
    return f"{len(held)} of {count(len(alternatives), 'alternative')}"


def _named(alternatives: Sequence[Alternative]) -> Iterator[list[str]]:
    """Axis by axis, what each alternative is called for it."""
    for key in alternatives[0].varied:
        yield [each.varied[key] for each in alternatives]
    yield [each.policy for each in alternatives]
