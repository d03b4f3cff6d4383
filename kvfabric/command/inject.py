"""``kvfabric inject``: bursts of KV cache, or the frames of a capture, onto a real link."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topo.error import KvfabricError

if TYPE_CHECKING:
    from emulate.mininet.inject import Ends
    from emulate.mininet.place import Place


@click.command(
    epilog="""\b
Examples:
  sudo -E kvfabric inject eth1 --to-mac 02:00:00:00:00:02 --to-ip 10.0.0.2 --rate 10Gbps
  sudo -E kvfabric inject veth0 veth1 --to-namespace blue --profile base --count 5 --rate 1Gbps
  sudo -E kvfabric inject eth1 --pcap lab.pcapng
  sudo -E kvfabric inject h0:0 h3:0 --profile short_short --rate 40Mbps
"""
)
@click.argument("source")
@click.argument("destination", required=False)
@click.option("--namespace", default=None, help="Of SOURCE: process, path, or `ip netns` name.")
@click.option("--to-namespace", default=None, help="Of DESTINATION.")
@click.option("--to-mac", default=None, help="MAC address of another machine.")
@click.option("--to-ip", default=None, help="IPv4 address; else that of DESTINATION.")
@click.option("--from-ip", default=None, help="IPv4 address; else that of SOURCE.")
@click.option("--profile", default=None, help="Length profile of the prompts.  [default: base]")
@click.option("--trace", type=click.Path(path_type=Path), default=None, help="Prompts of a trace.")
@click.option("--pcap", type=click.Path(path_type=Path), default=None, help="Frames of a capture.")
@click.option("--pad", is_flag=True, help="Zeros for what a snap length cut off a --pcap's frames.")
@click.option("--model", "served", default="gpt-oss-20b", show_default=True, help="Whose KV cache.")
@click.option("--arrivals", default="100/s", show_default=True, help="Prompts of a profile.")
@click.option("--count", type=click.IntRange(1), default=10, show_default=True, help="At most.")
@click.option("--rate", default="1Gbps", show_default=True, help="Line rate of a burst.")
@click.option("--dilation", type=click.IntRange(1), default=1, show_default=True, help="Of gaps.")
@click.option("--mtu", type=click.IntRange(256, 9216), default=1024, show_default=True)
@click.option("--priority", type=click.IntRange(0, 7), default=3, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def command(
    source: str,
    destination: str | None,
    namespace: str | None,
    to_namespace: str | None,
    pcap: Path | None,
    pad: bool,
    **chosen: Any,
) -> int:
    """Send bursts from interface SOURCE towards DESTINATION, each prompt's KV cache as one write.

    Either may be a port of the run that is under way, as h0:0. Without DESTINATION give --to-mac
    and --to-ip. A --pcap is sent as it was captured, with its own gaps times --dilation.
    """
    from emulate.mininet.inject import inject
    from emulate.mininet.place import place
    from kvfabric.progress import progress
    from topo.unit import show_duration, show_size

    if pad and pcap is None:
        raise KvfabricError("--pad: fills the frames of a --pcap; leave it out")
    if pcap is not None and any(chosen[name] for name in ("profile", "trace")):
        raise KvfabricError("--pcap: brings its own frames; leave --profile and --trace out")
    near = place(source, namespace)
    far = None if destination is None else place(destination, to_namespace)
    batches, total = (
        _captured(pcap, near, pad=pad, dilation=chosen["dilation"])
        if pcap is not None
        else _bursts(near, far, **chosen)
    )
    with progress(f"{source}", max(float(total), 1.0)) as tick:
        sent = inject(batches, near, far, watch=lambda n, _ns: tick(float(n), f"{n:,} frames"))
    rate = sent.size * 8 / sent.seconds / 1e9 if sent.seconds else 0.0
    click.echo(
        f"{sent.frames:,} frame(s), {show_size(sent.size)} in {sent.seconds:.3g} s, "
        f"{rate:.3g} Gbps; late by {show_duration(sent.late_p50_ns * 1000)} (P50), "
        f"{show_duration(sent.late_p99_ns * 1000)} (P99)"
    )
    if sent.arrived is not None:
        click.echo(f"{sent.arrived:,} frame(s) came in at {destination}")
    if sent.interrupted:
        click.echo("interrupted: what was sent until then is told", err=True)
        return 130
    return 1 if sent.arrived is not None and sent.arrived < sent.frames else 0


def _captured(file: Path, near: "Place", *, pad: bool, dilation: int) -> tuple["Any", int]:
    from emulate.mininet.inject import frame_batches, refuse_long
    from topo.unit import show_duration
    from traffic.wire.burst import burst_frames
    from traffic.wire.snap import whole

    captured = [(one.at_ns, one.frame) for one in whole(file, pad=pad)]
    at, frames = burst_frames(captured, dilation=dilation)
    if not frames:
        raise KvfabricError(f"{file}: holds no frame; capture some")
    refuse_long(near, frames)
    click.echo(f"{len(frames):,} frame(s) in {show_duration(int(at[-1]) * 1000)}, as captured")
    return frame_batches(at, frames), len(frames)


def _bursts(near: "Place", far: "Place | None", **chosen: Any) -> tuple["Any", int]:
    from emulate.mininet.inject import burst_batches, refuse_mtu
    from topo.unit import rate
    from traffic.model import model
    from traffic.wire.burst import bursts

    refuse_mtu(near, chosen["mtu"])
    plan = bursts(_prompts(**chosen), model(chosen["served"]), dilation=chosen["dilation"])
    line = rate(chosen["rate"])
    mtu = chosen["mtu"]
    total = int((-(-plan.size // mtu)).sum())
    ends = _ends(near, far, **chosen)
    return burst_batches(plan, ends, rate_bps=line, mtu=mtu, priority=chosen["priority"]), total


def _prompts(**chosen: Any) -> Any:
    from topo.unit import frequency
    from traffic.source.profile import profile
    from traffic.source.workload import synthesise
    from traffic.trace.registry import trace

    if chosen["trace"] is not None:
        if chosen["profile"] is not None:
            raise KvfabricError("--trace: brings its own lengths; leave --profile out")
        return trace(chosen["trace"], count=chosen["count"], seed=chosen["seed"]).requests
    return synthesise(
        profile(chosen["profile"] or "base"),
        count=chosen["count"],
        rate_per_s=frequency(chosen["arrivals"]),
        seed=chosen["seed"],
    )


def _ends(near: "Place", far: "Place | None", **chosen: Any) -> "Ends":
    from emulate.mininet.inject import Ends, ip_of, mac_of

    if far is None and (chosen["to_mac"] is None or chosen["to_ip"] is None):
        raise KvfabricError("no destination: write its interface, or --to-mac and --to-ip")
    return Ends(
        mac_of(near),
        chosen["to_mac"] or mac_of(far),  # type: ignore[arg-type]
        chosen["from_ip"] or ip_of(near),
        chosen["to_ip"] or ip_of(far),  # type: ignore[arg-type]
    )
