"""How an outage went: when the instance served again, and when its router knew."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from traffic.emulator import Table
from traffic.failure.outage import KINDS, SIDES, Outage

COLUMNS: Final = ("kind", "side", "instance", "from_ps", "served_ps", "unseen_ps", "seen_ps")
"""Of the table of outages, all int64, by `traffic.failure.outage.KINDS` and `SIDES`; times -1 where
not reached. ``served_ps``: the instance works again; ``unseen_ps``: its router stopped sending to
it for what health checks or a drain say; ``seen_ps``: it sends again."""


@dataclass(slots=True)
class Spell:
    """An outage and what came of it; -1 where that did not happen."""

    outage: Outage
    served_ps: int = -1
    unseen_ps: int = -1
    seen_ps: int = -1


def spells(found: Sequence[tuple[Spell, int]], end_ps: int) -> Table:
    """`COLUMNS` of outages by time, each with the number of its pool's first instance.

    Times beyond ``end_ps`` are not reached.
    """
    rows = [
        (
            KINDS.index(spell.outage.kind),
            SIDES.index(spell.outage.side),
            first + spell.outage.instance,
            spell.outage.from_ps,
            *(
                at if at <= end_ps else -1
                for at in (spell.served_ps, spell.unseen_ps, spell.seen_ps)
            ),
        )
        for spell, first in found
    ]
    rows.sort(key=lambda row: (row[3], row[1], row[2]))
    table = np.array(rows, np.int64).reshape(len(rows), len(COLUMNS))
    return {name: table[:, place] for place, name in enumerate(COLUMNS)}
