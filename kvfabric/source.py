"""A YAML file as plain values that remember their lines.

Scenario files come from strangers: the size and the depth are bounded, anchors and aliases (the
stuff of entity bombs) are refused, a key may stand once, and numbers are finite. Every value's
line is kept, so that any later complaint can name its place.
"""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from topo.error import KvfabricError
from topo.intake import Intake
from topo.mistake import Key, Place, value_at

MOST_MIB: Final = 1
COMMAND_LINE: Final = 0
"""The line of a value that was given on the command line."""
_MOST_DEPTH: Final = 20

_FIRST: Final = re.compile(r"(?P<name>(?:'[^']*' )?)(?P<key>[a-z_]+)(?P<after>: |[ .])")
"""The first word of a complaint, which names a key, behind the name of a node if there is one."""


class ScenarioError(KvfabricError):
    """A scenario that cannot be read or run, with the place in its file."""


_SCENARIO: Final = Intake(
    ScenarioError,
    absent="`kvfabric init` writes a scenario to start from",
    other="write the path of a scenario",
)


@dataclass
class Source:
    """Plain values (mappings, lists, scalars), the text they stand in and the line of each."""

    path: str
    value: dict[str, Any]
    text: str = ""
    lines: dict[Place, int] = field(default_factory=dict)

    def at(self, place: Place) -> Any:
        """The value at a place; None where there is none."""
        return value_at(self.value, place)

    def error(self, place: Place, message: str) -> ScenarioError:
        """An error that starts with ``file:line: key:``, at the closest place that has a line."""
        known = place
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 1)
        where = f"{self.path}:{line}" if line != COMMAND_LINE else "command line"
        dotted = ".".join(str(k) for k in place)
        return ScenarioError(f"{where}: {dotted + ': ' if dotted else ''}{message}")

    def refusal(self, place: Place, message: str, beside: Place | None = None) -> ScenarioError:
        """What a room refuses, at the key that its first words name.

        The key stands below the place, or else below ``beside``; where neither has one of that
        name in the file, the place itself is told.
        """
        found, rest = self._named(place, message)
        if found == place and beside is not None:
            other, told = self._named(beside, message)
            if other != beside:
                found, rest = other, told
        return self.error(found, rest)

    def _named(self, place: Place, message: str) -> tuple[Place, str]:
        """As far down from a place as the first words go, and the words that are left.

        A first word that is a value there, as a family's name, is passed over if a key follows.
        """
        section, (word, _, rest) = self.at(place), message.partition(": ")
        if isinstance(section, dict) and word in section.values():
            found, left = self._named(place, rest)
            return (found, left) if found != place else (place, message)
        while first := _FIRST.match(message):
            below = self._below(place, first["key"])
            if below is None:
                break
            place, message = below, first["name"] + message[first.end() :]
            if first["after"] == ": ":
                break
        return place, message

    def _below(self, place: Place, key: str) -> Place | None:
        """The place itself if it has that name, or the one next below that has."""
        if place and place[-1] == key:
            return place
        inner = [p for p in self.lines if p[: len(place)] == place and p[-1:] == (key,)]
        inner = [p for p in inner if not any(isinstance(step, int) for step in p[len(place) :])]
        next_below = [p for p in inner if len(p) == min(map(len, inner))]
        return next_below[0] if len(next_below) == 1 else None

    def overlaid(self, place: Place, over: Any, over_place: Place) -> "Source":
        """A copy in which ``over`` is merged into the value at ``place``.

        Mappings merge key by key, anything else replaces; ``over_place`` is where ``over`` stands
        in this file, so that its lines come along; what is made to hold it gets its line.
        """
        merged = Source(self.path, _copied(self.value), self.text, dict(self.lines))
        holder: Any = merged.value
        for key in place[:-1]:
            if not isinstance(holder.get(key), dict):
                holder[key] = {}
            holder = holder[key]
        holder[place[-1]] = _merged(holder.get(place[-1]), over)
        if over_place in self.lines:
            for depth in range(1, len(place)):
                merged.lines.setdefault(place[:depth], self.lines[over_place])
        for at, line in self.lines.items():
            if at[: len(over_place)] == over_place:
                merged.lines[place + at[len(over_place) :]] = line
        return merged


@contextmanager
def located(source: Source, *where: Key, beside: Place | None = None) -> Iterator[None]:
    """Put the scenario's file and line in front of whatever a room refuses: `Source.refusal`."""
    try:
        yield
    except ScenarioError:
        raise
    except KvfabricError as error:
        raise source.refusal(where, str(error), beside) from None


def file_path(file: str, source: Source) -> Path:
    """A file's place: as given when absolute or present here, else beside the scenario file."""
    given = Path(file)
    beside = Path(source.path).parent / given
    return given if given.is_absolute() or given.exists() or not beside.exists() else beside


def _line(where: yaml.Node | yaml.Event) -> int:
    return where.start_mark.line + 1 if where.start_mark else 1


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value


def _merged(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        out = dict(under)
        for key, value in over.items():
            out[key] = _merged(under.get(key), value)
        return out
    return _copied(over)


def read_source(path: str | Path) -> Source:
    """Read a YAML mapping. Raises `ScenarioError` with the place of whatever is wrong."""
    text = _SCENARIO.content(
        Path(path), MOST_MIB, large="a scenario is a page", encoding="save it as UTF-8"
    )
    return parsed(text, str(path))


def parsed(text: str, shown: str) -> Source:
    """The same for a text that is already there; ``shown`` names it in errors."""
    source = Source(shown, {}, text)
    try:
        _refuse_aliases(text, source)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise ScenarioError(f"{shown}:1: the file is empty; `kvfabric init` writes a scenario")
        if not isinstance(node, yaml.MappingNode):
            raise ScenarioError(f"{shown}:{_line(node)}: not a mapping; write `name: ...` and on")
        source.value = _value(loader, node, (), source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ScenarioError(f"{shown}:{line}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise ScenarioError(f"{shown}:1: not YAML: {first}") from None
    return source


def _refuse_aliases(text: str, source: Source) -> None:
    """Stop at the first anchor or alias and at excessive depth, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = _line(event)
            raise ScenarioError(
                f"{source.path}:{line}: anchors and aliases are not read; write the value out"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_DEPTH:
                line = _line(event)
                raise ScenarioError(
                    f"{source.path}:{line}: nested deeper than {_MOST_DEPTH} levels"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _value(loader: yaml.SafeLoader, node: yaml.Node, place: Place, source: Source) -> Any:
    source.lines[place] = _line(node)
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            key = loader.construct_object(key_node)
            if not isinstance(key, str):
                raise ScenarioError(f"{source.path}:{line}: key {key!r}: must be text")
            if key in out:
                raise ScenarioError(f"{source.path}:{line}: {key}: stands twice; keep one")
            out[key] = _value(loader, value_node, (*place, key), source)
            source.lines[(*place, key)] = line
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, n, (*place, i), source) for i, n in enumerate(node.value)]
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        raise source.error(place, f"not a value: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise source.error(place, f"{value}: must be a finite number")
    if value is not None and not isinstance(value, str | int | float | bool):
        return node.value if isinstance(node.value, str) else str(value)
    return value
