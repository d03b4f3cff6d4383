"""Tenants: who sent a request, with what priority, and with lengths of whose own.

Each request, or each session as a whole, belongs to one tenant, drawn by the tenants' shares. The
number of a tenant is its place in the list. Whether a priority acts in queues and on the network is
the serving model's (`traffic.serving.mode.Serving`, `traffic.handoff.flow.Handoff`). The model of a
request, where several are served, is drawn likewise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.error import RequestError
from traffic.request import NO_SESSION, PRIORITIES, RequestTable
from traffic.seed import generator
from traffic.source.profile import Lengths


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant: share of the requests (or sessions), priority 0..7, own lengths if any."""

    name: str
    share: float
    priority: int = 0
    lengths: Lengths | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise RequestError(f"tenant {self.name[:40]!r}: share {self.share:g}: write e.g. 25%")
        if not 0 <= self.priority < PRIORITIES:
            raise RequestError(
                f"tenant {self.name[:40]!r}: priority {self.priority}: write 0 to {PRIORITIES - 1}"
            )


def tenanted(table: RequestTable, tenants: Sequence[Tenant], seed: int) -> RequestTable:
    """The table with a tenant and a priority for every request, and with the tenants' lengths.

    Refuses shares that do not add up to the whole, two tenants of one name, and lengths of a
    tenant's own where requests belong to sessions, whose contexts grow by rules of their own.
    """
    check_tenants(tenants)
    alone = table.session == NO_SESSION
    if not bool(alone.all()) and any(tenant.lengths is not None for tenant in tenants):
        raise RequestError("tenants: a profile of one's own does not go with sessions; remove it")
    whose = _drawn(table, [tenant.share for tenant in tenants], generator(seed, "tenant"))
    inputs, outputs = table.input_tokens.copy(), table.output_tokens.copy()
    for number, tenant in enumerate(tenants):
        if tenant.lengths is not None:
            mine = whose == number
            tokens_in, tokens_out = tenant.lengths.draw(len(table), seed, f" of {tenant.name}")
            inputs[mine], outputs[mine] = tokens_in[mine], tokens_out[mine]
    priority = np.array([tenant.priority for tenant in tenants], np.uint8)
    return replace(
        table,
        input_tokens=inputs,
        output_tokens=outputs,
        tenant=whose,
        priority=priority[whose],
    )


def modelled(table: RequestTable, shares: Sequence[float], seed: int) -> RequestTable:
    """The table with a model for every request, or session as a whole, drawn by the shares."""
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise RequestError(
            f"models: shares of {', '.join(f'{100 * share:g}%' for share in shares)}; write shares "
            "above 0 that leave some for `model`"
        )
    return replace(table, model=_drawn(table, shares, generator(seed, "model")))


def check_tenants(tenants: Sequence[Tenant]) -> None:
    """Refuse two tenants of one name and shares that do not add up to the whole."""
    names = [tenant.name for tenant in tenants]
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"tenant {name[:40]!r}: stands twice; give every tenant one entry")
    total = sum(tenant.share for tenant in tenants)
    if abs(total - 1) > 1e-6:
        raise RequestError(f"tenants: shares add up to {100 * total:g}%; write shares of 100%")


def pick(shares: Sequence[float], seed: int, purpose: str, key: int) -> int:
    """A place in the shares, drawn by (seed, purpose, key)."""
    point, place = draw(seed, purpose, key, 1 << 53) / (1 << 53) * sum(shares), 0
    while place < len(shares) - 1 and point >= shares[place]:
        point -= shares[place]
        place += 1
    return place


def _drawn(
    table: RequestTable, shares: Sequence[float], random: np.random.Generator
) -> NDArray[np.int32]:
    """A place in the shares for every request; those of a session have the same."""
    edges = np.cumsum(shares)[:-1]
    whose = np.searchsorted(edges, random.random(len(table)), side="right").astype(np.int32)
    alone = table.session == NO_SESSION
    if bool(alone.all()):
        return whose
    _, first, session = np.unique(table.session, return_index=True, return_inverse=True)
    return np.where(alone, whose, whose[first[session]]).astype(np.int32)
