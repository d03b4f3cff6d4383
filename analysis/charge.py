"""One hand-off's time as charges, in the order of its life, which add up to it to the picosecond.

From prefill end to KV ready a hand-off waits for memory, for messages, for copies, and for its
critical flow, the one that ends last. The parts of that flow are the engine's. What began before
the prefill's end, layer by layer, costs only what lies after it: the flow's parts then count in
proportion. A queue is charged to its port, congestion control to the port that marked last, a pause
to the root of its chain, and a retransmission to the ports of the flow's way that lost frames, by
how many.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from analysis.budget import after_warmup
from analysis.witness import Ints, Witness

NOWHERE: Final = -1
"""The port of a charge that is no port's."""

KINDS: Final = {
    "wire": "moving the bytes",
    "slow": "slow link of the NIC",
    "queue": "queue",
    "pause": "pause",
    "pacing": "congestion control",
    "retransmission": "retransmission",
    "source": "other flows of the NIC",
    "window": "send queue or window full",
    "issue": "descriptors not issued yet",
    "release": "flow released later",
    "copies": "copies",
    "orchestration": "messages and control delay",
    "memory": "waiting for decode memory",
}
"""What time is charged to, in the words of the report."""

SENDING: Final = "while sending"
"""The order of what is a sum over a flow's packets: such parts alternate."""
LAST: Final = "last packet"
"""The order of what the last packet met on its way, one behind the other."""

_MOMENTS: Final = ("admitted_ps", "dispatched_ps", "handoff_release_ps", "arrived_ps")


class Charge(NamedTuple):
    """Picoseconds of a hand-off, of one of `KINDS`, at a port (`NOWHERE`: none).

    ``stopped`` is the port of a switch whose stop a pause was spent behind, ``timeouts`` how often
    the flow's timer ran out. ``order`` is empty for what happened where it stands among the
    charges, or one of `SENDING` and `LAST`.
    """

    kind: str
    port: int
    ps: int
    note: str = ""
    stopped: int = NOWHERE
    timeouts: int = 0
    order: str = ""


class Ledger:
    """The hand-offs of a cell that ended after warm-up, each with its critical flow."""

    def __init__(self, witness: Witness) -> None:
        self._seen = witness
        table = after_warmup(witness.cell)
        whole = (table["handoff_release_ps"] >= 0) & (table["kv_ready_ps"] >= 0)
        self._table = {name: values[whole] for name, values in table.items()}
        self.request = self._table["request"]
        self.took = self._table["kv_ready_ps"] - self._table["prefill_end_ps"]
        self._row = {request: row for row, request in enumerate(self.request.tolist())}
        self._critical = _critical(witness.flows)
        self._usual_bps = _usual_rate(witness)

    def charges(self, request: int) -> list[Charge]:
        """The charges of a hand-off, in order; a part without time is left out."""
        row = self._row[request]
        at = {name: int(values[row]) for name, values in self._table.items()}
        marks = [at["prefill_end_ps"]]
        for name in (*_MOMENTS, "scattered_ps", "kv_ready_ps"):
            marks.append(min(max(marks[-1], at[name]), at["kv_ready_ps"]))
        memory, dispatch, gather, _, scatter, notice = (b - a for a, b in pairwise(marks))
        found = [
            Charge("memory", NOWHERE, memory, f"decode instance {at['decode']}"),
            Charge("orchestration", NOWHERE, dispatch, "before the transfer"),
            Charge("copies", NOWHERE, gather, "at the prefill side"),
            *self._transfer(request, marks[3], marks[4]),
            Charge("copies", NOWHERE, scatter, "at the decode side"),
            Charge("orchestration", NOWHERE, notice, "after the transfer"),
        ]
        return [charge for charge in found if charge.ps]

    def _transfer(self, request: int, start: int, end: int) -> Iterator[Charge]:
        """What held the critical flow between the first release and the last byte."""
        row = self._critical.get(request)
        if row is None:
            yield Charge("orchestration", NOWHERE, end - start, "no flow of its own")
            return
        flow = {name: int(values[row]) for name, values in self._seen.flows.items()}
        later = min(max(flow["release_ps"] - start, 0), end - start)
        own = max(min(flow["finish_ps"], end) - start - later, 0)
        yield Charge("release", NOWHERE, later)
        parts = [charge for charge in self._flow(flow) if charge.ps]
        shares = apportioned(own, [charge.ps for charge in parts])
        for charge, share in zip(parts, shares, strict=True):
            yield charge._replace(ps=share)
        yield Charge("orchestration", NOWHERE, end - start - later - own, "after the last byte")

    def _flow(self, flow: dict[str, int]) -> Iterator[Charge]:
        """The parts of a flow's whole time: those of its sender, then those of its last packet."""
        seen, number = self._seen, flow["flow"]
        part = seen.parts(number)
        hops = seen.hops(number)
        nic = next((port for hop, port, _, _ in hops if hop == 0), NOWHERE)
        for kind in ("issue", "window", "source"):
            yield Charge(kind, nic, part[kind], order=SENDING)
        at_nic = part["paused"] - sum(paused for hop, _, _, paused in hops if hop)
        for charge in self._paused(nic, at_nic, flow["release_ps"], flow["finish_ps"]):
            yield charge._replace(order=SENDING)
        marker = part["last_mark_port"]
        yield Charge("pacing", marker if marker >= 0 else nic, part["pacing"], order=SENDING)
        again = self._lost(part["retransmission"], [port for _, port, _, _ in hops])
        for place, charge in enumerate(again):
            yield charge._replace(timeouts=0 if place else flow["timeouts"], order=SENDING)
        usual = min(part["wire"], self._usual(flow, nic))
        yield Charge("wire", nic, usual, order=SENDING)
        yield Charge("slow", nic, part["wire"] - usual, order=SENDING)
        travelled = sum(queued + paused for hop, _, queued, paused in hops if hop)
        since = max(flow["release_ps"], flow["finish_ps"] - travelled - flow["ideal_ps"])
        for hop, port, queued, paused in hops:
            if hop:
                yield Charge("queue", port, queued, order=LAST)
                for charge in self._paused(port, paused, since, flow["finish_ps"]):
                    yield charge._replace(stopped=port, order=LAST)

    def _usual(self, flow: dict[str, int], nic: int) -> int:
        """The time on the wire that the flow would have alone at the usual rate of NICs."""
        rate = self._seen.rate_bps(nic) if nic >= 0 else self._usual_bps
        return flow["ideal_ps"] * min(rate, self._usual_bps) // self._usual_bps

    def _paused(self, port: int, paused: int, since: int, until: int) -> list[Charge]:
        """A pause of a port, by the roots of the stops that held it in that span."""
        if not paused:
            return []
        roots = self._seen.chains.roots(port, since, until)
        if not roots:
            far = self._seen.far(port)
            return [Charge("pause", far if far >= 0 else port, paused, "no cause recorded")]
        shares = apportioned(paused, list(roots.values()))
        return [Charge("pause", root, ps) for root, ps in zip(roots, shares, strict=True)]

    def _lost(self, again: int, way: Sequence[int]) -> list[Charge]:
        """The time of going back, by the ports on the way that lost frames."""
        lost = {port: drops for port in way if (drops := self._seen.drops(port))}
        if not again or not lost:
            return [Charge("retransmission", NOWHERE, again, "no port of its way lost a frame")]
        lost = dict(sorted(lost.items(), key=lambda each: -each[1]))
        shares = apportioned(again, list(lost.values()))
        return [Charge("retransmission", port, ps) for port, ps in zip(lost, shares, strict=True)]


def apportioned(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in parts that are as the weights, to within one, and add up to it.

    >>> apportioned(10, [1, 1, 1])
    [3, 3, 4]
    """
    whole, before, parts = sum(weights), 0, []
    for reached in np.cumsum(np.array(weights, object)).tolist():
        now = total * reached // whole
        parts.append(now - before)
        before = now
    return parts


def _critical(flows: dict[str, Ints]) -> dict[int, int]:
    """The row of the flow of each hand-off that ends last, the first of equals."""
    order = np.lexsort((-flows["flow"], flows["finish_ps"], flows["handoff"]))
    handoff = flows["handoff"][order]
    last = np.flatnonzero(np.append(handoff[1:] != handoff[:-1], True))
    rows = order[last] if len(order) else order
    ended = rows[(flows["handoff"][rows] >= 0) & (flows["finish_ps"][rows] >= 0)]
    return dict(zip(flows["handoff"][ended].tolist(), ended.tolist(), strict=True))


def _usual_rate(witness: Witness) -> int:
    """The rate that most host ports have, bit/s; the higher one of equals."""
    rates = witness.ports["rate_bps"][witness.ports["tier"] == 0]
    found, counts = np.unique(rates, return_counts=True)
    return int(found[counts == counts.max()][-1]) if len(found) else 1
