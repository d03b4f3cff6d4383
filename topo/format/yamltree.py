"""YAML as a tree of nodes that know their lines, from a file that may mean harm.

Depth and size are bounded by a first pass over events, which builds nothing. Aliases are left as
links in the tree and never copied; a reader that asks for a mapping where one belongs, and a
scalar where one belongs, walks no further than its format is deep, however often a file repeats
itself. Values stay texts: what they mean is for the reader to say.
"""

from pathlib import Path
from typing import Final

import yaml

from topo.format.text import content, located, shown

MOST_MIB: Final = 16
_MOST_DEPTH: Final = 12
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def tree(path: Path) -> yaml.Node:
    """The root node of a file of one document.

    Errors: `FormatError` with the line: broken YAML, more than one document, nesting beyond 12.
    """
    text = content(path, MOST_MIB)
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MOST_DEPTH:
                at = event.start_mark.line + 1 if event.start_mark else None
                raise located(path, at, "nested too deeply to be a fabric; flatten it")
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise located(path, line, f"broken YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        told = str(error).partition("\n")[0]
        raise located(path, None, f"broken YAML: {told}") from None
    if root is None:
        raise located(path, None, "empty; write name and topology")
    return root


def line(node: yaml.Node) -> int:
    """The line that a node starts in."""
    return int(node.start_mark.line) + 1


def mapping(path: Path, node: yaml.Node, what: str) -> dict[str, yaml.Node]:
    """The keys and values of a mapping; keys stand once, and merge keys are refused."""
    if not isinstance(node, yaml.MappingNode):
        raise located(path, line(node), f"{what}: not a mapping of keys to values")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = scalar(path, key, f"a key of {what}")
        if name in found:
            raise located(path, line(key), f"{what}: key {shown(name)} stands twice; write it once")
        if name == "<<":
            raise located(path, line(key), f"{what}: merge keys are not read; write the values out")
        found[name] = value
    return found


def sequence(path: Path, node: yaml.Node, what: str) -> list[yaml.Node]:
    """The items of a list."""
    if not isinstance(node, yaml.SequenceNode):
        raise located(path, line(node), f"{what}: not a list")
    return list(node.value)


def scalar(path: Path, node: yaml.Node, what: str) -> str:
    """The text of a scalar, whatever type YAML would make of it."""
    if not isinstance(node, yaml.ScalarNode):
        raise located(path, line(node), f"{what}: not a single value")
    return str(node.value)
