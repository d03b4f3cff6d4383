"""Two results compared: nothing between equals, the slower one and its links when there is one."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.difference import difference
from analysis.error import SummaryError
from analysis.handoff import window_ps
from analysis.record import Cell, Study, read_study

Make = Callable[..., Path]
MS = 10**9


@pytest.fixture(scope="module")
def study(first_look: Path) -> Study:
    return read_study(first_look)


def changed(study: Study, change: Callable[[Cell], Cell]) -> Study:
    return replace(study, cells=tuple(change(cell) for cell in study.cells))


def slower(cell: Cell, share: float) -> Cell:
    """The same cell with hand-offs longer by a share, and everything after them later."""
    if not cell.requests:
        return cell
    table = dict(cell.requests)
    more = ((table["kv_ready_ps"] - table["prefill_end_ps"]) * share).astype(np.int64)
    for name in ("kv_ready_ps", "decode_start_ps", "first_token_ps", "finish_ps"):
        table[name] = table[name] + more
    return Cell(cell.manifest, table, cell.flows, cell.ports)


def test_results_against_themselves_show_no_difference(study: Study) -> None:
    found = difference(study, study)
    assert not found.found
    assert found.compared[0] > 300
    assert found.compared[1] > 4000
    assert all(change.pair.gap.value == 0 for change in found.main)
    assert found.unmatched == ((), ())
    # the pair that cannot run has nothing to compare
    assert found.uncompared == ("full mesh with static_groups",)


def test_hand_offs_five_percent_slower_are_found_and_called_worse(study: Study) -> None:
    found = difference(study, changed(study, lambda cell: slower(cell, 0.05)))
    means = [change for change in found.numbers if change.what == "mean hand-off time"]
    assert len(means) == 19
    for change in means:
        assert change.pair.share == pytest.approx(0.05, rel=1e-6)
        assert change.standing == "worse"
    turned = difference(changed(study, lambda cell: slower(cell, 0.05)), study)
    assert {change.standing for change in turned.numbers if "hand-off" in change.what} == {"better"}


def test_the_link_that_changed_is_the_one_named(study: Study) -> None:
    def paused(cell: Cell) -> Cell:
        if not cell.ports:
            return cell
        ports = dict(cell.ports)
        ports["paused_ps"] = ports["paused_ps"].copy()
        ports["paused_ps"][100] += window_ps(cell) // 4 + cell.manifest.seed * 10**6
        return Cell(cell.manifest, cell.requests, cell.flows, ports)

    found = difference(study, changed(study, paused))
    name = study.cells[0].ports["name"][100]
    assert {change.what for change in found.links} == {f"{name} pause fraction"}
    assert len(found.links) == 19
    assert {change.standing for change in found.links} == {"worse"}


def test_a_busier_link_is_neither_worse_nor_better(study: Study) -> None:
    def busier(cell: Cell) -> Cell:
        if not cell.ports:
            return cell
        ports = dict(cell.ports)
        ports["busy_ps"] = ports["busy_ps"] + window_ps(cell) // 10
        return Cell(cell.manifest, cell.requests, cell.flows, ports)

    found = difference(study, changed(study, busier))
    assert found.links
    assert {change.standing for change in found.links} == {""}


def test_other_requests_under_the_same_seed_are_seen(study: Study) -> None:
    def later(cell: Cell) -> Cell:
        if not cell.requests:
            return cell
        moved = dict(cell.requests) | {"arrival_ps": cell.requests["arrival_ps"] + 1}
        return Cell(cell.manifest, moved, cell.flows, cell.ports)

    assert all(match.same_requests for match in difference(study, study).matches)
    found = difference(study, changed(study, later))
    assert not any(match.same_requests for match in found.matches if match.seeds)


def test_single_alternatives_are_matched_whatever_they_are_called(
    tmp_path: Path, make_study: Make
) -> None:
    one, other = (
        read_study(make_study(tmp_path / name, fabrics=(name,), policies=("p",), impossible=()))
        for name in ("a", "b")
    )
    found = difference(one, other)
    assert [match.name for match in found.matches] == ["a -> b with p"]
    assert found.main[0].pair.seeds == 3


def test_what_only_one_has_is_listed_and_nothing_in_common_is_refused(
    tmp_path: Path, make_study: Make
) -> None:
    homes = {
        names: make_study(tmp_path / "".join(names), fabrics=names, policies=("p",), impossible=())
        for names in (("a", "b"), ("b", "c"), ("d", "e"))
    }
    first, second, third = (read_study(home) for home in homes.values())
    assert difference(first, second).unmatched == (("a with p",), ("c with p",))
    with pytest.raises(SummaryError, match="no alternative is in both: a with p, b with p"):
        difference(first, third)


def test_seeds_that_only_one_has_run_are_left_out(tmp_path: Path, make_study: Make) -> None:
    home = make_study(tmp_path / "a", fabrics=("f",), policies=("p",), seeds=(1, 2, 3))
    whole = read_study(home)
    shutil.rmtree(next((home / "cells").glob("*+2-*")))
    found = difference(whole, read_study(home))
    assert [match.seeds for match in found.matches] == [2]


def test_the_seed_of_a_cell_pairs_it_and_not_its_place(study: Study) -> None:
    turned = replace(study, cells=tuple(reversed(study.cells)))
    assert not difference(study, turned).found
    renamed = changed(
        study,
        lambda c: Cell(
            msgspec.structs.replace(c.manifest, seed=4 - c.manifest.seed),
            c.requests, c.flows, c.ports,
        ),
    )  # fmt: skip
    found = difference(study, renamed)
    assert max(abs(change.pair.gap.value) for change in found.main) < 1e-3 * MS
    assert max(change.pair.spread for change in found.main) > 0.1 * MS
