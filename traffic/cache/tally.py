"""What the prefix caches of a run did: by request, and in all.

Bytes are those of whole blocks of KV cache. Of every prompt whose turn has come its whole blocks
but the last token are looked up, and

    looked up = hits in each tier + declined (found, but sooner computed) + missed

so that hit rates over what was looked up add up to what was saved. Of what was not a hit some had
been computed before, by any instance of the service: ``again_tokens`` count the first such blocks
of every prompt, and ``again_ps`` the prefill time that having them at hand would have saved.
"""

from array import array
from collections import Counter
from typing import Final

import numpy as np

from traffic.cache.tier import KINDS
from traffic.emulator import Table

COLUMNS: Final = (
    *("request", "prompt_tokens"),
    *(f"cached_{kind}_tokens" for kind in KINDS),
    *("load_ps", "read_bytes", "written_bytes"),
)
"""Columns of the table of a run, one row a request, all int64.

``prompt_tokens`` of those whose prefill has begun, else 0; ``cached_*_tokens`` need not be
computed, by the tier that had them; ``load_ps`` is by how much loading put the prefill's end off;
``read_bytes`` and ``written_bytes`` moved between the pool and the instance for the request. A
request that is prefilled again counts by its last prefill, its bytes by all."""


class Tally:
    """Columns for ``room`` requests, and sums by name, over all services."""

    def __init__(self, room: int) -> None:
        self._columns = {name: array("q", [0]) * room for name in COLUMNS[1:]}
        self.sums: Counter[str] = Counter()
        """Sums by name, as `traffic.cache.prompt.PromptCache` counts them."""

    def note(self, column: str, request: int, value: int) -> None:
        """Write a value of a request."""
        self._columns[column][request] = value

    def add(self, column: str, request: int, value: int) -> None:
        """Add to a value of a request."""
        self._columns[column][request] += value

    def table(self, count: int) -> Table:
        """The first ``count`` requests."""
        found: Table = {"request": np.arange(count, dtype=np.int64)}
        for name, column in self._columns.items():
            found[name] = np.array(column[:count], np.int64)
        return found
