"""What happened to one hand-off, from prefill end to KV ready, as steps that add up to its time.

The steps stand in the order of its life. Those of the sender (turns, windows, congestion control,
going back, sending) are sums over the critical flow and in truth alternate, so that they have no
time of their own; those of the last packet, behind them, are in order.
"""

from dataclasses import dataclass

from analysis.charge import KINDS, NOWHERE, Ledger
from analysis.error import SummaryError
from analysis.innocence import held
from analysis.timer import timeouts, timer_ps
from analysis.unfinished import unfinished, why
from analysis.witness import Witness
from analysis.wording import duration, percent


@dataclass(frozen=True, slots=True)
class Step:
    """What held a hand-off: one of `KINDS`, where, and for how long (ps).

    ``since_ps`` is the time of all steps before it. That is when it began only where ``order`` is
    empty (`analysis.charge.Charge`).
    """

    kind: str
    place: str
    since_ps: int
    ps: int
    order: str = ""

    @property
    def when(self) -> str:
        """When it was, since the end of prefill."""
        return self.order or f"from {duration(self.since_ps)}"


@dataclass(frozen=True, slots=True)
class Story:
    """The steps of the hand-off of a request, and the alternative and seed that it belongs to."""

    fabric: str
    policy: str
    seed: int
    request: int
    steps: tuple[Step, ...]

    @property
    def ps(self) -> int:
        """Prefill end to KV ready."""
        return sum(step.ps for step in self.steps)

    def title(self) -> str:
        """Which hand-off, and how long it took."""
        return (
            f"hand-off {self.request} of {self.fabric} with {self.policy}, seed {self.seed}: "
            f"{duration(self.ps)}"
        )

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """When, for how long, share, cause and place of every step, in words."""
        return [
            (
                *(step.when, duration(step.ps), percent(step.ps / self.ps)),
                *(KINDS[step.kind], step.place),
            )
            for step in self.steps
        ]


def story(witness: Witness, request: int) -> Story:
    """The story of a request's hand-off.

    Raises `SummaryError` where it had none that ended after the warm-up, with what held one that
    began.
    """
    ledger = Ledger(witness)
    known = ledger.request.tolist()
    if request in unfinished(witness):
        raise SummaryError(f"hand-off {request}: {why(witness, request)}")
    if request not in known:
        raise SummaryError(
            f"hand-off {request}: none that ended after the warm-up; write slowest, or another of "
            f"the {len(known)} requests" + (f", such as {known[0]}" if known else "")
        )
    steps, since = [], 0
    for charge in ledger.charges(request):
        place = witness.name(charge.port) if charge.port != NOWHERE else ""
        behind = held(witness, charge.stopped) if charge.stopped != NOWHERE else ""
        ran_out = timeouts(charge.timeouts, timer_ps(witness.cell)) if charge.timeouts else ""
        where = ", ".join(part for part in (place, charge.note, ran_out, behind) if part)
        steps.append(Step(charge.kind, where, since, charge.ps, charge.order))
        since += charge.ps
    manifest = witness.cell.manifest
    return Story(manifest.fabric, manifest.policy, manifest.seed, request, tuple(steps))
