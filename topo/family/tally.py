"""What a family has at given parameters, by its closed form, without building it."""

from dataclasses import dataclass
from typing import Final

from topo.error import FabricError

MOST_SWITCHES: Final = 262_144
MOST_CABLES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Tally:
    """Hosts, switches, cables between switches, cables to hosts."""

    hosts: int
    switches: int
    switch_cables: int
    host_cables: int


def refuse_huge(family: str, tally: Tally, trunk: int = 1) -> None:
    """Refuse, with a `FabricError`, a fabric that no memory would hold, before it is built.

    ``trunk``: parallel cables where the tally counts one.
    """
    for what, count, most in (
        ("switches", tally.switches, MOST_SWITCHES),
        ("cables between switches", tally.switch_cables * trunk, MOST_CABLES),
    ):
        if count > most:
            raise FabricError(
                f"{family}: {count:,} {what}: more than the {most:,} that are built; write a "
                "smaller one"
            )
