"""GPU time by hand: every instance's time is cut into parts that add up to it."""

from collections.abc import Callable
from dataclasses import astuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.idle import CAUSES, gpu_time, union_ps
from analysis.record import Cell, FabricFact
from analysis.summary import Sample
from analysis.use import gpus
from topo.unit import PS_PER_S as S

Rows = Callable[..., Cell]


def facts(prefill: int, decode: int) -> FabricFact:
    return FabricFact(
        hosts=prefill + decode, prefill=prefill, decode=decode, switches=1, switch_cables=0,
        host_cables=2, cost_usd=1.0, mu_bps=1, nic_bps=1,
    )  # fmt: skip


def life(arrival: int, *times: int, prefill: int = 0, decode: int = 0) -> dict[str, int]:
    """Prefill start and end, release, KV ready, decode start and finish, in seconds."""
    names = (
        "prefill_start",
        "prefill_end",
        "handoff_release",
        "kv_ready",
        "decode_start",
        "finish",
    )
    told = {f"{name}_ps": time * S for name, time in zip(names, times, strict=False)}
    return {"arrival_ps": arrival * S, "prefill": prefill, "decode": decode} | told


def test_one_request_on_one_gpu_each_by_hand(make_rows: Rows) -> None:
    cell = make_rows([life(0, 1, 3, 4, 9, 11, 20)], facts=facts(1, 1))
    found = gpu_time(cell)
    assert found is not None
    assert astuple(found) == (20.0, 2.0, 20.0, 9.0, (5.0, 1.0, 2.0, 3.0), 0.0, 0.0)
    assert dict(zip(CAUSES, found.decode_lost, strict=True))["network"] == 5.0
    assert found.lost_to_network == 0.25
    assert found.work == 11 / 40


def test_a_hand_off_behind_a_decoding_sequence_loses_nothing(make_rows: Rows) -> None:
    rows = [life(0, 0, 1, 1, 2, 2, 20), life(0, 1, 3, 4, 9, 11, 20)]
    found = gpu_time(make_rows(rows, facts=facts(1, 1)))
    assert found is not None
    assert found.decode_work == 18.0
    assert found.decode_lost == (1.0, 0.0, 0.0, 1.0)


def test_an_instance_of_four_gpus_weighs_four(make_rows: Rows) -> None:
    totals = {"prefill_instances": 2, "decode_instances": 2}
    cell = make_rows([life(0, 0, 4, 4, 5, 5, 10)], facts=facts(2, 8), totals=totals)
    found = gpu_time(cell)
    assert found is not None
    assert (found.prefill, found.prefill_work) == (20.0, 4.0)
    assert (found.decode, found.decode_work) == (80.0, 20.0)
    assert found.decode_lost == (4.0, 0.0, 0.0, 56.0)


def test_instances_of_different_sizes_weigh_their_own_gpus(make_rows: Rows) -> None:
    totals = {"prefill_instances": 2, "decode_instances": 3}
    totals |= {"decode_instances.0": 1, "decode_gpus.0": 8}
    totals |= {"decode_instances.1": 2, "decode_gpus.1": 1}
    rows = [life(0, 0, 0, 0, 0, 0, 20, decode=0), life(0, 0, 0, 0, 0, 10, 20, decode=2)]
    found = gpu_time(make_rows(rows, facts=facts(2, 10), totals=totals))
    assert found is not None
    assert (found.decode, found.decode_work) == (200.0, 8 * 20.0 + 10.0)
    assert found.decode_lost == (0.0, 0.0, 10.0, 20.0)


def test_what_a_cache_missed_is_a_part_of_the_work(make_rows: Rows) -> None:
    totals = {"prefill_instances": 2, "decode_instances": 2, "cache.again_ps": 3 * S}
    cell = make_rows([life(0, 0, 4, 4, 5, 5, 10)], facts=facts(4, 2), totals=totals)
    found = gpu_time(cell)
    assert found is not None
    assert (found.prefill, found.prefill_work, found.prefill_again) == (40.0, 8.0, 6.0)
    assert found.lost_to_misses == 6 / 40
    (row,) = gpus([Sample("f", "p", (cell,), (), (), None)]).rows
    assert row[2:4] == ("20 %", "15 %")


def test_a_request_that_ends_with_its_prefill_binds_no_decode(make_rows: Rows) -> None:
    row = life(0, 0, 4) | {"finish_ps": 4 * S, "decode": 0}
    found = gpu_time(make_rows([row], facts=facts(1, 1)))
    assert found is not None
    assert (found.decode_work, found.decode_lost) == (0.0, (0.0, 0.0, 0.0, 4.0))


def test_what_has_not_arrived_is_under_way_until_the_end(make_rows: Rows) -> None:
    row = life(0, 0, 4, 4) | {"status": 1}
    cell = make_rows([row], facts=facts(1, 1), totals={"hbm.window_ps": 10 * S})
    found = gpu_time(cell)
    assert found is not None
    assert found.decode_lost == (6.0, 0.0, 0.0, 4.0)


def test_a_run_that_was_stopped_counts_to_its_end_and_not_to_its_last_hand_off(
    make_rows: Rows,
) -> None:
    row = life(2, 2, 3, 3, 4, 6) | {"status": 1}
    cell = make_rows([row], facts=facts(1, 1), duration_ps=4 * S, totals={"hbm.window_ps": 10 * S})
    found = gpu_time(cell)
    assert found is not None
    assert (found.decode, found.decode_work) == (10.0, 6.0)
    assert found.decode_lost == (1.0, 0.0, 2.0, 1.0)
    untold = gpu_time(make_rows([row], facts=facts(1, 1), duration_ps=4 * S, totals={}))
    assert untold is not None
    assert (untold.decode, untold.decode_lost) == (2.0, (1.0, 0.0, 0.0, 1.0))


def test_without_requests_or_facts_there_is_no_gpu_time(make_rows: Rows) -> None:
    assert gpu_time(make_rows([])) is None
    cell = make_rows([life(0, 1, 3, 4, 9, 11, 20)])
    bare = msgspec.structs.replace(cell.manifest, facts=None)
    assert gpu_time(Cell(bare, cell.requests, cell.flows, cell.ports)) is None


moments = st.lists(st.integers(0, 9), min_size=6, max_size=6).map(np.cumsum)


@given(st.lists(st.tuples(moments, st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=8))
def test_the_parts_add_up_to_the_pool(
    make_rows: Rows, lives: list[tuple[np.ndarray, int, int]]
) -> None:
    rows = [
        life(0, *times.tolist(), prefill=prefill, decode=decode) for times, prefill, decode in lives
    ]
    found = gpu_time(make_rows(rows, facts=facts(2, 3)))
    assert found is not None
    last = max(int(times[-1]) for times, _, _ in lives)
    assert found.decode == 3 * last
    assert found.decode_work + sum(found.decode_lost) == pytest.approx(found.decode)
    assert min(found.decode_lost) >= 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 20)), max_size=10))
def test_the_union_is_the_count_of_covered_instants(spans: list[tuple[int, int, int]]) -> None:
    covered = {(w, t) for w, a, b in spans for t in range(a, b)}
    columns = np.array(spans, np.int64).reshape(-1, 3).T
    assert union_ps(columns[0], columns[1], columns[2]) == len(covered)
