"""What a writer makes of a fabric: texts by file name, and what they do not hold.

Nothing is dropped in silence: each thing that a fabric has and a format has no place for makes one
sentence, with numbers. Names that a format cannot carry are refused before anything is written.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topo.fabric import Fabric, Kind, Role
from topo.format.text import FormatError, shown, unusable
from topo.unit import propagation_ps


@dataclass(frozen=True, slots=True)
class Written:
    """Texts by file name ("" for a format of one file), and sentences on what they leave out."""

    files: dict[str, str]
    notes: list[str]


def check_names(fabric: Fabric) -> None:
    """Refuse names that no format carries safely: control characters, newlines, blanks around."""
    for what, name in (
        ("fabric", fabric.name),
        ("family", fabric.family),
        *(("node", node.name) for node in fabric.nodes),
    ):
        if (why := unusable(name)) is not None:
            raise FormatError(f"{what} name {shown(name)} {why}; rename it before the export")


def plural(count: int, one: str, more: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "cable"), plural(2, "switch", "switches")
    ('1 cable', '2 switches')
    """
    return f"{count} {one if count == 1 else more or one + 's'}"


def lost_roles(fabric: Fabric) -> list[str]:
    """A sentence for hosts whose roles have no place."""
    roles = Counter(n.role.value for n in fabric.hosts if n.role is not Role.NONE)
    if not roles:
        return []
    told = ", ".join(f"{count} {role}" for role, count in roles.items())
    return [f"Roles of hosts ({told}) are not in the file; a placement assigns them anew."]


def lost_servers(fabric: Fabric) -> list[str]:
    """A sentence for hosts whose server numbers have no place."""
    count = sum(node.server != -1 for node in fabric.hosts)
    return [f"The server numbers of {plural(count, 'host')} are not in the file."] if count else []


def lost_models(fabric: Fabric) -> list[str]:
    """A sentence for switch models that have no place."""
    models = {node.switch for node in fabric.switches}
    if not models:
        return []
    return [
        f"Switch models (ports, rates, buffers, latencies; {plural(len(models), 'model')}) are not "
        "in the file."
    ]


def lost_delays(fabric: Fabric) -> list[str]:
    """A sentence for cables whose delay is not that of their length."""
    count = sum(link.delay_ps != propagation_ps(link.length_m) for link in fabric.links)
    if not count:
        return []
    return [
        f"The delays of {plural(count, 'cable')} differ from those of their lengths and are not in "
        "the file."
    ]


def told_inside(fabric: Fabric) -> list[str]:
    """A sentence for switches of tier 0, which stand for what lies inside a server."""
    count = sum(node.tier == 0 for node in fabric.switches)
    if not count:
        return []
    return [
        f"{plural(count, 'switch', 'switches')} of tier 0 stand for what lies inside servers (NICs "
        "and the scale-up network); they are no devices and their links no cables."
    ]


def interface(kind: Kind, port: int) -> str:
    """The name that a port is given where a format wants one: eth1 ... of hosts, swp1 ... else.

    >>> interface(Kind.SWITCH, 0)
    'swp1'
    """
    return f"{'eth' if kind is Kind.HOST else 'swp'}{port + 1}"


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV with newlines alone at the ends of lines."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
