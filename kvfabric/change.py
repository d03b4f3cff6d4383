"""What changed between the scenarios of two results: keys, options, settings, fabrics, versions.

The scenario text alone does not say it all: options of the command line and the contents of the
files that it reads are in its digest only, and the settings of the emulator show what came of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from analysis.record import Study, StudyManifest
from analysis.wording import money, percent
from kvfabric.source import parsed
from topo.unit import show_duration, show_rate

ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Change:
    """A key with its value in the first and in the second result; `ABSENT` where it is not."""

    key: str
    first: str
    second: str


def scenario_changes(first: StudyManifest, second: StudyManifest) -> list[Change]:
    """Every key of the scenario files whose value differs, by its dotted place."""
    one, other = (
        _leaves(parsed(manifest.scenario, f"scenario of {manifest.name}").value)
        for manifest in (first, second)
    )
    return _changes(one, other)


def setting_changes(first: Study, second: Study) -> list[Change]:
    """What else differs: the budget and its share, objectives, settings of the cells, facts of the
    fabrics with a common label, the emulator and the versions."""
    one, other = _settings(first), _settings(second)
    return _changes(one, other)


def unexplained(first: Study, second: Study) -> bool:
    """Whether the digests differ though no key, budget, setting or fabric does: another file that
    the scenario reads, or an option of the command line."""
    return (
        first.manifest.scenario_sha256 != second.manifest.scenario_sha256
        and not scenario_changes(first.manifest, second.manifest)
        and not setting_changes(first, second)
    )


def _changes(first: Mapping[str, str], second: Mapping[str, str]) -> list[Change]:
    return [
        Change(key, first.get(key, ABSENT), second.get(key, ABSENT))
        for key in dict.fromkeys((*first, *second))
        if first.get(key, ABSENT) != second.get(key, ABSENT)
    ]


def _leaves(value: Any, place: str = "") -> dict[str, str]:
    """Every scalar, and every list whole, by its dotted place."""
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for key, below in value.items():
            found |= _leaves(below, f"{place}.{key}" if place else str(key))
        return found
    shown = msgspec.json.encode(value).decode() if isinstance(value, list) else str(value)
    return {place: shown}


def _told(name: str, value: Any) -> str:
    """A value as people read it, by the unit in its name."""
    if value is None:
        return ABSENT
    shown = {"_bps": show_rate, "_ps": show_duration, "_usd": money, "allowed": percent}
    show = next((show for end, show in shown.items() if name.endswith(end)), str)
    return str(show(value))


def _settings(study: Study) -> dict[str, str]:
    manifest = study.manifest
    told = {
        f"study.{name}": _told(name, getattr(manifest, name))
        for name in ("budget_ps", "allowed", "ttft_ps", "tpot_ps")
    }
    told["seeds"] = str(len(manifest.seeds))
    values: dict[str, list[str]] = {}
    for cell in study.cells:
        made = cell.manifest
        values.setdefault("emulator", []).append(made.emulator)
        values.setdefault("warm-up requests", []).append(str(made.warmup_requests))
        for key, setting in made.settings.items():
            values.setdefault(key, []).append(setting)
        if made.facts is not None:
            for key, fact in msgspec.structs.asdict(made.facts).items():
                values.setdefault(f"{made.fabric}: {key}", []).append(_told(key, fact))
    told |= {key: "; ".join(dict.fromkeys(each)) for key, each in values.items()}
    return told | {f"version of {name}": made for name, made in manifest.versions.items()}
