"""Deadlocks that happened in a run: how many, and each in a note with its circle of ports.

Whether routes allow any is told beforehand (`topo.deadlock`); what stood still is told here.
"""

from collections.abc import Sequence

from emulate.packet import Deadlock, PacketEmulator
from topo.unit import show_duration
from traffic.emulator import Emulator

TOTAL = "deadlocks"


def deadlocks_of(emulator: Emulator) -> list[Deadlock] | None:
    """The circles of queues that waited for each other; None of an emulator without queues."""
    return emulator.deadlocks() if isinstance(emulator, PacketEmulator) else None


def deadlock_totals(found: Sequence[Deadlock] | None) -> dict[str, int]:
    """Their number as a total of the cell's manifest; nothing where they are not looked for."""
    return {} if found is None else {TOTAL: len(found)}


def deadlock_notes(found: Sequence[Deadlock] | None, seed: int) -> list[str]:
    """One sentence each, the first port again at its end."""
    return [
        f"Deadlock at {show_duration(one.time_ps)}, priority {one.priority}, seed {seed}: "
        f"{', then '.join([*one.ports, one.ports[0]])}."
        for one in found or ()
    ]
