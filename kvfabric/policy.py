"""The ``policy`` of a scenario: which one, in what order it chooses, and what it may look at.

A policy is a name, or a mapping with its name as ``kind``, the keys of `PolicyPart`, a ``label``
for tables, and its own parameters beside them. The name may be the import path of a user's class;
a scenario may come from a stranger, so that its code runs only where the user permits it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kvfabric.part import Count, Part
from kvfabric.quantity import Duration, Factor, read_quantity, written
from topo.unit import show_duration
from traffic.policy.foreign import source_file
from traffic.serving.local import Local

DEFAULT_KIND: Final = "least_loaded"


class LocalPart(Part, frozen=True):
    """Which prompts their decode instances compute themselves: see `traffic.serving.local`."""

    when: Literal["isl_bounding", "prefill_load", "isl_or_load"] = "isl_bounding"
    tokens: Count = 2048
    ratio: Factor = written(Factor, "0.7")
    prefill_busy: Factor | None = None
    decode_busy: Factor | None = None


class PolicyPart(Part, frozen=True):
    """What may stand in any policy beside its own parameters."""

    order: Literal["prefill_first", "decode_first", "joint"] = "prefill_first"
    local: LocalPart | None = None
    staleness: Duration = written(Duration, "50ms")


KEYS: Final = ("kind", "label", *PolicyPart.__struct_fields__)
"""The keys that are no parameters of a policy."""

MOST_LABEL: Final = 80

Written = str | dict[str, Any]
"""A policy as scenarios write it."""


def kind_of(written: Written) -> str:
    """The name or the import path of a policy."""
    return written if isinstance(written, str) else str(written.get("kind", DEFAULT_KIND))


def settings_of(written: Written) -> dict[str, Any]:
    """The parameters of the policy itself."""
    if isinstance(written, str):
        return {}
    return {key: value for key, value in written.items() if key not in KEYS}


def misnamed(written: Written) -> tuple[str, str] | None:
    """What is wrong with a policy's name or label: the key, and what to write instead.

    >>> misnamed({"name": "random"})
    ('name', 'no policy is named, which is done by `kind`; write kind: random')
    """
    if isinstance(written, str):
        return None
    own = settings_of(written)
    if "kind" not in written and own:
        key, value = next(iter(own.items()))
        meant = value if isinstance(value, str) else DEFAULT_KIND
        return key, f"no policy is named, which is done by `kind`; write kind: {meant[:40]}"
    if not isinstance(written.get("kind", ""), str):
        return "kind", f"{written['kind']!r}: expected a name; write e.g. kind: {DEFAULT_KIND}"
    label = written.get("label", DEFAULT_KIND)
    if not isinstance(label, str) or not label.strip() or len(label) > MOST_LABEL:
        return "label", f"expected 1 to {MOST_LABEL} characters; write what tables shall call it"
    return None


def part_of(written: Written) -> PolicyPart:
    """The keys beside them. Raises `msgspec.ValidationError` for a value that cannot be."""
    if isinstance(written, str):
        return PolicyPart()
    given = {key: written[key] for key in PolicyPart.__struct_fields__ if key in written}
    return msgspec.convert(given, PolicyPart, dec_hook=read_quantity)


def local_of(part: PolicyPart) -> Local | None:
    """Which prompts stay on the decode side."""
    local = part.local
    if local is None:
        return None
    return Local(
        local.when,
        local.tokens,
        float(local.ratio),
        None if local.prefill_busy is None else float(local.prefill_busy),
        None if local.decode_busy is None else float(local.decode_busy),
    )


def policy_told(written: Written, sees: frozenset[str]) -> str:
    """The order of choice and what else is set, in one line."""
    part = part_of(written)
    told = [part.order.replace("_", " ")]
    if part.local is not None:
        values: Mapping[str, Any] = msgspec.structs.asdict(part.local)
        given = ", ".join(f"{k} {v}" for k, v in values.items() if v is not None)
        told.append(f"short prompts stay on the decode side ({given})")
    if "network" in sees:
        told.append(f"link state every {show_duration(int(part.staleness))}")
    return "; ".join(told)


def is_code(written: Written) -> bool:
    """Whether a policy is named by its import path."""
    return ":" in kind_of(written)


def permit(scenario: Path) -> None:
    """Let policies be imported from the scenario's folder and the working folder, after all else.

    Processes that are started from here on find them too.
    """
    for folder in (str(scenario.absolute().parent), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.append(folder)


def code_of(written: Written) -> Path | None:
    """The file of a policy that is named by its import path; None for the others."""
    return source_file(kind_of(written)) if is_code(written) else None
