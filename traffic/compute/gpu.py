"""A GPU as the roofline sees it: arithmetic rate, memory size and rate, and stated efficiencies.

Rates are dense (no sparsity) peaks. The share of the peak that a prefill reaches (MFU) and the
share of the memory rate that kernels reach are stated per GPU where a source states them; else
the named defaults below are used, and the result says so.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from traffic.catalog.table import Row, catalogue, unknown
from traffic.error import CatalogError

DEFAULT_MFU: Final = 0.40
"""Share of peak FLOP/s in prefill where a GPU's row states none.

The figure of alibaba/InferSim hardware/gpu.py for the H200, whose compute die the H100 shares;
the figures it states for four GPUs run from 0.35 to 0.60.
"""

DEFAULT_MEMORY_EFFICIENCY: Final = 0.8
"""Share of the HBM rate that kernels reach where a GPU's row states none.

The empirical scaling factor that ai-dynamo/aiconfigurator uses for every NVIDIA system.
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of the GPU catalogue.

    FLOP/s and bytes/s are whole peaks of one GPU; ``fp8_flops`` 0 means no such unit. ``mfu`` is 0
    where no source states one. ``nic_bps`` is the usual NIC rate of one GPU.
    """

    name: str
    bf16_flops: int
    fp8_flops: int
    memory_bytes: int
    memory_bytes_per_s: int
    scaleup_bytes_per_s: int
    scaleup_gpus: int
    nic_bps: int
    mfu: float
    memory_efficiency: float
    source: str
    note: str


_COLUMNS: Final = [
    "gpu",
    "bf16_dense_1e12_flops",
    "fp8_dense_1e12_flops",
    "hbm_1e9_bytes",
    "hbm_1e12_bytes_per_s",
    "scaleup_bidirectional_1e9_bytes_per_s",
    "nic_typical_gbps",
    "scaleup_domain_gpus",
    "prefill_mfu",
    "memory_efficiency",
    "source",
    "note",
]


def _gpu(row: Row) -> Gpu:
    made = Gpu(
        name=row.name("gpu"),
        bf16_flops=round(row.number("bf16_dense_1e12_flops") * 1e12),
        fp8_flops=round(row.number("fp8_dense_1e12_flops", 0) * 1e12),
        memory_bytes=round(row.number("hbm_1e9_bytes") * 1e9),
        memory_bytes_per_s=round(row.number("hbm_1e12_bytes_per_s") * 1e12),
        scaleup_bytes_per_s=round(row.number("scaleup_bidirectional_1e9_bytes_per_s", 0) * 1e9),
        scaleup_gpus=row.whole("scaleup_domain_gpus", 1),
        nic_bps=round(row.number("nic_typical_gbps", 0) * 1e9),
        mfu=row.number("prefill_mfu", 0),
        memory_efficiency=row.number("memory_efficiency", 0),
        source=row.text("source"),
        note=row.text("note"),
    )
    for what in ("bf16_flops", "memory_bytes", "memory_bytes_per_s"):
        if getattr(made, what) <= 0:
            raise CatalogError(f"{row.place}: {what} 0: write a number above 0")
    for what in ("mfu", "memory_efficiency"):
        if getattr(made, what) > 1:
            raise CatalogError(f"{row.place}: {what} above 1: write a share of the peak, e.g. 0.4")
    return made


@cache
def gpus(file: Path | None = None) -> dict[str, Gpu]:
    """Every GPU by name: the shipped catalogue, and over it a user's file of the same columns."""
    return catalogue("gpus.csv", file, _COLUMNS, _gpu)


def gpu(name: str, file: Path | None = None) -> Gpu:
    """The GPU of that name (case does not matter), or a `CatalogError` with close matches.

    >>> gpu("H100-SXM").memory_bytes
    80000000000
    """
    table = gpus(file)
    found = table.get(name) or {k.lower(): g for k, g in table.items()}.get(name.lower())
    if found is None:
        raise unknown("GPU", name, list(table))
    return found
