"""One cell: one scenario and one seed, served over its emulator, with the two cheap estimates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from importlib.metadata import version
from math import isfinite

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from analysis.price import PriceFact
from analysis.record import FLOWS, PORTS, Cell, CellManifest, FabricFact, cell_id
from analysis.summary import UNKNOWN
from analysis.timer import TIMER
from emulate.fluid import FluidEmulator
from emulate.transport import Transport
from kvfabric.background import background_told
from kvfabric.build import Stage, services_of
from kvfabric.cache import cache_tables, cache_told, cache_totals
from kvfabric.collective import awaited, collectives_told, without_latency
from kvfabric.deadlock import deadlock_notes, deadlock_totals, deadlocks_of
from kvfabric.demand import Demand, demand_of
from kvfabric.deployment import Placed, pools_told
from kvfabric.fabric import FROM_FILE
from kvfabric.failover import failover_told
from kvfabric.fault import faults_told
from kvfabric.handoff import handoff_told, orchestration_told
from kvfabric.hazard import befalls, failure_tables, failure_totals, renumbered
from kvfabric.latency import Served, caused, waiting
from kvfabric.load import Alternative
from kvfabric.lone import lone
from kvfabric.memory import instances, memory_totals
from kvfabric.network import network_told
from kvfabric.observed import observed
from kvfabric.override import overrides_told
from kvfabric.policy import policy_told
from kvfabric.price import prices_told
from kvfabric.scenario import FabricPart, Scenario
from kvfabric.serving import serving_told
from topo.bom import bom
from topo.capacity import mu, oversubscription
from topo.deadlock import dependency_cycle, handoff_pairs
from topo.fabric import Fabric, Role
from topo.unit import PS_PER_S, show_duration, show_size
from traffic.background import Background
from traffic.emulator import Emulator, Table, Telemetry
from traffic.handoff.errand import pooled
from traffic.policy.registry import kind_of
from traffic.recorded import Recorded
from traffic.replay import replay
from traffic.request import RequestTable
from traffic.serving.run import Outcome, serve_all


@dataclass(frozen=True)
class CellJob:
    """What one cell needs: the alternative, what it stands on, its seed, and the study's digest.

    ``impossible`` is the one-line reason why it cannot run, or None; ``price`` what it is paid by,
    where the scenario says so.
    """

    alternative: Alternative
    stage: Stage
    facts: FabricFact
    impossible: str | None
    seed: int
    scenario_sha256: str
    price: PriceFact | None = None

    @property
    def cell(self) -> str:
        """The cell's directory name."""
        return cell_id(self.alternative.fabric, self.alternative.policy, self.seed)


def run_cell(job: CellJob, progress: Callable[[int, int], None] | None = None) -> Cell:
    """Serve one seed and gather its tables; an impossible alternative gives a cell that says so."""
    scenario, ready, seed = job.alternative.scenario, job.stage, job.seed
    manifest = CellManifest(
        cell=job.cell,
        fabric=job.alternative.fabric,
        policy=job.alternative.policy,
        seed=seed,
        scenario_sha256=job.scenario_sha256,
        version=version("kvfabric"),
        emulator=scenario.run.emulator,
        facts=job.facts,
        settings=settings_of(scenario, ready),
        warmup_requests=scenario.warmup_requests,
        impossible=job.impossible,
        price=job.price,
    )
    if job.impossible is not None:
        return Cell(manifest)
    outcome, emulator, notes = served(job, progress)
    telemetry = emulator.telemetry()
    deployments = [one.deployment for one in ready.placed]
    whole = Served.of(outcome, deployments, colocated=ready.rules.mode == "colocated")
    latency, waited, told = _latency(job, whole, outcome, telemetry)
    own = ready.transport
    if scenario.run.emulator == "fluid":
        own = replaced(own, issue_ps=0)  # it knows no time of issuing
    circles = deadlocks_of(emulator.inner)
    flows = flow_table(ready, outcome, telemetry, emulator.rows, seed)
    return Cell(
        replace(
            manifest,
            duration_ps=_network_ps(outcome, telemetry),
            totals=dict(
                sorted(
                    (
                        telemetry.totals
                        | _instances(ready)
                        | waited
                        | memory_totals(outcome)
                        | _words(scenario)
                        | _timer(scenario, own)
                        | cache_totals(outcome)
                        | outcome.counters
                        | failure_totals(outcome)
                        | deadlock_totals(circles)
                    ).items()
                )
            ),
            notes=[*notes, *outcome.notes, *told, *deadlock_notes(circles, seed)],
        ),
        outcome.requests,
        flows,
        _ports(ready.fabric, telemetry),
        observed(ready.fabric, telemetry, None if own.by_credits else ready.discipline)
        | cache_tables(outcome)
        | failure_tables(outcome)
        | latency
        | {
            "instances": instances(whole, outcome, latency.get("instances")),
            "lone": lone(
                outcome.flows, flows["hops"].astype(np.int64), nic_rate(ready.fabric), own
            ),
        },
    )


def _latency(
    job: CellJob, whole: Served, outcome: Outcome, telemetry: Telemetry
) -> tuple[dict[str, Table], dict[str, int], list[str]]:
    """What the latency of messages in steps took and caused: tables, totals, notes."""
    ready = job.stage
    totals = waiting(whole)
    if not totals or not totals["collective.latency_ps"]:
        return {}, totals, []
    requests, _ = demand_of(job.alternative.scenario, job.alternative.source, job.seed)
    if not isinstance(requests, RequestTable):
        return (
            {},
            totals,
            [
                "Latency of collectives: users ask at other times without it, so that "
                "what it causes beyond count x latency is not told."
            ],
        )
    recorded = Recorded(
        outcome.flows,
        telemetry.flows["finish_ps"].astype(np.int64),
        nic_rate(ready.fabric),
        ready.emulator("fluid", job.seed),
    )
    bare = [replaced(one, deployment=without_latency(one.deployment)) for one in ready.placed]
    other = serve_cell(job, requests, bare, recorded)
    deployments = [one.deployment for one in ready.placed]
    without = Served.of(other, deployments, colocated=whole.colocated)
    tables, more = caused(whole, without)
    notes = []
    if recorded.unknown:
        notes.append(
            f"Latency of collectives: {recorded.unknown} flow(s) of the run without it have no "
            "measured duration and take bytes/bandwidth there."
        )
    return tables, totals | more, notes


def served(
    job: CellJob, progress: Callable[[int, int], None] | None = None
) -> tuple[Outcome, Background, list[str]]:
    """Serve one seed of an alternative that can run: what became of it, the emulator after it, and
    notes on the requests."""
    scenario, ready, seed = job.alternative.scenario, job.stage, job.seed
    requests, notes = demand_of(scenario, job.alternative.source, seed)
    emulator = ready.shared(scenario.run.emulator, seed)
    outcome = serve_cell(job, requests, ready.placed, emulator, progress)
    prefix = requests.prefix
    if scenario.handoff.cache is not None and prefix is None:
        notes.append("handoff.cache: the requests carry no prefix blocks, so all of them move.")
    if scenario.cache is not None and prefix is None:
        notes.append("cache: the requests carry no prefix blocks, so nothing is found again.")
    return outcome, emulator, notes


def serve_cell(
    job: CellJob,
    requests: Demand,
    placed: Sequence[Placed],
    emulator: Emulator,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Serve requests as the scenario of a cell says, on these instances over this emulator."""
    scenario, ready, seed = job.alternative.scenario, job.stage, job.seed
    return serve_all(
        requests,
        services_of(scenario, ready, placed, seed),
        emulator,
        rules=ready.rules,
        control_delay_ps=int(scenario.run.control_delay),
        until_ps=int(scenario.run.limit),
        progress=progress,
        seed=seed,
    )


def _instances(ready: Stage) -> dict[str, int]:
    """How many instances each pool has, those that no request reached included.

    Colocated instances are in both pools, and each has half of the other's. Where instances of a
    pool differ in GPUs, both numbers of every run of equal ones, in the order of the instances.
    """
    pools = [(one.deployment.prefill, one.deployment.decode) for one in ready.placed]
    sides = {"prefill": [one for one, _ in pools], "decode": [other for _, other in pools]}
    if ready.rules.mode == "colocated":
        both = [pool for pair in pools for pool in pair]
        sides = {"prefill": both, "decode": both}
    found: dict[str, int] = {}
    for side, mine in sides.items():
        found[f"{side}_instances"] = sum(len(pool.instances) for pool in mine)
        for run, pool in enumerate(mine if len({pool.tp for pool in mine}) > 1 else ()):
            found[f"{side}_instances.{run}"] = len(pool.instances)
            found[f"{side}_gpus.{run}"] = pool.tp
    return found


def _words(scenario: Scenario) -> dict[str, int]:
    """The tokens of a thousand words, by which text is told."""
    return {"tokens_per_1000_words": round(1000 * scenario.requests.tokens_per_word)}


def _timer(scenario: Scenario, sender: Transport) -> dict[str, int]:
    """The retransmission timer of the senders, where packets can be lost."""
    if scenario.run.emulator != "packet" or sender.by_credits:
        return {}
    return {TIMER: sender.rto_ps}


def _network_ps(outcome: Outcome, telemetry: Telemetry) -> int:
    """From the start to the end of the last hand-off; the decode after it leaves the fabric idle.

    Shares of time, such as utilisation and pause fraction, are of this. Nobody waits for what is
    still being written to the pool of prefix blocks.
    """
    own = ~pooled(telemetry.flows["handoff"].astype(np.int64))
    finish = telemetry.flows["finish_ps"].astype(np.int64)[own]
    if not len(finish) or bool(np.any(finish < 0)):
        return outcome.end_ps
    return int(finish.max())


def flow_table(
    ready: Stage, outcome: Outcome, telemetry: Telemetry, beside: NDArray[np.void], seed: int
) -> Table:
    """The flow table with the durations that the cheap estimates give the same flows.

    The fluid replays the rows of the background ``beside`` them as well.
    """
    table = {name: np.asarray(column).astype(np.int64) for name, column in telemetry.flows.items()}
    table["handoff"] = renumbered(table["handoff"], outcome)
    nic = nic_rate(ready.fabric)
    table["bandwidth_ps"] = -(-table["bytes"] * 8 * (PS_PER_S // 10**6) // (nic // 10**6))
    fluid = FluidEmulator(ready.fabric, ready.routes, seed=seed, mtu=ready.transport.mtu)
    beside = beside.copy()
    beside["flow"] = np.arange(len(outcome.flows), len(outcome.flows) + len(beside))
    finish = replay(np.concatenate([outcome.flows, beside]), fluid)[: len(outcome.flows)]
    table["maxmin_ps"] = np.where(finish < 0, -1, finish - table["release_ps"])
    return {name: table[name] for name in FLOWS}


def _ports(fabric: Fabric, telemetry: Telemetry) -> Table:
    ports = fabric.ports
    table: Table = dict(telemetry.ports)
    table["name"] = np.array(
        [fabric.port_name(p).partition(">")[0] for p in range(len(ports.node))]
    )
    table["tier"] = np.array([fabric.nodes[n].tier for n in ports.node.tolist()], np.int64)
    table["rate_bps"] = ports.rate_bps
    return {name: table[name] for name in PORTS}


def nic_rate(fabric: Fabric) -> int:
    """The rate of the slowest host port, bit/s: the bandwidth of the bytes / bandwidth estimate."""
    hosts = np.array([n.tier == 0 for n in fabric.nodes])
    return int(fabric.ports.rate_bps[hosts[fabric.ports.node]].min())


def fabric_fact(ready: Stage, part: FabricPart) -> FabricFact:
    """What the fabric consists of and costs as bought, and can carry as it stands."""
    fabric = ready.fabric
    bought = ready.whole or fabric
    parts, ratio = bom(bought), oversubscription(bought)
    cycle = dependency_cycle(fabric, ready.routes, handoff_pairs(fabric))
    return FabricFact(
        hosts=len(fabric.hosts),
        prefill=len(fabric.hosts_with(Role.PREFILL)),
        decode=len(fabric.hosts_with(Role.DECODE)),
        switches=sum(parts.switches.values()),
        switch_cables=parts.switch_cables,
        host_cables=parts.host_cables,
        cost_usd=parts.cost_usd,
        mu_bps=mu(fabric),
        nic_bps=nic_rate(fabric),
        deadlock=None if cycle is None else " > ".join(cycle),
        switch_ports=parts.ports,
        ports_asked=None if part.family == FROM_FILE else part.switch.ports,
        oversubscription=ratio if isfinite(ratio) else None,
    )


def settings_of(scenario: Scenario, ready: Stage) -> dict[str, str]:
    """Every profile and setting behind the numbers, as text for the report."""
    part, switch = scenario.fabric, scenario.fabric.switch
    told = {
        **pools_told(ready.placed, scenario),
        "serving": serving_told(scenario.serving),
        "switches": bom(ready.whole or ready.fabric).models_told,
        "switch": f"buffer {show_size(switch.buffer)}, latency {show_duration(switch.latency)}",
        "cables": f"{part.cable:g} m",
        "placement": scenario.placement.by,
        "control delay": show_duration(scenario.run.control_delay),
        "policy": policy_told(scenario.policy, kind_of(scenario.policy_kind).sees),
        "hand-off": handoff_told(scenario.handoff),
        "orchestration": orchestration_told(scenario.handoff.orchestration),
        "collectives": collectives_told(
            awaited(scenario), [one.deployment for one in ready.placed]
        ),
        "background": background_told(scenario.background),
        "faults": faults_told(scenario.faults),
    }
    if scenario.cache is not None:
        told["prefix caches"] = cache_told(scenario.cache)
    if scenario.cost is not None:
        told["prices"] = prices_told(scenario)
    if befalls(scenario):
        told["failover"] = failover_told(scenario.failover)
    if scenario.run.emulator == "fluid":
        return {**told, "network": "max-min fluid: no queues, no pauses, no marks"}
    if ready.headrooms:
        told["overrides"] = overrides_told(scenario.network.overrides)
    told |= network_told(ready.discipline, ready.transport, nic_rate(ready.fabric))
    slow = ["receivers that drain slowly"] if ready.transport.drain_bps else []
    unknown = [*slow, *(["faults of links"] if ready.faults else [])]
    return {**told, UNKNOWN: ", ".join(unknown)} if unknown else told
