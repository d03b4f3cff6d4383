"""BurstGPT, Qwen-Bailian and the plain table: what is read, what is refused, what comes back."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import TraceError
from traffic.request import Prefix, RequestTable, request_table
from traffic.trace.registry import FORMATS, trace
from traffic.trace.table import text

SIX = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURSTGPT = (
    f"{SIX}\n5,ChatGPT,472,18,490,Conversation log\n45.25,GPT-4,1087,0,1087,API log\n"
    "118,GPT-4,417,276,693,Conversation log\n"
)
EIGHT = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log"
BURSTGPT_2 = (
    f"{EIGHT}\n"
    "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\n"
    "19440161.0,,2,ChatGPT,36,29,65,API log\n"
    "19440192.0,a5c69b35-4fbc,2,ChatGPT,37,29,66,Conversation log\n"
    "19440193.0,1722ac82-0a46,2,ChatGPT,1400,29,1429,Conversation log\n"
)
PLAIN = "arrival_s,input_tokens,output_tokens"
SECOND = 10**12
Write = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(content: str) -> Path:
        path = tmp_path / "trace"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def bailian(chat: int, parent: int, at: float, tokens_in: int, **more: object) -> str:
    row = {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": at,
        "input_length": tokens_in,
        "output_length": 132,
        "type": "text",
        "turn": 1,
        **more,
    }
    return json.dumps(row) + "\n"


def test_burstgpt_counts_seconds_from_its_first_row_and_keeps_failed_requests(
    written: Write,
) -> None:
    found = trace(written(BURSTGPT))
    assert found.format == "burstgpt"
    assert found.requests.arrival_ps.tolist() == [0, 40_250_000_000_000, 113 * SECOND]
    assert found.requests.input_tokens.tolist() == [472, 1087, 417]
    assert found.requests.output_tokens.tolist() == [18, 0, 276]
    assert found.requests.session.tolist() == [-1, -1, -1]


def test_burstgpt_sessions_are_numbered_as_they_appear_and_api_calls_have_none(
    written: Write,
) -> None:
    table = trace(written(BURSTGPT_2)).requests
    assert table.session.tolist() == [0, -1, 1, 0]
    assert table.arrival_ps.tolist() == [0, 51 * SECOND, 82 * SECOND, 83 * SECOND]


def test_bailian_chats_follow_their_chain_to_its_first(written: Write) -> None:
    content = (
        bailian(159, -1, 61.114, 33, hash_ids=[7, 8, 9])
        + bailian(160, 159, 62.5, 16, hash_ids=[7])
        + bailian(161, 4, 62.5, 5)
        + bailian(162, 160, 63, 5)
        + bailian(163, 161, 64, 5)
    )
    found = trace(written(content))
    assert found.format == "bailian"
    assert found.requests.session.tolist() == [159, 159, 4, 159, 4]
    assert found.requests.arrival_ps.tolist()[:2] == [0, 1_386_000_000_000]
    prefix = found.requests.prefix
    assert prefix is not None
    assert prefix.block_tokens == 16
    assert [prefix.of(i).tolist() for i in range(3)] == [[7, 8, 9], [7], []]


def test_azure_2024_has_the_columns_of_2023_with_a_time_zone(written: Write) -> None:
    content = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:00.017335+00:00,2399,6\n2024-05-10 00:00:01+00:00,76,15\n"
    )
    found = trace(written(content))
    assert found.format == "azure"
    assert found.requests.arrival_ps.tolist() == [0, 7_405_000_000, 990_070_000_000]


@pytest.mark.parametrize(
    ("unit", "cell", "ps"),
    [
        ("ps", "1250", 1250),
        ("ns", "1.25", 1250),
        ("us", "0.001250", 1250),
        ("ms", "7", 7 * 10**9),
        ("s", "0.000000000001", 1),
        ("s", "86400.5", 86_400_500_000_000_000),
    ],
)
def test_a_plain_table_reads_every_unit_exactly(
    written: Write, unit: str, cell: str, ps: int
) -> None:
    path = written(f"output_tokens,arrival_{unit},note,input_tokens\n3,{cell},x,9\n")
    table = trace(path).requests
    assert (table.arrival_ps.tolist(), table.input_tokens.tolist()) == ([ps], [9])


def test_a_plain_tables_empty_cells_are_defaults(written: Write) -> None:
    path = written(PLAIN + ",session,tenant,priority\n1,9,0,,,\n2,9,1,5,2,7\n3,9,1,-1,0,0\n")
    table = trace(path).requests
    assert table.session.tolist() == [-1, 5, -1]
    assert table.tenant.tolist() == [0, 2, 0]
    assert table.priority.tolist() == [0, 7, 0]


@pytest.mark.parametrize(
    "content",
    [BURSTGPT_2, bailian(1, -1, 0, 33, hash_ids=[7, 8, 9]), PLAIN + ",tenant\n1.5,9,0,3\n"],
    ids=["burstgpt", "bailian", "table"],
)
@pytest.mark.parametrize(
    "disguise",
    [
        lambda b: b"\xef\xbb\xbf" + b,
        lambda b: b.replace(b"\n", b"\r\n"),
        gzip.compress,
        lambda b: b.rstrip(b"\n"),
        lambda b: b"\n" + b + b" \n",
    ],
    ids=["bom", "crlf", "gzip", "no last newline", "blank lines"],
)
def test_the_same_rows_come_out_of_every_disguise(
    tmp_path: Path, content: str, disguise: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "plain").write_bytes(content.encode())
    (tmp_path / "disguised").write_bytes(disguise(content.encode()))
    assert same(trace(tmp_path / "plain").requests, trace(tmp_path / "disguised").requests)


def test_a_line_without_end_is_refused_before_it_is_read_whole(written: Write) -> None:
    endless = '{"chat_id": 1, "x": "' + "x" * (3 * 2**20)
    with pytest.raises(TraceError, match="trace:1: line above 1MiB"):
        trace(written(endless))


HOSTILE = {
    "BurstGPT column": (SIX.replace("Timestamp", "Time") + "\n", ":1: column Timestamp is missing"),
    "BurstGPT time": (BURSTGPT + "soon,x,1,1,2,x\n", ":5: Timestamp 'soon' is no number"),
    "BurstGPT order": (BURSTGPT + "117,x,1,1,2,x\n", ":5: .* 1 s before the row above"),
    "BurstGPT NaN": (BURSTGPT + "nan,x,1,1,2,x\n", ":5: Timestamp 'nan' is no number"),
    "BurstGPT length": (BURSTGPT + "119,x,-1,1,0,x\n", ":5: input of -1 tokens"),
    "Bailian key": ('{"chat_id": 1, "timestamp": 0}\n', ":1: .*missing required field"),
    "Bailian time": (bailian(1, -1, -4.0, 5), ":1: Expected `float` >= 0"),
    "Bailian blocks": (
        bailian(1, -1, 0, 5) + bailian(2, -1, 1, 16, hash_ids=[1, 2]),
        ":2: 2 hash_ids for 16 input tokens; give at most 1",
    ),
    "Bailian chat": (bailian(1, -1, 0, 5) + bailian(-7, -1, 1, 16), ":2: Expected `int` >= -1"),
    "no arrival": ("input_tokens,output_tokens\n9,9\n", ":1: 0 columns of arrivals; the header"),
    "two arrivals": (PLAIN + ",arrival_ms\n", ":1: 2 columns of arrivals"),
    "no unit": ("arrival,input_tokens,output_tokens\n", ":1: 0 columns of arrivals"),
    "no output": ("arrival_s,input_tokens\n", ":1: column output_tokens is missing"),
    "twice": (PLAIN + ",tenant,tenant\n", ":1: column 'tenant' stands twice"),
    "negative": (PLAIN + "\n-1,9,9\n", ":2: arrival_s '-1' is no number of at least 0"),
    "exponent": (PLAIN + "\n1e3,9,9\n", ":2: arrival_s '1e3' is no number"),
    "too fine": (PLAIN + "\n0.0000000000001,9,9\n", ":2: .* is finer than a picosecond"),
    "half a ps": ("arrival_ps,input_tokens,output_tokens\n0.5,9,9\n", ":2: .* is finer than"),
    "epoch": (
        PLAIN + "\n1731000000,9,9\n",
        ":2: .* is beyond 4e6 s; count arrivals from the start",
    ),
    "order": (PLAIN + "\n2,9,9\n1,9,9\n", ":3: the timestamp is 1 s before the row above"),
    "fraction": (PLAIN + "\n2,9.5,9\n", ":2: input_tokens '9.5' is no whole number"),
    "cells": (PLAIN + "\n2,9\n", ":2: 2 cells under 3 columns"),
    "priority": (PLAIN + ",priority\n2,9,9,8\n", ":2: priority '8'; write a whole number from 0"),
    "session": (PLAIN + ",session\n2,9,9,bob\n", ":2: session 'bob'; write a whole number"),
    "tenant": (PLAIN + f",tenant\n2,9,9,{2**31}\n", ":2: tenant '2147483648'"),
    "digits": (PLAIN + ",tenant\n2,9,9,\u0665\n", ":2: tenant"),
    "block": (PLAIN + ",prefix_blocks_16\n2,9,9,x\n", ":2: prefix block 'x'"),
    "blocks": (PLAIN + ",prefix_blocks_16\n2,9,9,1 2\n", ":2: 2 prefix blocks for 9 input tokens"),
    "block sizes": (PLAIN + ",prefix_blocks_16,prefix_blocks_32\n", ":1: two columns of prefix"),
}


@pytest.mark.parametrize(("content", "told"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_row_is_refused_in_one_line_with_its_place(
    written: Write, content: str, told: str
) -> None:
    with pytest.raises(TraceError, match="trace" + told) as refused:
        trace(written(content))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_every_format_is_told_apart_by_its_first_line() -> None:
    firsts = {
        "azure": "TIMESTAMP,ContextTokens,GeneratedTokens",
        "burstgpt": SIX,
        "table": PLAIN,
        "bailian": bailian(1, -1, 0, 5),
        "mooncake": '{"timestamp": 0, "input_length": 5, "output_length": 5}',
    }
    assert [form.name for form in FORMATS] == list(firsts)
    for name, first in firsts.items():
        assert next(form.name for form in FORMATS if form.recognises(first)) == name


def same(a: RequestTable, b: RequestTable) -> bool:
    other = b.columns()
    if not all(np.array_equal(column, other[name]) for name, column in a.columns().items()):
        return False
    if a.prefix is None or b.prefix is None:
        return a.prefix is b.prefix
    return (
        a.prefix.block_tokens == b.prefix.block_tokens
        and np.array_equal(a.prefix.first, b.prefix.first)
        and np.array_equal(a.prefix.blocks, b.prefix.blocks)
    )


ROW = st.tuples(
    st.integers(0, 2**61),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 7),
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3),
)


@given(st.lists(ROW, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_a_table_that_is_written_comes_back_to_the_picosecond(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int, int, int, int, list[int]]],
    prefixed: bool,
    plain: bool,
) -> None:
    arrival, inputs, outputs, session, tenant, priority, blocks = (
        list(column) for column in zip(*sorted(rows), strict=True)
    )
    prefix = None
    if prefixed:
        inputs = [max(tokens, 48) for tokens in inputs]
        first = np.cumsum([0] + [len(own) for own in blocks]).astype(np.int64)
        prefix = Prefix(first, np.array([b for own in blocks for b in own], np.int64), 16)
    table = request_table(
        arrival_ps=arrival,
        input_tokens=inputs,
        output_tokens=outputs,
        session=None if plain else session,
        tenant=None if plain else tenant,
        priority=None if plain else priority,
        prefix=prefix,
    )
    path = tmp_path_factory.mktemp("replay") / "requests.csv"
    path.write_text("".join(text(table)), encoding="utf-8")
    found = trace(path)
    assert same(table, found.requests)
    assert found.notes == []


def test_a_written_table_that_sits_on_ticks_is_not_spread_again(written: Write) -> None:
    at = np.repeat(np.arange(50), 10) * 3 * SECOND
    ones = np.ones(500, np.int64)
    table = request_table(arrival_ps=at, input_tokens=ones, output_tokens=ones)
    assert same(table, trace(written("".join(text(table)))).requests)
    coarse = "".join(f"{value // SECOND},1,1\n" for value in at.tolist())
    assert "moved uniformly inside its tick" in trace(written(f"{PLAIN}\n{coarse}")).notes[0]


def test_a_public_trace_comes_back_with_its_prefix_blocks(
    written: Write, mooncake_conversation: Path
) -> None:
    table = trace(mooncake_conversation, window_ps=(0, 60 * SECOND), seed=3).requests
    assert table.prefix is not None
    assert same(table, trace(written("".join(text(table)))).requests)


def test_lengths_are_scaled_by_the_factor_and_lose_their_prefix(written: Write) -> None:
    content = bailian(1, -1, 0, 33, hash_ids=[7, 8, 9]) + bailian(2, 1, 1, 1)
    found = trace(written(content), scale_length=1.5)
    assert found.requests.input_tokens.tolist() == [50, 2]
    assert found.requests.output_tokens.tolist() == [198, 198]
    assert found.requests.prefix is None
    assert found.notes[-1] == "Lengths times 1.5, without prefix blocks."
    short = trace(written(content), scale_length=0.001).requests
    assert (short.input_tokens.tolist(), short.output_tokens.tolist()) == ([1, 1], [0, 0])


@pytest.mark.parametrize("factor", [0, -1, float("nan"), 1e4])
def test_an_impossible_length_factor_is_refused(written: Write, factor: float) -> None:
    with pytest.raises(TraceError, match=r"scale_length .*: write 0\.001 to 1000"):
        trace(written(BURSTGPT), scale_length=factor)


def test_a_length_factor_beyond_the_table_is_refused(written: Write) -> None:
    path = written(PLAIN + "\n0,2000000000,5\n")
    with pytest.raises(TraceError, match="makes 4e\\+09 tokens of one request"):
        trace(path, scale_length=2)
