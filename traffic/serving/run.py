"""The serving model: requests queue, prefill, hand their KV cache over, and decode.

One run serves a table of requests, or users who wait for their answers, with one service a model.
How an instance goes about it is its mode: `traffic.serving.disaggregated` or
`traffic.serving.colocated`; events, their order and the emulator are in `traffic.loop`; instances
that fail, in `traffic.serving.failover`. Times are integer picoseconds; the only randomness is the
policy's and the users'. Not modelled: prefill batches in disaggregated mode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_US, duration_text, show_size
from traffic.cache.build import prompt_cache
from traffic.cache.lookup import Blocks
from traffic.cache.tally import Tally
from traffic.emulator import Emulator, Table
from traffic.error import ServingError
from traffic.failure.spell import spells
from traffic.failure.toll import Toll
from traffic.instance import Deployment
from traffic.loop import Crowd, Loop, Station
from traffic.policy.choice import Policy, check_reach
from traffic.record.book import Book
from traffic.record.ledger import FAILED, REJECTED, Ledger
from traffic.record.occupancy import table as occupied
from traffic.release import Releases
from traffic.request import RequestTable
from traffic.serving.colocated import Colocated
from traffic.serving.colocated_failover import ColocatedFailover
from traffic.serving.disaggregated import Disaggregated
from traffic.serving.failover import Failover
from traffic.serving.mode import Serving
from traffic.serving.router import Router, Service

DEFAULT_CONTROL_DELAY_PS: Final = 20 * PS_PER_US
"""From a decision to its effect: routers need tens of microseconds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of every request.

    requests: one row a request, int64, -1 where not reached: ``request arrival_ps input_tokens
    output_tokens kv_bytes session model tenant priority prefill decode prefill_start_ps
    prefill_end_ps kv_ready_ps decode_start_ps first_token_ps finish_ps preemptions status`` (0
    finished, 1 in flight when the run ended, 2 rejected, 3 failed) and
    `traffic.record.book.MOMENTS`. ``kv_bytes`` is the cache of the prompt. ``prefill`` and
    ``decode`` number instances over all services, each pool for itself; of a request that was tried
    again, those of its last attempt, like all its times. A request without output ends with its
    prefill: no hand-off, no first token. Where nothing is handed over the cache is ready, and
    decoding starts, when the prefill ends; where the prefill makes the first token, that is its
    time too.

    flows: all submitted `FLOW` rows; a flow's hand-off carries the request's number.
    end_ps: when the run ended. notes: plain sentences on what a reader should know.
    steps: that have ended on every decode or colocated instance, by its number; memory: what each
    held from the first arrival on, `traffic.record.occupancy.COLUMNS`.
    toll: what failures cost each request, `traffic.failure.toll.COLUMNS`; spells: how each outage
    went, `traffic.failure.spell.COLUMNS`; strays: flows of hand-offs that were given up; trips: how
    often a breaker opened. Empty without hazards.
    cache: what prefill instances still knew of each prompt, `traffic.cache.tally.COLUMNS`; cached:
    the sums over the run. Empty without caches.
    counters: what the policies did, as they count it themselves, by their names and its.
    """

    requests: Table
    flows: NDArray[np.void]
    end_ps: int
    notes: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    memory: Table = field(default_factory=dict)
    toll: Table = field(default_factory=dict)
    spells: Table = field(default_factory=dict)
    cache: Table = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    strays: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    trips: int = 0
    counters: dict[str, int] = field(default_factory=dict)


def serve(
    requests: RequestTable,
    deployment: Deployment,
    policy: Policy,
    emulator: Emulator,
    *,
    hops: NDArray[np.int32],
    latency_ps: NDArray[np.int64] | None = None,
    rules: Serving | None = None,
    control_delay_ps: int = DEFAULT_CONTROL_DELAY_PS,
    until_ps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int = 0,
) -> Outcome:
    """Serve the requests of one model: `serve_all` with a single `Service`."""
    return serve_all(
        requests,
        [Service(deployment, policy, hops, latency_ps)],
        emulator,
        rules=rules,
        control_delay_ps=control_delay_ps,
        until_ps=until_ps,
        progress=progress,
        seed=seed,
    )


def serve_all(
    requests: RequestTable | Crowd,
    services: Sequence[Service],
    emulator: Emulator,
    *,
    rules: Serving | None = None,
    control_delay_ps: int = DEFAULT_CONTROL_DELAY_PS,
    until_ps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int = 0,
) -> Outcome:
    """Serve the requests of a table, or of users, until all are done, or until ``until_ps``.

    A request goes to the service of its model's number. ``control_delay_ps`` must be at least the
    emulator's window. ``progress`` is called now and then with the requests done and their number.
    ``seed`` makes the entropy of the flows. The emulator must be fresh.

    Raises `PolicyError` when a policy may pick, or picks, a pair without a path, and
    `ServingError` for what cannot be served.
    """
    rules = rules or Serving()
    _check(services, rules, control_delay_ps)
    prefix: Blocks | None = requests.prefix
    if isinstance(requests, RequestTable):
        ledger, crowd = Ledger.open(requests), None
    else:
        ledger, crowd = Ledger(requests.count), requests
    if len(ledger) and max(ledger.model) >= len(services):
        raise ServingError(
            f"request of model {max(ledger.model)}: {len(services)} service(s); give one a model"
        )
    loop = Loop(ledger, emulator, control_delay_ps, crowd)
    book = Book(emulator, len(ledger))
    cached = prefix is not None and any(service.deployment.cache for service in services)
    tally = Tally(len(ledger) if cached else 0)
    toll = Toll(len(ledger) if any(service.hazard for service in services) else 0)
    for service in services:
        if service.network is not None:
            loop.watch(service.network)
        router = Router(service, ledger, prefix, chunk_tokens=rules.chunk_tokens, seed=seed)
        releases = Releases(
            service.deployment,
            book,
            seed=seed,
            delay_ps=control_delay_ps,
            prefix=prefix,
            priority=ledger.priority,
        )
        releases.prompts = prompt_cache(
            service.deployment,
            prefix,
            book,
            tally,
            colocated=rules.mode == "colocated",
            seed=seed,
            delay_ps=control_delay_ps,
            later=loop.call,
        )
        station: Station
        if rules.mode != "colocated":
            check_reach(service.policy, service.hops)
        if service.hazard is None:
            plain = Colocated if rules.mode == "colocated" else Disaggregated
            station = plain(loop, router, releases, rules)
        else:
            guarded = ColocatedFailover if rules.mode == "colocated" else Failover
            station = guarded(loop, router, releases, rules, toll)
        loop.stations.append(station)
    loop.go(until_ps, progress)
    table = ledger.table(book.moments, loop.end_ps)
    before = _number_on(table, services, rules)
    flows = book.table()
    outcome = Outcome(
        table,
        flows,
        loop.end_ps,
        tuple(_notes(table, services, rules)),
        tuple(steps for station in loop.stations for steps in station.steps),
        occupied(
            [one for station in loop.stations for one in station.end(loop.end_ps)],
            loop.end_ps - int(table["arrival_ps"].min(initial=loop.end_ps)),
        ),
        cache=tally.table(ledger.arrived) if cached else {},
        cached=_cached(loop, tally),
        counters=_counters(services),
    )
    if not len(toll.attempts):
        return outcome
    found = [
        (spell, int(before[number, side]))
        for number, station in enumerate(loop.stations)
        if isinstance(station, Failover | ColocatedFailover)
        for side, watch in enumerate(station.attempts.watch)
        for spell in watch.spells
    ]
    return replace(
        outcome,
        toll=toll.table(flows, ledger.arrived),
        spells=spells(found, loop.end_ps),
        strays=toll.stray_flows(),
        trips=sum(
            breakers.opened
            for station in loop.stations
            if isinstance(station, Failover | ColocatedFailover)
            for breakers in station.attempts.breakers
        ),
    )


def _cached(loop: Loop, tally: Tally) -> dict[str, int]:
    """The sums of all prefix caches by name."""
    for station in loop.stations:
        if station.releases.prompts is not None:
            station.releases.prompts.sums()
    return dict(sorted(tally.sums.items()))


def _check(services: Sequence[Service], rules: Serving, control_delay_ps: int) -> None:
    if control_delay_ps < 1:
        raise ServingError(
            f"control delay {duration_text(control_delay_ps)}: a decision takes time; write "
            "e.g. 20us"
        )
    for service in services:
        if rules.mode == "colocated":
            continue
        prefill, decode = service.deployment.prefill, service.deployment.decode
        shape = (len(prefill.instances), len(decode.instances))
        if service.hops.shape != shape:
            raise ServingError(
                f"hops {service.hops.shape}: must be prefill x decode instances, {shape}"
            )
        latency = service.latency_ps
        if service.deployment.handoff.pull and (latency is None or latency.shape != shape):
            raise ServingError(
                "a pulled hand-off starts with a read request: give latency_ps, one row a prefill "
                f"and one column a decode instance, {shape}"
            )


def _number_on(table: Table, services: Sequence[Service], rules: Serving) -> NDArray[np.int64]:
    """Count instances over all services, from their numbers within each; the first of each."""
    sizes = np.array(
        [
            (len(s.deployment.prefill.instances), len(s.deployment.decode.instances))
            for s in services
        ],
        np.int64,
    )
    if rules.mode == "colocated":
        sizes[:] = sizes.sum(axis=1, keepdims=True)
    before = np.cumsum(sizes, axis=0) - sizes
    model = np.asarray(table["model"], np.int64)
    for side, name in enumerate(("prefill", "decode")):
        number = np.asarray(table[name], np.int64)
        table[name] = np.where(number < 0, -1, number + before[model, side])
    return before


def _counters(services: Sequence[Service]) -> dict[str, int]:
    """What the policies of all services count together."""
    found: dict[str, int] = {}
    for service in services:
        counts = getattr(service.policy, "counters", None)
        for name, value in ({} if counts is None else counts()).items():
            key = f"policy.{service.policy.name}.{name}"
            found[key] = found.get(key, 0) + value
    return found


def _notes(table: Table, services: Sequence[Service], rules: Serving) -> list[str]:
    notes: list[str] = []
    if rules.mode == "colocated" and any(s.local or s.order != "prefill_first" for s in services):
        notes.append(
            "Order of choice and short prompts on the decode side have no meaning in colocated "
            "serving: each request has one instance."
        )
    rejected = int(np.count_nonzero(table["status"] == REJECTED))
    if rejected:
        most = ", ".join(show_size(s.deployment.decode.kv_capacity_bytes) for s in services)
        notes.append(
            f"{rejected} request(s) were rejected: their context needs more KV memory than a "
            f"decode instance has ({most})."
        )
    failed = int(np.count_nonzero(table["status"] == FAILED))
    if failed:
        notes.append(
            f"{failed} request(s) failed: instances died and no further attempt was allowed, or "
            "nobody healthy could be found in time."
        )
    empty = int(np.count_nonzero(table["output_tokens"] == 0))
    if empty:
        notes.append(f"{empty} request(s) have no output and end with their prefill.")
    times = np.asarray(table["preemptions"], np.int64)
    if times.any():
        notes.append(
            f"{np.count_nonzero(times)} request(s) were preempted, {times.sum()} times together: "
            "their KV caches had outgrown the memory of their instances."
        )
    return notes
