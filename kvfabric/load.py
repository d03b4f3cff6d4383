"""Reading a scenario file: checked as a whole, expanded into its alternatives.

What comes back has every default filled in and every quantity in base units; ``compare`` has become
a list of `Alternative`s, each a complete scenario. Every complaint is one line that starts with the
file and the line.
"""

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from kvfabric.axis import refuse_axes
from kvfabric.idle import refuse_idle
from kvfabric.label import fabric_label, policy_label, setting_label
from kvfabric.mistake import above_nothing, mistake, unmeasured
from kvfabric.policy import DEFAULT_KIND, PolicyPart, misnamed, part_of, permit
from kvfabric.quantity import TokenBlock, read_quantity
from kvfabric.scenario import Scenario
from kvfabric.source import COMMAND_LINE, Source, read_source
from topo.mistake import Place
from topo.unit import size_text

MOST_ALTERNATIVES: Final = 2000
LEAST_BLOCK_BYTES: Final = 256
"""Smaller than any reported descriptor (576 B rows: sgl-project/sglang#35186)."""


@dataclass(frozen=True)
class Alternative:
    """One complete scenario of a comparison, with its labels.

    ``varied`` is what ``fabric`` is made of: the fabric's own label, and by key what else
    ``compare`` sets beside the policy.
    """

    fabric: str
    policy: str
    scenario: Scenario
    source: Source
    varied: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A scenario file, read whole."""

    scenario: Scenario
    alternatives: list[Alternative]
    source: Source
    sha256: str
    allow_code: bool = False
    """Whether policies that are named by an import path may run."""


def load(
    path: str | Path,
    *,
    overrides: dict[Place, Any] | None = None,
    compare: bool = True,
    allow_code: bool = False,
) -> Study:
    """Read, overlay ``overrides`` (from the command line), check, and expand ``compare``.

    Without ``compare`` only the keys in that part of the file are looked at. ``allow_code`` lets
    the study run policies that the file names by an import path, which are also looked for beside
    it; nothing of them is run here.
    """
    source = read_source(path)
    given: Place = ("\0command line",)
    source.lines[given] = COMMAND_LINE
    for place, value in (overrides or {}).items():
        source = source.overlaid(place, value, given)
    base = replace(source, value={k: v for k, v in source.value.items() if k != "compare"})
    axes = _axes(base, source)
    hidden = bool(axes) and not compare
    if not compare:
        source, axes = base, []
    alternatives = _alternatives(base, source, axes)
    if not hidden:
        asked = [(one.scenario, one.source) for one in alternatives]
        refuse_idle(asked)
        refuse_axes(asked, source)
    _refuse_namesakes(alternatives, source)
    if allow_code:
        permit(Path(path))
    return Study(alternatives[0].scenario, alternatives, source, _digest(source), allow_code)


def _digest(source: Source) -> str:
    """SHA-256 of the contents but for the number of seeds: more seeds extend the same study."""
    run = source.value.get("run")
    rest = {k: v for k, v in run.items() if k != "seeds"} if isinstance(run, dict) else run
    value = {**source.value, "run": rest}
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _axes(base: Source, whole: Source) -> list[list["_Value"]]:
    """The lists of ``compare``, each of a key that a scenario has."""
    compare = whole.value.get("compare") or {}
    if not isinstance(compare, dict):
        raise whole.error(("compare",), "must map keys to lists, as `policy: [random, ...]`")
    axes: list[list[_Value]] = []
    for dotted, values in compare.items():
        here: Place = ("compare", dotted)
        if not isinstance(values, list) or not values:
            raise whole.error(here, "must be a list of alternatives, as `[random, round_robin]`")
        place: Place = tuple(dotted.split("."))
        if place[0] not in Scenario.__struct_fields__:
            known = ", ".join(Scenario.__struct_fields__)
            raise whole.error(here, f"unknown key; write one of {known}")
        number = next((step for step, key in enumerate(place) if str(key).isdigit()), None)
        if number is not None:
            key = ".".join(map(str, place[:number]))
            told = f"a list is compared as a whole; write {key}: [[...], [...]]"
            raise whole.error(here, told)
        axes.append(_values(base, whole, place, here, values))
    return axes


def _alternatives(base: Source, whole: Source, axes: list[list["_Value"]]) -> list[Alternative]:
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
        for one in sorted(choice, key=lambda each: len(each.place)):
            source = _mapped(source, one.place).overlaid(one.place, one.given, one.at)
        scenario = check(source)
        places = [one.place for one in choice]
        extra = {
            ".".join(map(str, one.place)): one.label
            or setting_label(one.place, one.whole, scenario, one.peers, places)
            for one in choice
            if one.place[0] != "policy" and one.place != ("fabric",)
        }
        own = fabric_label(scenario)
        fabric = " ".join([own, *extra.values()])
        varied = {"fabric": own, **extra}
        out.append(Alternative(fabric, policy_label(scenario), scenario, source, varied))
    return out


@dataclass(frozen=True)
class _Value:
    """A value that ``compare`` sets: as given, and with what the file has there beside it.

    ``peers`` are all values of its key, so complete.
    """

    place: Place
    at: Place
    given: Any
    whole: Any
    peers: list[Any]
    label: str | None


def _values(
    base: Source, whole: Source, place: Place, here: Place, values: list[Any]
) -> list[_Value]:
    """The values of an axis; mappings may have a ``label``, which fabrics and policies keep."""
    found: list[_Value] = []
    peers: list[Any] = []
    for number, given in enumerate(values):
        at, label = (*here, number), None
        if isinstance(given, dict) and place not in (("fabric",), ("policy",)):
            label = given.get("label")
            if "label" in given and not (isinstance(label, str) and label.strip()):
                raise whole.error((*at, "label"), "must be text; write what tables shall call it")
            given = {key: value for key, value in given.items() if key != "label"}
        peers.append(base.overlaid(place, given, at).at(place))
        found.append(_Value(place, at, given, peers[-1], peers, label))
    return found


def _mapped(source: Source, place: Place) -> Source:
    """The same with its policy as a mapping, where a key of the policy is to be set."""
    name = source.value.get("policy", DEFAULT_KIND)
    if place[0] != "policy" or len(place) < 2 or not isinstance(name, str):
        return source
    return source.overlaid(("policy",), {"kind": name}, ("\0policy",))


def _refuse_namesakes(alternatives: list[Alternative], whole: Source) -> None:
    seen: set[tuple[str, str]] = set()
    for a in alternatives:
        for label in (a.fabric, a.policy):
            if not label.isprintable():
                raise whole.error(
                    ("compare",), f"label {label!r}: has characters that do not print"
                )
        if (a.fabric, a.policy) in seen:
            raise whole.error(
                ("compare",),
                f"two alternatives are both called {a.fabric!r} with {a.policy!r}; "
                "give one of them a `label`",
            )
        seen.add((a.fabric, a.policy))


def check(source: Source) -> Scenario:
    """Convert plain values to a `Scenario`; the first mistake is told with its place."""
    fabric = source.at(("fabric",))
    if isinstance(fabric, dict) and "file" in fabric and "family" not in fabric:
        raise source.error(("fabric", "file"), "to read a file, write `family: file` beside it")
    try:
        scenario = msgspec.convert(source.value, Scenario, dec_hook=read_quantity)
    except msgspec.ValidationError as error:
        raise mistake(source, str(error)) from None
    wrong = misnamed(scenario.policy)
    if wrong is not None:
        raise source.error(("policy", wrong[0]), wrong[1])
    try:
        part_of(scenario.policy)
    except msgspec.ValidationError as error:
        raise mistake(source, str(error), ("policy",), PolicyPart) from None
    _check_numbers(scenario, source)
    return scenario


def _check_numbers(scenario: Scenario, source: Source) -> None:
    """What types alone cannot say: numbers that contradict each other."""
    if not re.fullmatch(r"\s*[0-9]{1,9}\s+requests?\s*", scenario.run.warmup):
        raise source.error(
            ("run", "warmup"), f"{scenario.run.warmup!r}: write the number, as `50 requests`"
        )
    if scenario.warmup_requests >= scenario.requests.count:
        raise unmeasured(source, scenario.warmup_requests, scenario.requests.count)
    for place, value in (
        (("fabric", "nic"), scenario.fabric.nic),
        (("fabric", "switch", "rate"), scenario.fabric.switch.rate),
        (("fabric", "switch", "buffer"), scenario.fabric.switch.buffer),
        (("requests", "arrivals", "rate"), scenario.requests.arrivals.rate),
        (("handoff", "block"), scenario.handoff.block),
        (("network", "transport", "mtu"), scenario.network.transport.mtu),
        (("budget", "handoff"), scenario.budget.handoff),
        (("budget", "allowed"), scenario.budget.allowed),
        (("slo", "ttft"), scenario.slo.ttft),
        (("slo", "tpot"), scenario.slo.tpot),
        (("run", "limit"), scenario.run.limit),
        (("run", "control_delay"), scenario.run.control_delay),
    ):
        if value == 0:
            raise above_nothing(source, place)
    block = scenario.handoff.block
    if not isinstance(block, TokenBlock) and block < LEAST_BLOCK_BYTES:
        raise source.error(
            ("handoff", "block"),
            f"{size_text(int(block))} a descriptor; write at least {size_text(LEAST_BLOCK_BYTES)}, "
            "or tokens",
        )
    if scenario.budget.handoff is None and scenario.slo.ttft is None:
        raise source.error(("budget",), "needs `handoff: 25ms`, or slo.ttft to derive it from")
    window = scenario.requests.trace.window if scenario.requests.trace else None
    if window is not None and window[0] >= window[1]:
        raise source.error(
            ("requests", "trace", "window"), "is empty; write a start and a later end, as [0s, 60s]"
        )
    placed = scenario.placement.prefill + scenario.placement.decode
    if scenario.fabric.hosts is not None and scenario.fabric.hosts < placed:
        raise source.error(
            ("fabric", "hosts"),
            f"{scenario.fabric.hosts}: fewer than the {placed} hosts of the placement",
        )
    for pool in ("prefill", "decode"):
        tp = getattr(scenario.instance, pool).tp
        others = sum(getattr(part, pool) for part in scenario.models)
        gpus = getattr(scenario.placement, pool) - others
        if gpus < 1:
            raise source.error(
                ("models",),
                f"{others} {pool} GPUs of {getattr(scenario.placement, pool)} in the placement: "
                "none is left for `model`; write fewer, or place more",
            )
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
        _check_rest(scenario, source, pool, gpus)


def _check_rest(scenario: Scenario, source: Source, pool: str, gpus: int) -> None:
    """Refuse GPUs that would be left over, idle and paid, by a span or in a further model."""
    span = scenario.serving.span
    for number, part in enumerate(scenario.models):
        count, tp = getattr(part, pool), getattr(part.instance or scenario.instance, pool).tp
        if span is None and count > tp and count % tp:
            raise source.error(
                ("models", number, pool),
                f"{count} GPUs do not divide into instances of tp {tp}; write a multiple of {tp}",
            )
        if span is not None and count > span and count % span:
            gpus = count
    if span is not None and gpus > span and gpus % span:
        raise source.error(
            ("serving", "span"),
            f"{span}: {gpus} {pool} GPUs do not divide into instances of so many; write a divisor "
            f"of {gpus}",
        )
