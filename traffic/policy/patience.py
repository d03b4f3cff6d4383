"""A time limit on calls of code that others wrote.

The limit is wall-clock time, kept by SIGALRM: it ends loops, sleeps and waits for locks. It cannot
end a single call of compiled code that never comes back to the interpreter; Ctrl-C still ends the
command then. Code that catches the end and goes on is ended again twice, and then the process with
it. Python takes signals in its main thread only, so that calls from another thread have no limit.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

Answer = TypeVar("Answer")

LIMIT_S: Final = 10.0
"""A choice takes microseconds; the first may import something. Beyond this it hangs."""

_ENDINGS: Final = 3
_AGAIN_S: Final = 0.5


class TooLong(BaseException):
    """A call was ended at its limit; no `Exception`, so that ``except Exception`` lets it pass."""


def within(limit_s: float, told: Callable[[], str], call: Callable[[], Answer]) -> Answer:
    """The answer of a call that may take ``limit_s`` seconds, else `TooLong`.

    ``told`` gives the line that is written when the process has to end with a call that cannot be
    ended otherwise; its exit code is then 2.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return call()
    ended = 0

    def end(*_: object) -> None:
        nonlocal ended
        ended += 1
        if ended > _ENDINGS:
            sys.stderr.write(f"kvfabric: {told()}\n")
            sys.stderr.flush()
            os._exit(2)
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
