"""The policies by name. A new one is one new file and one line here.

A name is that of a policy here, or of one that an installed package offers (entry point group
``kvfabric.policies``), or an import path, ``module:Class``: whose code runs when it is asked for.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from traffic.policy.balance import LeastLoaded, Random, RoundRobin
from traffic.policy.choice import Policy, PolicyError
from traffic.policy.conductor import Conductor
from traffic.policy.congestion import Netkv, NetworkAware
from traffic.policy.dynamo import DynamoKv
from traffic.policy.foreign import imported, installed, offered
from traffic.policy.group import StaticGroups
from traffic.policy.guard import SloGuard
from traffic.policy.hashing import BoundedConsistentHash, ConsistentHash
from traffic.policy.llmd import Llmd
from traffic.policy.network import TopologyAware
from traffic.policy.offload import Prfaas
from traffic.policy.rack import SameRack
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
        DynamoKv,
        Llmd,
        Conductor,
        StaticGroups,
        SameRack,
        TopologyAware,
        NetworkAware,
        Netkv,
        Prfaas,
        SloGuard,
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
    kind = kind_of(name)
    if hops.ndim != 2 or 0 in hops.shape:
        raise PolicyError(
            f"policy {name}: {hops.shape} prefill x decode instances; give at least one of each"
        )
    return kind(check_settings(name, settings), hops, seed)


def check_settings(name: str, settings: Mapping[str, Any] | None = None) -> msgspec.Struct:
    """The settings of the named policy, checked without a fabric."""
    kind = kind_of(name)
    try:
        return msgspec.convert(dict(settings or {}), kind.settings)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.settings.__struct_fields__) or "none"
        raise PolicyError(f"policy {name}: {error}; known settings: {known}") from None


def kind_of(name: str) -> type[Policy]:
    """The class of a policy by its name or import path. Raises `PolicyError` where there is none.

    >>> kind_of("random").source
    'sgl-project/sglang, sgl-model-gateway/src/policies/random.rs'
    """
    if name in POLICIES:
        return POLICIES[name]
    if ":" in name:
        return imported(name)
    more = offered()
    if name in more:
        return installed(more[name])
    known = [*POLICIES, *more]
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise PolicyError(
        f"policy {name[:40]!r}: not known; {hint}write one of {', '.join(known)}, or module:Class "
        "for one of your own"
    )
