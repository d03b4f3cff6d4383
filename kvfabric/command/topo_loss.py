"""``kvfabric topo losses``: one loss of each kind, as the part of a scenario that compares them."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import click

from kvfabric.command.topo_source import fabrics_of, family_options
from topo.fabric import Fabric

_PLAIN: Final = re.compile(r"[A-Za-z]+[A-Za-z0-9_.-]*[0-9]")
"""Names that YAML reads as text without quotes."""


@click.command(
    short_help="Write one loss of each kind, to be compared.",
    epilog="""\b
Examples:
  kvfabric topo losses scenarios/n-1.yaml
  kvfabric topo losses fat_tree --prefill 8 --decode 8 --set k=4
  kvfabric topo losses mine.yaml >> mine.yaml     (one fabric, and no compare yet)
""",
)
@click.argument("what", metavar="SCENARIO|FAMILY|FILE")
@family_options
def losses(what: str, **facts: Any) -> None:
    """Write one loss of each kind of a fabric as `compare: faults`, to be put into a scenario.

    One cable and one switch of each tier stand for their kind; a cable also at a quarter of its
    rate. What would cut hosts off is told in a comment: their instances fail.
    """
    from kvfabric.progress import stages, under

    lines: list[str] = []
    with stages("topo losses") as tell:
        tell("building")
        for label, fabric in fabrics_of(what, **facts):
            under(tell, label)("losing one of each kind")
            lines += [f"# {label}", "compare:", "  faults:", "    - []", *_entries(fabric)]
    for line in lines:
        click.echo(line)


def _entries(fabric: Fabric) -> Iterator[str]:
    from topo.single import singles

    for one in singles(fabric):
        link = len(one.names) == 2
        names = [name if _PLAIN.fullmatch(name) else json.dumps(name) for name in one.names]
        place = f"link: [{', '.join(names)}]" if link else f"node: {names[0]}"
        told = f"one of {one.count}"
        if one.cuts:
            yield f"    # {' - '.join(one.names)}, {told}: hosts go with it, whose instances fail"
        else:
            yield f"    - [{{kind: removed, {place}}}]   # {told}"
        if link:
            yield f"    - [{{kind: degraded, {place}, share: 25%}}]"
