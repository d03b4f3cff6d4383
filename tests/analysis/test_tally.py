"""Every request is accounted for: arrived = finished + rejected + failed + in flight."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.error import SummaryError
from analysis.record import Cell, read_study
from analysis.report import write_report
from analysis.summary import samples
from analysis.tally import Tally, tallies, tally, told

Rows = Callable[..., Cell]


def test_the_four_ends_add_up_over_all_requests_warm_up_included(make_rows: Rows) -> None:
    ends = [0, 0, 1, 2, 3, 3]
    cell = make_rows([{"status": end} for end in ends], warmup_requests=2)
    assert tally([cell, cell]) == Tally(finished=4, rejected=2, failed=4, in_flight=2)
    assert tally([cell, cell]).arrived == 12


def test_a_status_that_no_run_gives_is_told(make_rows: Rows) -> None:
    with pytest.raises(SummaryError, match="status 7 of a request: unknown"):
        tally([make_rows([{"status": 0}, {"status": 7}])])


def test_a_line_does_where_all_have_finished_and_a_report_has_the_table(
    tmp_path: Path, make_study: Callable[..., Path]
) -> None:
    out = make_study(tmp_path, fabrics=["fat tree"], policies=["a", "b"], seeds=[1, 2], count=30)
    parts = samples(read_study(out))
    assert told(parts) == "Requests: 60 arrived an alternative, warm-up included, and all finished."
    assert tallies(parts).rows[1] == ("fat tree", "b", "60", "60", "0", "0", "0")
    write_report(out)
    assert "What became of the requests" in (out / "report.html").read_text("utf-8")
    head, row, _ = (out / "summary.csv").read_text("utf-8").splitlines()
    found = dict(zip(head.split(","), row.split(","), strict=True))
    assert (found["rejected"], found["failed"]) == ("0", "0")


def test_what_could_not_run_has_no_row(tmp_path: Path, make_study: Callable[..., Path]) -> None:
    barred = [("fat tree", "a")]
    out = make_study(tmp_path, fabrics=["fat tree"], policies=["a"], seeds=[1], impossible=barred)
    parts = samples(read_study(out))
    assert (tallies(parts).rows, told(parts)) == ((), "")
