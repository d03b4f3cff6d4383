"""Runs a workload in the public conweave ns-3 (RoCE with DCQCN and PFC), an existing build.

Its data frames have 48 B beside the payload and no preamble or gap; ACKs go in a class of their own
that is never paused; every marked packet is answered by a notification that rides on its ACK; a
time of completion is that of the last ACK, in nanoseconds. It hashes the addresses and ports over
the next hops; `lanes` says which lane each flow takes, so that others can be pinned to it.
"""

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from outcome import Outcome
from process import watch
from workload import Workload

OVERHEAD = 48
_START_S = 2.0
_MASK = 0xFFFFFFFF
_PORT, _PORT_THERE = 10_000, 100


@dataclass(frozen=True)
class Control:
    """What it runs: DCQCN as its own `dcqcn`, RED, and the memory of a switch.

    buffer_mib: whole MiB. kmin_kb, kmax_kb, pmax: of RED, 1000 B and a share. least_bps: the floor.
    pause_us: how long a pause lasts, longer than any stop: it is not refreshed there, and its own
    5 us let frames through every 7. unit_ps: of the times that it writes.
    """

    buffer_mib: int = 2
    kmin_kb: int = 400
    kmax_kb: int = 1600
    pmax: float = 0.2
    additive_mbps: int = 20
    hyper_mbps: int = 200
    least_bps: int = 1_000_000_000
    seed: int = 1
    pause_us: int = 10_000
    unit_ps: int = 1000


def program(given: str | None) -> Path | None:
    """The directory of the build: as given, else from CONWEAVE; None when there is neither."""
    path = given or os.environ.get("CONWEAVE")
    return Path(path) if path else None


def pinned(workload: Workload) -> Workload:
    """The workload with the lanes that ns-3's hash takes, also its ACKs: flow i is the i-th of its
    source.
    """
    sent: dict[int, int] = {}
    got: dict[int, int] = {}
    flows, backs = [], []
    for source, destination, _ in workload.flows:
        here, there = sent.get(source, 0), got.get(destination, 0)
        sent[source], got[destination] = here + 1, there + 1
        ports = _PORT + here, _PORT_THERE + there
        flows.append((source, destination, _lane(workload, source, destination, *ports)))
        backs.append(_lane(workload, destination, source, *reversed(ports)))
    return replace(workload, flows=tuple(flows), back=tuple(backs))


def _lane(workload: Workload, source: int, destination: int, port: int, port_there: int) -> int:
    half = workload.k // 2
    words = _address(source), _address(destination), port | port_there << 16
    edge = source // half
    up = _hash(words, workload.hosts + edge) % half
    pod = source // half**2
    aggregation = workload.hosts + workload.k * half + pod * half + up
    return up * half + _hash(words, aggregation) % half


def run(workload: Workload, build: Path, control: Control, releases_ns: list[int]) -> Outcome:
    """Runs it and parses its times of completion; releases in whole nanoseconds, in order."""
    with tempfile.TemporaryDirectory() as scratch:
        return _run(workload, build, control, releases_ns, Path(scratch))


def _run(
    workload: Workload, build: Path, control: Control, releases_ns: list[int], scratch: Path
) -> Outcome:
    # The name decides a table look-up in the program; nothing else hangs on it.
    topology = scratch / "fat_k8_100G_OS2.txt"
    topology.write_text(_topology(workload))
    payload = workload.frame - OVERHEAD
    rows = [str(len(workload.flows))]
    rows += [
        f"{s} {d} 3 {workload.packets * payload} {_START_S + at * 1e-9:.9f}"
        for (s, d, _), at in zip(workload.flows, releases_ns, strict=True)
    ]
    (scratch / "flow.txt").write_text("\n".join(rows) + "\n")
    (scratch / "conf.txt").write_text(_configuration(workload, control, scratch, topology))
    marks: dict[str, float] = {}

    def line(text: str, now: float) -> None:
        marks["end"] = now
        if text.startswith("Running Simulation"):
            marks["begin"] = now

    program = build / "build" / "scratch" / "network-load-balance"
    libraries = {"LD_LIBRARY_PATH": str(build / "build")}
    peak = watch([str(program), str(scratch / "conf.txt")], line, cwd=scratch, env=libraries)
    found: dict[tuple[int, int], int] = {}
    for text in (scratch / "fct.txt").read_text().splitlines():
        fields = [int(field) for field in text.split()]
        found[fields[0], fields[2]] = fields[6] * control.unit_ps
    sent: dict[int, int] = {}
    fct = []
    for source, _, _ in workload.flows:
        number = sent[source] = sent.get(source, -1) + 1
        fct.append(found.get((source, _PORT + number), -1))
    pauses = sum(text.endswith("1") for text in (scratch / "pfc.txt").read_text().splitlines())
    lost = (scratch / "stderr").read_text().count("Drop")
    cnps = sum(int(t.split()[2]) for t in (scratch / "cnp.txt").read_text().splitlines())
    return Outcome(
        "ns-3", fct, marks["end"] - marks["begin"], peak, 2 * workload.data_hops, -1, pauses,
        note=f"lost {lost} frames" if lost else "", extra={"cnps": float(cnps)},
    )  # fmt: skip


def _address(host: int) -> int:
    return 0x0B000001 + (host // 256 << 16) + (host % 256 << 8)


def _hash(words: tuple[int, ...], seed: int) -> int:
    """Murmur3 (Appleby) of 32-bit words."""
    h = seed
    for word in words:
        k = word * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) * 0x1B873593 & _MASK
        h ^= k
        h = (h << 13 | h >> 19) & _MASK
        h = h * 5 + 0xE6546B64 & _MASK
    h ^= 4 * len(words)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _topology(workload: Workload) -> str:
    """Hosts, then edge, aggregation and core switches; the links of one node after the other."""
    half = workload.k // 2
    hosts, edges = workload.hosts, workload.k * half
    cores = half * half
    links = [(h, hosts + h // half, (0, h, 0)) for h in range(hosts)]
    for edge in range(edges):
        links += [
            (hosts + edge, hosts + edges + a, (1, edge, a))
            for a in range(edge // half * half, edge // half * half + half)
        ]
    for aggregation in range(edges):
        own = aggregation % half
        links += [
            (hosts + edges + aggregation, hosts + 2 * edges + own * half + c,
             (2, aggregation, own + half * c))
            for c in range(half)
        ]  # fmt: skip
    switches = range(hosts, hosts + 2 * edges + cores)
    head = f"{hosts + len(switches)} {len(switches)} {len(links)}\n{' '.join(map(str, switches))}\n"
    return head + "".join(
        f"{a} {b} {workload.rate_bps(*ends)}bps "
        f"{(workload.delay_ps + workload.apart(*ends)) // 1000}ns 0.000000\n"
        for a, b, ends in links
    )


def _configuration(workload: Workload, control: Control, scratch: Path, topology: Path) -> str:
    rates = sorted({line.split()[2][:-3] for line in topology.read_text().splitlines()[2:]})

    def at_every_rate(value: float) -> str:
        return " ".join([str(len(rates)), *(f"{rate} {value}" for rate in rates)])

    files = {
        "FLOW_FILE": "flow", "FLOW_INPUT_FILE": "in", "CNP_OUTPUT_FILE": "cnp",
        "FCT_OUTPUT_FILE": "fct", "PFC_OUTPUT_FILE": "pfc", "QLEN_MON_FILE": "q",
        "VOQ_MON_FILE": "voq", "VOQ_MON_DETAIL_FILE": "voqd", "UPLINK_MON_FILE": "up",
        "CONN_MON_FILE": "conn", "EST_ERROR_MON_FILE": "est",
    }  # fmt: skip
    values = {
        "QLEN_MON_START": 2_000_000_000, "QLEN_MON_END": 2_000_000_001,
        "SW_MONITORING_INTERVAL": 100_000_000, "FLOWGEN_START_TIME": _START_S,
        "FLOWGEN_STOP_TIME": _START_S + 0.5, "BUFFER_SIZE": control.buffer_mib, "CC_MODE": 1,
        "LB_MODE": 0, "ENABLE_PFC": 1, "ENABLE_IRN": 0, "ALPHA_RESUME_INTERVAL": 1,
        "RATE_DECREASE_INTERVAL": 4, "CLAMP_TARGET_RATE": 0, "RP_TIMER": 300,
        "FAST_RECOVERY_TIMES": 1, "EWMA_GAIN": 0.00390625,
        "RATE_AI": f"{control.additive_mbps}Mb/s", "RATE_HAI": f"{control.hyper_mbps}Mb/s",
        "MIN_RATE": f"{control.least_bps // 10**6}Mb/s", "DCTCP_RATE_AI": "1000Mb/s",
        "ERROR_RATE_PER_LINK": "0.0000", "L2_CHUNK_SIZE": 4000, "L2_ACK_INTERVAL": 1,
        "L2_BACK_TO_ZERO": 0, "RATE_BOUND": 1, "HAS_WIN": 0, "VAR_WIN": 0, "FAST_REACT": 0,
        "MI_THRESH": 0, "INT_MULTI": 1, "GLOBAL_T": 1, "U_TARGET": 0.95, "MULTI_RATE": 0,
        "SAMPLE_FEEDBACK": 0, "ENABLE_QCN": 1, "USE_DYNAMIC_PFC_THRESHOLD": 1,
        "PAUSE_TIME": control.pause_us,
        "PACKET_PAYLOAD_SIZE": workload.frame - OVERHEAD, "LINK_DOWN": "0 0 0",
        "KMAX_MAP": at_every_rate(control.kmax_kb), "KMIN_MAP": at_every_rate(control.kmin_kb),
        "PMAX_MAP": at_every_rate(control.pmax), "LOAD": 50, "RANDOM_SEED": control.seed,
    }  # fmt: skip
    lines = [f"TOPOLOGY_FILE {topology}"]
    lines += [f"{key} {scratch / name}.txt" for key, name in files.items()]
    lines += [f"{key} {value}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
