"""From nominal to effective bandwidth: what each cause leaves of the NIC's rate.

Every step is payload bytes over time, summed over the same counted hand-offs, so that large ones
weigh by their bytes. The first is the NIC's rate; the ideal of each flow alone takes off headers
and the way (descriptors too, where they take time); max-min sharing takes off what others on the
same links need; the emulated transfer takes off queues, pauses, congestion control and losses; the
hand-off takes off waiting for memory, messages and copies. A hand-off of several flows lasts from
the first release to the last end in each step. A step can be faster than the one before: an
estimate need not be a bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.handoff import Handoffs
from analysis.summary import Sample
from topo.unit import PS_PER_S, show_rate

STEPS: Final = ("nominal", "ideal", "max-min", "emulated", "hand-off")


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Effective bandwidth of one alternative after each of `STEPS`, bit/s, and how many hand-offs
    have all of them."""

    rates_bps: tuple[float, ...]
    handoffs: int


def waterfall(parts: Sequence[Handoffs]) -> Waterfall | None:
    """The steps of the hand-offs that ended and have both estimates; None where none has."""
    moved, count = 0.0, 0
    spent = np.zeros(len(STEPS))
    for part in parts:
        times = np.vstack([part.bandwidth, part.ideal, part.maxmin, part.transfer, part.duration])
        whole = np.isfinite(times).all(axis=0) & (times > 0).all(axis=0)
        moved += float(part.payload[whole].sum())
        spent += times[:, whole].sum(axis=1)
        count += int(whole.sum())
    if not count:
        return None
    return Waterfall(tuple((8 * moved * PS_PER_S / spent).tolist()), count)


def bandwidths(samples: Sequence[Sample]) -> Breakdown:
    """The waterfall of every alternative that has one, as a table."""
    rows = []
    for sample in samples:
        found = waterfall(sample.handoffs)
        if found is None:
            continue
        first = found.rates_bps[0]
        steps = [f"{show_rate(rate)} ({100 * rate / first:.0f} %)" for rate in found.rates_bps[1:]]
        rows.append((sample.fabric, sample.policy, show_rate(first), *steps))
    return Breakdown(
        "From nominal to effective bandwidth",
        "Payload bits over time, all counted hand-offs together, and the share of the nominal rate "
        "that is left: after headers and the way (each flow alone), after sharing links fairly, "
        "after queues, pauses and congestion control, and after waiting, messages and copies.",
        ("fabric", "policy", "NIC", "flow alone", "fair sharing", "as moved", "as handed over"),
        tuple(rows),
    )
