"""``kvfabric crosscheck``: the same flows through every emulator, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulate.mininet.error import EmulationError
from kvfabric.command.frames import frame_options, frames_place, one_job, seconds_of
from topo.error import KvfabricError

if TYPE_CHECKING:
    from kvfabric.crosscheck import Checked, Crosscheck, Rehearsal
    from kvfabric.run import CellJob
    from topo.fabric import Fabric


@click.command(
    epilog="""\b
Examples:
  kvfabric crosscheck scenarios/first-look.yaml --no-mininet
  sudo -E kvfabric crosscheck scenarios/real-frames.yaml
  sudo -E kvfabric crosscheck scenarios/real-frames.yaml --dilation 40000 --wall 30min
  sudo -E kvfabric crosscheck scenarios/real-frames.yaml --tcp cubic --tcp bbr
  sudo -E kvfabric crosscheck scenarios/incast.yaml --alternative 2 --pairs
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
@frame_options
@click.option(
    "--tcp",
    multiple=True,
    metavar="CONTROL",
    help="Kernel TCP too, as cubic, bbr or dctcp. May stand several times.",
)
@click.option("--seed", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option("--pairs", is_flag=True, help="Tell the rate of every pair of hosts, too.")
def command(
    scenario: Path,
    out: Path | None,
    alternative: int | None,
    mininet: bool | None,
    dilation: int | None,
    wall: str,
    links: str,
    tcp: tuple[str, ...],
    count: int | None,
    seed: int,
    pairs: bool,
    allow_code: bool,
) -> int:
    """Serve SCENARIO by packets, then replay its flows by bytes/bandwidth, fluid and Mininet.

    Prints one table, with what each leaves out, and writes it with one plot of the distributions.
    Exits 1 when Mininet is more than 10 % off the packets at P50 or 20 % at P95 (of fewer than 200
    hand-offs: at the quantile that ten of them lie beyond), or was invalid. Ctrl-C keeps what is
    complete, marked partial.
    """
    from emulate.mininet.support import may_emulate
    from kvfabric.crosscheck import MININET, Crosscheck, cheap, refuse_real, rehearsed
    from kvfabric.emulate import setup_of
    from kvfabric.progress import stages

    most_s = seconds_of(wall)
    with stages("crosscheck") as tell:
        tell("checking")
        study, job = one_job(
            scenario, alternative=alternative, count=count, seed=seed, allow_code=allow_code
        )
    name = study.scenario.name
    place = out or frames_place(name, alternative, "crosscheck")
    if place.exists() and not place.is_dir():
        raise KvfabricError(f"{place}: is a file; write another --out folder")
    asked = bool(mininet or tcp or dilation)
    missing = None if asked else may_emulate()
    if mininet is False:
        missing = "--no-mininet"
        if tcp:
            raise KvfabricError(f"--tcp {tcp[0]}: needs real frames; leave --no-mininet out")
    if missing is None:
        try:
            refuse_real(setup_of(job.stage, job.seed), dilation, *tcp)
        except EmulationError as error:
            if asked:
                raise
            # Asked for by nobody, real frames that cannot be are no reason to tell nothing.
            missing = str(error)
    with stages("crosscheck") as tell:
        tell("running its packets")
        heard = rehearsed(job)
        tell("estimating by bytes/bandwidth and fluid")
        estimates = tuple(cheap(heard))
    found = Crosscheck(estimates, absent=missing and f"{MININET} left out: {missing}")
    stopped = False
    if missing is None:
        found, stopped = _real(
            found,
            heard,
            (None, *tcp),
            asked=asked,
            name=name,
            dilation=dilation,
            most_s=most_s,
            memory=links == "memory",
        )
    _print(found, job)
    if pairs:
        _print_pairs(found, heard, job.stage.fabric)
    _write(found, heard, job.stage.fabric, place, name)
    if stopped:
        click.echo("interrupted: what is complete is kept", err=True)
        return 130
    return 1 if found.agrees is False or (found.verdicts and found.absent) else 0


def _real(
    found: "Crosscheck",
    heard: "Rehearsal",
    controls: tuple[str | None, ...],
    *,
    asked: bool,
    name: str,
    dilation: int | None,
    **how: Any,
) -> tuple["Crosscheck", bool]:
    """The same with real frames, one run after the other, and whether Ctrl-C ended them."""
    from kvfabric.crosscheck import MININET, Crosscheck, on_frames
    from kvfabric.progress import progress

    rows, judged, withheld = list(found.checked), [], []
    stopped = False
    for control in controls:
        label = MININET if control is None else f"TCP {control}"
        try:
            with progress(name if control is None else label, 1.0) as tick:
                checked, verdict, dilation = on_frames(
                    heard, name=name, dilation=dilation, tell=tick, tcp=control, **how
                )
        except EmulationError as error:
            if asked:
                raise
            withheld.append(f"{label} left out: {error}")
            break
        except KeyboardInterrupt:
            stopped = True
            withheld.append(f"{label} left out: interrupted")
            break
        judged.append((checked.name, verdict))
        if verdict.standing == "invalid":
            withheld.append(f"{checked.name} withheld: invalid, see below")
        else:
            rows.append(checked)
        if checked.partial:
            stopped = True
            break
    absent = "; ".join(withheld) or None
    return Crosscheck(tuple(rows), dilation or 0, tuple(judged), absent), stopped


def _rows(found: "Crosscheck") -> list[tuple[str, ...]]:
    """One row an emulator: name, P50, P95 and P99 where they carry, counters."""
    from kvfabric.crosscheck import PACKET
    from topo.unit import show_duration

    packet = found.of(PACKET)
    assert packet is not None
    rows = []
    for one in found.checked:
        told = []
        mine, base = one.beside(one), packet.beside(one)
        for share in (0.5, 0.95, 0.99):
            count = len(mine.handoff_ps)
            carried = count * (1 - share) >= 10 or (share == 0.5 and count > 0)
            if not carried:
                told.append("-")
                continue
            value = mine.quantile_ps(share)
            off = f" ({value / base.quantile_ps(share) - 1:+.1%})" if one is not packet else ""
            told.append(f"{show_duration(value)}{off}")
        counts = ("-" if n is None else f"{n:,}" for n in (one.marked, one.pauses, one.drops))
        rows.append((_name(one), *told, *counts))
    return rows


def _name(one: "Checked") -> str:
    """The emulator, and of one that was interrupted how much it tells of."""
    if not one.partial:
        return one.name
    return f"{one.name}, partial: {int((one.handoff_ps >= 0).sum()):,} of {len(one.handoff_ps):,}"


def _print(found: "Crosscheck", job: "CellJob") -> None:
    from analysis import lossless
    from kvfabric.crosscheck import LEAVES_OUT, TCP_LEAVES_OUT
    from kvfabric.table import print_lines, print_table

    count = len(found.checked[0].handoff_ps)
    columns = ("emulator", "P50", "P95", "P99", "marked", "pauses", "drops")
    print_table(f"{count} hand-offs, the same flows at the same times", columns, _rows(found))
    asked = job.alternative
    most = max(found.checked, key=lambda one: one.lossless)
    name = f"{asked.fabric} with {asked.policy} ({most.name})"
    for line in lossless.told({name: most.lossless}, faults=bool(asked.scenario.faults)):
        print_lines(line)
    for one in found.checked:
        print_lines(f"{one.name} leaves out {LEAVES_OUT.get(one.name, TCP_LEAVES_OUT)}")
    if any(one.partial for one in found.checked):
        click.echo("partial: interrupted; its row tells, and is held against, what had ended")
    if found.absent is not None:
        click.echo(found.absent)
    for name, verdict in found.verdicts:
        click.echo(f"fidelity of {name} at dilation {found.dilation:,}: {verdict.text()}")


def _print_pairs(found: "Crosscheck", heard: "Rehearsal", fabric: "Fabric") -> None:
    """The rates of the hand-offs of every pair of hosts, by each emulator."""
    import numpy as np

    from kvfabric.table import print_table
    from topo.unit import PS_PER_S

    handoffs = heard.handoffs
    rows = []
    for ends in np.unique(handoffs[["destination", "source"]]):
        mine = handoffs[["destination", "source"]] == ends
        cells = []
        for one in found.checked:
            took = one.handoff_ps[mine].astype(np.float64)
            ended = took > 0
            rate = handoffs["bytes"][mine][ended] * 8 / took[ended] * (PS_PER_S / 1e9)
            cells.append(f"{np.median(rate):.3g} ({rate.min():.3g})" if len(rate) else "-")
        sender, receiver = (fabric.nodes[int(ends[n])].name for n in ("source", "destination"))
        rows.append((sender, receiver, f"{int(mine.sum()):,}", *cells))
    names = tuple(one.name for one in found.checked)
    click.echo()
    print_table(
        "Rate of each pair, Gbps: median (slowest)", ("from", "to", "hand-offs", *names), rows
    )


def _write(
    found: "Crosscheck", heard: "Rehearsal", fabric: "Fabric", place: Path, name: str
) -> None:
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
        writer.writerow(
            ("handoff", "from", "to", "bytes", *(f"{one.name}_ps" for one in found.checked))
        )
        times = zip(*(one.handoff_ps.tolist() for one in found.checked), strict=True)
        for (number, sender, receiver, size), each in zip(
            heard.handoffs.tolist(), times, strict=True
        ):
            ends = (fabric.nodes[sender].name, fabric.nodes[receiver].name)
            writer.writerow((number, *ends, size, *each))
    if found.verdicts:
        text = msgspec.json.format(msgspec.json.encode(dict(found.verdicts)), indent=1)
        (place / "fidelity.json").write_bytes(text + b"\n")
    click.echo(f"\nplot: {place / 'crosscheck.svg'}")
