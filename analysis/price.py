"""What an alternative is paid by, as its cell's manifest keeps it."""

from msgspec import Struct


class PriceFact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices of one alternative, US dollars.

    ``gpu_usd_per_hour`` is that of all its GPUs together. ``fabric_usd`` buys the fabric, which is
    paid off evenly over ``life_hours`` of use; ``crosses`` tells whether serving sends anything
    over it, and so has to pay for it. ``mode`` is how the alternative serves
    (`kvfabric.serving.ServingPart`).
    """

    gpu_usd_per_hour: float
    fabric_usd: float
    life_hours: float
    crosses: bool
    mode: str

    @property
    def fabric_usd_per_hour(self) -> float:
        """The fabric's share of an hour; 0 where nothing crosses it."""
        return self.fabric_usd / self.life_hours if self.crosses else 0.0

    @property
    def usd_per_hour(self) -> float:
        """GPUs and fabric for an hour."""
        return self.gpu_usd_per_hour + self.fabric_usd_per_hour
