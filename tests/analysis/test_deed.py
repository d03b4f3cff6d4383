"""What policies count is told by alternative, means a seed; who counts nothing is left out."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from analysis.deed import deeds
from analysis.record import Cell, cell_directory, read_study, write_cell
from analysis.summary import samples


def test_counts_are_means_over_the_seeds_of_an_alternative(
    tmp_path: Path, make_study: Callable[..., Path], make_cell: Callable[..., Cell]
) -> None:
    mine, fabric = "my.own:Rule", "fat tree"
    out = make_study(
        tmp_path, fabrics=[fabric], policies=[mine, "random"], seeds=[1, 2], impossible=[]
    )
    for seed in (1, 2):
        cell = make_cell(fabric, mine, seed)
        totals = {f"policy.{mine}.held_back": seed, f"policy.{mine}.acted": 1500, "events": 9}
        cell = replace(cell, manifest=replaced(cell.manifest, totals=totals))
        place = cell_directory(out, cell.manifest.cell)
        shutil.rmtree(place)
        write_cell(place, cell)
    told = deeds(samples(read_study(out)))
    assert told.rows == ((fabric, mine, "acted 1,500, held back 1.5"),)
