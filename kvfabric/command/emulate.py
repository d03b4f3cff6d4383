"""``kvfabric emulate``: one scenario on real frames, slowed down by a stated factor."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvfabric.command.frames import frame_options, frames_place, one_job, seconds_of
from topo.error import KvfabricError

if TYPE_CHECKING:
    from kvfabric.progress import Tell


@click.command(
    epilog="""\b
Examples:
  sudo -E kvfabric emulate scenarios/real-frames.yaml
  sudo -E kvfabric emulate scenarios/real-frames.yaml --dilation 40000 --wall 30min
  sudo -E kvfabric emulate scenarios/real-frames.yaml --links memory --count 20
  sudo -E kvfabric emulate scenarios/real-frames.yaml --shell
  sudo -E kvfabric emulate scenarios/kernel-queues.yaml --dataplane kernel --tcp bbr
"""
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Results folder, new or empty.  [default: out/NAME-mininet]",
)
@frame_options
@click.option(
    "--dataplane",
    type=click.Choice(["softswitch", "kernel"]),
    default="softswitch",
    show_default=True,
    help="Who forwards: switches in software, or Linux routers with RED, ETS and ECMP.",
)
@click.option(
    "--tcp",
    metavar="CONTROL",
    default=None,
    help="Of the kernel's senders: cubic, bbr or dctcp.  [default: dctcp]",
)
@click.option(
    "--shell", "opened", is_flag=True, help="Serve nothing: open Mininet's command line on it."
)
def command(
    scenario: Path,
    out: Path | None,
    alternative: int | None,
    dilation: int | None,
    wall: str,
    links: str,
    dataplane: str,
    tcp: str | None,
    count: int | None,
    opened: bool,
    allow_code: bool,
) -> int:
    """Run SCENARIO, or one alternative of its `compare`, on a Mininet network of real frames.

    Needs root; `kvfabric doctor` says what else. The guard's verdict stands beside the results:
    valid, warn, or invalid, and then no number is told and the command exits 1. Ctrl-C keeps what
    is complete, marked partial.
    """
    import shlex
    import sys
    from functools import partial

    from kvfabric.command.study import tell
    from kvfabric.compare import manifest_of
    from kvfabric.emulate import emulated, outlook, shell, write_emulated
    from kvfabric.kernel import kernel_emulated
    from kvfabric.progress import progress, stages

    control = _control(dataplane, tcp, links=links, opened=opened)
    most_s = seconds_of(wall)
    study, job = one_job(
        scenario, alternative=alternative, count=count, seed=1, allow_code=allow_code
    )
    if opened:
        shell(job, dilation, memory=links == "memory")
        return 0
    place = out or frames_place(study.scenario.name, alternative, "mininet")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise KvfabricError(f"{place}: holds something already; write another --out, or remove it")
    name = study.scenario.name
    with stages(name) as say:
        seen = outlook(job, dilation, most_s, tell=partial(_tell, name, say), tcp=control)
    for line in seen.not_lossless:
        click.echo(f"its packets: {line}", err=True)
    click.echo(f"{seen.why}; the network is busy for {seen.wall_s:.0f} s of real time", err=True)
    with progress(name, 1.0) as tick:
        done = (
            emulated(job, seen, memory=links == "memory", tell=tick)
            if control is None
            else kernel_emulated(job, seen, control=control, tell=tick)
        )
    reproduce = shlex.join(["kvfabric", *sys.argv[1:]])
    write_emulated(place, manifest_of(study, [job], reproduce), done)
    tell(place)
    click.echo(f"fidelity: {done.verdict.text()}")
    if done.stopped_ps is not None:
        click.echo("interrupted: what is complete is kept, marked partial", err=True)
        return 130
    return 1 if done.verdict.standing == "invalid" else 0


def _tell(name: str, say: "Tell", note: str) -> None:
    """A line at once, and after two seconds how long it takes."""
    click.echo(f"{name}: {note}", err=True)
    say(note)


def _control(dataplane: str, tcp: str | None, *, links: str, opened: bool) -> str | None:
    """The congestion control of the kernel dataplane, None for switches in software."""
    if dataplane == "softswitch":
        if tcp is not None:
            raise KvfabricError(
                f"--tcp {tcp}: of the kernel dataplane; add --dataplane kernel, or write "
                f"kvfabric crosscheck --tcp {tcp} for TCP over switches in software"
            )
        return None
    if links == "memory":
        raise KvfabricError("--links memory: the kernel forwards over veth; leave it out")
    if opened:
        raise KvfabricError("--shell: opens switches in software; leave --dataplane kernel out")
    return tcp or "dctcp"
