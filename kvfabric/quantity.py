"""Quantities as scenario files write them: text with a unit, converted while the file is read."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from topo import unit
from topo.error import UnitError
from topo.mistake import shown


class Rate(int):
    """Bits per second, written ``400Gbps``."""

    example = "400Gbps"


class Size(int):
    """Bytes, written ``64MiB`` or ``25MB``."""

    example = "64MiB"


class Duration(int):
    """Picoseconds, written ``20us``."""

    example = "20us"


class Length(float):
    """Metres, written ``10m``."""

    example = "10m"


class Frequency(float):
    """Events per second, written ``400/s``."""

    example = "400/s"


class Share(float):
    """A part of a whole, written ``1%`` or ``1/8``."""

    example = "1% or 1/8"


class Block(int):
    """What one descriptor carries: bytes, written ``256KiB``, or tokens, written ``16 tokens``."""

    example = "256KiB or 16 tokens"


class TokenBlock(Block):
    """A block in tokens."""


class Factor(float):
    """A positive factor, written ``2``, ``0.5`` or ``1/8``."""

    example = "1/8"


def _factor(value: Any) -> float:
    number, over = value, 1
    if isinstance(value, str):
        found = re.fullmatch(
            r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:/\s*([1-9][0-9]{0,8}))?\s*", value
        )
        if found is None:
            raise ValueError(f"{shown(value)}: not a factor; write 1/8 or 0.125")
        number, over = float(found[1]), int(found[2] or 1)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{shown(value)}: not a factor; write 1/8 or 0.125")
    if not 0 < number / over <= 1e6:
        raise ValueError(f"{value}: must be above 0 and at most 1000000; write 1/8 or 0.125")
    return number / over


def _block(text: str) -> Block:
    found = re.fullmatch(r"\s*([1-9][0-9]{0,6})\s*tokens?\s*", text)
    return Block(unit.size(text)) if found is None else TokenBlock(found[1])


_READ: dict[Any, tuple[Callable[[str], Any], str]] = {
    Rate: (unit.rate, r"^\s*[0-9]+(\.[0-9]+)?\s*(bps|Kbps|Mbps|Gbps|Tbps)\s*$"),
    Size: (unit.size, r"^\s*[0-9]+(\.[0-9]+)?\s*([kMGT]?B|[KMGT]iB)\s*$"),
    Block: (
        _block,
        r"^\s*([0-9]+(\.[0-9]+)?\s*([kMGT]?B|[KMGT]iB)|[1-9][0-9]{0,6}\s*tokens?)\s*$",
    ),
    Duration: (unit.duration, r"^\s*[0-9]+(\.[0-9]+)?\s*(ps|ns|us|ms|s|min|h)\s*$"),
    Length: (unit.length, r"^\s*[0-9]+(\.[0-9]+)?\s*(cm|m|km)\s*$"),
    Frequency: (unit.frequency, r"^\s*[0-9]+(\.[0-9]+)?\s*/(s|min|h)\s*$"),
    Share: (
        unit.share,
        r"^\s*([0-9]+(\.[0-9]+)?\s*%|[0-9]+\s*/\s*[1-9][0-9]*)\s*$",
    ),
}


def read_quantity(kind: Any, value: Any) -> Any:
    """Convert one value for msgspec; a bad one is a ``ValueError`` that says what to write."""
    if kind is Factor:
        return Factor(_factor(value))
    if kind not in _READ:
        raise NotImplementedError(f"no quantity is written as {kind}")
    read, _ = _READ[kind]
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)}: must be a number with its unit; write {kind.example}")
    try:
        made = read(value)
        return made if isinstance(made, kind) else kind(made)
    except UnitError as error:
        raise ValueError(str(error)) from None


def quantity_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of one quantity."""
    if kind is Factor:
        return {"type": ["number", "string"], "examples": [kind.example]}
    if kind not in _READ:
        raise NotImplementedError(f"no quantity is written as {kind}")
    _, pattern = _READ[kind]
    return {
        "type": "string",
        "pattern": pattern,
        "examples": [kind.example],
        "description": (kind.__doc__ or "").strip(),
    }


def written(kind: type, text: str, *, name: str | None = None) -> Any:
    """A struct field whose default is the quantity that ``text`` writes.

    ``name`` is what files call it, if not as the field.
    """
    return msgspec.field(default_factory=partial(read_quantity, kind, text), name=name)
