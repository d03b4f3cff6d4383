"""Results as Arrow tables: the tables of all cells below each other, and rows of any kind.

Times stay integer picoseconds in columns that end in ``_ps``; fabric, policy and seed of the cell
stand in front, the labels dictionary-encoded. -1 stands for "not reached", as on disk.
"""

from collections.abc import Iterable, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from analysis.budget import PARTS, budgets
from analysis.error import SummaryError
from analysis.handoff import handoffs
from analysis.record import TABLES, TEXT, Cell, Study, StudyManifest

if TYPE_CHECKING:
    import pyarrow

CELLS: Final = (*TABLES, "handoffs", "budgets")
"""The tables that have rows of every cell: those on disk, the due hand-offs after warm-up, and the
budgets of finished requests after warm-up."""


def cells(study: Study, name: str) -> "pyarrow.Table":
    """One of `CELLS`, over all cells that ran. Raises `SummaryError` for another name.

    ``handoffs`` has request, duration_ps, transfer_ps, bandwidth_ps, maxmin_ps (floats, infinite
    for "not finished", NaN for "no estimate") and over; ``budgets`` request, queueing_ps,
    prefill_ps, handoff_ps, decode_ps, end_to_end_ps, ttft_ps and tpot_ps.
    """
    import pyarrow

    if name not in CELLS:
        raise SummaryError(f"table {name[:40]!r}: unknown; write one of {', '.join(CELLS)}")
    ran = [cell for cell in study.cells if cell.requests]
    parts = [_labelled(cell, _columns(cell, study.manifest, name)) for cell in ran]
    if parts:
        return pyarrow.concat_tables(parts).combine_chunks()
    named = ("fabric", "policy", "seed", *TABLES.get(name, ()))
    return pyarrow.table({each: pyarrow.array([], _kind(each)) for each in named})


def listed(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> "pyarrow.Table":
    """A table from rows; a column is text, whole numbers, truths or floats, as its values are."""
    import pyarrow

    across = list(zip(*rows, strict=True)) or [()] * len(columns)
    made = {}
    for name, values in zip(columns, across, strict=True):
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        if any(isinstance(value, float) for value in plain):
            plain = [nan if value is None else float(value) for value in plain]
        made[name] = pyarrow.array(plain)
    return pyarrow.table(made)


def _columns(cell: Cell, study: StudyManifest, name: str) -> dict[str, Any]:
    if name == "handoffs":
        due = handoffs(cell, study)
        times = ("duration", "transfer", "bandwidth", "maxmin")
        told = {f"{each}_ps": getattr(due, each) for each in times}
        return {"request": due.request, **told, "over": due.over}
    if name == "budgets":
        own = budgets(cell)
        whole = ("end_to_end", "ttft", "tpot")
        told = {f"{each}_ps": own.part(each) for each in PARTS}
        told |= {f"{each}_ps": getattr(own, each) for each in whole}
        return {"request": own.request, **told}
    return dict(cell.table(name))


def _labelled(cell: Cell, columns: dict[str, Any]) -> "pyarrow.Table":
    """The columns of a cell behind its fabric, policy and seed."""
    import pyarrow

    made = cell.manifest
    rows = len(next(iter(columns.values())))
    label = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    front = {
        name: pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(np.zeros(rows, np.int32)), pyarrow.array([text])
        ).cast(label)
        for name, text in (("fabric", made.fabric), ("policy", made.policy))
    }
    front["seed"] = pyarrow.array(np.full(rows, made.seed, np.int64))
    return pyarrow.table(
        front
        | {
            name: pyarrow.array(column.tolist() if name in TEXT else column)
            for name, column in columns.items()
        }
    )


def _kind(name: str) -> Any:
    import pyarrow

    if name in ("fabric", "policy"):
        return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return pyarrow.string() if name in TEXT else pyarrow.int64()
