"""``kvfabric topo draw``, ``export`` and ``import``: fabrics to and from files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kvfabric.command.topo_source import fabrics_of, family_options, file_fabric, file_options
from topo.error import KvfabricError


def _one(what: str, wanted: str | None, facts: dict[str, Any]) -> Any:
    """The only fabric, or of several the one of this label."""
    found = fabrics_of(what, **facts)
    labels = ", ".join(label for label, _ in found)
    chosen = [fabric for label, fabric in found if wanted in (None, label)]
    if not chosen:
        raise KvfabricError(f"{what}: no fabric {str(wanted)[:80]!r}; write one of {labels}")
    if len(chosen) > 1:
        raise KvfabricError(
            f"{what}: {len(chosen)} fabrics ({labels}); a file holds one: write --fabric "
            f"{found[0][0]!r} or another of them"
        )
    return chosen[0]


@click.command(
    epilog="""\b
Examples:
  kvfabric topo draw scenarios/first-look.yaml --out out/drawings
  kvfabric topo draw dragonfly --prefill 36 --decode 36 --ports 16 --out out/drawings
  kvfabric topo draw leaf_spine --ports 32 --out out/drawings --lost spine0
"""
)
@click.argument("what", metavar="SCENARIO|FAMILY|FILE")
@click.option(
    *("--out", "--to", "out"),
    type=click.Path(path_type=Path),
    required=True,
    help="Folder for SVG and PNG.",
)
@click.option("--lost", default=None, metavar="SWITCH", help="Show what its failure takes along.")
@family_options
def draw(what: str, out: Path, lost: str | None, **facts: Any) -> None:
    """Draw fabrics as SVG and PNG."""
    from kvfabric.progress import stages

    with stages("topo draw") as tell:
        tell("building")
        fabrics = fabrics_of(what, **facts)
    save_drawings("topo draw", out, fabrics, lost)


def save_drawings(
    verb: str, folder: Path, fabrics: Sequence[tuple[str, Any]], lost: str | None = None
) -> None:
    """Write a picture of each fabric and say where it is."""
    from kvfabric.command.study import file_name
    from kvfabric.progress import stages

    taken: Counter[str] = Counter()
    for label, fabric in fabrics:
        name = file_name(label, "fabric")
        taken[name] += 1
        path = folder / (f"{name}.svg" if taken[name] == 1 else f"{name}-{taken[name]}.svg")
        with stages(verb) as tell:
            tell(f"drawing {label}")
            _save_drawing(path, fabric, lost)
        click.echo(f"drawing: {path}")


def _save_drawing(path: Path, fabric: Any, lost: str | None) -> None:
    """Write the picture as SVG, and as PNG beside it."""
    import warnings

    from topo.draw import draw

    figure = draw(fabric, lost)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            figure.savefig(path, metadata={"Date": None})
            figure.savefig(path.with_suffix(".png"), dpi=150)
    except OSError as error:
        raise KvfabricError(f"{path.parent}: {error.strerror}; write another folder") from None
    if any("missing from font" in str(warning.message) for warning in told):
        click.echo("note: the font lacks characters of some names; boxes stand for them", err=True)


@click.command(
    short_help="Write a fabric in one of the formats.",
    epilog="""\b
Examples:
  kvfabric topo export leaf_spine --prefill 32 --decode 32 --out mine.json
  kvfabric topo export mine.json --out mine.clab.yml
  kvfabric topo export scenarios/first-look.yaml --fabric fat-tree --out fat-tree.json
  kvfabric topo export dragonfly --out cables.csv --format cable-map
""",
)
@click.argument("what", metavar="SCENARIO|FAMILY|FILE")
@click.option(
    "--out", "--to", "out", type=click.Path(path_type=Path), required=True, help="File or folder."
)
@click.option("--fabric", default=None, metavar="LABEL", help="Of a scenario's fabrics, this one.")
@click.option("--format", "form", default=None, help="Told by the file's ending if not given.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@family_options
def export(
    what: str, out: Path, fabric: str | None, form: str | None, overwrite: bool, **facts: Any
) -> None:
    """Write a fabric in one of the formats; say what the format does not hold."""
    from kvfabric.progress import stages
    from topo.format.registry import write_fabric

    with stages("topo export") as tell:
        tell("building")
        chosen = _one(what, fabric, facts)
        tell(f"writing {out}")
        notes = write_fabric(chosen, out, form, overwrite)
    click.echo(f"wrote {out}")
    for note in notes:
        click.echo(f"note: {note}")


@click.command(
    "import",
    short_help="Read a fabric file, check it and show what it has.",
    epilog="""\b
Examples:
  kvfabric topo import theirs.clab.yml --nic 100Gbps --ports 32 --prefill 8 --decode 8
  kvfabric topo import topology.txt --format hpcc --out theirs.json
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", default=None, help="Told by the file's ending if not given.")
@click.option(
    *("--out", "--to", "out"),
    type=click.Path(path_type=Path),
    default=None,
    help="Write it here as JSON.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
@file_options
def import_(file: Path, form: str | None, out: Path | None, overwrite: bool, **facts: Any) -> None:
    """Read a fabric file, check it, show what it has; with --out keep it as node-link JSON.

    Many formats hold no rates, and most no roles: --nic, --switch-rate, --ports and --cable are
    taken where the file is silent, --prefill and --decode give roles to a file without any. An
    option about what the file does tell is refused.
    """
    from kvfabric.progress import stages
    from kvfabric.table import print_table
    from topo.check import check as check_fabric
    from topo.format.registry import write_fabric
    from topo.summary import describe

    with stages("topo import") as tell:
        tell(f"reading {file}")
        fabric = file_fabric(file, form, **facts)
        check_fabric(fabric)
        rows = [[label, value] for label, value in describe(fabric, tell=tell).items()]
    print_table(str(file), ["", fabric.name], rows)
    if out is not None:
        with stages("topo import") as tell:
            tell(f"writing {out}")
            write_fabric(fabric, out, "json", overwrite)
        click.echo(f"wrote {out}")
