"""What this machine has of what a run on real frames needs; one line for what is missing."""

import importlib.util
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import may_create
from emulate.mininet.program import find_program

PROGRAMS: Final = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mnexec": "mininet",
    "ifconfig": "net-tools",
}
"""Programs that every run needs, and the Debian package of each."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was looked at: what was found, and what to do where it is not good.

    needed: a run cannot be without it.
    """

    what: str
    good: bool
    found: str
    remedy: str = ""
    needed: bool = True


def needs() -> list[Probe]:
    """Everything that a network cannot be without."""
    return [_linux(), _root(), *_python(), *_programs()]


def demand_support() -> None:
    """Raise `EmulationError` with the first thing that a network misses; creates nothing."""
    _demand(needs())


def demand_drivers() -> None:
    """The same for what switches and NICs in software need beside a network."""
    _demand([drivers()])


def _demand(probes: list[Probe]) -> None:
    for probe in probes:
        if not probe.good:
            raise EmulationError(f"{probe.what}: {probe.found}; {probe.remedy}")


def may_network() -> str | None:
    """Why there can be no network here, in one line; None when there can."""
    return _reason(demand_support)


def may_emulate() -> str | None:
    """Why there can be no run here, in one line; None when there can."""
    return may_network() or _reason(demand_drivers)


def _reason(demand: Callable[[], None]) -> str | None:
    try:
        demand()
    except EmulationError as error:
        return str(error)
    return None


def _linux() -> Probe:
    good = sys.platform == "linux"
    return Probe("system", good, sys.platform, "real frames need Linux; use emulator packet")


def _root() -> Probe:
    if os.geteuid():
        return Probe("root", False, f"user {os.geteuid()}", "run it as root, with `sudo -E`")
    refused = may_create()
    if refused:
        return Probe(
            "network namespaces",
            False,
            refused,
            "the container or kernel forbids them; allow CAP_SYS_ADMIN, or use a virtual machine",
        )
    return Probe("root", True, "network namespaces may be made")


def _python() -> list[Probe]:
    version = ".".join(map(str, sys.version_info[:3]))
    if importlib.util.find_spec("mininet") is None:
        return [
            Probe(
                "Mininet's Python package",
                False,
                f"none in {sys.executable}",
                "write: pip install 'kvfabric[mininet]'",
            )
        ]
    if importlib.util.find_spec("distutils") is None:
        return [
            Probe(
                "distutils",
                False,
                f"not in Python {version}, and Mininet imports it",
                "write: pip install setuptools",
            )
        ]
    return [Probe("Mininet's Python package", True, f"with Python {version}")]


def _programs() -> list[Probe]:
    probes = []
    for program, package in PROGRAMS.items():
        path = find_program(program)
        probes.append(
            Probe(program, path is not None, path or "missing", f"write: apt install {package}")
        )
    return probes


def drivers() -> Probe:
    """The C++ drivers of switches and NICs."""
    found = importlib.util.find_spec("emulate._live") is not None
    return Probe(
        "live drivers",
        found,
        "emulate._live" if found else "emulate._live is not built",
        "install kvfabric from source on Linux",
    )


def kernel() -> str:
    """The kernel's release."""
    return platform.release()
