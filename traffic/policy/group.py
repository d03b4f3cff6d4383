"""Static N:M groups: prefill and decode instances are split, and requests stay inside a group.

No public router has it under this name; closest are SGLang's bucket policy (tiers with prefill
and decode groups of their own) and Dynamo's required topology taint. It is the policy that a
bipartite fabric with groups is cabled for.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import NOBODY, PolicyError, Request, Sight, Tie, View, islands

_DEFAULT_GROUPS = 4


class GroupSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``groups``: how many; by default one an island of the fabric or, in a fabric of one piece,
    4 (fewer when a pool has fewer instances), the group count of the example fabrics."""

    groups: int | None = None


class StaticGroups:
    """The least-loaded prefill instance of all fixes the group; decode is the least loaded in it.

    Where decode is chosen first, the least-loaded decode instance fixes the group.

    Groups are contiguous by instance number and as equal as can be. Where the fabric has islands
    every group lies inside one: the islands are groups, or are split evenly when ``groups`` is a
    multiple of their number. Ties are drawn, see `Tie`.
    """

    name: ClassVar[str] = "static_groups"
    settings: ClassVar[type[Struct]] = GroupSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "topology"})
    source: ClassVar[str] = "none: fixed groups; nearest is ai-dynamo's required topology taint"

    def __init__(self, settings: GroupSettings, hops: NDArray[np.int32], seed: int) -> None:
        prefills, decodes = hops.shape
        pieces = islands(hops)
        groups = settings.groups
        if groups is None:
            default = min(_DEFAULT_GROUPS, prefills, decodes)
            groups = len(pieces) if len(pieces) > 1 else default
        if groups < 1 or groups % len(pieces):
            raise PolicyError(
                f"static_groups groups {groups}: the fabric has {len(pieces)} piece(s) that no "
                f"path joins; write a multiple of {len(pieces)}, at least 1"
            )
        self._group = np.zeros(prefills, np.int64)
        self._decode_group = np.zeros(decodes, np.int64)
        self._members: list[NDArray[np.int64]] = []
        for mine, theirs in pieces:
            parts = groups // len(pieces)
            if parts > min(len(mine), len(theirs)):
                raise PolicyError(
                    f"static_groups groups {groups}: more than {len(mine)} prefill or "
                    f"{len(theirs)} decode instances can fill; "
                    f"write at most {min(len(mine), len(theirs)) * len(pieces)}"
                )
            for part, members in zip(_cut(mine, parts), _cut(theirs, parts), strict=True):
                self._group[part] = self._decode_group[members] = len(self._members)
                self._members.append(members)
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest prompts waiting or running, over all groups with a
        healthy decode instance, or in the group of the decode instance that was chosen first."""
        usable = view.prefill_healthy
        if request.decode >= 0:
            usable = usable & (self._group == self._decode_group[request.decode])
        elif not view.decode_healthy.all():
            usable = usable & self._alive(self._decode_group, view.decode_healthy)[self._group]
        return self._prefill.least(view.prefill_requests, request.request, usable)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The least-loaded decode instance of the prefill instance's group."""
        if prefill < 0:
            usable = view.decode_healthy
            if not view.prefill_healthy.all():
                alive = self._alive(self._group, view.prefill_healthy)
                usable = usable & alive[self._decode_group]
            return self._decode.least(view.decode_requests, request.request, usable)
        members = self._members[self._group[prefill]]
        if not view.decode_healthy.all():
            members = members[view.decode_healthy[members]]
            if not members.size:
                return NOBODY
        load = view.decode_requests[members]
        return self._decode.among(members[load == load.min()], request.request)

    def _alive(self, group: NDArray[np.int64], healthy: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The groups with a healthy instance."""
        return np.bincount(group[healthy], minlength=len(self._members)) > 0

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """The pairs inside a group."""
        allowed = np.zeros(hops.shape, np.bool_)
        for prefill, group in enumerate(self._group.tolist()):
            allowed[prefill, self._members[group]] = True
        return allowed


def _cut(instances: Sequence[int], parts: int) -> list[NDArray[np.int64]]:
    return np.array_split(np.asarray(instances, np.int64), parts)
