"""The load sweep and N-1: knees as brackets, losses against the whole fabric, and their figures."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.condition import HEALTHY
from analysis.loss import losses
from analysis.loss import sentences as losses_told
from analysis.loss import table as lost
from analysis.plot.load import load
from analysis.plot.tornado import tornado
from analysis.record import Cell, StudyManifest, cell_directory, read_study, write_cell, write_study
from analysis.report import plots, write_report
from analysis.result import Result, result
from analysis.review import offered_bps
from analysis.service import offered_per_s
from analysis.summary import MET, MISSED, UNDECIDED, Sample, Summary
from analysis.sweep import Curve, curves, knees, loads
from analysis.sweep import sentences as knees_told

RATE, FAULTS = "requests.arrivals.rate", "faults"
SEEDS = (1, 2, 3, 4)
MS = 10**9
Write = Callable[..., Result]


@pytest.fixture
def write(
    tmp_path: Path, make_cell: Callable[..., Cell], make_question: Callable[..., StudyManifest]
) -> Write:
    """Results of one design under conditions: what they are told as, and how much slower they are.

    At "rate=N/s" the same requests come N / 100 times as fast; ``infinite`` ones never end.
    """

    def written(
        key: str,
        slower: dict[str, float],
        policies: Sequence[str] = ("random",),
        infinite: Sequence[str] = (),
    ) -> Result:
        varied = {f"mesh {told}": {"fabric": "mesh", key: told} for told in slower}
        manifest = make_question(
            fabrics=list(varied), policies=list(policies), seeds=list(SEEDS), varied=varied
        )
        write_study(tmp_path, manifest)
        for (told, scale), label in zip(slower.items(), varied, strict=True):
            for policy in policies:
                for seed in SEEDS:
                    cell = _like(make_cell("mesh", policy, seed, scale=scale), label, told)
                    if told in infinite:
                        cell = _endless(cell)
                    write_cell(cell_directory(tmp_path, cell.manifest.cell), cell)
        return result(read_study(tmp_path), tmp_path)

    return written


def _like(cell: Cell, label: str, told: str) -> Cell:
    """The cell under another label, its arrivals as fast as the label says."""
    rate = int(told.removeprefix("rate=").removesuffix("/s")) if told.startswith("rate=") else 100
    table = dict(cell.requests)
    table["arrival_ps"] = table["arrival_ps"] * 100 // rate
    name = f"{label.replace(' ', '-').replace('=', '-').replace('/', '-')}-{cell.manifest.cell}"
    manifest = msgspec.structs.replace(cell.manifest, fabric=label, cell=name)
    return Cell(manifest, table, cell.flows, cell.ports)


def _endless(cell: Cell) -> Cell:
    table = dict(cell.requests)
    ready = table["kv_ready_ps"].copy()
    ready[-10:] = -1
    late = {name: np.full(len(ready), -1) for name in ("decode_start_ps", "finish_ps")}
    table |= {"kv_ready_ps": ready, **late, "status": np.ones(len(ready), np.int64)}
    return Cell(cell.manifest, table, cell.flows, cell.ports)


def given(found: Result) -> tuple[Sequence[Sample], Sequence[Summary], StudyManifest]:
    return found.samples, found.summaries, found.study.manifest


def test_the_knee_is_the_last_load_up_to_which_all_met_the_budget(write: Write) -> None:
    # slow at 200, quick again at 400: the knee is still below 200
    found = write(RATE, {"rate=400/s": 0.3, "rate=50/s": 0.3, "rate=200/s": 3, "rate=100/s": 0.3})
    (curve,) = curves(*given(found))
    assert [point.load for point in curve.points] == [f"rate={n}/s" for n in (50, 100, 200, 400)]
    assert [point.row.verdict for point in curve.points] == [MET, MET, MISSED, MET]
    low, high = curve.knee
    assert low is curve.points[1]
    assert high is curve.points[2]
    share = f"{100 * curve.points[1].share:.1f} %"
    there = "fail, prefill fell behind" if high.behind else "fail"
    assert knees(found.curves).rows[0][2:] == ("rate=100/s", share, "rate=200/s", there)
    (line,) = knees_told(found.curves)
    assert line.startswith("Load: mesh with random meets the budget up to rate=100/s")
    assert "at rate=200/s, the next compared, it is fail" in line
    assert line in found.verdict.sentences


def test_a_point_tells_the_load_as_offered_and_of_the_max_flow(write: Write) -> None:
    found = write(RATE, {"rate=100/s": 1.0, "rate=200/s": 1.0})
    (curve,) = curves(*given(found))
    for sample, point in zip(found.samples, curve.points, strict=True):
        rates = [offered_per_s(cell) for cell in sample.cells]
        assert point.rate_per_s == pytest.approx(float(np.mean(rates)))
        bits = [offered_bps(cell) for cell in sample.cells]
        assert point.share == pytest.approx(float(np.mean(bits)) / 3.2e12)
    assert curve.points[1].rate_per_s == pytest.approx(2 * curve.points[0].rate_per_s)


def test_no_load_met_and_all_loads_met_are_told_as_such(write: Write) -> None:
    found = write(RATE, {"rate=100/s": 3.0, "rate=200/s": 3.0})
    assert knees(found.curves).rows[0][2:5] == ("none compared", "n/a", "rate=100/s")
    assert "not shown to meet the budget at the least load" in knees_told(found.curves)[0]


def _named(curve: Curve, fabric: str, policy: str, met: int) -> Curve:
    """The curve under other names, its first ``met`` loads met and the others missed."""
    points = tuple(
        replace(point, row=replace(point.row, verdict=MET if place < met else MISSED))
        for place, point in enumerate(curve.points)
    )
    return replace(curve, fabric=fabric, policy=policy, points=points)


def test_every_fabric_is_told_its_best_policy_and_the_first_to_break(write: Write) -> None:
    rates = {f"rate={n}/s": 0.3 for n in (50, 100, 200)}
    (curve,) = curves(*given(write(RATE, rates)))
    swept = [
        *(_named(curve, "tree", "random", 1), _named(curve, "tree", "static", 2)),
        *(_named(curve, "mesh", "random", 0), _named(curve, "mesh", "static", 0)),
        *(_named(curve, "ring", "random", 3), _named(curve, "ring", "static", 3)),
    ]
    tree, mesh, ring = knees_told(swept)
    assert tree.startswith("Load: tree with static meets the budget up to rate=100/s (")
    assert tree.endswith("Of its 2 policies random breaks first: up to rate=50/s.")
    assert "mesh with random is not shown to meet the budget at the least load" in mesh
    assert ring.endswith("the highest compared. The other policy gets as far.")
    best, last = knees_told([replace(c, fabric=f"{c.fabric} {n}") for c in swept for n in "ab"])
    assert best.startswith("Load, furthest of 6 fabrics: ring a with ")
    assert last.startswith("Load, first to break of 6 fabrics: mesh b with ")


def test_the_title_of_a_panel_tells_how_far_the_best_and_the_worst_policy_get(
    write: Write,
) -> None:
    found = write(RATE, {f"rate={n}/s": 0.3 for n in (50, 100, 200)}, ("random", "least_loaded"))
    first, second = found.curves
    swept = [_named(first, "f", first.policy, 2), _named(second, "f", second.policy, 0)]
    title = load(swept, found.study.manifest).figure.axes[0].get_title(loc="left")
    assert title == "f\nbudget met up to rate=100/s at best,\nat no load at worst"


def test_an_unknown_axis_is_no_sweep_and_no_loss(write: Write) -> None:
    found = write("network.balancing", {"a": 1.0, "b": 1.0})
    assert not curves(*given(found))
    assert not losses(*given(found))
    assert not loads(found.curves).rows
    assert {"load", "losses"}.isdisjoint(plot.name for plot in plots(found))


def test_losses_are_held_against_the_whole_fabric_and_sorted_by_the_tail(write: Write) -> None:
    found = write(FAULTS, {"a down": 1.0, HEALTHY: 0.5, "b removed": 2.0})
    (mine,) = losses(*given(found))
    assert mine.healthy.fabric == f"mesh {HEALTHY}"
    assert [loss.what for loss in mine.each] == ["b removed", "a down"]
    worst = mine.each[0]
    assert mine.times(worst) == worst.tail / mine.healthy.tail.value  # type: ignore[union-attr]
    assert worst.more is not None
    gap = worst.more.gap
    assert gap.value == worst.tail - mine.healthy.tail.value  # type: ignore[union-attr]
    assert gap.low > 0
    rows = lost(found.losses).rows
    assert [row[2] for row in rows] == [HEALTHY, "b removed", "a down"]
    (line,) = losses_told(found.losses)
    assert "worst of 2 losses for mesh with random is b removed" in line


def test_a_loss_that_leaves_requests_unserved_is_the_worst_whatever_its_tail(write: Write) -> None:
    found = write(FAULTS, {HEALTHY: 0.5, "a down": 0.5, "b removed": 2.0})
    rows = [replace(row, failed=7 * ("a down" in row.fabric)) for row in found.summaries]
    hurt = losses(found.samples, rows, found.study.manifest)
    (mine,) = hurt
    assert [(loss.what, loss.unserved) for loss in mine.each] == [("a down", 7), ("b removed", 0)]
    assert lost(hurt).rows[1][4].endswith(", 7 requests not served")
    (line,) = losses_told(hurt)
    assert line.endswith("over budget, 7 requests not served.")


def test_one_loss_is_not_told_as_the_worst_of_several(write: Write) -> None:
    found = write(FAULTS, {HEALTHY: 0.5, "b removed": 2.0})
    (line,) = losses_told(found.losses)
    assert line.startswith("N-1: the only loss for mesh with random is b removed: ")


def test_the_title_of_a_tornado_counts_verdicts_and_not_where_bars_end(write: Write) -> None:
    found = write(FAULTS, {HEALTHY: 0.3, "a down": 0.3, "b removed": 3.0})
    (mine,) = found.losses
    rows = [
        replace(loss, row=replace(loss.row, verdict=verdict))
        for loss, verdict in zip(mine.each, (UNDECIDED, MET), strict=True)
    ]
    drawn = tornado([replace(mine, each=tuple(rows))], found.study.manifest)
    title = drawn.figure.axes[0].get_title(loc="left")
    assert title == "mesh\n1 pass, 1 undecided; worst: b removed"


def test_an_interval_that_ends_beyond_the_tornado_has_an_arrow(write: Write) -> None:
    found = write(FAULTS, {HEALTHY: 0.3, "a down": 0.3, "b removed": 3.0})
    (mine,) = found.losses

    def arrows(high: float) -> int:
        rows = [
            replace(loss, row=replace(loss.row, tail=replace(loss.row.tail, high=high)))
            for loss in mine.each
            if loss.row.tail is not None
        ]
        (axes,) = tornado([replace(mine, each=tuple(rows))], found.study.manifest).figure.axes
        return sum(line.get_marker() == ">" for line in axes.lines)

    assert [arrows(high * MS) for high in (3.1, 1e6, inf)] == [0, 2, 2]


def test_a_loss_without_its_whole_fabric_is_not_told(write: Write) -> None:
    found = write(FAULTS, {"a down": 1.0, "b removed": 2.0})
    assert not losses(*given(found))


def test_what_never_ended_is_the_worst_loss_and_has_no_difference(write: Write) -> None:
    found = write(FAULTS, {HEALTHY: 0.5, "a down": 3.0, "b down": 0.5}, infinite=["b down"])
    (mine,) = losses(*given(found))
    assert [loss.what for loss in mine.each] == ["b down", "a down"]
    assert mine.each[0].tail == np.inf
    assert mine.each[0].more is None
    assert "not finished" in lost(found.losses).rows[1]
    (drawn,) = [plot for plot in plots(found) if plot.name == "losses"]
    texts = [text.get_text() for text in drawn.figure.axes[0].texts]
    assert any(text.startswith("never finished, ") for text in texts)


def test_the_sweep_is_drawn_with_the_same_axes_units_budget_and_knee(write: Write) -> None:
    found = write(RATE, {"rate=50/s": 0.3, "rate=100/s": 3.0}, ("random", "least_loaded"))
    (drawn,) = [plot for plot in plots(found) if plot.name == "load"]
    tail, over = drawn.figure.axes[:2]
    assert tail.get_ylabel().endswith("hand-off time (ms)")
    assert (over.get_ylabel(), over.get_xlabel()) == ("over budget (%)", "requests/s offered")
    assert tail.get_xlim() == over.get_xlim()
    assert {"budget\n5 ms"} <= {text.get_text() for text in tail.texts}
    assert tail.get_title(loc="left") == "mesh\nbudget met up to rate=50/s"
    met = [row[drawn.columns.index("met_up_to")] for row in drawn.rows]
    assert met == [1, 0, 1, 0]


def test_the_report_has_both_figures_with_their_data_and_sections(write: Write) -> None:
    found = write(RATE, {"rate=50/s": 0.3, "rate=100/s": 3.0})
    assert found.place is not None
    text = write_report(found.place, found).read_text("utf-8")
    assert '<h2 id="load">' in text
    assert '<h2 id="losses">' not in text
    for kind in ("svg", "png", "csv"):
        assert (found.place / "plots" / f"load.{kind}").stat().st_size > 100


def test_the_figure_of_cost_has_a_design_once_whatever_its_losses(write: Write) -> None:
    found = write(FAULTS, {"a down": 3.0, HEALTHY: 0.5}, ("random", "least_loaded"))
    (drawn,) = [plot for plot in plots(found) if plot.name == "cost"]
    assert [row[:2] for row in drawn.rows] == [("mesh", "random"), ("mesh", "least_loaded")]
    assert "Each is drawn at the worst of its loads, losses and workloads." in drawn.says
