"""How long the packets of a study will take, told before they move where that is some minutes.

An estimate by what is known before. Hand-offs: the prompts' KV bytes, cut at the MTU, over the mean
number of links between prefill and decode instances, with an ACK every so many packets; prompts
that no decode instance can hold do not move, and colocated instances hand nothing over. Background
traffic: the bursts planned until the last hand-off, as many as the hosts can send and receive. That
end is the last arrival or, where that is later, when the prefill instances are through with all
prompts, evenly loaded; of users who wait for answers, when they are through with thought, prefill
and decode, asking by turns, nothing queueing. What is left out is told with the estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvfabric.build import Stage
from kvfabric.demand import demand_of
from kvfabric.deployment import Placed
from kvfabric.hazard import befalls
from kvfabric.policy import local_of, part_of
from kvfabric.run import CellJob, nic_rate
from kvfabric.scenario import Scenario
from topo.unit import PS_PER_S
from traffic.background import Source
from traffic.instance import Pool
from traffic.request import RequestTable
from traffic.source.crowd import Users

HOPS_PER_S: Final = 10_000_000
"""Packet-hops a second and process: half of what an idle processor does (docs/packet-core.md)."""

_TOLD_FROM_S: Final = 180


def foretold(jobs: Sequence[CellJob], processes: int) -> str | None:
    """One line about what these cells will take; None where it is less than some minutes."""
    known: dict[tuple[int, bytes], int] = {}
    whole = 0
    for job in jobs:
        scenario = job.alternative.scenario
        asked = msgspec.json.encode((scenario.requests, scenario.models), enc_hook=str)
        key = id(job.stage), asked
        if key not in known:
            known[key] = packet_hops(job)
        whole += 0 if job.impossible else known[key]
    at_once = min(processes, len(jobs))
    seconds = whole / (HOPS_PER_S * max(at_once, 1))
    if seconds < _TOLD_FROM_S:
        return None
    minutes = seconds / 60
    time = f"{minutes:,.0f} min" if minutes < 100 else f"{minutes / 60:,.0f} h"
    left = dict.fromkeys(what for job in jobs for what in left_out(job.alternative.scenario))
    return (
        f"{len(jobs)} cells, some {whole / 1e6:,.0f} million packet-hops: about {time} with "
        f"{at_once} at once, without {', '.join(left)}; a smaller --count, fewer --seeds or "
        "--emulator fluid take less"
    )


def left_out(scenario: Scenario) -> list[str]:
    """What the estimate of a cell does not count, in words."""
    local = local_of(part_of(scenario.policy)) is not None
    cached = scenario.cache is not None or scenario.handoff.cache is not None
    told = scenario.handoff.orchestration.message is not None
    return [
        "retransmissions",
        *(["what prefix caches save and move"] if cached else []),
        *(["what prompts that stay on the decode side save"] if local else []),
        *(["control messages"] if told else []),
        *(["what failures send again"] if befalls(scenario) else []),
        *(["background traffic while requests queue"] if scenario.background else []),
    ]


@dataclass(frozen=True)
class _Asked:
    """The prompts of a cell, each with its model, and when the last hand-off ends at about."""

    model: NDArray[np.int64]
    tokens: NDArray[np.int64]
    end_ps: float


def packet_hops(job: CellJob) -> int:
    """About so many packets and ACKs cross a link in a cell; 0 where none do."""
    scenario, ready = job.alternative.scenario, job.stage
    if scenario.run.emulator != "packet" or ready.rules.mode != "disaggregated":
        return 0
    demand, _ = demand_of(scenario, job.alternative.source, job.seed)
    asked = _open(ready, demand) if isinstance(demand, RequestTable) else _closed(ready, demand)
    end_ps = min(round(asked.end_ps), int(scenario.run.limit))
    hops = sum(
        _handed_over(ready, placed, asked.tokens[asked.model == number])
        for number, placed in enumerate(ready.placed)
    )
    return round(hops + sum(_beside(ready, source, end_ps) for source in ready.beside))


def _open(ready: Stage, table: RequestTable) -> _Asked:
    tokens = table.input_tokens.astype(np.int64)
    model = np.zeros(len(tokens), np.int64)
    if table.model is not None:
        model = table.model.astype(np.int64)
    busy = [
        _prefill_ps(one.deployment.prefill, tokens[model == number]).sum()
        / len(one.deployment.prefill.instances)
        for number, one in enumerate(ready.placed)
    ]
    return _Asked(model, tokens, max(table.arrival_ps[-1], *busy))


def _closed(ready: Stage, users: Users) -> _Asked:
    model, tokens, output, thought = users.in_turn().T
    took = thought.astype(np.float64)
    for number, one in enumerate(ready.placed):
        mine, decode = model == number, one.deployment.decode
        mean = round(tokens[mine].mean()) if mine.any() else 1
        batch = min(decode.max_batch, -(-users.users // len(decode.instances)))
        read = batch * decode.kv_bytes(mean)
        step = decode.step_time.steps_ps(batch, batch * mean, read, 1)
        took[mine] += _prefill_ps(one.deployment.prefill, tokens[mine]) + output[mine] * step
    return _Asked(model, tokens, took.sum() / users.users)


def _prefill_ps(pool: Pool, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each of these prompts takes alone."""
    lengths, place = np.unique(tokens, return_inverse=True)
    took = [pool.step_time.prefill_ps(length) for length in lengths.tolist()]
    return np.array(took, np.int64)[place]


def _handed_over(ready: Stage, placed: Placed, tokens: NDArray[np.int64]) -> float:
    """Packet-hops of the hand-offs of these prompts."""
    kv_bytes = placed.deployment.prefill.model.kv_bytes
    most = placed.deployment.decode.kv_capacity_bytes
    lengths, counts = np.unique(tokens, return_counts=True)
    size: int = sum(
        kv_bytes(length) * count
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True)
        if kv_bytes(length) <= most
    )
    reached = placed.hops[placed.hops >= 0]
    links = float(reached.mean()) if reached.size else 0.0
    answers = 1 + 1 / ready.transport.ack_every
    return size / ready.transport.mtu * links * answers


def _beside(ready: Stage, source: Source, end_ps: int) -> float:
    """Packet-hops of a source of background traffic until then."""
    rate, planned = nic_rate(ready.fabric), source.planned_by(end_ps)
    hops = 0.0
    for number, group in enumerate(source.groups):
        sender, receiver, size = np.array(source.moves(group, number), np.int64).T.reshape(3, -1)
        if not size.size:
            continue
        packets = -(-size // ready.transport.mtu)
        frames = packets + -(-packets // ready.transport.ack_every)
        froms, row = np.unique(sender, return_inverse=True)
        tos, column = np.unique(receiver, return_inverse=True)
        links = ready.routes.distances(froms.tolist(), tos.tolist())[row, column].clip(0)
        most = max(np.bincount(end, size).max() for end in (sender, receiver))
        fitting = end_ps * rate / (most * 8 * PS_PER_S)
        hops += min(planned, fitting) * float((frames * links).sum())
    return hops
