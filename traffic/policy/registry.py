"""The policies by name. A new one is one new file and one line here."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from traffic.policy.balance import LeastLoaded, Random, RoundRobin
from traffic.policy.choice import Policy, PolicyError
from traffic.policy.group import StaticGroups
from traffic.policy.hashing import BoundedConsistentHash, ConsistentHash
from traffic.policy.network import TopologyAware
from traffic.policy.sglang import CacheAware, Lmetric
from traffic.policy.token import PowerOfTwo, TokenJsq, Vllm

POLICIES: Final[dict[str, type[Policy]]] = {
    kind.name: kind
    for kind in (
        Random,
        RoundRobin,
        LeastLoaded,
        TokenJsq,
        Vllm,
        PowerOfTwo,
        ConsistentHash,
        BoundedConsistentHash,
        CacheAware,
        Lmetric,
        StaticGroups,
        TopologyAware,
    )
}
"""Every policy class by its name; its ``settings`` struct holds its parameters and defaults."""


def policy(
    name: str,
    hops: NDArray[np.int32],
    *,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Policy:
    """The named policy for pools that lie ``hops`` (prefill x decode, -1 no path) apart.

    Raises `PolicyError` for an unknown name, unknown or wrong settings, and settings that do not
    fit the fabric.

    >>> policy("random", np.full((2, 2), 4, np.int32)).name
    'random'
    """
    kind = _kind(name)
    if hops.ndim != 2 or 0 in hops.shape:
        raise PolicyError(
            f"policy {name}: {hops.shape} prefill x decode instances; give at least one of each"
        )
    return kind(check_settings(name, settings), hops, seed)


def check_settings(name: str, settings: Mapping[str, Any] | None = None) -> msgspec.Struct:
    """The settings of the named policy, checked without a fabric."""
    kind = _kind(name)
    try:
        return msgspec.convert(dict(settings or {}), kind.settings)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.settings.__struct_fields__) or "none"
        raise PolicyError(f"policy {name}: {error}; known settings: {known}") from None


def _kind(name: str) -> type[Policy]:
    try:
        return POLICIES[name]
    except KeyError:
        known = ", ".join(POLICIES)
        raise PolicyError(f"policy {name[:40]!r}: not known; write one of {known}") from None
