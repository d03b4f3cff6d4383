"""Everything that decides whether and how well this machine can emulate, looked at by trying.

What a run needs is in `emulate.mininet.support`. Beside it stands what makes it better or opens
more of it: processors, real-time scheduling, congestion controls, queue disciplines of the kernel.
They are tried in a namespace that ends with the try; nothing outside is touched.
"""

import contextlib
import importlib.util
import os
from pathlib import Path
from threading import Thread
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import apart
from emulate.mininet.offload import OFFLOADS, offloads, offloads_off
from emulate.mininet.program import call, find_program
from emulate.mininet.record import FOLDER, records
from emulate.mininet.support import Probe, drivers, needs

QDISCS: Final = {
    "tbf": "rate 100mbit burst 20000 latency 10ms",
    "htb": "default 1",
    "red": "limit 400000 min 30000 max 90000 avpkt 1500 burst 40 bandwidth 100mbit ecn",
    "netem": "delay 1ms",
    "ets": "bands 3 strict 1",
    "fq": "",
}
"""Queue disciplines of the kernel that people put under kernel senders, and how each is tried."""

OPTIONAL: Final = {"ping": "iputils-ping", "tcpdump": "tcpdump", "ethtool": "ethtool"}


def probes() -> list[Probe]:
    """Everything, what a run needs first. Creates nothing that outlives the call."""
    found = [*needs(), drivers(), _cores(), _realtime()]
    found += [*_congestion(), *_modules(), *_programs()]
    if all(probe.good for probe in found if probe.needed and probe.what != "live drivers"):
        found += _tried()
    return [*found, _leftovers()]


def _cores() -> Probe:
    count = len(os.sched_getaffinity(0))
    return Probe(
        "processors",
        count > 1,
        str(count),
        "the switch and the agent process share one: give it a second, or a larger dilation",
        needed=False,
    )


def _realtime() -> Probe:
    granted: list[bool] = []

    def attempt() -> None:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
            granted.append(True)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return Probe(
        "SCHED_FIFO",
        bool(granted),
        "granted" if granted else "refused",
        "frames will be late beside other programs: run it as root, or allow CAP_SYS_NICE",
        needed=False,
    )


def _congestion() -> list[Probe]:
    known = available_congestion()
    return [
        Probe(
            f"TCP {name}",
            name in known,
            "there" if name in known else f"the kernel has {', '.join(known)}",
            f"write: modprobe tcp_{name}, on a kernel that has it",
            needed=False,
        )
        for name in ("cubic", "bbr", "dctcp")
    ]


def available_congestion() -> tuple[str, ...]:
    """The congestion controls of the kernel's TCP."""
    place = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return tuple(place.read_text().split()) if place.exists() else ()


def _modules() -> list[Probe]:
    there = importlib.util.find_spec("scapy") is not None
    return [
        Probe(
            "Scapy",
            there,
            "there" if there else "missing",
            "frames of tests and captures need it: pip install 'kvfabric[mininet]'",
            needed=False,
        )
    ]


def _programs() -> list[Probe]:
    return [
        Probe(
            program,
            path is not None,
            path or "missing",
            f"write: apt install {package}",
            needed=False,
        )
        for program, package in OPTIONAL.items()
        for path in [find_program(program)]
    ]


def _tried() -> list[Probe]:
    """What only a try tells, on a veth pair of its own."""
    found: list[Probe] = []

    def work() -> None:
        call("ip", "link", "add", "try0", "type", "veth", "peer", "name", "try1")
        on = offloads("try0")
        try:
            offloads_off(["try0"])
            told = f"{', '.join(on) or 'none'} on at first, all of {', '.join(OFFLOADS)} off"
            found.append(Probe("offloads", True, told))
        except EmulationError as error:
            found.append(Probe("offloads", False, str(error), "use another kernel"))
        for name, options in QDISCS.items():
            found.append(_qdisc(name, options.split()))

    apart(work)
    return found


def _qdisc(name: str, options: list[str]) -> Probe:
    try:
        call("tc", "qdisc", "add", "dev", "try0", "root", name, *options)
        call("tc", "qdisc", "delete", "dev", "try0", "root")
    except EmulationError as error:
        told = str(error).rpartition(": ")[2]
        remedy = f"only kernel queues need it: modprobe sch_{name}, on a kernel that has it"
        return Probe(f"qdisc {name}", False, told, remedy, needed=False)
    return Probe(f"qdisc {name}", True, "there", needed=False)


def _leftovers() -> Probe:
    if FOLDER.is_dir() and not os.access(FOLDER, os.R_OK | os.X_OK):
        return Probe("left of killed runs", True, "only root can tell", needed=False)
    dead = [record.prefix for record in records(FOLDER) if not record.alive]
    return Probe(
        "left of killed runs",
        not dead,
        ", ".join(dead) or "nothing",
        "write: kvfabric clean",
        needed=False,
    )
