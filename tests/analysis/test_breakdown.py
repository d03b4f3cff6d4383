"""Where a hand-off's time goes: parts that add up, worked by hand."""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from analysis.breakdown import PARTS, breakdowns, handoff_parts
from analysis.measure import measure
from analysis.record import Cell, Study, StudyManifest
from analysis.summary import samples

Make = Callable[..., Cell]
MS = 10**9
ROW = {
    "prefill_start_ps": 0,
    "prefill_end_ps": 100,
    "admitted_ps": 130,
    "dispatched_ps": 175,
    "handoff_release_ps": 185,
    "arrived_ps": 285,
    "scattered_ps": 300,
    "kv_ready_ps": 307,
    "decode_start_ps": 340,
    "first_token_ps": 350,
    "finish_ps": 400,
    "arrival_ps": 0,
}


def parts(cell: Cell) -> dict[str, list[int]]:
    return {name: values.tolist() for name, values in handoff_parts(cell).items()}


def test_a_hand_off_is_memory_orchestration_copies_and_transfer(make_rows: Make) -> None:
    assert parts(make_rows([ROW])) == {
        "memory": [30],
        "orchestration": [45 + 7],
        "copies": [10 + 15],
        "transfer": [100],
        "joining": [33],
    }


def test_what_was_done_before_the_prefill_ended_counts_for_nothing(make_rows: Make) -> None:
    early = {"admitted_ps": 20, "dispatched_ps": 40, "handoff_release_ps": 50}
    assert parts(make_rows([ROW | early])) == {
        "memory": [0],
        "orchestration": [7],
        "copies": [15],
        "transfer": [185],
        "joining": [33],
    }


def test_a_hand_off_that_never_ended_or_never_was_has_no_parts(make_rows: Make) -> None:
    under_way = {"kv_ready_ps": -1, "arrived_ps": -1, "scattered_ps": -1, "status": 1}
    assert parts(make_rows([ROW | under_way, ROW | {"handoff_release_ps": -1}]))["transfer"] == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 10**12), min_size=7, max_size=7), st.integers(0, 10**12))
def test_the_parts_add_up_to_the_hand_off_whatever_came_before_what(
    make_rows: Make, times: list[int], end: int
) -> None:
    names = ("admitted_ps", "dispatched_ps", "handoff_release_ps", "arrived_ps", "scattered_ps")
    made = dict(zip(names, times, strict=False))
    ready = max(end, *made.values()) + times[-1]
    cell = make_rows([ROW | made | {"prefill_end_ps": end, "kv_ready_ps": ready}])
    found = handoff_parts(cell)
    assert sum(int(found[name][0]) for name in PARTS) == ready - end
    assert all(int(values[0]) >= 0 for name, values in found.items() if name != "joining")


def told(
    make_question: Callable[..., StudyManifest], *cells: Cell
) -> dict[str, list[tuple[str, ...]]]:
    """The rows of every table, by its title."""
    policies = [cell.manifest.policy for cell in cells]
    question = make_question(fabrics=["f"], policies=policies, seeds=[1])
    found = samples(Study(question, cells, missing=0))
    return {one.title: list(one.rows) for one in breakdowns(found)}


def test_the_report_tells_shares_and_leaves_out_what_there_was_none_of(
    make_rows: Make, make_question: Callable[..., StudyManifest]
) -> None:
    big = {name: value * MS for name, value in ROW.items()}
    flows = [{"handoff": 0, "bytes": 30}, {"handoff": 0, "bytes": 20}, {"handoff": -1, "bytes": 9}]
    tables = told(make_question, make_rows([big | {"kv_bytes": 40}], flows))
    assert set(tables) == {"Where a hand-off's time goes"}
    assert tables["Where a hand-off's time goes"] == [
        ("f", "p", "30 ms", "52 ms", "25 ms", "100 ms", "207 ms", "48 %", "125 %", "33 ms")
    ]


def test_background_is_told_by_source_with_what_it_delivered(
    make_rows: Make, make_question: Callable[..., StudyManifest]
) -> None:
    totals = {
        f"background.x.{name}": value
        for name, value in (
            *(("bursts", 4), ("flows", 48), ("finished", 40), ("bytes", 60_000)),
            *(("bytes_finished", 50_000), ("fct_p50_ps", MS), ("fct_p99_ps", 3 * MS)),
            ("slowdown_p99_permille", 2500),
        )
    }
    tables = told(make_question, make_rows([ROW], totals=totals, duration_ps=10 * MS))
    assert tables["Background traffic"] == [
        ("f", "p", "x", "4", "40 of 48", "40 Mbps", "1 ms", "3 ms", "2.5x")
    ]


def test_count_times_latency_is_told_apart_from_what_it_causes(
    make_rows: Make, make_question: Callable[..., StudyManifest]
) -> None:
    def one(policy: str, latency_ms: int, finish_ms: int) -> Cell:
        totals = {
            "collective.requests": 1,
            "collective.messages": 1000,
            "collective.latency_ps": latency_ms * MS,
            "collective.gpu_ps": 8 * latency_ms * MS,
        }
        made = make_rows([ROW | {"finish_ps": finish_ms * MS}], totals=totals)
        manifest = replace(made.manifest, policy=policy)
        return Cell(manifest, made.requests, made.flows, made.ports)

    rows = told(make_question, one("near", 5, 400), one("far", 25, 450))
    assert rows["Collectives on the critical path"] == [
        ("f", "near", "1,000", "5 ms", "400 ms", "1.2 %", "40 ms", "n/a", "n/a"),
        ("f", "far", "1,000", "25 ms", "450 ms", "5.6 %", "200 ms", "+50 ms", "+30 ms"),
    ]


def test_the_parts_of_a_hand_off_can_be_asked_for_in_a_gate(
    make_rows: Make, make_question: Callable[..., StudyManifest]
) -> None:
    question = make_question()
    (sample,) = samples(Study(question, (make_rows([ROW, ROW | {"kv_ready_ps": 309}]),), 0))
    found = {name: measure(f"{name}_mean").by_seed(sample, question) for name in PARTS}
    assert found == {
        "memory": {1: 30},
        "orchestration": {1: 53},
        "copies": {1: 25},
        "transfer": {1: 100},
    }
