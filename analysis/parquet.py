"""A table of whole numbers and text as Parquet bytes, and back, with every column checked.

The bytes depend on the values alone (and on the pyarrow version), never on time or place.
"""

import hashlib
import io
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np

from analysis.error import RecordError
from traffic.emulator import Table


def encoded(table: Table, columns: tuple[str, ...], text: Set[str], what: str) -> bytes:
    """The Parquet bytes of a table with exactly these columns, int64 but for those in ``text``.

    Raises `RecordError` for missing or unknown columns, unequal lengths and other types.
    """
    import pyarrow
    import pyarrow.parquet

    if set(table) != set(columns):
        wrong = ", ".join(sorted(set(table) ^ set(columns)))
        raise RecordError(f"{what}: columns missing or unknown: {wrong}; give exactly those asked")
    if len({len(column) for column in table.values()}) != 1:
        raise RecordError(f"{what}: columns differ in length; give one value a row to each")
    arrays: list[Any] = []
    for name in columns:
        column = np.asarray(table[name])
        if name in text:
            arrays.append(pyarrow.array([str(value) for value in column], pyarrow.string()))
            continue
        if column.dtype.kind not in "iu":
            raise RecordError(f"{what}.{name}: {column.dtype} is not a whole number; give int64")
        if column.dtype == np.uint64 and column.size and column.max() >= 2**63:
            raise RecordError(f"{what}.{name}: {column.max()} does not fit; give at most 2^63 - 1")
        arrays.append(pyarrow.array(column.astype(np.int64)))
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table(arrays, names=list(columns)), sink, compression="zstd", version="2.6"
    )
    return sink.getvalue()


def sealed(path: Path, digest: str) -> bytes:
    """The bytes of a table's file, which its manifest knows by their SHA-256.

    Raises `RecordError` for a file that cannot be read or has changed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}; remove the cell and run it again") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise RecordError(f"{path}: differs from its manifest; remove the cell and run it again")
    return content


def decoded(content: bytes, columns: tuple[str, ...], text: Set[str], what: str) -> Table:
    """The table in these Parquet bytes; extra columns are left out.

    Raises `RecordError` for bytes that are not Parquet and for missing, mistyped or empty values.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    except (pyarrow.ArrowException, OSError):
        raise RecordError(f"{what}: not Parquet; remove the cell and run it again") from None
    result: Table = {}
    for name in columns:
        kind = pyarrow.string() if name in text else pyarrow.int64()
        if name not in table.column_names or table.schema.field(name).type != kind:
            raise RecordError(f"{what}: column {name} missing or not {kind}; run the cell again")
        if table[name].null_count:
            raise RecordError(f"{what}: column {name} has empty values; run the cell again")
        values = table[name].to_pylist() if name in text else table[name].to_numpy()
        result[name] = np.array(values, dtype=np.str_ if name in text else np.int64)
    return result
