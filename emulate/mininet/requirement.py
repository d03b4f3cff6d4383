"""What the kernel dataplane needs of this machine's kernel, found out by trying.

Everything is tried in a namespace that ends with the try. What is missing is told by name, with the
two ways out, before anything is created.
"""

import contextlib
from pathlib import Path
from typing import Final

from emulate.mininet.doctor import available_congestion
from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import apart
from emulate.mininet.program import call, find_program
from emulate.mininet.support import kernel

TRIED: Final = {
    "tbf": "root handle 1: tbf rate 10mbit burst 9000 limit 90000",
    "ets": "root handle 1: ets bands 8 strict 1",
    "red": "root handle 1: red limit 400000 min 30000 max 60000 avpkt 1500 burst 20 "
    "bandwidth 10mbit probability 0.5 ecn nodrop",
    "netem": "root handle 1: netem delay 1ms rate 10mbit 24",
    "ingress": "handle ffff: ingress",
}
"""Queue disciplines, and how each is tried: with the options that a run needs."""

_FILTERS: Final = {
    "cls_u32": (
        "root handle 1: prio",
        "parent 1: protocol ip prio 1 u32 match ip dsfield 0x18 0xfc flowid 1:1",
    ),
    "cls_matchall with act_mirred": (
        "handle ffff: ingress",
        "parent ffff: protocol all matchall action mirred egress redirect dev try1",
    ),
}
_HASH_POLICY: Final = Path("/proc/sys/net/ipv4/fib_multipath_hash_policy")


def missing() -> list[str]:
    """What this kernel lacks, e.g. ``qdisc red``; empty where it has everything."""
    found: list[str] = []

    def work() -> None:
        call("ip", "link", "add", "try0", "type", "veth", "peer", "name", "try1")
        for name, how in TRIED.items():
            if not _takes(("qdisc", "add", "dev", "try0", *how.split())):
                found.append(f"qdisc {name}")
            _cleared(how)
        for name, (root, how) in _FILTERS.items():
            _takes(("qdisc", "add", "dev", "try0", *root.split()))
            if not _takes(("filter", "add", "dev", "try0", *how.split())):
                found.append(name)
            _cleared(root)
        if not _HASH_POLICY.exists():
            found.append("multipath routes (net.ipv4.fib_multipath_hash_policy)")

    refused = apart(work)
    return [f"network namespaces ({refused})"] if refused else found


def _takes(arguments: tuple[str, ...]) -> bool:
    try:
        call("tc", *arguments)
    except EmulationError:
        return False
    return True


def _cleared(how: str) -> None:
    where = "ingress" if "ingress" in how else "root"
    with contextlib.suppress(EmulationError):
        call("tc", "qdisc", "delete", "dev", "try0", where)


def demand_kernel(control: str) -> None:
    """Raise `EmulationError` for a kernel without what the dataplane needs; creates nothing.

    control: the congestion control of the senders.
    """
    if find_program("tc") is None:
        raise EmulationError("tc: not installed; write: apt install iproute2")
    lacks = missing()
    if control not in available_congestion():
        # A module that nobody has asked for yet is loaded by asking.
        with contextlib.suppress(EmulationError):
            call("modprobe", f"tcp_{control}")
    if control not in available_congestion():
        lacks.append(f"TCP {control}")
    if lacks:
        raise EmulationError(
            f"--dataplane kernel: this kernel ({kernel()}) has no {', no '.join(lacks)}; run it in "
            "the VM, where a distribution's kernel has all (vagrant up, or make vm-test CMD='...'; "
            "docs/vm.md), or write --dataplane softswitch"
        )


def may_use_kernel(control: str = "cubic") -> str | None:
    """Why the kernel's queues cannot be used here, in one line; None when they can."""
    try:
        demand_kernel(control)
    except EmulationError as error:
        return str(error)
    return None
