"""From a scenario to the things it names: fabric, pools, policy, requests, emulator.

Whatever a room refuses is told with the scenario's file and line. `stage` does everything that
needs no request to move, so that a study is refused before anything is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.fault import Fault, FaultError, fault_settings
from emulate.fluid import FluidEmulator
from emulate.packet import PacketEmulator
from emulate.setting import in_effect, refuse_rates
from emulate.transport import Transport
from kvfabric.background import sources_of
from kvfabric.catalogue import catalogues_of
from kvfabric.deployment import Placed, placed_of, times_of
from kvfabric.fabric import fabric_of
from kvfabric.fault import faults_of, standing
from kvfabric.hazard import hazards_of
from kvfabric.label import fabric_label
from kvfabric.mistake import mistake
from kvfabric.network import discipline_of, transport_of
from kvfabric.override import headrooms_of
from kvfabric.policy import code_of, local_of, part_of
from kvfabric.scenario import OF_INSTANCES, Scenario
from kvfabric.serving import rules_of
from kvfabric.source import Source, file_path, located
from kvfabric.workload import synthetic
from topo.fabric import Fabric
from topo.mistake import Place
from topo.route import Routes, equal_cost
from traffic.background import Background
from traffic.background import Source as Beside
from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy.choice import Policy, PolicyError, check_reach
from traffic.policy.registry import kind_of, policy
from traffic.request import RequestTable
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.trace.registry import trace
from traffic.view.network import Network


@dataclass(frozen=True)
class Stage:
    """Everything of a scenario but the policy and the requests; alternatives may share one.

    ``placed`` has every served model, `model` first; ``rules`` say how instances serve. ``whole``
    is the fabric as it is bought, with what faults remove from ``fabric``.
    """

    fabric: Fabric
    routes: Routes
    placed: tuple[Placed, ...]
    rules: Serving
    discipline: Discipline
    transport: Transport
    faults: tuple[Fault, ...] = ()
    beside: tuple[Beside, ...] = ()
    headrooms: Mapping[int, int] = field(default_factory=dict)
    whole: Fabric | None = None

    @property
    def deployment(self) -> Deployment:
        """The pools of `model`."""
        return self.placed[0].deployment

    @property
    def hops(self) -> NDArray[np.int32]:
        """How far apart they are, see `Placed`."""
        return self.placed[0].hops

    @property
    def latency_ps(self) -> NDArray[np.int64] | None:
        """The time of a read request between them, see `Placed`."""
        return self.placed[0].latency_ps

    def shared(self, kind: str, seed: int) -> Background:
        """A fresh emulator that carries the background traffic as well."""
        return Background(self.emulator(kind, seed), self.beside, seed)

    def emulator(self, kind: str, seed: int) -> Emulator:
        """A fresh emulator, ``packet`` or ``fluid``."""
        if kind == "fluid":
            return FluidEmulator(self.fabric, self.routes, seed=seed, mtu=self.transport.mtu)
        return PacketEmulator(
            self.fabric,
            self.routes,
            self.discipline,
            self.transport,
            seed=seed,
            faults=self.faults,
            headrooms=self.headrooms,
        )


def stage(scenario: Scenario, source: Source) -> Stage:
    """Build what the scenario names; every refusal carries its place in the file."""
    whole = fabric_of(scenario, source)
    # What is refused on one of several fabrics is told with the name that tables have for it.
    whole.name = fabric_label(scenario)
    fabric = _standing(scenario, source, whole)
    routes = equal_cost(fabric)
    placed = placed_of(scenario, source, fabric, routes)
    discipline, transport = network_of(scenario, source)
    in_use = in_effect(discipline, transport)
    faults = _faults(scenario, source, fabric, pauses=bool(in_use.protected))
    with located(source, "faults"):
        hazards_of(scenario, placed, 1)
    with located(source, "background"):
        beside = tuple(sources_of(scenario.background, fabric))
    rules = rules_of(scenario.serving)
    with located(source, "network", "overrides"):
        headrooms = headrooms_of(scenario.network.overrides, fabric, in_use)
    ready = Stage(
        *(fabric, routes, placed, rules, discipline, transport, faults, beside, headrooms), whole
    )
    if scenario.run.emulator == "packet":
        with located(source, "fabric"):
            refuse_rates(fabric)
    switches: Place | None = None if scenario.network.overrides else ("fabric",)
    with located(source, "network", beside=switches):
        ready.emulator(scenario.run.emulator, 0)
    return ready


def impossible(scenario: Scenario, source: Source, ready: Stage) -> str | None:
    """Why the policy cannot be used on this fabric, in one line; None when it can.

    A policy that is unknown or set wrongly is refused with its place.
    """
    with located(source, "policy"):
        settings = kind_of(scenario.policy_kind).settings
        try:
            msgspec.convert(scenario.policy_settings, settings)
        except msgspec.ValidationError as error:
            raise mistake(source, str(error), ("policy",), settings) from None
        local_of(part_of(scenario.policy))
    try:
        for service in services_of(scenario, ready, ready.placed, 0):
            check_reach(service.policy, service.hops)
    except PolicyError as error:
        return str(error)
    return None


def network_of(scenario: Scenario, source: Source) -> tuple[Discipline, Transport]:
    """What the switches and what the NICs run."""
    network, issue_ps = scenario.network, int(scenario.handoff.per_descriptor)
    with located(source, "network", "discipline"):
        lanes = network.transport.kind == "infiniband"
        discipline = discipline_of(network.discipline, pauses=not lanes)
    with located(source, "network", "transport"):
        transport = transport_of(network.transport, issue_ps)
    return discipline, transport


def _standing(scenario: Scenario, source: Source, fabric: Fabric) -> Fabric:
    """The fabric without the links and nodes that faults remove from it."""
    for number, part in enumerate(scenario.faults):
        with located(source, "faults", number):
            fabric = standing(part, fabric)
    return fabric


def _faults(
    scenario: Scenario, source: Source, fabric: Fabric, *, pauses: bool
) -> tuple[Fault, ...]:
    """What befalls the fabric's links: no storms without pauses; the fluid refuses them all."""
    found: list[Fault] = []
    for number, part in enumerate(scenario.faults):
        with located(source, "faults", number):
            steady = part.kind == "removed" or part.kind in OF_INSTANCES
            if scenario.run.emulator != "packet" and not steady:
                raise FaultError(
                    f"run.emulator {scenario.run.emulator}: knows no faults; write packet"
                )
            found += faults_of(part, fabric)
    with located(source, "faults"):
        fault_settings(fabric, found)
    return tuple(fault for fault in found if pauses or fault.kind != "storm")


def policy_of(scenario: Scenario, hops: NDArray[np.int32], seed: int) -> Policy:
    """A fresh policy for the pools."""
    return policy(scenario.policy_kind, hops, seed=seed, settings=scenario.policy_settings)


def services_of(
    scenario: Scenario, ready: Stage, placed: Sequence[Placed], seed: int
) -> list[Service]:
    """A service a model on these instances, each with a fresh policy and what it looks at."""
    part = part_of(scenario.policy)
    local = local_of(part)
    found: list[Service] = []
    hazards = hazards_of(scenario, placed, seed)
    for one, hazard in zip(placed, hazards, strict=True):
        chosen, pools = policy_of(scenario, one.hops, seed), one.deployment
        network = None
        if "network" in chosen.sees and ready.rules.mode == "disaggregated":
            network = Network(
                ready.fabric,
                ready.routes,
                pools.prefill.instances,
                pools.decode.instances,
                int(part.staleness),
            )
        found.append(
            Service(pools, chosen, one.hops, one.latency_ps, part.order, local, network, hazard)
        )
    return found


def requests_of(scenario: Scenario, source: Source, seed: int) -> tuple[RequestTable, list[str]]:
    """The requests of one seed, and notes on where they come from."""
    part = scenario.requests
    if part.closed is not None:
        raise source.error(
            ("requests", "closed"),
            "requests of users who wait for their answers exist only in a run; "
            "remove it, or use run and compare",
        )
    if part.trace is not None:
        beside = ("requests", "trace")
        with located(source, *beside, "file", beside=beside):
            found = trace(
                file_path(part.trace.file, source),
                window_ps=part.trace.window,
                scale_rate=part.trace.scale_rate,
                scale_length=part.trace.scale_length,
                count=part.count,
                jitter=part.trace.jitter,
                seed=seed,
            )
        return found.requests, [f"Trace {Path(part.trace.file).name}: {found.source}", *found.notes]
    with located(source, "requests"):
        return synthetic(part, seed, lambda file: file_path(file, source))


def files_of(scenario: Scenario, source: Source) -> list[tuple[Place, Path]]:
    """Every file that a scenario reads, with the place that names it."""
    named: list[tuple[Place, str]] = []
    if scenario.fabric.file is not None:
        named.append((("fabric", "file"), scenario.fabric.file))
    if scenario.requests.trace is not None:
        named.append((("requests", "trace", "file"), scenario.requests.trace.file))
    lengths = scenario.requests.lengths
    if lengths is not None and lengths.table is not None:
        named.append((("requests", "lengths", "table"), lengths.table))
    found = [(place, file_path(file, source)) for place, file in named]
    code = code_of(scenario.policy)
    if code is not None:
        found.append((("policy",), code))
    return [*found, *catalogues_of(scenario, source), *times_of(scenario, source)]
