"""The scenario file: one question about fabrics and policies, with everything it depends on.

`load` reads and checks a file as a whole. What comes back has every default filled in and every
quantity in base units; ``compare`` has become a list of `Alternative`s, each a complete scenario.
Every complaint is one line that starts with the file and the line.
"""

import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from kvfabric.quantity import (
    Duration,
    Factor,
    Frequency,
    Length,
    Rate,
    Share,
    Size,
    read_quantity,
    written,
)
from kvfabric.source import Place, ScenarioError, Source, read_source

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Small = Annotated[int, Meta(ge=1, le=65_536)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the scenario file; unknown keys are refused."""


class SwitchPart(Part, frozen=True):
    """The switch model that the fabric is built from."""

    ports: Small = 64
    rate: Rate = written(Rate, "400Gbps")
    buffer: Size = written(Size, "64MiB")
    latency: Duration = written(Duration, "600ns")


class FabricPart(Part, frozen=True):
    """The fabric. ``label`` names it in tables; keys that a family does not know are refused."""

    family: str
    label: str | None = None
    hosts: Small | None = None
    nic: Rate = written(Rate, "400Gbps")
    switch: SwitchPart = SwitchPart()
    cable: Length = written(Length, "10m")
    host_cable: Length | None = None
    oversubscription: Positive | None = None
    k: Small | None = None
    leaves: Small | None = None
    spines: Small | None = None
    degree: Small | None = None
    groups: Small | None = None
    trunk: Small | None = None


class PlacementPart(Part, frozen=True):
    """How many hosts serve prefill and decode, and where they stand."""

    prefill: Small
    decode: Small
    by: Literal["separate", "rack", "interleaved"] = "rack"


class Pair(Part, frozen=True):
    """One value for the prefill pool and one for the decode pool."""

    prefill: str
    decode: str


class InstancePart(Part, frozen=True):
    """One model replica of a pool: tensor-parallel width and the largest decode batch."""

    tp: Small = 1
    max_batch: Small = 256


class InstancesPart(Part, frozen=True):
    """The replicas of both pools."""

    prefill: InstancePart = InstancePart()
    decode: InstancePart = InstancePart()


class ArrivalsPart(Part, frozen=True):
    """When requests arrive. ``cv`` is the coefficient of variation of gamma gaps."""

    process: Literal["poisson", "gamma", "deterministic"] = "poisson"
    rate: Frequency = written(Frequency, "100/s")
    cv: Positive = 1.0


class TracePart(Part, frozen=True):
    """A recorded trace: a window of its time, played faster by ``scale_rate``."""

    file: str
    window: tuple[Duration, Duration] | None = None
    scale_rate: Positive = 1.0
    jitter: bool = True


class RequestsPart(Part, frozen=True):
    """The requests of one seed: a profile with arrivals, or a trace; ``count`` at most."""

    profile: str = "base"
    arrivals: ArrivalsPart = ArrivalsPart()
    trace: TracePart | None = None
    tokens_per_word: Positive = 1.33
    count: Count = 100


class HandoffPart(Part, frozen=True):
    """How the KV cache is cut and moved."""

    when: Literal["after_prefill"] = "after_prefill"
    direction: Literal["push"] = "push"
    block: Size = written(Size, "256KiB")
    per_descriptor: Duration = written(Duration, "0us")


class EcnPart(Part, frozen=True):
    """RED thresholds of one's own, in bytes of the egress queue."""

    kmin: Size
    kmax: Size
    pmax: Share


class DisciplinePart(Part, frozen=True):
    """The queue disciplines of every switch port."""

    pfc: bool = True
    headroom: str = "sonic"
    alpha: Factor = written(Factor, "1/8")
    ecn: str | bool | EcnPart = "sonic"


class TransportPart(Part, frozen=True):
    """What the NIC runs."""

    kind: Literal["rocev2"] = "rocev2"
    control: Literal["dcqcn", "none"] = "dcqcn"
    preset: str = "connectx"
    mtu: Size = written(Size, "4KiB")
    ack_every: Small | None = None


class NetworkPart(Part, frozen=True):
    """Transport, queue disciplines and load balancing."""

    transport: TransportPart = TransportPart()
    discipline: DisciplinePart = DisciplinePart()
    balancing: Literal["ecmp"] = "ecmp"


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


class RunPart(Part, frozen=True):
    """How often and how long, and by which emulator."""

    emulator: Literal["packet", "fluid"] = "packet"
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 3
    warmup: str = "0 requests"
    control_delay: Duration = written(Duration, "20us")
    limit: Duration = written(Duration, "600s")


class Scenario(Part, frozen=True):
    """A whole scenario with one value for every key."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    fabric: FabricPart
    placement: PlacementPart
    model: str
    gpu: str | Pair
    budget: BudgetPart
    question: Annotated[str, Meta(max_length=400)] = ""
    instance: InstancesPart = InstancesPart()
    requests: RequestsPart = RequestsPart()
    handoff: HandoffPart = HandoffPart()
    policy: str | dict[str, str | int | float | bool] = "least_loaded"
    network: NetworkPart = NetworkPart()
    slo: SloPart = SloPart()
    run: RunPart = RunPart()

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
        return self.policy if isinstance(self.policy, str) else str(self.policy.get("kind", ""))

    @property
    def policy_settings(self) -> dict[str, str | int | float | bool]:
        """The policy's own parameters."""
        if isinstance(self.policy, str):
            return {}
        return {k: v for k, v in self.policy.items() if k not in ("kind", "label")}


class ScenarioFile(Scenario, frozen=True):
    """What may stand in a file: a scenario and lists of alternatives over any of its keys."""

    compare: dict[str, Annotated[list[Any], Meta(min_length=1, max_length=1000)]] = {}


@dataclass(frozen=True)
class Alternative:
    """One complete scenario of a comparison, with its labels."""

    fabric: str
    policy: str
    scenario: Scenario
    source: Source


@dataclass(frozen=True)
class Study:
    """A scenario file, read whole."""

    scenario: Scenario
    alternatives: list[Alternative]
    source: Source
    sha256: str


MOST_ALTERNATIVES = 2000


def load(path: str | Path, *, overrides: dict[Place, Any] | None = None) -> Study:
    """Read, overlay ``overrides`` (from the command line), check, and expand ``compare``."""
    source = read_source(path)
    for place, value in (overrides or {}).items():
        source = source.overlaid(place, value, ("\0command line",))
    compare = source.value.get("compare") or {}
    if not isinstance(compare, dict):
        raise source.error(("compare",), "must map keys to lists, as `policy: [random, ...]`")
    base = replace(source, value={k: v for k, v in source.value.items() if k != "compare"})
    alternatives = list(_alternatives(base, source, compare))
    digest = msgspec.json.encode(source.value, order="deterministic")
    first = alternatives[0]
    return Study(first.scenario, alternatives, source, hashlib.sha256(digest).hexdigest())


def _alternatives(base: Source, whole: Source, compare: dict[str, Any]) -> list[Alternative]:
    axes: list[list[tuple[Place, Any, Place]]] = []
    for dotted, values in compare.items():
        here: Place = ("compare", dotted)
        if not isinstance(values, list) or not values:
            raise whole.error(here, "must be a list of alternatives, as `[random, round_robin]`")
        place: Place = tuple(dotted.split("."))
        if place[0] not in Scenario.__struct_fields__:
            known = ", ".join(Scenario.__struct_fields__)
            raise whole.error(here, f"unknown key; write one of {known}")
        axes.append([(place, value, (*here, i)) for i, value in enumerate(values)])
    cells = 1
    for axis in axes:
        cells *= len(axis)
    if cells > MOST_ALTERNATIVES:
        raise whole.error(
            ("compare",), f"{cells} alternatives; at most {MOST_ALTERNATIVES}: compare fewer"
        )
    out: list[Alternative] = []
    for choice in itertools.product(*axes):
        source = replace(base, lines=whole.lines)
        extra: list[str] = []
        for place, value, at in choice:
            source = source.overlaid(place, value, at)
            if place not in (("fabric",), ("policy",)):
                extra.append(f"{place[-1]}={_shown(value)}")
        scenario = check(source)
        fabric = " ".join([fabric_label(scenario), *extra])
        out.append(Alternative(fabric, policy_label(scenario), scenario, source))
    _refuse_twins(out, whole)
    return out


def _refuse_twins(alternatives: list[Alternative], whole: Source) -> None:
    seen: set[tuple[str, str]] = set()
    for a in alternatives:
        if (a.fabric, a.policy) in seen:
            raise whole.error(
                ("compare",),
                f"two alternatives are both called {a.fabric!r} with {a.policy!r}; "
                "give one of them a `label`",
            )
        seen.add((a.fabric, a.policy))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in value.items()) + "}"
    return str(value)


def fabric_label(scenario: Scenario) -> str:
    """The fabric's ``label``, or its family and what sets it apart."""
    part = scenario.fabric
    if part.label:
        return part.label
    told = [part.family.replace("_", "-")]
    if part.oversubscription is not None:
        told.append(f"{part.oversubscription:g}:1")
    for key in ("k", "leaves", "spines", "groups", "degree", "trunk"):
        value = getattr(part, key)
        if value is not None:
            told.append(f"{key}={value}")
    return " ".join(told)


def policy_label(scenario: Scenario) -> str:
    """The policy's ``label``, or its kind and parameters."""
    if isinstance(scenario.policy, dict) and "label" in scenario.policy:
        return str(scenario.policy["label"])
    told = [f"{k}={v}" for k, v in scenario.policy_settings.items()]
    return " ".join([scenario.policy_kind, *told])


_AT = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def check(source: Source) -> Scenario:
    """Convert plain values to a `Scenario`; the first mistake is told with its place."""
    try:
        scenario = msgspec.convert(source.value, Scenario, dec_hook=read_quantity)
    except msgspec.ValidationError as error:
        raise _located(source, str(error)) from None
    _check_numbers(scenario, source)
    return scenario


def _located(source: Source, text: str) -> ScenarioError:
    found = _AT.search(text)
    place: Place = ()
    if found:
        text = text[: found.start()]
        for key, index in _STEP.findall(found[1]):
            place = (*place, key or (int(index) if index.isdigit() else index))
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        place = (*place, unknown[1])
        return source.error(place, f"unknown key; {_nearby(place)}")
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return source.error(place, f"`{missing[1]}` is missing; add it")
    return source.error(place, text[0].lower() + text[1:])


def _nearby(place: Place) -> str:
    """The keys that may stand beside the unknown one, the most alike first."""
    import difflib

    kind: Any = Scenario
    for key in place[:-1]:
        fields = {f.name: f.type for f in msgspec.structs.fields(kind)}
        kind = fields.get(str(key))
        options = getattr(kind, "__args__", (kind,))
        kind = next((o for o in options if isinstance(o, type) and issubclass(o, Struct)), None)
        if kind is None:
            return "remove it"
    names = [f.name for f in msgspec.structs.fields(kind)]
    close = difflib.get_close_matches(str(place[-1]), names, 1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return f"{hint}known here: {', '.join(names)}"


def _check_numbers(scenario: Scenario, source: Source) -> None:
    """What types alone cannot say: numbers that contradict each other."""
    if not re.fullmatch(r"\s*[0-9]{1,9}\s+requests?\s*", scenario.run.warmup):
        raise source.error(
            ("run", "warmup"), f"{scenario.run.warmup!r}: write the number, as `50 requests`"
        )
    if scenario.warmup_requests >= scenario.requests.count:
        raise source.error(
            ("run", "warmup"),
            f"{scenario.warmup_requests} of {scenario.requests.count} requests a seed: "
            "nothing is left to measure; raise requests.count or lower the warm-up",
        )
    for place, value in (
        (("fabric", "nic"), scenario.fabric.nic),
        (("fabric", "switch", "rate"), scenario.fabric.switch.rate),
        (("fabric", "switch", "buffer"), scenario.fabric.switch.buffer),
        (("requests", "arrivals", "rate"), scenario.requests.arrivals.rate),
        (("handoff", "block"), scenario.handoff.block),
        (("network", "transport", "mtu"), scenario.network.transport.mtu),
        (("budget", "handoff"), scenario.budget.handoff),
        (("run", "limit"), scenario.run.limit),
    ):
        if value == 0:
            raise source.error(place, "must be above 0")
    if scenario.budget.handoff is None and scenario.slo.ttft is None:
        raise source.error(("budget",), "needs `handoff: 25ms`, or slo.ttft to derive it from")
    window = scenario.requests.trace.window if scenario.requests.trace else None
    if window is not None and window[0] >= window[1]:
        raise source.error(("requests", "trace", "window"), "is empty; write [from, to]")
    placed = scenario.placement.prefill + scenario.placement.decode
    if scenario.fabric.hosts is not None and scenario.fabric.hosts < placed:
        raise source.error(
            ("fabric", "hosts"),
            f"{scenario.fabric.hosts}: fewer than the {placed} hosts of the placement",
        )
    for pool in ("prefill", "decode"):
        tp = getattr(scenario.instance, pool).tp
        gpus = getattr(scenario.placement, pool)
        if tp > gpus:
            raise source.error(
                ("instance", pool, "tp"),
                f"{tp}: more than the {gpus} {pool} GPUs of the placement; write at most {gpus}",
            )
        if gpus % tp:
            raise source.error(
                ("placement", pool),
                f"{gpus} GPUs do not divide into instances of tp {tp}; write a multiple of {tp}",
            )
