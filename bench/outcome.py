"""What one run of one simulator gave."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """fct_ps: from release to the last acknowledgement at the sender, one a flow, -1 if unfinished.

    seconds: of processor time, of the run alone, without building the fabric. peak_mib: of the
    whole process.
    lanes: of the data and of the ACKs of every flow, where the simulator tells.
    hops, events, pauses: links crossed by all frames but pauses, events handled, pause frames sent;
    -1 where the simulator does not tell. note: what a reader must know of this run.
    """

    simulator: str
    fct_ps: list[int]
    seconds: float
    peak_mib: float
    hops: int = -1
    events: int = -1
    pauses: int = -1
    drops: int = 0
    note: str = ""
    lanes: list[tuple[int, int]] = field(default_factory=list)
    extra: dict[str, float] = field(default_factory=dict)
