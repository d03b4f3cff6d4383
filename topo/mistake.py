"""What is wrong with a value of a file, in the words of files.

msgspec tells what it expected in words of Python and JSON. Here the same is told by what the key
takes: what was found, what must stand there, and an example with its unit.
"""

import difflib
import re
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import fields

Key = str | int
Place = tuple[Key, ...]
"""Where a value stands: keys of mappings and numbers of lists, from the outermost on."""

_AT: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_SOME_NUMBER: Final = 8


def told(text: str, root: type[Struct], value: Any) -> tuple[Place, str]:
    """What msgspec says of a ``value`` that is no ``root``: the place in it, and what to write.

    >>> class Rack(Struct):
    ...     number: int
    >>> told("Expected `int`, got `str` - at `$.number`", Rack, {"number": "two"})
    (('number',), "'two': must be a whole number; write e.g. 8")
    """
    found = _AT.search(text)
    place: Place = ()
    if found:
        text = text[: found.start()]
        for key, index in _STEP.findall(found[1]):
            place = (*place, key or (int(index) if index.isdigit() else index))
    place = _without_dots(place, value)
    kind, default = _kind(place, root)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        return (*place, unknown[1]), f"unknown key; {_nearby(unknown[1], kind)}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return place, f"`{missing[1]}` is missing; {_added(missing[1], kind)}"
    if text.startswith("Invalid enum value"):
        return place, f"{shown(value_at(value, place))} is unknown; write {_wanted(kind)}"
    if not text.startswith("Expected "):
        return place, text[0].lower() + text[1:]
    return place, _misfit(value_at(value, place), kind, default)


def value_at(value: Any, place: Place) -> Any:
    """What stands at a place of plain values; None where there is nothing."""
    for key in place:
        if isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def shown(value: Any) -> str:
    """A value of a file, cut to 40 characters, for an error in one line.

    >>> shown("much"), shown(True), shown(None), shown([1, 2])
    ("'much'", 'true', 'nothing', 'a list of 2')
    """
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "a mapping" if isinstance(value, dict) else str(value)[:40]


def example_at(place: Place, root: type[Struct]) -> str:
    """A value that may stand at a place of a ``root``: the default if there is one."""
    return _example(*_kind(place, root))


def _misfit(value: Any, kind: inspect.Type, default: Any) -> str:
    """A value that cannot stand there."""
    if _holds(kind, inspect.LiteralType) or isinstance(kind, inspect.BoolType):
        return f"{shown(value)}: write {_wanted(kind)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    quoted = number and not default and _holds(kind, inspect.StrType)
    example = f'"{shown(value)}"' if quoted else _example(kind, default)
    if number and _holds(kind, inspect.StrType):
        example = re.sub(r"^[0-9]+(?= )", shown(value), example)
    more = "" if example.startswith(("...", "[...")) else f"; write e.g. {example}"
    return f"{shown(value)}: must be {_wanted(kind)}{more}"


def _without_dots(place: Place, value: Any) -> Place:
    """msgspec names no key of a mapping of values: the first whose value is no number."""
    if "..." not in place:
        return place
    holder = place[: place.index("...")]
    held: dict[str, Any] = value_at(value, holder)
    wrong = (k for k, v in held.items() if isinstance(v, bool) or not isinstance(v, int | float))
    negative = (k for k, v in held.items() if isinstance(v, int | float) and v <= 0)
    return (*holder, next(wrong, None) or next(negative, next(iter(held))))


def _nearby(key: str, kind: inspect.Type) -> str:
    """The keys that may stand in place of the unknown one, the most alike first."""
    part = _holds(kind, inspect.StructType)
    if not isinstance(part, inspect.StructType):
        return "remove it"
    names = [field.encode_name for field in part.fields]
    close = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return f"{hint}known here: {', '.join(names) or 'none, remove it'}"


def _added(key: str, kind: inspect.Type) -> str:
    """What to write for a key that is missing."""
    part = _holds(kind, inspect.StructType)
    example = _example(*_fields(part)[key]) if isinstance(part, inspect.StructType) else ""
    return f"write e.g. {key}: {example}" if example.strip(".") else "add it"


def _kind(place: Place, root: type[Struct]) -> tuple[inspect.Type, Any]:
    """What may stand at a place of a ``root``, and the default there as files write it."""
    kind: inspect.Type = inspect.type_info(root)
    default: Any = None
    for key in place:
        default = None
        if isinstance(key, int):
            several = _holds(kind, inspect.VarTupleType, inspect.ListType, inspect.TupleType)
            if isinstance(several, inspect.TupleType):
                kind = several.item_types[min(key, len(several.item_types) - 1)]
            elif isinstance(several, inspect.VarTupleType | inspect.ListType):
                kind = several.item_type
            continue
        part = _holds(kind, inspect.StructType, inspect.DictType)
        if isinstance(part, inspect.DictType):
            kind = part.value_type
        elif isinstance(part, inspect.StructType):
            kind, default = _fields(part).get(key, (inspect.AnyType(), None))
    return kind, default


def _fields(part: inspect.StructType) -> dict[str, tuple[inspect.Type, Any]]:
    """What each key of a mapping takes, and its default; choices in the order of the source."""
    sources = {field.encode_name: field.type for field in fields(part.cls)}
    found: dict[str, tuple[inspect.Type, Any]] = {}
    for field in part.fields:
        kind = field.type
        if _holds(kind, inspect.LiteralType):
            kind = inspect.LiteralType(tuple(_literals(sources[field.encode_name])))
        found[field.encode_name] = (kind, _default(field))
    return found


def _literals(kind: Any) -> list[Any]:
    """The values that a type names, those of its alternatives included.

    >>> _literals(Literal["own", "every"] | None)
    ['own', 'every']
    """
    options = get_args(kind)
    if get_origin(kind) is Literal:
        return list(options)
    return [value for option in options for value in _literals(option)]


def _holds(kind: inspect.Type, *wanted: type[inspect.Type]) -> inspect.Type | None:
    """The one of a key's types that is of a wanted sort."""
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    bare = (o.type if isinstance(o, inspect.Metadata) else o for o in options)
    return next((o for o in bare if isinstance(o, wanted)), None)


def _default(field: inspect.Field) -> Any:
    make = field.default_factory
    if isinstance(make, partial) and isinstance(make.args[-1], str):
        return make.args[-1]
    return None if field.default is NODEFAULT else field.default


def _wanted(kind: inspect.Type) -> str:
    """What may stand there, in words."""
    match kind:
        case inspect.Metadata():
            words = (kind.extra_json_schema or {}).get("description")
            return str(words) if words else _wanted(kind.type)
        case inspect.UnionType():
            options = [o for o in kind.types if not isinstance(o, inspect.NoneType)]
            return " or ".join(dict.fromkeys(map(_wanted, options)))
        case inspect.LiteralType():
            return " or ".join(v if isinstance(v, str) else shown(v) for v in kind.values)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_bounds(kind)}"
        case inspect.FloatType():
            return f"a number{_bounds(kind)}"
        case inspect.StrType():
            least, most = kind.min_length, kind.max_length
            return "text" + (f" of {least or 0} to {most} characters" if most else "")
        case inspect.VarTupleType() | inspect.ListType():
            least, most = kind.min_length, kind.max_length
            several = f" of {least}" if least == most else f" of {least or 0} to {most}"
            return "a list" + (several if most else "")
        case inspect.TupleType():
            return f"a list of {len(kind.item_types)}"
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case _:
            return "a quantity"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    """The numbers that a key takes, as `` from 1 to 8``."""
    if kind.gt is not None:
        return f" above {kind.gt:g}" + ("" if kind.le is None else f" and at most {kind.le:.10g}")
    return f" from {kind.ge:.10g} to {kind.le:.10g}" if None not in (kind.ge, kind.le) else ""


def _example(kind: inspect.Type, default: Any = None) -> str:
    """A value that may stand there, as a file writes it."""
    if isinstance(default, str | int | float) and default != "":
        return shown(default).strip("'")
    match kind:
        case inspect.Metadata():
            return _example(kind.type)
        case inspect.UnionType():
            return _example(max(kind.types, key=lambda o: isinstance(o, inspect.StructType)))
        case inspect.LiteralType():
            return str(kind.values[0])
        case inspect.BoolType():
            return "true"
        case inspect.IntType():
            return str(min(_SOME_NUMBER, _SOME_NUMBER if kind.le is None else kind.le))
        case inspect.FloatType():
            return "2"
        case inspect.VarTupleType() | inspect.ListType():
            return f"[{', '.join([_example(kind.item_type)] * (kind.min_length or 1))}]"
        case inspect.TupleType():
            return f"[{', '.join(map(_example, kind.item_types))}]"
        case inspect.StructType():
            needed = [f.encode_name for f in kind.fields if f.required]
            named = needed or [f.encode_name for f in kind.fields[:1]]
            known = _fields(kind)
            return f"{{{', '.join(f'{key}: {_example(*known[key])}' for key in named)}}}"
        case inspect.CustomType():
            return str(getattr(kind.cls, "example", "...")).split(" or ")[0]
        case _:
            return "..."
