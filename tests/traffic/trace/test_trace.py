"""Trace readers on small files: what is accepted, what is refused, and where."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import TraceError
from traffic.trace.registry import Shelf, Trace, shelf, take_over, trace
from traffic.trace.text import Limit, Text
from traffic.trace.tick import inside_tick, tick

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
AZURE = (
    f"{HEADER}\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,0\n"
    "2023-11-17 00:00:00,110,1\n"
)
MOONCAKE = (
    '{"timestamp": 500, "input_length": 513, "output_length": 5, "hash_ids": [0, 7]}\n'
    '{"timestamp": 1500, "input_length": 512, "output_length": 0, "hash_ids": [0]}\n'
)
TICK_PS = 3 * 10**12
Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(content: str | bytes, name: str = "trace") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def ticked(ticks: int, each: int, step_ms: int = 3000) -> str:
    row = {"input_length": 9, "output_length": 1}
    return "".join(
        json.dumps({"timestamp": t * step_ms, **row}) + "\n"
        for t in range(ticks)
        for _ in range(each)
    )


def columns(found: Trace) -> tuple[list[int], list[int], list[int]]:
    table = found.requests
    return table.arrival_ps.tolist(), table.input_tokens.tolist(), table.output_tokens.tolist()


def test_azure_timestamps_keep_their_seven_digits(written: Write) -> None:
    found = trace(written(AZURE))
    midnight = ((5 * 60 + 42) * 60 + 56) * 10**12 + 20_040_000_000
    assert columns(found) == ([0, 52_000_000_000, midnight], [4808, 3180, 110], [10, 0, 1])
    assert found.format == "azure"
    assert found.notes == []
    assert found.requests.prefix is None


def test_azure_columns_may_stand_in_any_order_with_others_beside(written: Write) -> None:
    text = "id,GeneratedTokens,TIMESTAMP,ContextTokens\na,3,2024-05-10T00:00:00.009930+00:00,7\n"
    assert columns(trace(written(text))) == ([0], [7], [3])


def test_mooncake_blocks_are_read_with_their_partial_last_one(written: Write) -> None:
    found = trace(written(MOONCAKE))
    assert columns(found) == ([0, 10**12], [513, 512], [5, 0])
    prefix = found.requests.prefix
    assert prefix is not None
    assert (prefix.of(0).tolist(), prefix.of(1).tolist()) == ([0, 7], [0])
    assert prefix.block_tokens == 512


@pytest.mark.parametrize("text", [AZURE, MOONCAKE], ids=["azure", "mooncake"])
@pytest.mark.parametrize(
    "disguise",
    [
        lambda b: b"\xef\xbb\xbf" + b,
        lambda b: b.replace(b"\n", b"\r\n"),
        gzip.compress,
        lambda b: gzip.compress(b"\xef\xbb\xbf" + b.replace(b"\n", b"\r\n")),
        lambda b: b.rstrip(b"\n"),
        lambda b: b"\n\n" + b + b"\n \n",
    ],
    ids=["bom", "crlf", "gzip", "gzip+bom+crlf", "no last newline", "blank lines"],
)
def test_the_same_rows_come_out_of_every_disguise(
    written: Write, text: str, disguise: Callable[[bytes], bytes]
) -> None:
    plain = columns(trace(written(text)))
    assert columns(trace(written(disguise(text.encode()), "wrong.name.json.csv"))) == plain


def azure(*cells: str) -> str:
    return f"{HEADER}\n2023-11-16 18:17:03,5,5\n" + ",".join(cells) + "\n"


def mooncake(**change: Any) -> str:
    row = {"timestamp": 600, "input_length": 5, "output_length": 5, **change}
    return MOONCAKE.splitlines()[0] + "\n" + json.dumps(row) + "\n"


LATER = "2023-11-16 18:17:04"
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "trace: empty"),
    "only blank lines": ("\n\n", "trace: empty"),
    "header only": (HEADER + "\n", "trace: no requests"),
    "another format": ("a,b\n1,2\n", "trace:1: not a known trace format; give CSV"),
    "binary": (b"\x00\xff\x93NUMPY", "trace:1: not UTF-8 text"),
    "missing column": ("TIMESTAMP,ContextTokens\n", "trace:1: column GeneratedTokens is missing"),
    "short row": (azure(LATER, "5"), "trace:3: 2 cells under 3 columns"),
    "long row": (azure(LATER, "5", "5", "5"), "trace:3: 4 cells"),
    "no number": (azure(LATER, "many", "5"), "trace:3: ContextTokens 'many' is no whole number"),
    "empty cell": (azure(LATER, "", "5"), "trace:3: ContextTokens ''"),
    "NaN": (azure(LATER, "NaN", "5"), "trace:3: ContextTokens 'NaN'"),
    "fraction": (azure(LATER, "5", "5.5"), "trace:3: GeneratedTokens '5.5'"),
    "unicode digits": (azure(LATER, "\u0665", "5"), "trace:3: ContextTokens"),
    "negative": (azure(LATER, "5", "-1"), "trace:3: output of -1 tokens; must be 0 to"),
    "no input": (azure(LATER, "0", "5"), "trace:3: input of 0 tokens; must be 1 to"),
    "huge": (azure(LATER, "99999999999", "5"), "trace:3: input of 99999999999 tokens"),
    "no time": (azure("yesterday", "5", "5"), "trace:3: TIMESTAMP 'yesterday'; write it as"),
    "no date": (azure("2023-02-30 00:00:00", "5", "5"), "trace:3: .* is no date"),
    "no time of day": (azure("2023-11-16 25:00:00", "5", "5"), "trace:3: .* is no time of day"),
    "out of order": (
        azure(LATER, "5", "5") + "2023-11-16 18:17:03.5,5,5\n",
        "trace:4: .* 0.5 s before the row",
    ),
    "before the first": (
        azure("2023-11-16 18:17:01", "5", "5"),
        "trace:3: .* before the first row's",
    ),
    "far future": (azure("9999-01-01 00:00:00", "5", "5"), "trace:3: .* beyond 4e6 s"),
    "no JSON": ("{timestamp}\n", "trace:1: JSON is malformed"),
    "cut JSON": (MOONCAKE.splitlines()[0][:30], "trace:1: Input data was truncated"),
    "array": (MOONCAKE + "[1]\n", "trace:3: Expected `object`"),
    "missing key": ('{"timestamp": 0}\n', "trace:1: .*missing required field `input_length`"),
    "text for number": (mooncake(input_length="5"), "trace:2: Expected `int`, got `str`"),
    "JSON NaN": (mooncake(timestamp=float("nan")), "trace:2: JSON is malformed"),
    "negative time": (mooncake(timestamp=-1), "trace:2: Expected `float` >= 0"),
    "back in time": (mooncake(timestamp=400), "trace:2: the timestamp is before the first row's"),
    "null": (mooncake(output_length=None), "trace:2: Expected `int`, got `null`"),
    "negative block": (mooncake(hash_ids=[-1]), "trace:2: Expected `int` >= 0"),
    "too many blocks": (mooncake(hash_ids=[1, 2]), "trace:2: 2 hash_ids for 5 input tokens"),
    "deep nesting": ('{"x": ' + "[" * 100_000 + "\n", "trace:1: nested too deep"),
    "broken gzip": (gzip.compress(AZURE.encode())[:40], "broken gzip data"),
    "no gzip inside": (b"\x1f\x8bnothing", "broken gzip data"),
}


@pytest.mark.parametrize(("content", "told"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_one_line_with_its_place(
    written: Write, content: str | bytes, told: str
) -> None:
    with pytest.raises(TraceError, match=told) as refused:
        trace(written(content))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        trace(tmp_path / "none")
    with pytest.raises(TraceError, match="not a file"):
        trace(tmp_path)


def test_limits_bound_a_line_the_text_and_the_rows(written: Write) -> None:
    path = written(AZURE)
    with pytest.raises(TraceError, match="trace:1: line above 10B"):
        trace(path, limit=Limit(line_bytes=10))
    with pytest.raises(TraceError, match="trace:3: text above 80B"):
        trace(path, limit=Limit(text_bytes=80))
    with pytest.raises(TraceError, match="trace:4: more than 2 rows"):
        trace(path, limit=Limit(rows=2))


def test_a_gzip_bomb_is_cut_at_the_text_limit(written: Write) -> None:
    bomb = gzip.compress((MOONCAKE.splitlines()[0] + "\n").encode() * 100_000)
    assert len(bomb) < 100_000
    with pytest.raises(TraceError, match="text above 1MB"):
        trace(written(bomb), limit=Limit(text_bytes=1_000_000))


def test_a_window_takes_its_start_and_leaves_its_end(written: Write) -> None:
    text = "".join(
        f'{{"timestamp": {t}, "input_length": {t + 1}, "output_length": 1}}\n'
        for t in (0, 10, 20, 30)
    )
    found = trace(written(text), window_ps=(10 * 10**9, 30 * 10**9))
    assert columns(found)[:2] == ([0, 10 * 10**9], [11, 21])
    assert found.notes == ["Window 10 ms to 30 ms of the trace: 2 requests."]


def test_a_trace_is_played_faster_and_cut_to_a_count(written: Write) -> None:
    found = trace(written(AZURE), scale_rate=4, count=2)
    assert found.requests.arrival_ps.tolist() == [0, 13_000_000_000]
    assert found.notes == [
        "The first 2 of 3 requests.",
        "Played 4 times as fast as recorded.",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"window_ps": (5, 5)}, "window 5 ps to 5 ps is empty"),
        ({"window_ps": (-5, 5)}, "is empty; write from and to"),
        ({"window_ps": (10**15, 10**16)}, "no request between 1,000 s"),
        ({"scale_rate": 0}, "scale_rate 0: write 0.001 to 1000"),
        ({"scale_rate": float("nan")}, "scale_rate nan"),
        ({"count": 0}, "count 0: write at least 1"),
    ],
)
def test_a_wrong_request_for_a_trace_is_refused(
    written: Write, asked: dict[str, Any], told: str
) -> None:
    with pytest.raises(TraceError, match=told):
        trace(written(MOONCAKE), **asked)


def test_arrivals_on_ticks_are_spread_inside_them_and_it_is_said(written: Write) -> None:
    path = written(ticked(50, 10))
    found = trace(path, seed=1)
    at = found.requests.arrival_ps
    assert np.array_equal(at // TICK_PS, np.repeat(np.arange(50), 10))
    assert len(np.unique(at)) == 500
    # Uniform in the tick: mean 1/2, standard error 1 / sqrt(12 n).
    assert abs((at % TICK_PS).mean() / TICK_PS - 0.5) < 5 / np.sqrt(12 * 500)
    assert "ticks of about 3 s (10.0 requests a tick, at most 10)" in found.notes[0]
    assert "moved uniformly inside its tick, in recorded order (seed 1)" in found.notes[0]


def test_the_jitter_seed_decides_and_no_jitter_leaves_the_ticks(written: Write) -> None:
    path = written(ticked(50, 10))
    first = trace(path, seed=1).requests.arrival_ps
    assert np.array_equal(first, trace(path, seed=1).requests.arrival_ps)
    assert not np.array_equal(first, trace(path, seed=2).requests.arrival_ps)
    raw = trace(path, jitter=False)
    assert set((raw.requests.arrival_ps % TICK_PS).tolist()) == {0}
    assert "artefact of the ticks" in raw.notes[0]


def test_a_window_cuts_after_the_jitter_and_keeps_each_requests_place(written: Write) -> None:
    path = written(ticked(50, 10))
    whole = trace(path, seed=1).requests.arrival_ps
    start, end = 10 * 10**12, 20 * 10**12
    part = trace(path, seed=1, window_ps=(start, end)).requests.arrival_ps
    assert np.array_equal(part, whole[(whole >= start) & (whole < end)] - start)


def test_a_short_window_of_a_ticked_trace_is_jittered_too(written: Write) -> None:
    found = trace(written(ticked(50, 10)), window_ps=(0, 10**12))
    assert 0 < len(found.requests) < 10
    assert len(np.unique(found.requests.arrival_ps)) == len(found.requests)


def test_evenly_or_randomly_timed_arrivals_are_no_ticks() -> None:
    assert tick(np.arange(100, dtype=np.int64) * TICK_PS) == 0
    assert tick(np.sort(np.random.default_rng(1).integers(0, 10**15, 1000))) == 0
    pairs = np.repeat(np.sort(np.random.default_rng(1).integers(0, 10**15, 500)), 2)
    assert tick(pairs) == 0
    assert tick(np.repeat(np.arange(100, dtype=np.int64) * 10**9, 5)) == 0


def test_ticks_that_miss_a_beat_or_wobble_are_still_ticks() -> None:
    beats = np.array([0, 3000, 5999, 9000, 15000, 18001, 21000, 24000], np.int64) * 10**9
    assert tick(np.repeat(beats, 4)) == pytest.approx(TICK_PS, rel=0.01)


def test_a_short_tick_ends_at_the_next_stamp() -> None:
    raw = np.repeat(np.array([0, 2_000, 5_000], np.int64) * 10**9, 100)
    spread, _ = inside_tick(raw, TICK_PS, 1)
    assert spread[:100].max() < 2_000 * 10**9 <= spread[100:200].min()
    assert spread[200:].max() < 8_000 * 10**9


@given(st.lists(st.integers(1, 20), min_size=1, max_size=20), st.integers(0, 2**31))
def test_jitter_moves_nobody_out_of_a_tick_or_past_another(sizes: list[int], seed: int) -> None:
    raw = np.repeat(np.arange(len(sizes), dtype=np.int64) * TICK_PS, sizes)
    spread, _ = inside_tick(raw, TICK_PS, seed)
    assert bool((np.diff(spread) >= 0).all())
    assert np.array_equal(spread // TICK_PS * TICK_PS, raw)


def test_rows_far_behind_the_window_are_not_read(written: Write) -> None:
    rows = "".join(
        f'{{"timestamp": {t}, "input_length": 1, "output_length": 1}}\n' for t in range(10_002)
    )
    path = written(rows + "not read\n")
    assert len(trace(path, window_ps=(0, 10**9)).requests) == 1
    with pytest.raises(TraceError, match="trace:10003:"):
        trace(path)


def test_a_file_is_read_once_for_all_seeds_and_windows_of_counts_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n1,6,6\n", encoding="utf-8")
    read: list[Path] = []
    lines = Text.lines
    monkeypatch.setattr(Text, "lines", lambda text: read.append(text.path) or lines(text))
    first = trace(path, seed=1).requests
    again = trace(path, seed=2, scale_rate=2, count=1).requests
    assert read == [path]
    assert (first.input_tokens.tolist(), again.input_tokens.tolist()) == ([5, 6], [5])
    path.write_text("arrival_s,input_tokens,output_tokens\n0,7,5\n", encoding="utf-8")
    assert trace(path).requests.input_tokens.tolist() == [7]
    assert read == [path, path]


def test_what_one_process_has_read_another_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n1,6,6\n", encoding="utf-8")
    trace(path)
    handed = pickle.loads(pickle.dumps(shelf()))
    monkeypatch.setattr("traffic.trace.registry._SHELF", Shelf())
    monkeypatch.setattr(Text, "lines", lambda text: pytest.fail(f"{text.path} is read again"))
    take_over(handed)
    assert trace(path, seed=3).requests.input_tokens.tolist() == [5, 6]
