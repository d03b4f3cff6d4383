"""What emulators under the real clock share: how far a run has come, and how it ended.

Their time goes on by itself. A run ends when its tables are asked for; before that it may be
stopped from outside, or stop itself when it takes far too long.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from emulate.mininet.error import EmulationError
from traffic.emulator import refuse_past


class RealTime(ABC):
    """An emulator to be used as a context, which `close` ends.

    most_s: real seconds after which the run stops by itself and is invalid.
    """

    def __init__(self, most_s: float | None) -> None:
        self._most_s = most_s
        self._now_ps = 0
        self.overran = False
        """Whether it took far longer than it must."""
        self.stopped_ps: int | None = None
        """When `stop`, or its taking too long, ended the run."""

    @property
    @abstractmethod
    def clock_ps(self) -> int:
        """What virtual time it is, 0 before it began."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing of the run behind."""

    @property
    def now_ps(self) -> int:
        """The time reached by `advance`."""
        return self._now_ps

    @property
    def interrupted_ps(self) -> int | None:
        """When `stop` ended the run from outside, None for one that took too long."""
        return None if self.overran else self.stopped_ps

    def stop(self) -> None:
        """End the run here: nothing more is sent or awaited."""
        if self.stopped_ps is None:
            self.stopped_ps = self.clock_ps

    def _overruns(self, elapsed_s: float) -> bool:
        """Stop a run that takes too long, and say so."""
        if self._most_s is None or elapsed_s <= self._most_s:
            return False
        self.overran = True
        self.stop()
        return True

    def _refuse_past(self, until_ps: int, late_notices: int) -> None:
        """Refuse to go back, but after news that came too late: such a run is invalid anyway."""
        if not late_notices:
            refuse_past(until_ps, self._now_ps)

    def _refuse_more(self, over: bool) -> None:
        """Refuse flows after the tables were asked for."""
        if over:
            raise EmulationError("the run is over: its tables were asked for; make a new emulator")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
