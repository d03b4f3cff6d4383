"""Programs of the system: found also where only root looks, and their refusals told in one line."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from emulate.mininet.error import EmulationError

_ROOTS = "/usr/sbin:/sbin:/usr/local/sbin"


def find_program(name: str) -> str | None:
    """The path of a program, None when it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_ROOTS}")


def widen_path() -> None:
    """Let everything that this process starts find those programs too, Mininet's own among it."""
    path = os.environ.get("PATH", os.defpath).split(":")
    missing = [folder for folder in _ROOTS.split(":") if folder not in path]
    os.environ["PATH"] = ":".join((*path, *missing))


def call(name: str, *arguments: str, text: str | None = None) -> str:
    """Run a program to its end and return what it printed; ``text`` is its input.

    Raises `EmulationError` with the first line of what it complains of.
    """
    found = find_program(name)
    if found is None:
        raise EmulationError(f"{name}: not installed; `kvfabric doctor` says what to install")
    done = subprocess.run(  # noqa: S603
        [found, *arguments], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        complaint = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise EmulationError(f"{name} {' '.join(arguments)}: {complaint[0]}")
    return done.stdout


def batch(lines: Sequence[str], *, inside_of: int | None = None) -> None:
    """Many commands of ``ip`` at once, in the namespace of a process or in the present one."""
    if not lines:
        return
    text = "\n".join(lines) + "\n"
    if inside_of is None:
        call("ip", "-batch", "-", text=text)
    else:
        call("nsenter", f"--net=/proc/{inside_of}/ns/net", "ip", "-batch", "-", text=text)
