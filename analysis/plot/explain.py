"""One hand-off as a waterfall: its steps from top to bottom, on the time since its prefill ended.

Colours are those of the blame. What is a sum over the packets of a flow, or the way of its last
packet, stands on a shaded ground: where it begins there is no moment of the hand-off.
"""

from textwrap import wrap

from analysis.charge import KINDS
from analysis.explain import Step, Story
from analysis.plot.blame import LOOK
from analysis.plot.style import Plot, blank, label, styled
from analysis.wording import duration
from topo.unit import PS_PER_MS

_LINE_INCHES = 0.17
_WIDEST = 44
_GROUND = "#EEEEEE"


def waterfall(story: Story) -> Plot:
    """The steps of a hand-off; the sender's are sums over its critical flow."""
    names = [_name(step) for step in story.steps]
    lines = max((name.count("\n") + 1 for name in names), default=1)
    with styled():
        figure = blank(9.6, 1.0 + _LINE_INCHES * max(lines, 2) * len(names))
        axes = figure.add_subplot()
        for row, step in enumerate(story.steps):
            colour, hatch = LOOK[step.kind]
            axes.barh(
                row,
                step.ps / PS_PER_MS,
                left=step.since_ps / PS_PER_MS,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.4,
            )
        inside = [step for step in story.steps if step.order]
        if inside:
            ends = inside[0].since_ps, inside[-1].since_ps + inside[-1].ps
            ground = [end / PS_PER_MS for end in ends]
            axes.axvspan(*ground, color=_GROUND, zorder=0, linewidth=0)
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, story.ps / PS_PER_MS * 1.02)
        axes.set_xlabel(
            "time since the end of prefill (ms)"
            + "; shaded: parts of the transfer as sums, which alternate in truth" * bool(inside)
        )
        axes.set_title("\n".join(wrap(label(story.title(), 250), 84)))
    return Plot(
        "explain",
        f"What held the slowest hand-off of the choice, or else of what comes closest: "
        f"{story.title()}. Shaded is its transfer: what the "
        "sender met are sums over the critical flow and alternate in truth, so that only their "
        "lengths are told; what the last packet met comes behind.",
        figure,
        ("request", "cause", "where", "when", "for_ps"),
        tuple(
            (story.request, KINDS[step.kind], step.place, step.when, step.ps)
            for step in story.steps
        ),
    )


def _name(step: Step) -> str:
    """What it was and how long, told in words too since a bar may be too short to see; where."""
    place = wrap(label(step.place, 160), _WIDEST)
    return "\n".join([f"{KINDS[step.kind]}, {duration(step.ps)}", *place])
