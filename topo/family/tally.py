"""What a family has at given parameters, by its closed form, without building it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Hosts, switches, cables between switches, cables to hosts."""

    hosts: int
    switches: int
    switch_cables: int
    host_cables: int
