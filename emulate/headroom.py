"""Headroom: what still arrives after a switch has decided to stop its peer, in bytes.

From the decision on, the peer goes on sending until the pause frame has left, crossed the cable and
been obeyed; all of it, and the frame that crossed the threshold, must fit, or a lossless class
loses frames. Published rules are kept under their names, since they differ by more than a factor of
six at the same rate and length. Rates are bit/s, delays are one-way picoseconds, and a delay stands
for its cable length at 5.05 ns a metre.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from topo.error import KvfabricError
from topo.unit import PROPAGATION_PS_PER_M, PS_PER_S, show_rate

QUANTUM_BITS: Final = 512

PAUSE_QUANTA: Final[tuple[tuple[int, int], ...]] = (
    (1, 2),
    (10, 67),
    (25, 80),
    (40, 118),
    (50, 147),
    (100, 394),
    (200, 453),
    (400, 905),
    (800, 905),
)
"""Gbit/s, and the most quanta from a pause frame's arrival to the last frame begun: IEEE 802.3
31B.3.7, as tabled in sonic-net/sonic-swss cfgmgr/buffer_headroom_mellanox.lua."""

SONIC_XOFF: Final[Mapping[int, tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        100: ((5, 44_032), (40, 49_152), (300, 83_968)),
        200: ((5, 50_176), (40, 60_416), (300, 130_048)),
        400: ((5, 86_016), (40, 104_448), (300, 243_712)),
        800: ((5, 95_232), (40, 132_096), (300, 411_648)),
    }
)
"""Gbit/s -> (metres, bytes of xoff): sonic-net/sonic-buildimage
device/mellanox/x86_64-nvidia_sn5610n-r0/Mellanox-SN5610N-C256S2/pg_profile_lookup.ini."""


class HeadroomError(KvfabricError):
    """A headroom rule that does not exist or does not reach the fabric's rates."""


def response_quanta(rate_bps: int) -> int:
    """The quanta of the lowest tabled rate that is not below the link's; above 800G, as at 800G.

    >>> response_quanta(100 * 10**9), response_quanta(3600 * 10**9)
    (394, 905)
    """
    for gbps, quanta in PAUSE_QUANTA:
        if rate_bps <= gbps * 10**9:
            return quanta
    return PAUSE_QUANTA[-1][1]


def response_ps(rate_bps: int) -> int:
    """Picoseconds from a pause frame's arrival to the last frame begun.

    >>> response_ps(100 * 10**9), response_ps(400 * 10**9), response_ps(800 * 10**9)
    (2017280, 1158400, 579200)
    """
    return response_quanta(rate_bps) * QUANTUM_BITS * PS_PER_S // rate_bps


def sonic(rate_bps: int, delay_ps: int, mtu: int) -> int:
    """The xoff of SONiC's table for the SN5610N (Spectrum-4), whatever the MTU.

    Between and beyond the tabled lengths the value is linear in the length, as in the formula of
    buffer_headroom_mellanox.lua, rounded up to 1 KiB; below 5 m it is that of 5 m. A rate between
    two columns takes the next higher one. The formula itself is not used: with the constants that
    SONiC publishes for Spectrum-4 (platform/mellanox/asic_table.j2: cell 192 B, MAC and PHY
    0.8 KiB; small packets 50 %) it gives 72,704 B at 100G and 5 m, where this table has 44,032:
    the table comes from the vendor's own tool (sonic-net/sonic-swss#3235 compares the two).

    >>> sonic(400 * 10**9, 40 * 5050, 4096)
    104448
    """
    del mtu
    rows = next((rows for gbps, rows in SONIC_XOFF.items() if rate_bps <= gbps * 10**9), None)
    if rows is None:
        raise HeadroomError(
            f"headroom 'sonic' at {show_rate(rate_bps)}: the table ends at 800 Gbps; "
            "write mlx5, or a size, as 200KiB"
        )
    low, high = (rows[0], rows[1]) if delay_ps <= rows[1][0] * PROPAGATION_PS_PER_M else rows[1:]
    beyond = max(delay_ps - low[0] * PROPAGATION_PS_PER_M, 0)
    span = (high[0] - low[0]) * PROPAGATION_PS_PER_M
    value = low[1] * span + (high[1] - low[1]) * beyond
    return -(-value // (span * 1024)) * 1024


def mlx5(rate_bps: int, delay_ps: int, mtu: int) -> int:
    """(301 + 2.16 * metres) * Gbit/s + 2.72 * MTU.

    The receive buffer of a NIC in Linux: commit 0696d60853d5, net/mlx5e: Receive buffer
    configuration.

    >>> mlx5(100 * 10**9, 5 * 5050, 1500), mlx5(100 * 10**9, 40 * 5050, 1500)
    (35260, 42820)
    """
    per_gbps = 30_100 * PROPAGATION_PS_PER_M + 216 * delay_ps
    value = per_gbps * rate_bps + 272 * mtu * 10**9 * PROPAGATION_PS_PER_M
    return -(-value // (100 * PROPAGATION_PS_PER_M * 10**9))


def hpcc(rate_bps: int, delay_ps: int, mtu: int) -> int:
    """3 * rate * one-way delay: the rule of the HPCC simulator's family.

    It ignores the MTU and the pause response, so that it loses frames on short cables; kept to
    repeat published results, and as the negative control.

    >>> hpcc(100 * 10**9, 40 * 5050, 4096)
    7575
    """
    del mtu
    return 3 * rate_bps * delay_ps // (8 * PS_PER_S)


RULES: Final[Mapping[str, Callable[[int, int, int], int]]] = MappingProxyType(
    {"sonic": sonic, "mlx5": mlx5, "hpcc": hpcc}
)
"""Headroom rules by name: (rate in bit/s, one-way delay in ps, MTU in bytes) -> bytes."""


def headroom_bytes(rule: str | int, rate_bps: int, delay_ps: int, mtu: int) -> int:
    """Headroom of one lossless class of one port: by a named rule, or as given."""
    if isinstance(rule, int):
        return rule
    return RULES[rule](rate_bps, delay_ps, mtu)
