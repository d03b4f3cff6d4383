"""Blocks of lines read at once: the same requests and refusals as line by line, in less memory."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from traffic.error import TraceError
from traffic.load.summary import peak_to_mean, spread, summary
from traffic.request import Prefix, request_table
from traffic.trace import column
from traffic.trace.record import Record
from traffic.trace.registry import Shelf, trace
from traffic.trace.table import text
from traffic.trace.text import Limit

WEIRD = st.sampled_from(["", "-1", "0", "7", " 7", '"7"', "07", "7.", ".5", "1e3", "+7", "7\r"])
WEIRD |= st.sampled_from(["\u0665", "9" * 12, "9" * 13, "9" * 19, "1.2.3", "nan", "0x1f", "-"])
MOMENTS = st.sampled_from(
    [
        "2023-11-16 18:17:03.9799600",
        "2024-02-29T23:59:59.000000000001+00:00",
        "2024-05-10 00:00:00Z",
        "2024-05-10 00:00:00.5+0000",
        "2024-05-10 00:00:00+00:00Z",
        "2023-02-29 00:00:00",
        "2023-00-01 00:00:00",
        "0000-01-01 00:00:00",
        "2023-11-31 00:00:00",
        "2023-11-16 24:00:00",
        "2023-11-16 18:60:03",
        "2023-11-16 18:17:60",
        "2023-11-16 18:17:03.",
        "2023-11-16 18:17:03.1234567890123",
        "2023/11/16 18:17:03",
        "2023-11-16 18:17",
        "9999-12-31 23:59:59",
    ]
)
TOKENS = st.integers(0, 3000).map(str)
HEADERS = {
    "table": (
        "arrival_ms,input_tokens,output_tokens,tenant,note",
        st.floats(0, 9).map("{:.4f}".format),
    ),
    "azure": ("TIMESTAMP,ContextTokens,GeneratedTokens,a,b", MOMENTS),
    "burstgpt": ("Timestamp,Request tokens,Response tokens,a,b", st.integers(0, 9).map(str)),
}


@pytest.fixture
def by_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Make traces be read line by line, or in blocks again; nothing is kept in between."""
    given_cells = column.cells_of

    def choose(lines: bool) -> None:
        monkeypatch.setattr(column, "cells_of", (lambda *_: None) if lines else given_cells)
        monkeypatch.setattr("traffic.trace.registry._SHELF", Shelf())

    return choose


def read(path: Path, **asked: object) -> tuple[object, ...]:
    try:
        found = trace(path, **asked)  # type: ignore[arg-type]
    except TraceError as error:
        return (str(error),)
    table = found.requests
    return (found.format, *found.notes, *(c.tolist() for c in table.columns().values()))


@pytest.mark.parametrize("form", HEADERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_block_is_read_as_its_lines_are_or_refused_with_the_same_words(
    tmp_path: Path, by_line: Callable[[bool], None], form: str, data: st.DataObject
) -> None:
    header, times = HEADERS[form]
    plain = st.tuples(times, TOKENS, TOKENS, TOKENS, st.just("x")).map(list)
    rows = data.draw(st.lists(plain, min_size=1, max_size=6))
    if data.draw(st.booleans()):
        rows.sort()
    if data.draw(st.booleans()):
        row, place = data.draw(st.sampled_from(rows)), data.draw(st.integers(0, 4))
        row[place : place + 1] = data.draw(WEIRD.map(lambda cell: [cell]) | st.just([]))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    path = tmp_path / "t"
    path.write_bytes(end.join([header, *(",".join(row) for row in rows)]).encode())
    by_line(True)
    slowly = read(path)
    by_line(False)
    assert read(path) == slowly


def test_a_clock_beyond_64_bits_counts_from_its_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traffic.trace.text._BLOCK_BYTES", 60)
    path = tmp_path / "t"
    rows = "".join(f"{10**12 + t},5,5\n" for t in range(20))
    path.write_text("Timestamp,Request tokens,Response tokens\n" + rows, encoding="utf-8")
    assert trace(path).requests.arrival_ps.tolist() == [t * 10**12 for t in range(20)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_where_the_blocks_end_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, pack: Callable[[bytes], bytes]
) -> None:
    rows = "".join(f"{t / 8},{t % 90 + 1},{t % 7}\n" for t in range(200))
    path = tmp_path / "t"
    header = "arrival_s,input_tokens,output_tokens"
    path.write_bytes(pack(f"{header}\n{rows}".encode()))
    whole = read(path)
    monkeypatch.setattr("traffic.trace.text._BLOCK_BYTES", size)
    monkeypatch.setattr("traffic.trace.registry._SHELF", Shelf())
    assert read(path) == whole
    upto = np.cumsum([len(line) + 1 for line in [header, *rows.splitlines()]])
    first = int(np.argmax(upto > 1000)) + 1
    with pytest.raises(TraceError, match=f"t:{first}: text above 1kB; cut the trace"):
        trace(path, limit=Limit(line_bytes=40, text_bytes=1000))


@pytest.mark.parametrize(
    "content",
    [
        "arrival_s,input_tokens,output_tokens,tenant\r\n0.25,5,5,3\r\n1,6,6,0\r\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,5,5\n"
        "2023-11-16 18:17:04+00:00,6,6",
        "Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,5,5\n6.5,ChatGPT,6,6\n",
    ],
    ids=["table", "azure", "burstgpt"],
)
def test_plain_rows_are_not_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(Record, "add", lambda *_: pytest.fail("read by line"))
    path = tmp_path / "t"
    path.write_bytes(content.encode())
    assert trace(path).requests.input_tokens.tolist() == [5, 6]


def test_a_wrong_row_behind_many_blocks_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traffic.trace.text._BLOCK_BYTES", 512)
    path = tmp_path / "t"
    rows = [f"{t},5,5" for t in range(5000)]
    rows[4321] = "4321,five,5"
    path.write_text("\n".join(["arrival_ms,input_tokens,output_tokens", *rows]), encoding="utf-8")
    with pytest.raises(TraceError, match="t:4323: input_tokens 'five' is no whole number"):
        trace(path)


def test_a_window_stops_the_reading_behind_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traffic.trace.text._BLOCK_BYTES", 4096)
    path = tmp_path / "t"
    lines = (f"{t},5,5\n" for t in range(100_000))
    path.write_text("arrival_ms,input_tokens,output_tokens\n" + "".join(lines), encoding="utf-8")
    told: list[float] = []
    found = trace(path, window_ps=(10**12, 2 * 10**12), progress=told.append)
    assert found.requests.arrival_ps.tolist() == [t * 10**9 for t in range(1000)]
    assert 0 < max(told) < 0.12  # 10,000 rows tell ticks from chance
    trace(path, progress=told.append)
    assert max(told) > 0.99
    assert told[-1] == max(told)


def test_reading_and_summing_up_take_little_more_than_sixteen_bytes_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traffic.trace.text._BLOCK_BYTES", 2**14)
    monkeypatch.setattr("traffic.load.summary._PIECE", 2**12)
    count = 150_000
    path = tmp_path / "t"
    lines = (f"{t},{t % 977 + 1},{t % 89}\n" for t in range(count))
    path.write_text("arrival_us,input_tokens,output_tokens\n" + "".join(lines), encoding="utf-8")
    tracemalloc.start()
    try:
        found = summary(trace(path).requests)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.count == count
    assert most < 16 * count * 1.3 + 10**6


def test_a_table_is_written_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = Prefix(np.arange(11), np.arange(10) * 7, 16)
    table = request_table(
        arrival_ps=range(10), input_tokens=[9] * 10, output_tokens=[1] * 10, prefix=prefix
    )
    whole = list(text(table))
    assert whole[10] == "9,9,1,63\n"
    monkeypatch.setattr("traffic.load.summary._PIECE", 3)
    assert list(text(table)) == whole


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_counted_lengths_have_the_spread_that_sorted_ones_have(lengths: list[int]) -> None:
    values = np.array(lengths, np.int32)
    found = spread(values)
    assert (found.p50, found.p95, found.p99) == pytest.approx(
        np.percentile(values, (50, 95, 99)).tolist(), abs=1e-9
    )
    assert (found.mean, found.std) == pytest.approx((values.mean(), values.std()), abs=1e-9)
    assert found.most == max(lengths)


def test_a_length_beyond_the_counters_is_sorted_instead() -> None:
    found = spread(np.array([1, 2**31 - 1, 5, 2**31 - 1], np.int64))
    assert (found.p50, found.most) == ((5 + 2**31 - 1) / 2, 2**31 - 1)


@given(st.lists(st.integers(0, 5 * 10**12), min_size=2, max_size=80), st.integers(1, 40))
@example([0, 10**12 - 1, 10**12, 10**12], 1)
def test_the_busiest_second_does_not_depend_on_the_pieces(times: list[int], piece: int) -> None:
    arrival = np.sort(np.array(times, np.int64))
    span = int(arrival[-1] - arrival[0])
    counts = np.bincount((arrival - arrival[0]) // 10**12)
    expected = counts.max() * span / (len(times) - 1) / 10**12 if span else 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("traffic.load.summary._PIECE", piece)
        assert peak_to_mean(arrival) == pytest.approx(expected)
