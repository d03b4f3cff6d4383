"""Settings that do nothing beside other settings, refused where they can never have been meant.

What one alternative of `compare` needs, another may switch off or leave unused: a setting is
refused only if no alternative that has it written, by itself or from the base, has it at work.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from emulate.setting import NO_STORM
from kvfabric.scenario import NetworkPart, Scenario
from kvfabric.source import ScenarioError, Source
from topo.mistake import Place

_SWITCHLESS: Final = ("host_mesh", "bipartite_direct")
_RHYTHM: Final = {
    "cv": "gamma",
    "burst": "on_off",
    "lull": "on_off",
    "period": "diurnal",
    "swing": "diurnal",
}
"""Keys of arrivals that a single process has."""

_OFF: Final[tuple[object, ...]] = (None, False, "off", "none", [])
"""Values by which a setting is switched off: they may stand where it would do nothing."""


def refuse_idle(alternatives: Sequence[tuple[Scenario, Source]]) -> None:
    """Raise `ScenarioError` for a setting that is idle in every alternative that has it."""
    idle: dict[Place, ScenarioError] = {}
    at_work: set[Place] = set()
    for scenario, source in alternatives:
        found = {
            place: why
            for place, why in idle_in(scenario)
            if place in source.lines and source.at(place) not in _OFF
        }
        at_work |= source.lines.keys() - found.keys()
        for place, why in found.items():
            idle.setdefault(place, source.error(place, why))
    for place, refusal in idle.items():
        if place not in at_work:
            raise refusal


def idle_in(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What does nothing in a scenario, written there or not: why, and what to write."""
    network = scenario.network
    yield from _of_network(network)
    if network.transport.kind == "infiniband" or not network.discipline.pfc:
        for number, fault in enumerate(scenario.faults):
            if fault.kind == "storm":
                yield ("faults", number), NO_STORM
    family = scenario.fabric.family
    if family in _SWITCHLESS:
        yield ("fabric", "switch"), f"{family} has no switches; leave it out"
    arrivals = scenario.requests.arrivals
    for key, process in _RHYTHM.items():
        if arrivals.process != process:
            told = f"of {process} arrivals only; leave it out, or write process: {process}"
            yield ("requests", "arrivals", key), told


def _of_network(network: NetworkPart) -> Iterator[tuple[Place, str]]:
    transport, discipline = network.transport, network.discipline
    sender: Place = ("network", "transport")
    rules: Place = ("network", "discipline")
    lanes = transport.kind == "infiniband"
    if transport.drain is None:
        yield (
            (*sender, "receive_buffer"),
            "of hosts that take data at a rate of their own; leave it out, or write drain: 50Gbps",
        )
    if lanes:
        yield (*sender, "control"), "not of infiniband; leave it out, or write kind: rocev2"
    else:
        why = "of infiniband only; leave them out, or write kind: infiniband"
        yield (*sender, "credits"), why
    if lanes or transport.control == "none":
        need = "kind: rocev2" if lanes else "control: dcqcn"
        yield (*sender, "preset"), f"of DCQCN only; leave it out, or write {need}"
    elif discipline.ecn in (False, "off"):
        yield (
            (*sender, "preset"),
            "of DCQCN, which never acts as no frame is marked; leave it out, or write ecn: sonic",
        )
    if lanes:
        why = (
            "infiniband has credits, and neither pauses nor marks; leave out pfc, headroom, alpha, "
            "watchdog, ecn and overrides, or write kind: rocev2"
        )
        yield (*rules, "pfc"), why
        yield (*rules, "ecn"), why
    elif not discipline.pfc:
        why = (
            "no class is under PFC; leave out headroom, alpha, watchdog and overrides, or write "
            "pfc: true"
        )
    else:
        return
    yield (*rules, "headroom"), why
    yield (*rules, "alpha"), why
    yield (*rules, "watchdog"), why
    yield ("network", "overrides"), why
