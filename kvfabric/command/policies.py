"""``kvfabric policies``: the mapping policies, what each looks at, its parameters, its source."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from traffic.policy.choice import Policy


@click.command(
    epilog="""\b
Examples:
  kvfabric policies
  kvfabric policies dynamo_kv
  kvfabric policies my_policy:Nearest --allow-code
"""
)
@click.argument("name", required=False)
@click.option(
    "--allow-code",
    is_flag=True,
    help="Import a NAME of the form module:Class, from Python's path or the working folder.",
)
def command(name: str | None, allow_code: bool) -> None:
    """List the mapping policies, or describe the one called NAME.

    A policy sees load (queues and memory), cache (who holds which prefix blocks), topology (links
    between instances) or network (queues, pauses and use of the links, polled).
    """
    if name is None:
        _list()
    else:
        _describe(name, allow_code)


def _list() -> None:
    from kvfabric.table import print_lines, print_table
    from traffic.policy.foreign import offered
    from traffic.policy.registry import POLICIES

    rows = [
        [
            name,
            _sees(kind),
            ", ".join(_written(*each) for each in _parameters(kind)) or "-",
            kind.source,
        ]
        for name, kind in POLICIES.items()
    ]
    for name, entry in sorted(offered().items()):
        package = entry.dist.name if entry.dist is not None else "?"
        rows.append([name, "?", "?", f"installed package {package}"])
    print_table("Mapping policies", ["policy", "sees", "parameters", "source"], rows, wide=140)
    print_lines(
        "What one does, and what its parameters mean: kvfabric policies dynamo_kv",
        "Any takes order: prefill_first | decode_first | joint, local: {...} for prompts that stay "
        "on the decode side, and staleness: 50ms for what it sees of the network; and your own: "
        "docs/policies.md.",
    )


def _describe(name: str, allow_code: bool) -> None:
    from kvfabric.policy import permit
    from kvfabric.table import print_lines, print_table
    from topo.error import KvfabricError
    from traffic.policy.registry import kind_of

    if ":" in name:
        if not allow_code:
            raise KvfabricError(
                f"policy {name[:80]!r}: this would run its code; write --allow-code if you trust it"
            )
        permit(Path("scenario"))
    kind = kind_of(name)
    print_lines(
        f"{name}\n\n{_text(kind)}\n",
        f"Sees:    {_sees(kind)}",
        f"Joint:   {'yes' if _joint(kind) else 'no'} (order: joint)",
        f"Source:  {kind.source}\n",
    )
    parameters = _parameters(kind)
    if parameters:
        print_table("Parameters", ["parameter", "values", "default"], parameters)
        if kind.settings.__doc__ and kind.settings.__module__ == kind.__module__:
            print_lines(f"{_text(kind.settings)}\n")
    first = parameters[0] if parameters else ("order", "", "decode_first")
    value = first[2] if first[2] not in ("-", "unset") else "..."
    click.echo(f"In a scenario:\n  policy: {{kind: {_quoted(name)}, {first[0]}: {value}}}")


def _quoted(name: str) -> str:
    return f"'{name}'" if ":" in name else name


def _text(kind: type[Any]) -> str:
    """A docstring without its marks of code."""
    return (inspect.getdoc(kind) or "").replace("``", "").replace("`", "")


def _sees(kind: "type[Policy]") -> str:
    from traffic.policy.choice import SIGHTS

    return ", ".join(sight for sight in SIGHTS if sight in kind.sees) or "nothing"


def _joint(kind: "type[Policy]") -> bool:
    given = getattr(kind, "given", kind)
    return hasattr(given, "pair") or hasattr(given, "scores")


def _parameters(kind: "type[Policy]") -> list[tuple[str, str, str]]:
    """Name, type and default of each parameter."""
    import msgspec

    return [
        (field.encode_name, _type(field.type), _default(field))
        for field in msgspec.structs.fields(kind.settings)
    ]


def _default(field: Any) -> str:
    import msgspec

    if field.default_factory is not msgspec.NODEFAULT:
        return _shown(field.default_factory())
    return "-" if field.default is msgspec.NODEFAULT else _shown(field.default)


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _written(name: str, _: str, default: str) -> str:
    return name if default in ("unset", "-") else f"{name}: {default}"


def _type(kind: Any) -> str:
    """What may stand there, as users would say it.

    >>> from typing import Literal
    >>> _type(Literal["max", "random"] | None), _type(int), _type(float | None)
    ('max | random', 'whole number', 'number')
    """
    from types import NoneType, UnionType
    from typing import Literal, Union, get_args, get_origin

    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(_type(part) for part in get_args(kind) if part is not NoneType)
    names = {int: "whole number", float: "number", bool: "true | false", str: "text"}
    return names.get(kind, "any" if kind is Any else str(getattr(kind, "__name__", kind)))
