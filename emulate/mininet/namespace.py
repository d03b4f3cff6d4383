"""Work inside a network namespace: a thread steps in, opens what it needs, and steps out again.

A socket belongs for ever to the namespace in which it was opened, and /proc/sys/net is that of the
thread that opens a file there. So nothing needs a process of its own. Linux, setns(2).
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

from emulate.mininet.error import EmulationError

_NEW_NET: Final = 0x40000000
_NAMED: Final = Path("/run/netns")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(namespace: str | Path | None) -> Iterator[None]:
    """Run the body in the namespace of that file, e.g. ``/proc/42/ns/net``; None: where we are.

    Only this thread moves. Raises `EmulationError` where it may not, or there is no such file.
    """
    if namespace is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(namespace)
        try:
            yield
        finally:
            if _libc().setns(home, _NEW_NET):
                raise OSError(ctypes.get_errno(), "the thread cannot leave the namespace")
    finally:
        os.close(home)


def _enter(namespace: str | Path) -> None:
    try:
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise EmulationError(f"namespace {namespace}: {error.strerror}") from None
    try:
        if _libc().setns(there, _NEW_NET):
            reason = os.strerror(ctypes.get_errno())
            raise EmulationError(f"namespace {namespace}: {reason}; run it as root")
    finally:
        os.close(there)


def namespace_file(text: str) -> Path:
    """The file of a namespace that a user names.

    A process number, a name that ``ip netns`` shows, or a path.
    """
    if text.isdigit():
        found = Path(f"/proc/{text}/ns/net")
    elif "/" in text:
        found = Path(text)
    else:
        found = _NAMED / text
    if not found.exists():
        known = sorted(p.name for p in _NAMED.iterdir()) if _NAMED.is_dir() else []
        there = f"named ones: {', '.join(known[:8])}" if known else "there are no named ones"
        raise EmulationError(
            f"namespace {text!r}: no such namespace; write a process number, a path, or a name of "
            f"`ip netns` ({there})"
        )
    return found


def apart(work: Callable[[], None]) -> str | None:
    """Do some work in a new namespace that ends with it.

    Returns None, or the reason why no namespace may be made. What the work raises is raised.
    """
    refused: list[int] = []
    raised: list[BaseException] = []

    def begin() -> None:
        if _libc().unshare(_NEW_NET):
            refused.append(ctypes.get_errno())
            return
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=begin)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return os.strerror(refused[0]) if refused else None


def may_create() -> str | None:
    """Why this process may not make network namespaces; None when it may."""
    return apart(lambda: None)


def set_kernel(name: str, value: str) -> None:
    """Set a /proc/sys value, of the namespace in which the thread is when it is one of the net's.

    A kernel without it, such as one without IPv6, is left as it is.
    """
    file = Path("/proc/sys") / name
    if file.exists():
        file.write_text(value)
