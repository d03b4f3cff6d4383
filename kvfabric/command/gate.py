"""``--assert``: conditions on results, read before anything runs and decided at the end."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from analysis.assertion import Assertion
    from analysis.result import Result

Command = Callable[..., int | None]


def assert_option(function: Command) -> Command:
    """Give a command ``--assert``, which may stand several times."""
    return click.option(
        "--assert",
        "asserted",
        multiple=True,
        metavar="CONDITION",
        help="Exit 1 unless this holds, as 'over_budget<1%' or 'choice: handoff_p99 <= 25ms'; "
        "see docs/results.md. May stand several times.",
    )(function)


def conditions_of(asserted: tuple[str, ...]) -> "list[Assertion]":
    """Every condition read, so that a wrong one is told before anything runs."""
    if not asserted:
        return []
    from analysis.assertion import assertion

    return [assertion(text) for text in asserted]


def held(found: "Result", asserted: "list[Assertion]") -> int:
    """Say of every condition whether it holds; 1 when one does not, else 0."""
    if not asserted:
        return 0
    from analysis.assertion import HOLDS, UNDECIDED, decide

    chosen = found.verdict.choice
    choice = (chosen.fabric, chosen.policy) if chosen is not None else None
    code = 0
    for condition in asserted:
        outcome = decide(condition, found.samples, found.study.manifest, choice)
        click.echo(outcome.text())
        if outcome.standing == UNDECIDED:
            click.echo("  the evidence does not show it; more seeds, or end it with `observed`")
        code |= outcome.standing != HOLDS
    return code
