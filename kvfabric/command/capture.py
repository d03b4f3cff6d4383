"""``kvfabric capture``: write the frames of an interface, or of any link of a run, as pcapng."""

from pathlib import Path

import click

from topo.error import KvfabricError


@click.command(
    epilog="""\b
Examples:
  sudo -E kvfabric capture leaf0:3 --out leaf0.pcapng --duration 10s
  sudo -E kvfabric capture eth1 --out lab.pcapng --count 10000
  sudo -E kvfabric capture veth0 --namespace blue --out blue.pcapng
"""
)
@click.argument("interface")
@click.option("--namespace", default=None, help="Process number, path, or name of `ip netns`.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="File to write, as pcapng."
)
@click.option("--count", type=click.IntRange(1), default=None, help="End after so many frames.")
@click.option("--duration", default=None, help="End after so long, as `10s`.")
def command(
    interface: str, namespace: str | None, out: Path, count: int | None, duration: str | None
) -> int:
    """Capture INTERFACE, in and out, until --count, --duration, Ctrl-C or its end.

    INTERFACE is one of this machine, of a --namespace, or a port of the run that is under way, as
    leaf0:3. Exits 1 when the kernel lost frames because they came too fast.
    """
    from emulate.mininet.capture import Tap, capture
    from emulate.mininet.place import place
    from kvfabric.progress import stages
    from topo.unit import PS_PER_S
    from topo.unit import duration as duration_ps

    if out.exists() and not out.is_file():
        raise KvfabricError(f"{out}: not a file; write another --out")
    where = place(interface, namespace)
    told = f"dilation {where.dilation}" if where.dilation > 1 else ""
    with (
        Tap(where.interface, namespace=where.namespace, label=where.label) as tap,
        stages(f"capture {interface}") as tell,
    ):
        caught = capture(
            tap,
            out,
            count=count,
            duration_s=None if duration is None else duration_ps(duration) / PS_PER_S,
            comment=told,
            watch=lambda frames: tell(f"{frames:,} frames, Ctrl-C ends it"),
        )
    ended = f"; {interface} is gone" if caught.gone else ""
    click.echo(f"{out}: {caught.frames} frame(s), {caught.lost} lost by the kernel{ended}")
    return 1 if caught.lost else 0
