"""Offloads of an interface, off, and read back.

With offloads on a veth hands over "frames" of up to 64 KiB and packets without their checksums:
ping works and TCP hangs. The kernel's ioctl SIOCETHTOOL (linux/ethtool.h) sets and reads each by a
command of its own; a kernel that refuses one is told, never ignored.
"""

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterable
from typing import Final

from emulate.mininet.error import EmulationError

_SIOCETHTOOL: Final = 0x8946

OFFLOADS: Final = {
    "tso": (0x1E, 0x1F),
    "gso": (0x23, 0x24),
    "gro": (0x2B, 0x2C),
    "tx": (0x16, 0x17),
    "rx": (0x14, 0x15),
}
"""Name, as ethtool's, and the commands that read and set it; segmentation before checksums, on
which it hangs."""


def offloads(interface: str) -> list[str]:
    """The offloads that are on, of an interface of the namespace in which the thread is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        return [name for name, (get, _) in OFFLOADS.items() if _command(channel, interface, get)]


def offloads_off(interfaces: Iterable[str]) -> None:
    """Turn them off, read them back, and refuse an interface on which one stays on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for interface in interfaces:
            for name, (get, put) in OFFLOADS.items():
                if not _command(channel, interface, get):
                    continue
                _command(channel, interface, put, 0)
                if _command(channel, interface, get):
                    raise EmulationError(
                        f"interface {interface}: offload {name} stays on; frames would not be what "
                        "was sent; use another kernel, or `ethtool -K` to see why"
                    )


def _command(channel: socket.socket, interface: str, command: int, value: int = 0) -> int:
    """One ethtool command: struct ethtool_value through struct ifreq."""
    data = ctypes.create_string_buffer(struct.pack("II", command, value), 8)
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(data))
    try:
        fcntl.ioctl(channel, _SIOCETHTOOL, request)
    except OSError as error:
        raise EmulationError(
            f"interface {interface}: offload command {command:#x}: {error.strerror}"
        ) from None
    return int(struct.unpack("II", data.raw)[1])
