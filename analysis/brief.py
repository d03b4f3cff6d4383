"""A study on one page of Markdown: for a pull request, a job summary or a wiki.

It holds what the first printed page of the report holds, and how to get the rest.
"""

from analysis import culprit
from analysis.baseline import baseline
from analysis.breakdown import Breakdown
from analysis.breakeven import breakeven
from analysis.choice import cost, price
from analysis.decision import table as decisions
from analysis.economics import token_costs
from analysis.loss import table as losses
from analysis.markdown import escaped, folded, prose, table
from analysis.result import Result, requirements, told_blames
from analysis.summary import NOT_LOSSLESS, Summary
from analysis.sweep import knees
from analysis.verdict import alternative
from analysis.wording import NONE, duration_told, share_told

_MOST = 40
_FEW = 8
_BLAMED = 4


def brief(found: Result) -> str:
    """The decision, what it rests on, and all alternatives, as GitHub Markdown."""
    study = found.study.manifest
    parts = [f"## {escaped(study.name)}"]
    if study.question:
        parts.append(escaped(study.question))
    parts.append(f"**{prose(found.verdict.headline)}**")
    parts.append("\n".join(f"- {prose(line)}" for line in found.verdict.sentences))
    parts.append(table(("requirement", "asked", "the choice"), requirements(found)))
    paid = token_costs(found.samples, study), breakeven(found.samples, study)
    chosen, hurt = decisions(found.decisions), losses(found.losses)
    parts += [_open(told) for told in (chosen, knees(found.curves), hurt, *paid) if told.rows]
    parts.append(_alternatives(found))
    against = baseline(found.samples, study, found.base)
    if against.rows:
        parts.append(folded(against.title, escaped(against.text), _cut(against)))
    blamed = told_blames(found, _BLAMED)
    if blamed:
        parts.append("What made the slowest hand-offs slow:")
        parts.append(table(culprit.COLUMNS, culprit.short(blamed)))
        if len(found.blames) > len(blamed):
            parts.append(f"Of {len(found.blames) - len(blamed)} more alternatives: see the report.")
    parts.append(_assumptions(found))
    if study.reproduce:
        parts.append("```sh\n" + "\n".join(each.replace("`", "'") for each in study.reproduce))
        parts[-1] += "\n```"
    versions = ", ".join(f"{key} {value}" for key, value in study.versions.items())
    parts.append(escaped(f"Scenario SHA-256 {study.scenario_sha256[:12]}; {versions}."))
    return "\n\n".join(part for part in parts if part) + "\n"


def _open(told: Breakdown) -> str:
    return f"{escaped(told.title)}. {escaped(told.text)}\n\n{_cut(told)}"


def _cut(told: Breakdown) -> str:
    left = len(told.rows) - _MOST
    more = f"\n\nAnd {left} more rows." if left > 0 else ""
    return table(told.columns, told.rows[:_MOST]) + more


def _alternatives(found: Result) -> str:
    """All alternatives, folded away where they would fill a page."""
    columns = (
        *("verdict", "fabric", "policy", "cost", f"{found.tail_name()} hand-off (95 %)"),
        *("over budget (95 %)", "n"),
    )
    ranked = sorted(found.summaries, key=_rank)
    rows = [_row(row, row is found.verdict.choice) for row in ranked[:_MOST]]
    told = table(columns, rows)
    if len(ranked) > _MOST:
        told += f"\n\nAnd {len(ranked) - _MOST} more alternatives."
    return folded(f"All {len(ranked)} alternatives", told) if len(ranked) > _FEW else told


def _rank(row: Summary) -> tuple[int, float, str]:
    """Those that pass first, then undecided, failed and the rest; cheaper before dearer."""
    order = ("pass", "undecided", "fail")
    usd = cost(row)
    known = usd if usd == usd else float("inf")
    return (order.index(row.verdict) if row.verdict in order else 3, known, alternative(row))


def _row(row: Summary, chosen: bool) -> tuple[str, ...]:
    return (
        row.verdict + (f", {NOT_LOSSLESS}" if row.lossless else "") + (", the choice" * chosen),
        row.fabric,
        row.policy,
        price(row) or NONE,
        duration_told(row.tail),
        share_told(row.over, row.reason),
        f"{row.n:,}",
    )


def _assumptions(found: Result) -> str:
    """What is not modelled, folded away."""
    limits = found.study.manifest.limits
    if not limits:
        return ""
    return folded("What is not modelled", "\n".join(f"- {prose(limit)}" for limit in limits))
