"""Why a hand-off did not end: how far its run went, against what it would take alone."""

from analysis.budget import after_warmup
from analysis.timer import timeouts, timer_ps
from analysis.witness import Witness
from analysis.wording import duration
from topo.unit import show_size


def unfinished(witness: Witness) -> list[int]:
    """The requests after the warm-up whose hand-off was released and did not end."""
    table = after_warmup(witness.cell)
    lost = (table["handoff_release_ps"] >= 0) & (table["kv_ready_ps"] < 0)
    return [int(request) for request in table["request"][lost]]


def why(witness: Witness, request: int) -> str:
    """What is known of such a hand-off, in one line."""
    table, flows = after_warmup(witness.cell), witness.flows
    released = int(table["handoff_release_ps"][table["request"] == request][0])
    went_ps = witness.cell.manifest.duration_ps - released
    told = f"did not end in the {duration(went_ps)} from its release to the end of the run"
    mine = (flows["handoff"] == request) & (flows["finish_ps"] < 0)
    if not mine.any():
        return f"{told}, and none of its flows is under way"
    alone_ps = int(flows["ideal_ps"][mine].max())
    told += f"; alone on the idle fabric it takes {duration(alone_ps)}"
    often, again = int(flows["timeouts"][mine].sum()), int(flows["resent_bytes"][mine].sum())
    if often:
        ran_out = timeouts(often, timer_ps(witness.cell))
        told += f", and {ran_out} sent {show_size(again)} again"
    return f"{told}; write faster links or shorter prompts" if alone_ps > went_ps else told
