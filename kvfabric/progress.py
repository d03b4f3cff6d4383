"""Progress for people: a bar on a terminal, now and then a line where there is none."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

_QUIET_S: Final = 2.0
_LINE_EVERY_S: Final = 5.0

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


@contextmanager
def _bar(what: str, total: float) -> Iterator[Tick]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %  {task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        Left(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, note="")

        def tick(done: float, note: str) -> None:
            bar.update(task, completed=done, note=note)

        yield tick


def _lines(what: str, total: float) -> Tick:
    began = time.monotonic()
    last = began

    def tick(done: float, note: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _LINE_EVERY_S or not 0 < done < total:
            return
        last = now
        left = (now - began) * (total - done) / done
        print(f"{what}: {done / total:.0%}  {note}, {left:.0f} s left", file=sys.stderr, flush=True)

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
            line = f"{what}: {note}, {time.monotonic() - began:.0f} s so far"
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
