"""What an alternative is called: its fabric, what sets it apart from others, and its policy.

Labels name the cells of a study and stand in every table and figure, so that they are short, in
words where a value is none, and the same for the same scenario.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from analysis.condition import HEALTHY
from kvfabric.fabric import ratio_of
from kvfabric.fault import faults_told
from kvfabric.scenario import Scenario
from topo.error import KvfabricError
from topo.mistake import Place
from topo.unit import show_ratio

FAULTS: Final[Place] = ("faults",)

_TOLD: Final = (
    *("k", "leaves", "spines", "groups", "degree", "trunk", "breakout", "gpus_per_server", "pods"),
    *("rails", "units", "planes", "attach", "a", "p", "h", "wiring", "shape", "q", "seed"),
)
"""Keys of a fabric that tell it from another of its family, in the order in which they are told."""


def fabric_label(scenario: Scenario) -> str:
    """The fabric's ``label``, or its family and what sets it apart.

    Of an oversubscription the one that was built is told, then what was asked for if it differs.
    """
    part = scenario.fabric
    if part.label:
        return part.label
    told = [part.family.replace("_", "-")]
    if part.oversubscription is not None:
        told.append(_ratios(part.oversubscription, scenario))
    for key in _TOLD:
        value = getattr(part, key)
        if value is not None:
            shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
            told.append(f"{key}={shown}")
    return " ".join(told)


def _ratios(asked: float, scenario: Scenario) -> str:
    """The oversubscription built, and asked for; that alone where the family refuses to build."""
    wanted = f"{asked:g}:1"
    try:
        built = show_ratio(ratio_of(scenario.fabric, scenario.placement))
    except KvfabricError:
        return wanted
    return built if built == show_ratio(asked) else f"{built} ({wanted} asked)"


def policy_label(scenario: Scenario) -> str:
    """The policy's ``label``, or its kind and parameters."""
    if isinstance(scenario.policy, dict) and "label" in scenario.policy:
        return str(scenario.policy["label"])
    if isinstance(scenario.policy, str):
        return scenario.policy
    told = [f"{k}={_shown(v)}" for k, v in scenario.policy.items() if k != "kind"]
    return " ".join([scenario.policy_kind, *told])


def setting_label(
    place: Place,
    value: Any,
    scenario: Scenario,
    peers: Sequence[Any] = (),
    places: Sequence[Place] = (),
) -> str:
    """What ``compare`` sets at a place: the key's last part and its value, or the faults in words.

    ``scenario`` is the alternative that it is set in; ``peers`` are all values of the key, of which
    mappings are told by what differs among them. No two of the ``places`` that are set are called
    the same: of such more parts are told.
    """
    if place == FAULTS:
        return faults_told(scenario.faults) if scenario.faults else HEALTHY
    if place == ("serving",) and isinstance(value, dict) and "mode" in value:
        rest = [f"{k}={_shown(v)}" for k, v in value.items() if k != "mode"]
        return " ".join([str(value["mode"]).replace("_", "-"), *rest])
    parts = 1
    while parts < len(place) and any(
        one[-parts:] == place[-parts:] for one in places if one != place
    ):
        parts += 1
    return _told(".".join(map(str, place[-parts:])), value, peers)


def _told(key: str, value: Any, peers: Sequence[Any], inside: str = "") -> str:
    """A value among all that the key has; of mappings alone what differs, in the order written.

    ``inside`` goes before their keys: the key above, where two of one mapping have the same ones.
    """
    if value is None or value is False or value == []:
        return f"no {key}"
    if value is True:
        return key
    if len(peers) < 2 or not all(isinstance(each, dict) for each in (value, *peers)):
        return f"{key}={_shown(value)}"
    apart = [k for k in value if any(each.get(k) != value[k] for each in peers)]
    inner = Counter(i for k in apart if isinstance(value[k], dict) for i in value[k])
    parts = []
    for k in apart:
        shared = isinstance(value[k], dict) and any(inner[i] > 1 for i in value[k])
        beside = [each[k] for each in peers if k in each]
        parts.append(_told(inside + k, value[k], beside, f"{k}." if shared else ""))
    left = dict.fromkeys(k for each in peers for k in each if k not in value)
    return " ".join(parts) or f"default {', '.join(left)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)
