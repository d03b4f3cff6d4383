"""How long the packets of a study will take, told before they move where that is some minutes.

An estimate by what is known before. Hand-offs: the prompts' flows, with copies for decode ranks
that hold the same, cut into descriptors and at the MTU, over the mean number of links between
prefill and decode instances, with an ACK every so many packets; prompts that no decode instance can
hold, and those without output, do not move, and colocated instances hand nothing over. A pool of
prefix blocks: whatever an open run's prompts consist of is written or read once, as if instances
kept none of it. Background traffic: the bursts planned until the last hand-off, as many as the
hosts can send and receive and the way lets follow each other. That end is when the last prompt is
computed, if it need not queue, or where that is later, when the prefill instances are through with
all prompts, evenly loaded; of users who wait for answers, when they are through with thought,
prefill and decode, asking by turns, nothing queueing. Under a policy that looks at links the
network, and what is beside, moves on to the last answer. What is left out is told with the
estimate.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from emulate.ideal import frames, ideal_ps
from kvfabric.build import Stage
from kvfabric.cache import pooled
from kvfabric.demand import demand_of
from kvfabric.deployment import Placed
from kvfabric.hazard import befalls
from kvfabric.policy import local_of, part_of
from kvfabric.run import CellJob, nic_rate
from kvfabric.scenario import Scenario
from topo.unit import PS_PER_S
from traffic.background import Source
from traffic.cache.lookup import block_bytes
from traffic.handoff.flow import flows
from traffic.handoff.layer import all_layers, chunks
from traffic.instance import Deployment, Pool
from traffic.policy.registry import kind_of
from traffic.request import Prefix, RequestTable
from traffic.source.crowd import Users

HOPS_PER_S: Final = 10_000_000
"""Packet-hops a second and process: half of what an idle processor does (docs/packet-core.md)."""

_TOLD_FROM_S: Final = 180

_LENGTHS: Final = 33
"""Prompts whose packets are counted; between their lengths packets grow with the tokens."""


SERVED_HOPS: Final = 3_000
"""Serving a request takes about as long as so many packet-hops: 0.2 ms beside 15 to 20 million
packet-hops a second, measured with the fluid emulator and with prompts of 16 tokens."""


def hops_of(jobs: Sequence[CellJob]) -> list[int]:
    """The packet-hops of each cell, as of its first seed; 0 of one that cannot run."""
    known: dict[tuple[int, bytes, bool], int] = {}
    each = []
    for job in jobs:
        scenario = job.alternative.scenario
        asked = msgspec.json.encode((scenario.requests, scenario.models), enc_hook=str)
        key = id(job.stage), asked, _looks(scenario)
        if key not in known:
            known[key] = packet_hops(job)
        each.append(0 if job.impossible else known[key])
    return each


def foretold(jobs: Sequence[CellJob], hops: Sequence[int], processes: int) -> str | None:
    """One line about what these cells will take; None where it is less than some minutes."""
    whole = sum(hops)
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
    apart, pool = scenario.serving.mode == "disaggregated", pooled(scenario.cache)
    beside, around = bool(scenario.background), scenario.handoff.orchestration
    known = {
        "retransmissions": True,
        "what prefix caches save": bool(scenario.cache or scenario.handoff.cache),
        "the pool of prefix blocks of users": pool and scenario.requests.closed is not None,
        "what prompts that stay on the decode side save": bool(local_of(part_of(scenario.policy))),
        "control messages": around.message is not None,
        "what failures send again": befalls(scenario),
        "background traffic while requests queue": beside and apart,
        "background traffic beside the pool of prefix blocks": beside and pool and not apart,
    }
    return [what for what, left in known.items() if left]


@dataclass(frozen=True)
class _Asked:
    """The prompts of a cell, each with its model, whether it has output and, of an open run, its
    prefix blocks; and when the last hand-off and the last answer end at about."""

    model: NDArray[np.int64]
    tokens: NDArray[np.int64]
    goes_on: NDArray[np.bool_]
    end_ps: float
    answered_ps: float
    prefix: Prefix | None = None


def packet_hops(job: CellJob) -> int:
    """About so many packets and ACKs cross a link in a cell; 0 where none do."""
    scenario, ready = job.alternative.scenario, job.stage
    apart = ready.rules.mode == "disaggregated"
    if scenario.run.emulator != "packet" or not (apart or pooled(scenario.cache)):
        return 0
    demand, _ = demand_of(scenario, job.alternative.source, job.seed)
    asked = _open(ready, demand) if isinstance(demand, RequestTable) else _closed(ready, demand)
    hops = sum(_to_pool(ready, placed, asked, n) for n, placed in enumerate(ready.placed))
    if not apart:
        return round(hops)
    last_ps = asked.answered_ps if _looks(scenario) else asked.end_ps
    end_ps = min(round(last_ps), int(scenario.run.limit))
    hops += sum(
        _handed_over(ready, placed, asked.tokens[asked.goes_on & (asked.model == number)])
        for number, placed in enumerate(ready.placed)
    )
    return round(hops + sum(_beside(ready, source, end_ps) for source in ready.beside))


def _looks(scenario: Scenario) -> bool:
    """Whether the policy looks at links."""
    return "network" in kind_of(scenario.policy_kind).sees


def _open(ready: Stage, table: RequestTable) -> _Asked:
    tokens = table.input_tokens.astype(np.int64)
    model = np.zeros(len(tokens), np.int64)
    if table.model is not None:
        model = table.model.astype(np.int64)
    arrival, output = table.arrival_ps.astype(np.int64), table.output_tokens.astype(np.int64)
    end_ps = answered_ps = 0.0
    for number, one in enumerate(ready.placed):
        mine, prefill = model == number, one.deployment.prefill
        took = _prefill_ps(prefill, tokens[mine])
        decoded = output[mine] * _step_ps(one, tokens[mine], 1)
        computed = np.maximum(arrival[mine] + took, took.sum() / len(prefill.instances))
        end_ps = max(end_ps, computed.max(initial=0))
        answered_ps = max(answered_ps, (computed + decoded).max(initial=0))
    return _Asked(model, tokens, output > 0, end_ps, answered_ps, table.prefix)


def _closed(ready: Stage, users: Users) -> _Asked:
    model, tokens, output, thought = users.in_turn().T
    took = thought.astype(np.float64)
    for number, one in enumerate(ready.placed):
        mine, decode = model == number, one.deployment.decode
        batch = min(decode.max_batch, -(-users.users // len(decode.instances)))
        step = _step_ps(one, tokens[mine], batch)
        took[mine] += _prefill_ps(one.deployment.prefill, tokens[mine]) + output[mine] * step
    end_ps = took.sum() / users.users
    return _Asked(model, tokens, output > 0, end_ps, end_ps)


def _step_ps(placed: Placed, tokens: NDArray[np.int64], batch: int) -> int:
    """What a decode step of so many sequences takes, of these prompts' mean length."""
    decode = placed.deployment.decode
    mean = round(tokens.mean()) if len(tokens) else 1
    return decode.step_time.steps_ps(batch, batch * mean, batch * decode.kv_bytes(mean), 1)


def _prefill_ps(pool: Pool, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each of these prompts takes alone."""
    lengths, place = np.unique(tokens, return_inverse=True)
    took = [pool.step_time.prefill_ps(length) for length in lengths.tolist()]
    return np.array(took, np.int64)[place]


def _handed_over(ready: Stage, placed: Placed, tokens: NDArray[np.int64]) -> float:
    """Packet-hops of the hand-offs of these prompts."""
    one = placed.deployment
    lengths, counts = np.unique(tokens, return_counts=True)
    fits = [one.decode.kv_bytes(n) <= one.decode.kv_capacity_bytes for n in lengths.tolist()]
    lengths, counts = lengths[fits], counts[fits]
    if not lengths.size:
        return 0.0
    known = lengths[np.unique(np.linspace(0, lengths.size - 1, _LENGTHS).round().astype(np.int64))]
    each = [_packets(one, n, ready.transport.mtu) for n in known.tolist()]
    packets = float(np.interp(lengths, known, each) @ counts)
    reached = placed.hops[placed.hops >= 0]
    links = float(reached.mean()) if reached.size else 0.0
    return packets * links * (1 + 1 / ready.transport.ack_every)


def _packets(deployment: Deployment, tokens: int, mtu: int) -> int:
    """Packets of the hand-off of one prompt."""
    one, other, how = deployment.prefill, deployment.decode, deployment.handoff
    model = one.model
    parts = Counter([all_layers(model)])
    if how.layer_wise:
        parts = Counter(layers for layers, _ in chunks(model, how.layers_per_chunk))
    packets = 0
    for layers, times in parts.items():
        rows = flows(
            how,
            model,
            kv_bytes=layers.kv_bytes(model, tokens, one.kv_dtype),
            source=range(one.attention_tp),
            destination=range(-other.attention_tp, 0),
            request=0,
            handoff_id=0,
            first_flow=0,
            release_ps=0,
            seed=0,
            tokens=tokens,
            layers=layers,
        )
        sizes = rows[["bytes", "descriptors"]].tolist()
        packets += times * sum(frames(size, mtu, cuts) for size, cuts in sizes)
    return packets


def _to_pool(ready: Stage, placed: Placed, asked: _Asked, model: int) -> float:
    """Packet-hops of a model's pool of prefix blocks."""
    one, prefix = placed.deployment, asked.prefix
    rules = one.cache
    if rules is None or rules.pool is None or prefix is None:
        return 0.0
    mine = np.flatnonzero(asked.model == model).tolist()
    whole = (asked.tokens // prefix.block_tokens).tolist()
    count = sum(min(len(prefix.of(each)), whole[each]) for each in mine)
    pools = (one.prefill,) if ready.rules.mode == "disaggregated" else (one.prefill, one.decode)
    hosts = sorted({host for pool in pools for ranks in pool.instances for host in ranks})
    links = ready.routes.distances(hosts, list(rules.storage)).mean()
    size = count * block_bytes(one.prefill, prefix.block_tokens)
    return float(size / ready.transport.mtu * links * (1 + 1 / ready.transport.ack_every))


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
        far = int((links + size / size.max()).argmax())
        least = max(
            most * 8 * PS_PER_S / rate, _lone_ps(ready, sender[far], receiver[far], size[far])
        )
        fitting = end_ps / least
        hops += min(planned, fitting) * float((frames * links).sum())
    return hops


def _lone_ps(ready: Stage, sender: int, receiver: int, size: int) -> int:
    """What a flow takes on an idle fabric."""
    (path, *_) = ready.routes.paths(int(sender), int(receiver), 1) or [[]]
    if not path:
        return 0
    fabric = ready.fabric
    ports = fabric.ports
    crossed = [fabric.nodes[node].switch for node in ports.peer[path].tolist()]
    latency = int(ports.delay_ps[path].sum()) + sum(s.latency_ps for s in crossed if s)
    return ideal_ps(int(size), ready.transport.mtu, ports.rate_bps[path].tolist(), latency)
