"""ECN marking profiles: when a queue marks, as bytes of queue and a probability.

Published settings differ by a factor of 2.6 and more at the same rate, so each has a name, and
every report names the one used. Some are the same at any rate, some grow with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from emulate.bound import MOST_BYTES, refuse_beyond
from topo.error import KvfabricError
from topo.unit import size_text


class MarkingError(KvfabricError):
    """Marking thresholds that cannot be."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """RED on the instantaneous queue: bytes, bytes, probability at ``kmax_bytes``.

    Above ``kmax_bytes`` every packet is marked. Refuses a Kmax below Kmin and a probability
    outside 0..1.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    def __post_init__(self) -> None:
        refuse_beyond(MarkingError, "kmin", self.kmin_bytes, MOST_BYTES, "B")
        refuse_beyond(MarkingError, "kmax", self.kmax_bytes, MOST_BYTES, "B")
        if not 0 <= self.kmin_bytes <= self.kmax_bytes:
            raise MarkingError(
                f"kmin {size_text(self.kmin_bytes)}, kmax {size_text(self.kmax_bytes)}: a queue "
                "marks from kmin up; write 0B <= kmin <= kmax, as 1MiB and 2MiB"
            )
        if not 0 <= self.pmax <= 1:
            raise MarkingError(f"pmax {self.pmax:g}: write a share from 0% to 100%")


@dataclass(frozen=True, slots=True)
class EcnProfile:
    """A named setting and where it is from.

    ``at`` is the threshold at ``rate_bps``, proportional to the rate; at any rate if that is 0.
    """

    name: str
    source: str
    at: Threshold
    rate_bps: int = 0

    def threshold(self, rate_bps: int) -> Threshold:
        """The threshold of a port of that rate in bit/s.

        >>> PROFILES["hpcc"].threshold(400 * 10**9)
        Threshold(kmin_bytes=1600000, kmax_bytes=6400000, pmax=0.2)
        """
        if self.rate_bps == 0:
            return self.at
        return Threshold(
            self.at.kmin_bytes * rate_bps // self.rate_bps,
            self.at.kmax_bytes * rate_bps // self.rate_bps,
            self.at.pmax,
        )


_HPCC: Final = "alibaba-edu/High-Precision-Congestion-Control simulation/run.py"

PROFILES: Final[Mapping[str, EcnProfile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            EcnProfile(
                "sonic",
                "SONiC WRED profile AZURE_LOSSLESS: sonic-net/sonic-buildimage "
                "files/build_templates/qos_config.j2",
                Threshold(1_048_576, 2_097_152, 0.05),
            ),
            EcnProfile("hpcc", _HPCC, Threshold(100_000, 400_000, 0.2), 25 * 10**9),
            EcnProfile(
                "dctcp", f"step marking, {_HPCC}", Threshold(30_000, 30_000, 1.0), 10 * 10**9
            ),
            EcnProfile(
                "paper",
                "Zhu et al., Congestion control for large-scale RDMA deployments, SIGCOMM 2015, "
                "at 40G; recalled, not read",
                Threshold(5_000, 200_000, 0.01),
            ),
        )
    }
)
"""Marking profiles by name; ``off`` stands for none."""
