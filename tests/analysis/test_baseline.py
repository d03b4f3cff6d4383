"""All policies of a fabric stand in one table, as paired differences from the base."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.baseline import LEGEND, baseline, rivals, short
from analysis.error import SummaryError
from analysis.page import numeric
from analysis.record import read_study
from analysis.report import write_report
from analysis.result import result
from analysis.summary import samples

MakeStudy = Callable[..., Path]
FABRIC = "fat tree"


def test_the_gap_is_the_mean_of_the_differences_of_each_seed(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    study = read_study(
        make_study(tmp_path, fabrics=[FABRIC], policies=["random", "least_loaded"], seeds=[1, 2, 3])
    )
    parts = samples(study)
    (rival,) = rivals(parts, study.manifest)
    means = [np.array([each.duration.mean() for each in part.handoffs]) for part in parts]
    gap = rival.gaps["handoff_mean"]
    differences = means[1] - means[0]
    assert rival.policy == "least_loaded"
    assert gap.gap.value == pytest.approx(differences.mean())
    half = 4.302653 * differences.std(ddof=1) / np.sqrt(3)  # t(2, 97.5 %)
    assert gap.gap.high - gap.gap.value == pytest.approx(half, rel=1e-6)


def test_every_policy_has_a_row_on_every_fabric_and_the_base_stands_first(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    policies = ["random", "round_robin", "least_loaded"]
    fabrics = [FABRIC, "full mesh"]
    study = read_study(
        make_study(tmp_path, fabrics=fabrics, policies=policies, seeds=[1, 2], impossible=[])
    )
    told = baseline(samples(study), study.manifest, "least_loaded")
    assert told.title == "Policies against least_loaded"
    assert told.columns[:4] == ("fabric", "policy", "seeds", "mean hand-off, ms")
    order = ["least_loaded", "random", "round_robin"]
    assert [row[:2] for row in told.rows] == [(f, p) for f in fabrics for p in order]
    assert " to " not in told.rows[0][3]
    assert all(" to " in row[3] for row in told.rows if row[1] != "least_loaded")


def test_only_what_survives_the_count_of_comparisons_is_marked(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    study = read_study(
        make_study(
            tmp_path,
            fabrics=[FABRIC],
            policies=["random", "least_loaded", "same"],
            seeds=list(range(1, 9)),
            impossible=[],
        )
    )
    held = {rival.policy: rival for rival in rivals(samples(study), study.manifest)}
    assert "handoff_mean" in held["least_loaded"].found
    rows = {row[1]: row for row in baseline(samples(study), study.manifest).rows}
    assert rows["least_loaded"][3].endswith(") *")
    assert rows["least_loaded"][3].startswith("-")


def test_one_seed_bounds_nothing_and_marks_nothing(tmp_path: Path, make_study: MakeStudy) -> None:
    study = read_study(
        make_study(tmp_path, fabrics=[FABRIC], policies=["random", "least_loaded"], seeds=[1])
    )
    table = baseline(samples(study), study.manifest)
    assert table.rows[1][3].endswith(" (one seed)")
    assert "one seed gives none" in table.text


def test_no_difference_in_the_only_seed_is_told_as_the_same_and_not_as_an_interval(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    study = read_study(
        make_study(tmp_path, fabrics=[FABRIC], policies=["random", "least_loaded"], seeds=[1])
    )
    first, second = samples(study)
    twin = replace(second, cells=first.cells, handoffs=first.handoffs, budgets=first.budgets)
    table = baseline((first, twin), study.manifest)
    assert set(table.rows[1][3:]) == {"same (one seed)"}
    assert all(numeric(cell) for cell in table.rows[1][3:])


def test_a_policy_that_cannot_run_has_no_number(tmp_path: Path, make_study: MakeStudy) -> None:
    policies = ["random", "least_loaded", "round_robin"]
    barred = [(FABRIC, "least_loaded")]
    study = read_study(
        make_study(tmp_path, fabrics=[FABRIC], policies=policies, seeds=[1, 2], impossible=barred)
    )
    assert baseline(samples(study), study.manifest).rows[1][2:4] == ("0", "n/a")
    assert baseline(samples(study)[:2], study.manifest).rows == ()


def test_a_single_policy_has_no_table_and_an_unknown_base_is_told(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    study = read_study(make_study(tmp_path, fabrics=[FABRIC], policies=["random"], seeds=[1, 2]))
    assert baseline(samples(study), study.manifest).rows == ()
    with pytest.raises(SummaryError, match=r"base 'rnd': no policy.*write one of \['random'\]"):
        baseline(samples(study), study.manifest, "rnd")


def test_report_summary_and_csv_hold_the_table(tmp_path: Path, make_study: MakeStudy) -> None:
    out = make_study(
        tmp_path, fabrics=[FABRIC], policies=["random", "least_loaded"], seeds=[1, 2, 3]
    )
    write_report(out, result(read_study(out), out, base="least_loaded"))
    for name in ("report.html", "summary.md"):
        text = (out / name).read_text("utf-8").replace("\\", "")
        assert "Policies against least_loaded" in text
        assert "mean hand-off, ms" in text
    assert LEGEND in (out / "report.html").read_text("utf-8")
    head, *rows = (out / "policies.csv").read_text("utf-8").splitlines()
    assert head == "fabric,policy,base,measure,unit,seeds,difference,low,high,found"
    assert rows[0].startswith("fat tree,random,least_loaded,handoff_mean,time,3,")


def test_a_terminal_gets_no_column_that_says_the_same_in_every_row(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    study = read_study(
        make_study(tmp_path, fabrics=[FABRIC], policies=["random", "least_loaded"], seeds=[1, 2])
    )
    columns, rows = short(baseline(samples(study), study.manifest))
    assert columns == ("policy", "mean hand-off, ms", "over budget, points", "mean TTFT, ms")
    assert [row[0] for row in rows] == ["random", "least_loaded"]


def test_many_policies_stand_below_each_other_and_few_side_by_side(
    tmp_path: Path, make_study: MakeStudy
) -> None:
    for count, heads in ((3, ["fabric", "p0", "p1", "p2"]), (8, ["policy", FABRIC])):
        place = tmp_path / f"{count}"
        policies = [f"p{number}" for number in range(count)]
        make_study(place, fabrics=[FABRIC], policies=policies, seeds=[1], impossible=[])
        text = write_report(place).read_text("utf-8").split('aria-label="Alternatives"')[1]
        head = text.split("</thead>")[0]
        found = [each.split(">", 1)[1].split("<")[0] for each in head.split("<th ")[1:]]
        assert found == heads
        assert all(f">{policy}</th>" in text for policy in policies)
