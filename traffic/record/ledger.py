"""The ledger of a run: every request's lengths, instances, times and end, one array a column.

Arrays of 8 bytes a value, so that a million requests stay small. A time may be written before it
is reached (an end is known when its work starts); `Ledger.table` shows none beyond the run's end.
"""

from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import Table
from traffic.request import RequestTable

FINISHED: Final = 0
IN_FLIGHT: Final = 1
REJECTED: Final = 2
FAILED: Final = 3

TIMES: Final = (
    "prefill_start_ps",
    "prefill_end_ps",
    "kv_ready_ps",
    "decode_start_ps",
    "first_token_ps",
    "finish_ps",
)
"""The times that the serving modes write, in the order of a request's life."""


class Ledger:
    """Columns by request number.

    ``room`` requests can be entered; `open` enters a whole table at once. -1 is "not reached". An
    instance is known by its number within its service.
    """

    def __init__(self, room: int) -> None:
        self.arrived = 0
        """Requests entered so far; the next one gets this number."""
        self.arrival_ps = array("q", [-1]) * room
        self.input_tokens = array("q", [0]) * room
        self.output_tokens = array("q", [0]) * room
        self.kv_bytes = array("q", [0]) * room
        self.session = array("q", [-1]) * room
        self.tenant = array("q", [0]) * room
        self.priority = array("q", [0]) * room
        self.model = array("q", [0]) * room
        self.prefill = array("q", [-1]) * room
        self.decode = array("q", [-1]) * room
        self.prompt_steps = array("q", [1]) * room
        self.preemptions = array("q", [0]) * room
        self.status = array("q", [IN_FLIGHT]) * room
        self.prefill_start_ps = array("q", [-1]) * room
        self.prefill_end_ps = array("q", [-1]) * room
        self.kv_ready_ps = array("q", [-1]) * room
        self.decode_start_ps = array("q", [-1]) * room
        self.first_token_ps = array("q", [-1]) * room
        self.finish_ps = array("q", [-1]) * room

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @classmethod
    def open(cls, requests: RequestTable) -> "Ledger":
        """A ledger with all the requests of a table entered, whose arrivals are known."""
        made = cls(len(requests))
        made.arrived = len(requests)
        for name in _GIVEN:
            column = getattr(requests, name)
            if column is not None:
                setattr(made, name, array("q", column.astype(np.int64).tobytes()))
        return made

    def table(self, moments: Mapping[str, NDArray[np.int64]], end_ps: int) -> Table:
        """All columns by name, int64, with the moments of the hand-offs in their place."""
        count = self.arrived
        found: Table = {"request": np.arange(count, dtype=np.int64)}
        for name in _COLUMNS:
            if name == "kv_ready_ps":
                found |= {key: column[:count] for key, column in moments.items()}
            found[name] = np.array(getattr(self, name)[:count], np.int64)
        for name, column in found.items():
            if name in TIMES or name in moments:
                column[column > np.int64(end_ps)] = -1
        return found


_GIVEN: Final = (
    *("arrival_ps", "input_tokens", "output_tokens"),
    *("session", "tenant", "priority", "model"),
)

_COLUMNS: Final = (
    *("arrival_ps", "input_tokens", "output_tokens", "kv_bytes"),
    *("session", "model", "tenant", "priority", "prefill", "decode"),
    *TIMES,
    *("prompt_steps", "preemptions", "status"),
)
