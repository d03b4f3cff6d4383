"""What `compare` cannot vary: what a study has one of, and what asks the same under several names.

Alternatives that would all be judged by the first one's budget, or of which one is another again,
since a value stands twice or does nothing there, are refused before anything runs.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from kvfabric.idle import idle_in
from kvfabric.label import fabric_label, policy_label, setting_label
from kvfabric.policy import part_of
from kvfabric.request import RequestsPart
from kvfabric.scenario import NetworkPart, Scenario
from kvfabric.source import ScenarioError, Source
from topo.mistake import Place

_ONE: Final = {
    "budget": "a study judges all alternatives by one budget; write it outside compare, and run "
    "the study once for each, as with --budget 25ms --out out/25ms",
    "slo": "a study judges all alternatives by the same objectives; write them outside compare, "
    "and a scenario file for each",
    "run.seeds": "a study has one number of seeds; write it outside compare, or --seeds 12",
    "name": "a study has one name; write it outside compare, and a `label` in what is compared",
    "question": "a study asks one question; write it outside compare",
}
"""What all alternatives share, and what to write instead."""
Idle = dict[Place, str]
"""What does nothing in a scenario, and why."""

_OF_TRACE: Final = ("trace", "tokens_per_word", "count")
"""The keys of requests that act beside a trace."""


def refuse_axes(alternatives: Sequence[tuple[Scenario, Source]], whole: Source) -> None:
    """Raise `ScenarioError` where alternatives differ in what they share, or in nothing at work."""
    first = alternatives[0][0]
    for key, why in _ONE.items():
        one = attrgetter(key)
        if any(one(scenario) != one(first) for scenario, _ in alternatives):
            raise whole.error(_axis(whole, key), why)
    seen: dict[bytes, tuple[Scenario, Source]] = {}
    for scenario, source in alternatives:
        idle = {**dict(idle_in(scenario)), **dict(_taken(scenario))}
        theirs = seen.setdefault(_at_work(scenario, idle), (scenario, source))
        if theirs[0] is not scenario:
            every = [one for _, one in alternatives]
            raise _again(whole, (scenario, source), theirs, idle, every)


def _again(
    whole: Source,
    mine: tuple[Scenario, Source],
    theirs: tuple[Scenario, Source],
    idle: Idle,
    every: Sequence[Source],
) -> ScenarioError:
    """That an alternative asks what another does: what is one of their values, and why."""

    def differ(place: Place) -> bool:
        return bool(mine[1].at(place) != theirs[1].at(place))

    axes = [(axis, tuple(axis.split("."))) for axis in whole.value["compare"]]
    apart = [(axis, place) for axis, place in axes if differ(place)]
    twice = [(axis, place) for axis, place in axes if _repeats(whole, axis, place, every)]
    axis, place = max(apart or twice, key=lambda each: len(each[1]))
    one, other = (_called(place, *each) for each in (mine, theirs))
    again = f"{one} is {other} again" if one != other else f"{one} stands twice"
    why = next((why for at, why in idle.items() if _along(at, place) and differ(at)), None)
    if why is None:
        return whole.error(("compare", axis), f"{again}; leave one out")
    told = f"{again} ({why.partition(';')[0]}); leave this out of compare"
    if sum(other[0] == place[0] for _, other in axes) > 1:
        told += f", or list what differs in one axis, {place[0]}"
    elif any(other == ("run", "emulator") for _, other in axes):
        told += ", or run.emulator, and run a study for each emulator"
    return whole.error(("compare", axis), told)


def _repeats(whole: Source, axis: str, place: Place, every: Sequence[Source]) -> bool:
    """Whether an axis has fewer values than it lists, what they inherit counted."""
    held: list[Any] = []
    for source in every:
        if (value := source.at(place)) not in held:
            held.append(value)
    return len(held) < len(whole.value["compare"][axis])


def _called(place: Place, scenario: Scenario, source: Source) -> str:
    """What an alternative is called for what an axis sets in it."""
    if place[0] == "policy":
        return policy_label(scenario)
    if place == ("fabric",):
        return fabric_label(scenario)
    return setting_label(place, source.at(place), scenario)


def _taken(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """What does nothing where other keys or the command line take its place, and why."""
    requests = scenario.requests
    own = requests.lengths
    if requests.trace is not None:
        for key in RequestsPart.__struct_fields__:
            if key not in _OF_TRACE:
                yield ("requests", key), "requests.trace takes its place"
    elif own is not None and (own.table is not None or None not in (own.input, own.output)):
        yield ("requests", "profile"), "requests.lengths takes its place"
    if scenario.run.emulator == "fluid":
        yield ("fabric", "switch", "buffer"), "run.emulator fluid has no queues"
        yield ("handoff", "per_descriptor"), "run.emulator fluid issues no descriptors"
        why = "run.emulator fluid knows nothing of the network but transport.mtu"
        for key in type(scenario.network.transport).__struct_fields__:
            if key != "mtu":
                yield ("network", "transport", key), why
        for key in NetworkPart.__struct_fields__:
            if key != "transport":
                yield ("network", key), why


def _at_work(scenario: Scenario, idle: Idle) -> bytes:
    """What a scenario asks, without labels and what is idle: equal for two that ask the same."""
    plain = msgspec.to_builtins(scenario, enc_hook=lambda one: f"{type(one).__name__} {one}")
    part = msgspec.to_builtins(part_of(scenario.policy), enc_hook=str)
    plain["policy"] = {**part, **scenario.policy_settings, "kind": scenario.policy_kind}
    plain["faults"] = list(plain["faults"])
    for *above, last in sorted(idle, key=len, reverse=True):
        holder = plain
        for key in above:
            holder = holder[key]
        holder[last] = None
    plain["faults"] = [fault for fault in plain["faults"] if fault]
    return msgspec.json.encode(_nameless(plain), order="sorted")


def _nameless(plain: Any) -> Any:
    """The same without the labels of its parts."""
    if isinstance(plain, dict):
        return {key: _nameless(value) for key, value in plain.items() if key != "label"}
    return [_nameless(value) for value in plain] if isinstance(plain, list | tuple) else plain


def _axis(source: Source, key: str) -> Place:
    """The list of `compare` that sets a key, or what is above or below it."""
    place = tuple(key.split("."))
    return next(
        (("compare", a) for a in source.value["compare"] if _along(place, tuple(a.split(".")))),
        ("compare",),
    )


def _along(one: Place, other: Place) -> bool:
    """Whether one place is the other, or above or below it."""
    return all(a == b for a, b in zip(one, other, strict=False))
