"""Instances: model replicas, each a tensor-parallel group of hosts, and the pools they form.

A host is one GPU with its NIC, so an instance is a tuple of host indices, rank by rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Role
from topo.route import Routes
from topo.unit import PS_PER_S
from traffic.cache.tier import Caching
from traffic.compute.collective import Collective, Spanned
from traffic.compute.gpu import Gpu
from traffic.compute.measured import Measured, Measurements
from traffic.compute.roofline import (
    DEFAULT_RESERVE,
    DecodeCost,
    Efficiency,
    PrefillCost,
    decode_step,
    kv_capacity_bytes,
    prefill_cost,
)
from traffic.compute.step import Roofline, StepTime
from traffic.error import ComputeError
from traffic.handoff.flow import Handoff
from traffic.handoff.reshard import check_pair, moves, rank_pairs
from traffic.model import Model

DEFAULT_MAX_BATCH = 256
"""Sequences in one decode batch at most (the default of vLLM's max_num_seqs in its V1 engine)."""


_MANY_BYTES = 1 << 40
"""A cache in which a byte more or less is no share."""


def instances(
    fabric: Fabric, role: Role, tp: int, among: Sequence[int] | None = None
) -> tuple[tuple[int, ...], ...]:
    """The hosts of a role, or some of them, in groups of ``tp``, in host order.

    Groups take consecutive hosts of one server, then of one rack, and cross racks only with what
    is left over, so that a replica lies close together. Hosts left over from the last group stay
    idle. Raises `ComputeError` when there are fewer hosts than ``tp``.
    """
    hosts = fabric.hosts_with(role) if among is None else list(among)
    if tp < 1:
        raise ComputeError(f"tp {tp}: below 1; write 1 or more")
    if len(hosts) < tp:
        raise ComputeError(
            f"tp {tp}: more tensor parallelism than the {len(hosts)} {role.value} GPU(s) of fabric "
            f"{fabric.name!r}; write a smaller tp or place more {role.value} hosts"
        )
    groups: list[tuple[int, ...]] = []
    rest = hosts
    for place in ("server", "rack", "fabric"):
        kept: list[int] = []
        for near in _together(fabric, rest, place):
            whole = len(near) - len(near) % tp if near else 0
            groups += [tuple(near[i : i + tp]) for i in range(0, whole, tp)]
            kept += near[whole:]
        rest = sorted(kept)
    return tuple(sorted(groups))


def _together(fabric: Fabric, hosts: list[int], place: str) -> list[list[int]]:
    """The hosts by server, by rack or all together; a host without a server or rack is left."""
    if place == "fabric":
        return [hosts]
    found: dict[int, list[int]] = {}
    alone: list[list[int]] = []
    for host in hosts:
        node = fabric.nodes[host]
        number = node.server if place == "server" else node.rack
        if number < 0:
            alone.append([host])
        else:
            found.setdefault(number, []).append(host)
    return [*found.values(), *alone]


def links(
    routes: Routes,
    prefill: tuple[tuple[int, ...], ...],
    decode: tuple[tuple[int, ...], ...],
    dp: tuple[int, int] = (1, 1),
) -> NDArray[np.int32]:
    """Links crossed from every prefill to every decode instance, -1 where some rank has no path.

    The farthest of the pairs of ranks between which bytes may move counts. ``dp`` is that of the
    `Pool` of each side.
    """
    far = np.zeros((len(prefill), len(decode)), np.int32)
    cut = np.zeros(far.shape, np.bool_)
    for source, destination in _pairs(len(prefill[0]), len(decode[0]), dp):
        near = routes.distances([p[source] for p in prefill], [d[destination] for d in decode])
        far = np.maximum(far, near)
        cut |= near < 0
    far[cut] = -1
    return far


def _pairs(prefill_tp: int, decode_tp: int, dp: tuple[int, int]) -> list[tuple[int, int]]:
    """The ranks between which bytes may move, of any group of attention ranks to any other."""
    one, other = prefill_tp // dp[0], decode_tp // dp[1]
    return [
        (first * one + i, second * other + j)
        for first in range(dp[0])
        for second in range(dp[1])
        for i, j in rank_pairs(one, other)
    ]


REQUEST_BYTES = 98
"""A read request on the wire: a RETH of 16 bytes (InfiniBand specification, 9.3.2) in the 82 of
preamble, Ethernet, IPv4, UDP, BTH, ICRC, FCS and gap."""


def latencies(
    fabric: Fabric,
    routes: Routes,
    prefill: tuple[tuple[int, ...], ...],
    decode: tuple[tuple[int, ...], ...],
    dp: tuple[int, int] = (1, 1),
) -> NDArray[np.int64]:
    """The time of a lone read request from decode to prefill, prefill x decode, in picoseconds.

    One `REQUEST_BYTES` frame over an idle shortest path: sending, propagation and switch latency
    on every hop. -1 where some rank has no path; the slowest pair of ranks counts, since the cache
    is ready when the last of them has read. The request takes no share of the links.
    """
    slow = np.zeros((len(prefill), len(decode)), np.int64)
    for source, destination in _pairs(len(prefill[0]), len(decode[0]), dp):
        for i, senders in enumerate(prefill):
            for j, readers in enumerate(decode):
                paths = routes.paths(readers[destination], senders[source], limit=1)
                one = _frame_ps(fabric, paths[0]) if paths else -1
                slow[i, j] = -1 if one < 0 or slow[i, j] < 0 else max(int(slow[i, j]), one)
    return slow


def _frame_ps(fabric: Fabric, path: list[int]) -> int:
    ports, total = fabric.ports, 0
    for port in path:
        rate, delay = int(ports.rate_bps[port]), int(ports.delay_ps[port])
        switch = fabric.nodes[int(ports.node[port])].switch
        total += delay + -(-REQUEST_BYTES * 8 * PS_PER_S // rate)
        total += switch.latency_ps if switch is not None else 0
    return total


@dataclass(frozen=True)
class Pool:
    """Equal instances of one model for one role.

    ``max_batch`` is the largest number of sequences in a decode step; ``reserve`` the share of GPU
    memory that neither weights nor KV cache may take; ``kv_dtype`` the format of cached values,
    the model's own when None; ``efficiency`` overrides the one stated for the GPU. ``measured``
    times take the place of the roofline's.

    ``dp`` ranks of attention data parallelism cut an instance into as many groups of tp / dp ranks,
    one of which holds a request's cache while all compute together (SGLang's DP attention:
    sgl-project/sglang#5681). Requests take the groups in turn; their memory is counted together.

    ``collectives`` has one entry an instance, None where it lies in one server, or none at all.
    """

    instances: tuple[tuple[int, ...], ...]
    model: Model
    gpu: Gpu
    tp: int = 1
    max_batch: int = DEFAULT_MAX_BATCH
    efficiency: Efficiency | None = None
    reserve: float = DEFAULT_RESERVE
    kv_dtype: str | None = None
    measured: Measurements | None = None
    collectives: tuple[Collective | None, ...] = ()
    dp: int = 1

    def __post_init__(self) -> None:
        if self.dp < 1 or self.tp % self.dp:
            raise ComputeError(
                f"dp {self.dp}: {self.tp} ranks do not divide into so many groups of attention; "
                "write a divisor of tp"
            )
        if not self.instances:
            raise ComputeError("pool without instances: give at least one tuple of hosts")
        if self.max_batch < 1:
            raise ComputeError(f"max_batch {self.max_batch}: must be at least 1; write e.g. 256")
        if len(self.collectives) not in (0, len(self.instances)):
            raise ComputeError(
                f"{len(self.collectives)} collectives for {len(self.instances)} instances; give "
                "one each, or none"
            )
        for hosts in self.instances:
            if len(hosts) != self.tp:
                raise ComputeError(
                    f"instance {hosts}: {len(hosts)} hosts for tp {self.tp}; give one a rank"
                )

    @cached_property
    def prefill_cost(self) -> PrefillCost:
        """What a prompt costs."""
        return prefill_cost(self.model, self.gpu, self.tp, self.efficiency)

    @cached_property
    def decode_cost(self) -> DecodeCost:
        """What a decode step costs."""
        stated = self.efficiency
        return decode_step(self.model, self.gpu, self.tp, stated, self.kv_dtype, self.dp)

    @cached_property
    def step_time(self) -> StepTime:
        """What prompts and steps take: as measured, or by the roofline."""
        roofline = Roofline(self.prefill_cost, self.decode_cost, self.kv_dtype)
        return Measured(self.measured, roofline) if self.measured else roofline

    def time_of(self, instance: int) -> StepTime:
        """What prompts and steps take on one instance, with the messages between its servers."""
        waits = self.collectives[instance] if self.collectives else None
        return self.step_time if waits is None else Spanned(self.step_time, waits)

    @cached_property
    def kv_capacity_bytes(self) -> int:
        """KV bytes that one instance holds, over all groups of attention ranks."""
        whole = kv_capacity_bytes(self.model, self.gpu, self.tp, self.reserve)
        return whole * self._shards // self.model.shards(self.tp)

    @property
    def attention_tp(self) -> int:
        """The ranks that hold the cache of one request."""
        return self.tp // self.dp

    def groups(self, instance: int) -> list[tuple[int, ...]]:
        """The hosts of an instance, by groups of attention ranks."""
        hosts, each = self.instances[instance], self.attention_tp
        return [hosts[first : first + each] for first in range(0, self.tp, each)]

    @property
    def copies(self) -> int:
        """How many ranks hold, and are sent, the same part of a request's cache."""
        return self.attention_tp // self.model.shards(self.attention_tp)

    @property
    def _shards(self) -> int:
        """Distinct KV shards over all ranks, those of different groups being of other requests."""
        return self.model.shards(self.attention_tp) * self.dp

    @cached_property
    def _sizes(self) -> dict[int, int]:
        return {}

    def kv_bytes(self, tokens: int) -> int:
        """KV bytes of a context of ``tokens``; kept, since lengths come again."""
        found = self._sizes.get(tokens)
        if found is None:
            found = self._sizes[tokens] = self.model.kv_bytes(tokens, self.kv_dtype)
        return found


@dataclass(frozen=True)
class Deployment:
    """A prefill and a decode pool of one model, and how the cache moves between them.

    ``servers`` is the server of each host, where hosts share one; ``cache`` the tiers in which
    prefill instances keep prefix blocks, if they do.

    Refuses different models or KV formats, degrees that `traffic.handoff.reshard.check_pair` does,
    weights that do not fit, and a host in both pools.
    """

    prefill: Pool
    decode: Pool
    handoff: Handoff = field(default_factory=Handoff)
    servers: Mapping[int, int] = field(default_factory=dict)
    cache: Caching | None = None

    @cached_property
    def nic_share(self) -> float:
        """The part of a cache that the NIC with most of it sends or receives in a hand-off.

        Above 1 where a rank sends copies to several.
        """
        p, d = self.prefill.attention_tp, self.decode.attention_tp
        held = [0] * (p + d)
        for move in moves(self.prefill.model, _MANY_BYTES, p, d):
            held[move.source] += move.bytes
            held[p + move.destination] += move.bytes
        return max(held) / _MANY_BYTES

    def __post_init__(self) -> None:
        one, other = self.prefill, self.decode
        if one.model != other.model:
            raise ComputeError(
                f"prefill model {one.model.name}, decode model {other.model.name}: a KV cache can "
                "only be read by the model that wrote it; write one model"
            )
        if one.kv_dtype != other.kv_dtype:
            raise ComputeError(
                f"KV format {one.kv_dtype} in prefill, {other.kv_dtype} in decode: must be equal"
            )
        check_pair(one.model, one.attention_tp, other.attention_tp)
        both = {h for i in one.instances for h in i} & {h for i in other.instances for h in i}
        if both:
            raise ComputeError(f"host {min(both)}: in both pools; give every host one role")
        for pool in (one, other):
            _ = pool.kv_capacity_bytes
