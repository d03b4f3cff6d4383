"""What `compare` cannot vary: what a study has one of, and requests that others take the place of.

Alternatives that would all be judged by the first one's budget, or that ask the same under several
names, are refused before anything runs.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from kvfabric.request import RequestsPart
from kvfabric.scenario import Scenario
from kvfabric.source import Place, Source

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


def refuse_axes(scenarios: Sequence[Scenario], source: Source) -> None:
    """Raise `ScenarioError` where alternatives differ in what they share, or in nothing at work."""
    for key, why in _ONE.items():
        one = attrgetter(key)
        if any(one(scenario) != one(scenarios[0]) for scenario in scenarios):
            raise source.error(_axis(source, key), why)
    seen: dict[bytes, RequestsPart] = {}
    for scenario in scenarios:
        mine = scenario.requests
        acting, other = _acting(mine)
        rest = msgspec.structs.replace(scenario, requests=acting)
        theirs = seen.setdefault(msgspec.json.encode(rest, enc_hook=str), mine)
        for key in RequestsPart.__struct_fields__:
            if getattr(mine, key) != getattr(theirs, key):
                raise source.error(
                    _axis(source, f"requests.{key}"),
                    f"{key} does nothing where requests.{other} takes its place; take this out of "
                    f"compare, or leave out the {other}",
                )


def _acting(part: RequestsPart) -> tuple[RequestsPart, str]:
    """The requests without what another key takes the place of, and that key."""
    if part.trace is not None:
        kept = {key: getattr(part, key) for key in ("trace", "tokens_per_word", "count")}
        return RequestsPart(**kept), "trace"
    own = part.lengths
    if own is not None and (own.table is not None or None not in (own.input, own.output)):
        return msgspec.structs.replace(part, profile="base"), "lengths"
    return part, ""


def _axis(source: Source, key: str) -> Place:
    """The list of `compare` that sets a key, or what is above or below it."""
    for axis in source.value["compare"]:
        if f"{axis}.".startswith(f"{key}.") or f"{key}.".startswith(f"{axis}."):
            return "compare", axis
    return ("compare",)
