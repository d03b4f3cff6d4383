"""The scenario file: one question about fabrics and policies, with everything it depends on.

These are the keys that may stand in a file, with their defaults; `kvfabric.load` reads one.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kvfabric.background import BackgroundPart
from kvfabric.cache import CachePart
from kvfabric.failover import FailoverPart
from kvfabric.part import Part, Positive, Small
from kvfabric.policy import DEFAULT_KIND, Written, kind_of, settings_of
from kvfabric.quantity import Block, Duration, Factor, Length, Rate, Share, Size, written
from kvfabric.request import RequestsPart
from kvfabric.serving import ServingPart

PRINTS: Final = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""Text without control characters: it goes to terminals and pages."""
_SHORT: Final = "text of 1 to 80 characters that print"
_QUESTION: Final = "text of at most 400 characters that print"


class SwitchPart(Part, frozen=True):
    """The switch model that the fabric is built from."""

    ports: Small = 64
    rate: Rate = written(Rate, "400Gbps")
    buffer: Size = written(Size, "64MiB")
    latency: Duration = written(Duration, "600ns")


class FabricPart(Part, frozen=True):
    """The fabric. ``label`` names it in tables; keys that a family does not know are refused.

    Family ``file`` reads ``file``, in a format of `topo.format`; ``nic``, ``switch`` and ``cable``
    are then what is taken where the file is silent.
    """

    family: str
    file: str | None = None
    label: str | None = None
    hosts: Small | None = None
    nic: Rate = written(Rate, "400Gbps")
    switch: SwitchPart = msgspec.field(default_factory=SwitchPart)
    cable: Length = written(Length, "10m")
    host_cable: Length | None = None
    oversubscription: Positive | None = None
    k: Small | None = None
    leaves: Small | None = None
    spines: Small | None = None
    degree: Small | None = None
    groups: Small | None = None
    trunk: Small | None = None
    breakout: Small | None = None
    gpus_per_server: Small | None = None
    pods: Small | None = None
    rails: Small | None = None
    units: Small | None = None
    planes: Small | None = None
    attach: Literal["own", "every"] | None = None
    scale_up: Rate | None = None
    decode_nic: Rate | None = None
    a: Small | None = None
    p: Small | None = None
    h: Small | None = None
    wiring: Literal["palmtree", "absolute"] | None = None
    shape: Annotated[tuple[Small, ...], Meta(min_length=1, max_length=6)] | None = None
    q: Small | None = None
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class PlacementPart(Part, frozen=True):
    """How many hosts serve prefill, decode and storage, and where they stand."""

    prefill: Small
    decode: Small
    storage: Annotated[int, Meta(ge=0, le=65_536)] = 0
    by: Literal["separate", "rack", "interleaved", "rail"] = "rack"


class Pair(Part, frozen=True):
    """One value for the prefill pool and one for the decode pool."""

    prefill: str
    decode: str


class InstancePart(Part, frozen=True):
    """One model replica of a pool: its ranks, how many groups of them share out the attention
    (``dp``), the largest decode batch, and a file of measured ``times``:
    `traffic.compute.measured`."""

    tp: Small = 1
    dp: Small = 1
    max_batch: Small = 256
    times: str | None = None


class InstancesPart(Part, frozen=True):
    """The replicas of both pools."""

    prefill: InstancePart = msgspec.field(default_factory=InstancePart)
    decode: InstancePart = msgspec.field(default_factory=InstancePart)


class CataloguePart(Part, frozen=True):
    """Files of one's own ``models`` and ``gpus``, with the columns of the shipped catalogues; a row
    of the same name takes the place of a shipped one."""

    models: str | None = None
    gpus: str | None = None


class ServedPart(Part, frozen=True):
    """A further model on the same fabric: its share of the requests, and GPUs of the placement
    for pools of its own. Without ``gpu`` and ``instance`` those of the scenario hold."""

    model: str
    share: Share
    prefill: Small
    decode: Small
    gpu: str | Pair | None = None
    instance: InstancesPart | None = None


class CollectivePart(Part, frozen=True):
    """Instances that span servers wait for their all-reduces: so many a layer, ``extra`` for what
    software adds to a message."""

    per_layer: Small = 2
    extra: Duration = written(Duration, "0us")


class OrchestrationPart(Part, frozen=True):
    """What a hand-off waits for beside its bytes: see `traffic.handoff.orchestration`."""

    dispatch: Duration = written(Duration, "0us")
    routers: Annotated[int, Meta(ge=0, le=65_536)] = 0
    handshake: Duration = written(Duration, "0us")
    align: bool = False
    message: Size | None = None


Class = Annotated[int, Meta(ge=0, le=7)]
"""A class of traffic on the network."""


class HandoffPart(Part, frozen=True):
    """How the KV cache is cut and moved: see docs/workloads.md."""

    when: Literal["after_prefill", "layer_wise"] = "after_prefill"
    direction: Literal["push", "pull"] = "push"
    block: Block = written(Block, "256KiB")
    per_descriptor: Duration = written(Duration, "0us")
    merged: Share = written(Share, "0%")
    layout: Literal["nhd", "hnd"] = "nhd"
    staging: Literal["none", "gpu", "host"] = "none"
    copy: Rate | None = None
    layers_per_chunk: Small = 1
    cache: Size | None = None
    classes: Annotated[tuple[Class, ...], Meta(min_length=8, max_length=8)] | None = None
    orchestration: OrchestrationPart = msgspec.field(default_factory=OrchestrationPart)


class EcnPart(Part, frozen=True):
    """RED thresholds of one's own, in bytes of the egress queue."""

    kmin: Size
    kmax: Size
    pmax: Share


class WatchdogPart(Part, frozen=True):
    """How long a queue is stuck before it is dropped, and without XOFF before it is taken back."""

    detect: Duration = written(Duration, "200ms")
    restore: Duration = written(Duration, "200ms")


class DisciplinePart(Part, frozen=True):
    """The queue disciplines of every switch port."""

    pfc: bool = True
    headroom: str = "sonic"
    alpha: Factor = written(Factor, "1/8")
    ecn: str | bool | EcnPart = "sonic"
    cut_through: bool = False
    watchdog: bool | WatchdogPart = False


class TransportPart(Part, frozen=True):
    """What the NIC runs. ``control`` is dcqcn for rocev2 and none for infiniband if left out.

    ``credits`` is the buffer of each virtual lane at the receiving end of an infiniband link.
    ``issuers`` 1 lets one thread of a NIC issue the descriptors of all its flows, 0 one of each
    flow; ``send_queue`` is how many descriptors of a flow may be issued and not acknowledged
    (without a limit if left out), ``ack_message`` an ACK at the end of each descriptor. ``drain``
    is the rate at which a host takes data from each NIC port, through its ``receive_buffer``.
    """

    kind: Literal["rocev2", "infiniband"] = "rocev2"
    control: Literal["dcqcn", "none"] | None = None
    preset: str = "connectx"
    mtu: Size = written(Size, "4KiB")
    ack_every: Small | None = None
    credits: Size | None = None
    issuers: Literal[0, 1] = 0
    send_queue: Small | None = None
    drain: Rate | None = None
    receive_buffer: Size | None = None
    ack_message: bool = False


class OverridePart(Part, frozen=True):
    """A switch set otherwise than the rest, or its ports ``towards`` one neighbour only."""

    node: str
    headroom: Size
    towards: str | None = None


class NetworkPart(Part, frozen=True):
    """Transport, queue disciplines, load balancing, and what single switches and ports have."""

    transport: TransportPart = msgspec.field(default_factory=TransportPart)
    discipline: DisciplinePart = msgspec.field(default_factory=DisciplinePart)
    balancing: Literal["ecmp"] = "ecmp"
    overrides: tuple[OverridePart, ...] = ()


_ENDS: Final = "the names of two nodes, as [leaf0, spine0]"

OF_INSTANCES: Final = ("fail", "drain", "join")
"""Kinds of faults that befall instances, and not links."""


class FaultPart(Part, frozen=True):
    """One fault: of a ``link``, named by its two nodes, of a ``node`` that is down, or of an
    ``instance``, as ``prefill 3``, that fails, is drained or joins.

    ``forward`` is from the first of the two names to the second; cables in parallel between them
    are all meant. ``share`` is what is left of the rate (degraded) or is lost (lossy). ``mtbf`` and
    ``mttr`` draw the failures of one instance, or of all of a side, ``instance: prefill``. What is
    ``removed`` is gone from the start, and routes go round it.
    """

    kind: Literal["down", "degraded", "lossy", "storm", "removed", "fail", "drain", "join"]
    link: Annotated[tuple[str, str], Meta(description=_ENDS)] | None = None
    node: str | None = None
    start: Duration = written(Duration, "0us", name="from")
    until: Duration | None = None
    share: Share | None = None
    direction: Literal["both", "forward", "back"] = "both"
    instance: str | None = None
    mtbf: Duration | None = None
    mttr: Duration | None = None


class BudgetPart(Part, frozen=True):
    """What a hand-off may take, and the share that may exceed it.

    Without ``handoff`` the budget is what slo.ttft leaves after a request's queueing and prefill.
    """

    handoff: Duration | None = None
    allowed: Share = written(Share, "1%")


class SloPart(Part, frozen=True):
    """Service objectives of a request."""

    ttft: Duration | None = None
    tpot: Duration | None = None


class CostPart(Part, frozen=True):
    """What serving is paid by, in US dollars; without it nothing is said of the cost of tokens.

    ``gpu_usd_per_hour`` is for a GPU in use, one price or one by GPU name. The fabric, at the price
    of ``fabric_usd`` or the neutral model of `topo.bom`, is paid off over ``life_years``, of which
    it is used the share ``utilisation``. Five years is what Amazon's annual report for 2024 says of
    a part of its servers and networking equipment; both defaults are assumptions.
    """

    gpu_usd_per_hour: Positive | dict[str, Positive]
    fabric_usd: Positive | None = None
    life_years: Positive = 5.0
    utilisation: Share = written(Share, "100%")


class RunPart(Part, frozen=True):
    """How often and how long, and by which emulator."""

    emulator: Literal["packet", "fluid"] = "packet"
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 3
    warmup: str = "0 requests"
    control_delay: Duration = written(Duration, "20us")
    limit: Duration = written(Duration, "600s")


class Scenario(Part, frozen=True):
    """A whole scenario with one value for every key."""

    name: Annotated[str, Meta(min_length=1, max_length=80, pattern=PRINTS, description=_SHORT)]
    fabric: FabricPart
    placement: PlacementPart
    model: str
    gpu: str | Pair
    budget: BudgetPart
    question: Annotated[str, Meta(max_length=400, pattern=PRINTS, description=_QUESTION)] = ""
    instance: InstancesPart = msgspec.field(default_factory=InstancesPart)
    models: Annotated[tuple[ServedPart, ...], Meta(max_length=32)] = ()
    catalogue: CataloguePart = msgspec.field(default_factory=CataloguePart)
    kv_format: Literal["bf16", "fp16", "fp8"] | None = None
    serving: ServingPart = msgspec.field(default_factory=ServingPart)
    requests: RequestsPart = msgspec.field(default_factory=RequestsPart)
    handoff: HandoffPart = msgspec.field(default_factory=HandoffPart)
    cache: CachePart | None = None
    policy: Written = DEFAULT_KIND
    network: NetworkPart = msgspec.field(default_factory=NetworkPart)
    collective: CollectivePart | None = None
    background: tuple[BackgroundPart, ...] = ()
    faults: tuple[FaultPart, ...] = ()
    failover: FailoverPart = msgspec.field(default_factory=FailoverPart)
    slo: SloPart = msgspec.field(default_factory=SloPart)
    cost: CostPart | None = None
    run: RunPart = msgspec.field(default_factory=RunPart)

    @property
    def warmup_requests(self) -> int:
        """How many first requests of each seed are left out of the statistics."""
        return int(self.run.warmup.split()[0])

    @property
    def gpus(self) -> tuple[str, str]:
        """GPU names of the prefill and the decode pool."""
        both = self.gpu
        return (both, both) if isinstance(both, str) else (both.prefill, both.decode)

    @property
    def policy_kind(self) -> str:
        """The registered name of the policy."""
        return kind_of(self.policy)

    @property
    def policy_settings(self) -> dict[str, Any]:
        """The policy's own parameters."""
        return settings_of(self.policy)


class ScenarioFile(Scenario, frozen=True):
    """What may stand in a file: a scenario and lists of alternatives over any of its keys."""

    compare: dict[str, Annotated[list[Any], Meta(min_length=1, max_length=1000)]] = msgspec.field(
        default_factory=dict
    )
