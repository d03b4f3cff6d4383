"""Measured step times: between the points, beyond them, over many steps, and hostile files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.error import KvfabricError
from traffic.compute.gpu import gpu
from traffic.compute.measured import Curve, Measured, Measurements, measurements
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.request import request_table
from traffic.serving.run import Outcome

LLAMA = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")
ROOFLINE = Pool(((0,),), LLAMA, H100).step_time
MS = 10**9
FILE = """\
seconds,phase,tokens,batch,who
0.010,prefill,1000,,me
0.030,prefill,2000,,me
0.004,decode,1000,1,me
0.006,decode,3000,1,me
0.008,decode,1000,5,me
0.016,decode,3000,5,me
"""


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "times.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_times_are_linear_in_tokens_then_in_batch_and_go_on_beyond(
    table: Callable[[str], Path],
) -> None:
    found = measurements(table(FILE))
    time = Measured(found, ROOFLINE)
    assert [time.prefill_ps(n) for n in (1, 1000, 1500, 2000, 3000)] == [
        10 * MS,
        10 * MS,
        20 * MS,
        30 * MS,
        50 * MS,
    ]

    def step(batch: int, mean: int) -> int:
        return time.steps_ps(batch, batch * mean, 0, 1)

    assert [step(1, n) for n in (10, 1000, 2000, 3000, 4000)] == [n * MS for n in (4, 4, 5, 6, 7)]
    assert [step(5, n) for n in (1000, 2000, 4000)] == [n * MS for n in (8, 12, 20)]
    assert step(3, 2000) == (5 + 12) // 2 * MS + MS // 2  # half way between 5 and 12
    assert step(9, 1000) == 12 * MS  # one millisecond a sequence more, as from 1 to 5


def test_what_falls_beyond_the_last_point_stays_as_it_was_there() -> None:
    curve = Curve(((10, 100), (20, 60)))
    assert [curve.at(n) for n in (5, 15, 20, 1000)] == [100, 80, 60, 60]
    found = Measurements(None, {1: Curve(((1, 9),)), 4: Curve(((1, 3),))})
    assert [found.curve(batch).at(1) for batch in (1, 2, 4, 100)] == [9, 7, 3, 3]


def test_a_mean_context_between_two_tokens_lies_on_its_own_piece() -> None:
    curve = Curve(((10, 100), (20, 300)))
    # Means of 9.5, 10.5 and 11.5 tokens: before the first point, then 10 and 30 beyond it.
    assert [curve.steps(2, 19 + 2 * i, 1) for i in range(3)] == [100, 110, 130]
    assert curve.steps(2, 19, 3) == 340
    assert [curve.steps(4, context, 1) for context in (79, 81)] == [295, 305]


def test_a_phase_that_was_not_measured_keeps_the_roofline(table: Callable[[str], Path]) -> None:
    decode = "\n".join(r for r in FILE.splitlines() if "prefill" not in r)
    time = Measured(measurements(table(decode)), ROOFLINE)
    assert time.prefill_ps(700) == ROOFLINE.prefill_ps(700)
    prefill = "\n".join(r for r in FILE.splitlines() if "decode" not in r)
    time = Measured(measurements(table(prefill)), ROOFLINE)
    assert time.steps_ps(3, 60, 999, 2) == ROOFLINE.steps_ps(3, 60, 999, 2)


CURVES = st.dictionaries(st.integers(1, 60), st.integers(1, 10**6), min_size=1, max_size=5).map(
    lambda points: Curve(tuple(sorted(points.items())))
)


@given(CURVES, st.integers(1, 5), st.integers(1, 300), st.integers(0, 80))
def test_the_sum_over_steps_equals_the_steps_one_by_one_but_for_rounding(
    curve: Curve, batch: int, context: int, steps: int
) -> None:
    one_by_one = [curve.steps(batch, context + batch * i, 1) for i in range(steps)]
    assert sum(one_by_one) <= curve.steps(batch, context, steps) <= sum(one_by_one) + steps


@given(CURVES, st.integers(1, 5), st.integers(1, 300), st.integers(0, 80))
def test_more_steps_take_longer(curve: Curve, batch: int, context: int, steps: int) -> None:
    assert curve.steps(batch, context, steps + 1) > curve.steps(batch, context, steps)


def test_chunks_of_a_prompt_add_up_to_the_whole_prompt(table: Callable[[str], Path]) -> None:
    time = Measured(measurements(table(FILE)), ROOFLINE)
    parts = [(done, 600) for done in range(0, 1800, 600)]
    assert sum(time.mixed_ps(0, 0, 0, [part]) for part in parts) == time.prefill_ps(1800)
    alone = time.mixed_ps(0, 0, 0, [(0, 1800)])
    assert time.mixed_ps(5, 5000, 0, [(0, 1800)]) == alone + 8 * MS


def test_a_request_takes_its_measured_times(
    table: Callable[[str], Path],
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    deployment = pools(measured=measurements(table(FILE)))
    requests = request_table(arrival_ps=[0], input_tokens=[1500], output_tokens=[3])
    got = row(run(requests, deployment))
    assert got["prefill_end_ps"] == 20 * MS
    # Contexts of 1500, 1501 and 1502 tokens: 4.5 ms and 1 us a token more.
    assert got["finish_ps"] - got["decode_start_ps"] == 3 * 4_500 * 10**6 + 3 * 10**6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "times.csv:1: missing column 'phase'"),
        ("phase,tokens,seconds\n", "times.csv:1: missing column 'batch'"),
        ("phase,tokens,batch,seconds\n", "times.csv: no points; write rows of phase"),
        ("{}warm,1,1,1\n", "times.csv:2: phase 'warm': write prefill or decode"),
        ("{}prefill,0,,1\n", "times.csv:2: tokens 0: write 1 to 1000000000"),
        ("{}prefill,1.5,,1\n", "times.csv:2: tokens 1.5: write a whole number"),
        ("{}prefill,-5,,1\n", "times.csv:2: tokens '-5': write a number of 0 or more"),
        ("{}prefill,10,4,1\n", "times.csv:2: batch 4: write 1 to 65536 for decode, nothing or 1"),
        ("{}decode,10,,1\n", "times.csv:2: batch is empty"),
        ("{}decode,10,70000,1\n", "times.csv:2: batch 70000"),
        ("{}decode,10,1,nan\n", "times.csv:2: seconds 'nan': write a number of 0 or more"),
        ("{}decode,10,1,0\n", "times.csv:2: seconds 0: write above 0, at most 100000"),
        ("{}decode,10,1,1e6\n", "times.csv:2: seconds 1e.06: write above 0"),
        ("{}decode,10,1,1\ndecode,10,1,2\n", "times.csv:3: the same point as .*:2; keep one"),
        ("{}prefill,9,,2\nprefill,20,,1\n", "times.csv:3: 20 tokens take less than 9"),
        ("{}decode,10,1\n", "times.csv:2: not 4 cells"),
        ('{}"decode,10,1,1\n', "unexpected end of data"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_with_its_place(
    table: Callable[[str], Path], text: str, told: str
) -> None:
    path = table(text.replace("{}", "phase,tokens,batch,seconds\n"))
    with pytest.raises(KvfabricError, match=told) as refused:
        measurements(path)
    assert "\n" not in str(refused.value)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    for name, content in (("big", b"x" * (2**22 + 1)), ("binary", b"phase\xff\xfe")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(KvfabricError, match=r"larger than 4 MiB|not UTF-8 text"):
            measurements(path)
    for lost in (tmp_path, tmp_path / "none"):
        with pytest.raises(KvfabricError, match="give a readable CSV file"):
            measurements(lost)


def test_a_byte_order_mark_and_windows_line_ends_are_read(table: Callable[[str], Path]) -> None:
    plain = measurements(table(FILE))
    path = table("")
    path.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert measurements(path) == plain
