"""The queue that waited most, over time: which it is, what is drawn of it, and what is told."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from analysis.observed import OBSERVED
from analysis.plot.queue import queues, stairs
from analysis.plot.style import png
from analysis.queue import Queue, longest
from analysis.record import Cell
from analysis.summary import Sample

MS = 10**9
KB = 1000
Make = Callable[..., Cell]


def table(name: str, rows: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    columns = np.array(rows, np.int64).reshape(-1, len(OBSERVED[name])).T
    return dict(zip(OBSERVED[name], columns, strict=True))


def sample(make_rows: Make, policy: str = "p", **rows: list[tuple[int, ...]]) -> Sample:
    """A cell of three ports; 1 waits longest, though 2 is fuller once."""
    plain = make_rows([{}], (), [{"port": port, "rate_bps": 10**11} for port in range(3)])
    told = {
        "series": [
            (2, 9 * MS, MS, 900 * KB, 950 * KB),
            (1, 4 * MS, MS, 300 * KB, 600 * KB),
            (1, 2 * MS, MS, 400 * KB, 500 * KB),
            (1, 5 * MS, MS, 500 * KB, 700 * KB),
        ],
        **rows,
    }
    tables = {name: table(name, told.get(name, [])) for name in OBSERVED}
    return Sample("f", policy, (replace(plain, observed=tables),), (), (), None)


def one(make_rows: Make, **rows: list[tuple[int, ...]]) -> Queue:
    ((_, queue),) = longest([sample(make_rows, "p", **rows)], None)
    return queue


def test_the_queue_with_most_bytes_times_time_is_shown_in_order_of_time(make_rows: Make) -> None:
    queue = one(make_rows)
    assert queue.port == 1
    assert (queue.since // MS).tolist() == [2, 4, 5]
    steps, edges = stairs(queue, queue.mean)
    assert (edges // MS).tolist() == [2, 3, 4, 5, 6]
    assert (steps // KB).tolist() == [400, 0, 300, 500]


def test_the_span_shown_has_nearly_all_that_waited_and_the_peak(make_rows: Make) -> None:
    assert one(make_rows).busiest() == (2 * MS, 6 * MS)
    brief = [(1, 0, MS, 10 * KB, 990 * KB), (1, 5 * MS, 4 * MS, 500 * KB, 600 * KB)]
    assert one(make_rows, series=brief).busiest() == (0, 9 * MS)
    low = [(1, 0, MS, 10 * KB, 10 * KB), (1, 5 * MS, 4 * MS, 500 * KB, 600 * KB)]
    assert one(make_rows, series=low).busiest() == (5 * MS, 9 * MS)


def test_pauses_of_the_port_and_by_its_queue_are_bars_and_the_first_are_told(
    make_rows: Make,
) -> None:
    stops = [(1, 3, 3 * MS, 5 * MS, 2), (0, 3, 4 * MS, -1, 1), (1, 3, 4 * MS, 6 * MS, 2)]
    found = longest([sample(make_rows, stops=stops)], None)
    (queue,) = (queue for _, queue in found)
    assert queue.stopped[0].tolist() == [3 * MS, 4 * MS]
    assert queue.stops[0].tolist() == [4 * MS]
    plot = queues(found)
    (axes,) = plot.figure.axes
    assert axes.get_title(loc="left").endswith("seed 1, peak 700 kB, stopped 3 ms")
    (legend,) = plot.figure.legends
    assert [text.get_text() for text in legend.get_texts()][2:] == [
        "the port is stopped (PFC)",
        "its queue has others stopped",
    ]
    assert next(row[3:] for row in plot.rows) == ("s0:1", 2.0, 3.0, 400 * KB, 500 * KB)
    assert png(plot)[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("marks", "lines", "texts"),
    [
        ((100 * KB, 400 * KB), 2, ["Kmin 100 kB", "Kmax 400 kB"]),
        ((100 * KB, 110 * KB), 2, ["Kmin 100 kB, Kmax 110 kB"]),
        ((600 * KB, 9_000 * KB), 1, ["Kmin 600 kB", "Kmax 9 MB above"]),
        ((8_000 * KB, 9_000 * KB), 0, ["Kmin 8 MB above, Kmax 9 MB above"]),
    ],
)
def test_thresholds_are_lines_where_they_lie_near_and_told_where_not(
    make_rows: Make, marks: tuple[int, int], lines: int, texts: list[str]
) -> None:
    plot = queues(longest([sample(make_rows, marking=[(0, 1, 2), (1, *marks)])], None))
    (axes,) = plot.figure.axes
    assert len(axes.get_lines()) == lines
    assert [text.get_text() for text in axes.texts] == texts


def test_all_panels_have_the_same_scales(make_rows: Make) -> None:
    short = [(0, 0, MS // 2, 10 * KB, 20 * KB)]
    plot = queues(
        longest([sample(make_rows), sample(make_rows, "q", series=short)], None), " Some."
    )
    first, second = plot.figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert np.ptp(first.get_xlim()) == pytest.approx(np.ptp(second.get_xlim()))
    assert plot.says.endswith("it has no line. Some.")


def test_nothing_is_drawn_where_nothing_waited(make_rows: Make) -> None:
    assert longest([sample(make_rows, series=[])], None) == []
