"""Names and addresses of a run: all interfaces begin with its prefix, and fit into 15 characters.

Linux takes at most 15 characters for an interface (IFNAMSIZ 16 with its end), fewer than many
switch names have. So the name is the run's prefix and a hash of the port's; the full name is kept
as the interface's alias, which `ip link` shows. MAC addresses are locally administered; addresses
are those of 10.0.0.0/8, inside the run's own namespaces.
"""

import hashlib
import re
import secrets
from typing import Final

MOST: Final = 15
_PREFIX: Final = re.compile(r"kv[0-9a-f]{4}")
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"


def fresh_prefix() -> str:
    """A prefix for a new run: ``kv`` and four random hexadecimal digits."""
    return f"kv{secrets.token_hex(2)}"


def is_prefix(text: str) -> bool:
    """Whether a text is the prefix of a run.

    >>> is_prefix("kv01af"), is_prefix("kv01af-x"), is_prefix("eth0")
    (True, False, False)
    """
    return _PREFIX.fullmatch(text) is not None


def interface_name(prefix: str, port: str) -> str:
    """The interface of a port, told by its full name.

    >>> interface_name("kv01af", "leaf0:3>spine1:0")
    'kv01af-5wj5wmsu'
    """
    digest = int.from_bytes(hashlib.sha256(port.encode()).digest()[:8], "big")
    letters = "".join(_ALPHABET[digest >> 5 * i & 31] for i in range(MOST - len(prefix) - 1))
    return f"{prefix}-{letters}"


def owned_by(prefix: str, interface: str) -> bool:
    """Whether an interface is one of the run's."""
    return interface.startswith(f"{prefix}-")


def mac(number: int) -> str:
    """A locally administered MAC address, one a number below 2^24.

    >>> mac(258)
    '02:6b:76:00:01:02'
    """
    return ":".join(f"{byte:02x}" for byte in (2, 0x6B, 0x76, *number.to_bytes(3, "big")))


def address(node: int) -> str:
    """The IPv4 address of the host with that node index, below 2^24 - 2.

    >>> address(0), address(255)
    ('10.0.0.1', '10.0.1.0')
    """
    return ".".join(str(byte) for byte in (10, *(node + 1).to_bytes(3, "big")))
