"""What is wrong with a value of a scenario, in the words of scenario files.

msgspec tells what it expected in words of Python and JSON. Here the same is told by what the key
takes: what was found, what must stand there, and an example with its unit.
"""

import difflib
import re
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import fields

from kvfabric.quantity import example_of, read_quantity, shown
from kvfabric.scenario import Scenario
from kvfabric.source import Place, ScenarioError, Source

_AT: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_SOME_NUMBER: Final = 8


def mistake(
    source: Source, text: str, under: Place = (), root: type[Struct] = Scenario
) -> ScenarioError:
    """What msgspec says of a ``root`` that stands at a place, with the place of the value."""
    found = _AT.search(text)
    place: Place = ()
    if found:
        text = text[: found.start()]
        for key, index in _STEP.findall(found[1]):
            place = (*place, key or (int(index) if index.isdigit() else index))
    place = _without_dots((*under, *place), source)
    kind, default = _kind(place[len(under) :], root)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        return source.error((*place, unknown[1]), f"unknown key; {_nearby(unknown[1], kind)}")
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return source.error(place, f"`{missing[1]}` is missing; {_added(missing[1], kind)}")
    if text.startswith("Invalid enum value"):
        return source.error(place, f"{text[19:]} is unknown; write {_wanted(kind)}")
    if not text.startswith("Expected "):
        return source.error(place, text[0].lower() + text[1:])
    return source.error(place, _misfit(source.at(place), kind, default))


def _misfit(value: Any, kind: inspect.Type, default: Any) -> str:
    """A value that cannot stand there."""
    if _holds(kind, inspect.LiteralType) or isinstance(kind, inspect.BoolType):
        return f"{shown(value)}: write {_wanted(kind)}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    quoted = number and not default and _holds(kind, inspect.StrType)
    example = f'"{shown(value)}"' if quoted else _example(kind, default)
    told = "" if example.startswith(("...", "[...")) else f"; write e.g. {example}"
    return f"{shown(value)}: must be {_wanted(kind)}{told}"


def above_nothing(source: Source, place: Place) -> ScenarioError:
    """A quantity that stands as 0 where that makes no sense."""
    kind, default = _kind(place, Scenario)
    return source.error(place, f"must be above 0; write e.g. {_example(kind, default)}")


def _without_dots(place: Place, source: Source) -> Place:
    """msgspec names no key of a mapping of values: the first whose value is no number."""
    if "..." not in place:
        return place
    holder = place[: place.index("...")]
    held: dict[str, Any] = source.at(holder)
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
            several = _holds(kind, inspect.VarTupleType, inspect.TupleType)
            if isinstance(several, inspect.TupleType):
                kind = several.item_types[min(key, len(several.item_types) - 1)]
            elif isinstance(several, inspect.VarTupleType):
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
    if isinstance(make, partial) and make.func is read_quantity:
        return make.args[1]
    return None if field.default is NODEFAULT else field.default


def _wanted(kind: inspect.Type) -> str:
    """What may stand there, in words."""
    match kind:
        case inspect.Metadata():
            told = (kind.extra_json_schema or {}).get("description")
            return str(told) if told else _wanted(kind.type)
        case inspect.UnionType():
            options = [o for o in kind.types if not isinstance(o, inspect.NoneType)]
            return " or ".join(dict.fromkeys(map(_wanted, options)))
        case inspect.LiteralType():
            return " or ".join(map(str, kind.values))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_bounds(kind)}"
        case inspect.FloatType():
            return f"a number{_bounds(kind)}"
        case inspect.StrType():
            least, most = kind.min_length, kind.max_length
            return "text" + (f" of {least or 0} to {most} characters" if most else "")
        case inspect.VarTupleType():
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
        case inspect.VarTupleType():
            return f"[{', '.join([_example(kind.item_type)] * (kind.min_length or 1))}]"
        case inspect.TupleType():
            return f"[{', '.join(map(_example, kind.item_types))}]"
        case inspect.StructType():
            needed = [f.encode_name for f in kind.fields if f.required]
            told = needed or [f.encode_name for f in kind.fields[:1]]
            known = _fields(kind)
            return f"{{{', '.join(f'{key}: {_example(*known[key])}' for key in told)}}}"
        case inspect.CustomType():
            return example_of(kind.cls).split(" or ")[0]
        case _:
            return "..."
