"""Progress for people: a bar on a terminal, now and then a line where there is none."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

_QUIET_S: Final = 2.0
_LINE_EVERY_S: Final = 5.0
_BAR: Final = 10
"""Columns of a bar, at least."""
_LEAST: Final = 6
"""A name cut to fewer columns says nothing."""

Tick = Callable[[float, str], None]
"""Called with the work done so far (0 to the total) and a short note."""


@contextmanager
def progress(what: str, total: float) -> Iterator[Tick]:
    """Show how far ``what`` has come, on standard error."""
    if sys.stderr.isatty():
        with _bar(what, total) as tick:
            yield tick
    else:
        yield _lines(what, total)


def spelled(seconds: float) -> str:
    """A time in as few words as it takes.

    >>> spelled(99.4), spelled(100), spelled(6475)
    ('99 s', '2 min', '1 h 48 min')
    """
    if round(seconds) < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def fitted(what: str, told: str, width: int) -> tuple[str, int, str]:
    """What fits beside ``told`` on a line: the name, cut where it is long, and the bar's width.

    >>> fitted("leaf-spine against torus", "44 %  16/36 cells, 12 min gone, 1 h 48 min left", 80)
    ('leaf-spine against...', 10, '44 %  16/36 cells, 12 min gone, 1 h 48 min left')
    """
    room = width - len(told) - 2
    most = room - _BAR
    name = what
    if len(what) > most:
        name = f"{what[: most - 3].rstrip()}..." if most > _LEAST else ""
    return name, max(1, min(4 * _BAR, room - len(name))), told[:width]


class _Course:
    """How far something has come and how long it will still take.

    Time is counted from the first work done: what was there before (a study gone on with) and the
    checks tell nothing of how fast it goes.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self.began = time.monotonic()
        self.done = 0.0
        self.note = ""
        self._first: tuple[float, float] | None = None

    def tick(self, done: float, note: str) -> None:
        self.done, self.note = done, note
        if done > 0 and self._first is None:
            self._first = (time.monotonic(), done)

    def percent(self) -> int:
        """Rounded down: 100 is the end."""
        return int(100 * self.done / self.total) if self.total else 100

    def left(self) -> str:
        """ "9 min left"; empty as long as nobody knows."""
        if self._first is None or not self._first[1] < self.done < self.total:
            return ""
        since, first = self._first
        took = time.monotonic() - since
        return f"{spelled(took * (self.total - self.done) / (self.done - first))} left"


@contextmanager
def _bar(what: str, total: float) -> Iterator[Tick]:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    course, console = _Course(total), Console(stderr=True)

    class Line(ProgressColumn):
        """The whole line, since only the whole can be made to fit."""

        def render(self, task: Task) -> Table:
            gone = f"{spelled(time.monotonic() - course.began)} gone"
            parts = ", ".join(filter(None, (course.note, gone, course.left())))
            name, wide, told = fitted(what, f"{course.percent()} %  {parts}", console.width)
            line = Table.grid(padding=(0, 1, 0, 0))
            bar = ProgressBar(total=task.total, completed=course.done, width=wide)
            line.add_row(Text(name), bar, Text(told))
            return line

    with Progress(Line(), console=console) as shown:
        shown.add_task(what, total=total)
        yield course.tick


def _lines(what: str, total: float) -> Tick:
    course = _Course(total)
    last = course.began

    def tick(done: float, note: str) -> None:
        nonlocal last
        course.tick(done, note)
        now = time.monotonic()
        if now - last < _LINE_EVERY_S or not 0 < done < total:
            return
        last = now
        told = ", ".join(filter(None, (note, course.left())))
        print(f"{what}: {course.percent()}%  {told}", file=sys.stderr, flush=True)

    return tick


Tell = Callable[[str], None]
"""Called with what comes next, in a few words."""


@contextmanager
def stages(what: str) -> Iterator[Tell]:
    """Tell on standard error what a long command is at, once it has taken two seconds.

    One line that is written over on a terminal, a line now and then elsewhere; gone at the end.
    """
    began = time.monotonic()
    note = ""
    done = Event()
    terminal = sys.stderr.isatty()

    def tell(next_note: str) -> None:
        nonlocal note
        note = next_note

    def talk() -> None:
        wait = _QUIET_S
        while not done.wait(wait):
            line = f"{what}: {note}, {spelled(time.monotonic() - began)} so far"
            print(
                f"\r\x1b[2K{line}" if terminal else line,
                end="" if terminal else "\n",
                file=sys.stderr,
                flush=True,
            )
            wait = 0.5 if terminal else _LINE_EVERY_S
        if terminal and wait != _QUIET_S:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    talker = Thread(target=talk, daemon=True)
    talker.start()
    try:
        yield tell
    finally:
        done.set()
        talker.join()


def under(tell: Tell, place: str) -> Tell:
    """What tells the stages of one among several things."""
    return lambda note: tell(f"{place}: {note}")
