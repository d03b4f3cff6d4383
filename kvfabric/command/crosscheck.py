"""``kvfabric crosscheck``: the same flows through every emulator, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topo.error import KvfabricError

if TYPE_CHECKING:
    from emulate.mininet.guard import Verdict
    from kvfabric.crosscheck import Crosscheck


@click.command(
    epilog="""\b
Examples:
  kvfabric crosscheck scenarios/first-look.yaml --no-mininet
  sudo -E kvfabric crosscheck scenarios/real-frames.yaml
  sudo -E kvfabric crosscheck scenarios/real-frames.yaml --dilation 40000 --wall 30min
"""
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder for table and plot.  [default: out/NAME-crosscheck]",
)
@click.option(
    "--mininet/--no-mininet",
    default=None,
    help="Real frames too.  [default: where this machine can]",
)
@click.option("--dilation", type=click.IntRange(1), default=None, help="As of emulate.")
@click.option("--wall", default="15min", show_default=True, help="What real frames may take.")
@click.option(
    "--links",
    type=click.Choice(["veth", "memory"]),
    default="veth",
    show_default=True,
    help="As of emulate.",
)
@click.option(
    "--tcp",
    multiple=True,
    metavar="CONTROL",
    help="Kernel TCP too, as cubic, bbr or dctcp. May stand several times.",
)
@click.option("--count", type=click.IntRange(1), default=None, help="Requests, at most.")
@click.option("--seed", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option("--allow-code", is_flag=True, help="Run policies named as module:Class.")
def command(
    scenario: Path,
    out: Path | None,
    mininet: bool | None,
    dilation: int | None,
    wall: str,
    links: str,
    tcp: tuple[str, ...],
    count: int | None,
    seed: int,
    allow_code: bool,
) -> int:
    """Serve SCENARIO by packets, then replay its flows by bytes/bandwidth, fluid and Mininet.

    Prints one table, with what each leaves out, and writes it with one plot of the distributions.
    Exits 1 when Mininet is more than 10 % off the packets at P50 or 20 % at P95, or was invalid.
    """
    import re

    from emulate.mininet.error import EmulationError
    from emulate.mininet.support import may_emulate
    from kvfabric.compare import jobs_of
    from kvfabric.crosscheck import MININET, Crosscheck, cheap, on_frames, rehearsed
    from kvfabric.load import load
    from kvfabric.progress import progress
    from topo.unit import PS_PER_S, duration

    overrides: dict[tuple[str | int, ...], Any] = {
        ("run", "seeds"): seed,
        ("run", "emulator"): "packet",
    }
    if count is not None:
        overrides["requests", "count"] = count
    study = load(scenario, overrides=overrides, compare=False, allow_code=allow_code)
    name = study.scenario.name
    place = out or Path("out") / f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}-crosscheck"
    if place.exists() and not place.is_dir():
        raise KvfabricError(f"{place}: is a file; write another --out folder")
    job = jobs_of(study)[-1]
    if job.impossible is not None:
        raise study.source.error(("policy",), job.impossible)
    missing = may_emulate() if mininet is None else None
    if mininet is False:
        missing = "--no-mininet"
    heard = rehearsed(job)
    rows = cheap(heard)
    found = Crosscheck(tuple(rows), absent=f"{MININET} left out: {missing}" if missing else None)
    if missing is None:
        judged: list[tuple[str, Verdict]] = []
        withheld = []
        used = 0
        for control in (None, *tcp):
            what = name if control is None else f"TCP {control}"
            try:
                with progress(what, 1.0) as tick:
                    checked, verdict, used = on_frames(
                        heard,
                        name=name,
                        dilation=dilation or used or None,
                        most_s=duration(wall) / PS_PER_S,
                        memory=links == "memory",
                        tell=tick,
                        tcp=control,
                    )
            except EmulationError as error:
                # Asked for by nobody, real frames that cannot be are no reason to tell nothing.
                if mininet or tcp:
                    raise
                withheld.append(f"{MININET} left out: {error}")
                break
            judged.append((checked.name, verdict))
            if verdict.standing == "invalid":
                withheld.append(f"{checked.name} withheld: {verdict.text()}")
            else:
                rows.append(checked)
        found = Crosscheck(tuple(rows), used, tuple(judged), "; ".join(withheld) or None)
    elif tcp:
        raise KvfabricError(f"--tcp {tcp[0]}: needs real frames; {missing}")
    _print(found)
    _write(found, place, name)
    return 1 if found.agrees is False or (found.verdicts and found.absent) else 0


def _rows(found: "Crosscheck") -> list[tuple[str, ...]]:
    """One row an emulator: name, P50, P95 and P99 where they carry, counters."""
    from kvfabric.crosscheck import PACKET
    from topo.unit import show_duration

    packet = found.of(PACKET)
    assert packet is not None
    rows = []
    for one in found.checked:
        told = []
        for share in (0.5, 0.95, 0.99):
            carried = len(one.handoff_ps) * (1 - share) >= 10 or share == 0.5
            value, base = one.quantile_ps(share), packet.quantile_ps(share)
            off = f" ({value / base - 1:+.1%})" if one is not packet else ""
            told.append(f"{show_duration(value)}{off}" if carried else "-")
        counts = ("-" if n is None else f"{n:,}" for n in (one.marked, one.pauses, one.drops))
        rows.append((one.name, *told, *counts))
    return rows


def _print(found: "Crosscheck") -> None:
    from kvfabric.crosscheck import LEAVES_OUT, TCP_LEAVES_OUT
    from kvfabric.table import print_table

    count = len(found.checked[0].handoff_ps)
    columns = ("emulator", "P50", "P95", "P99", "marked", "pauses", "drops")
    print_table(f"{count} hand-offs, the same flows at the same times", columns, _rows(found))
    for one in found.checked:
        click.echo(f"{one.name} leaves out {LEAVES_OUT.get(one.name, TCP_LEAVES_OUT)}")
    if found.absent is not None:
        click.echo(found.absent)
    for name, verdict in found.verdicts:
        click.echo(f"fidelity of {name} at dilation {found.dilation:,}: {verdict.text()}")


def _write(found: "Crosscheck", place: Path, name: str) -> None:
    import csv

    import msgspec

    from analysis.plot.crosscheck import crosscheck
    from analysis.plot.style import png, svg

    place.mkdir(parents=True, exist_ok=True)
    plot = crosscheck({one.name: one.handoff_ps for one in found.checked}, name)
    (place / "crosscheck.svg").write_bytes(svg(plot))
    (place / "crosscheck.png").write_bytes(png(plot))
    with (place / "crosscheck.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("handoff", *(f"{one.name}_ps" for one in found.checked)))
        writer.writerows(
            (number, *times)
            for number, times in enumerate(
                zip(*(one.handoff_ps.tolist() for one in found.checked), strict=True)
            )
        )
    if found.verdicts:
        text = msgspec.json.format(msgspec.json.encode(dict(found.verdicts)), indent=1)
        (place / "fidelity.json").write_bytes(text + b"\n")
    click.echo(f"\nplot: {place / 'crosscheck.svg'}")
