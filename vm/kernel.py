"""The kernel of the guest: the distribution's own package, unpacked and never installed.

It is fetched once into the cache folder ($XDG_CACHE_HOME/kvfabric/vm, or the folder that
$KVFABRIC_VM names).
"""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

METAS = ("linux-image-amd64", "linux-image-generic")
"""The packages that name the newest kernel: Debian's, Ubuntu's."""

_PART = re.compile(r"Depends: (linux-(?:image|modules|modules-extra)-\d\S*)")


class VmError(Exception):
    """What is missing, and what to do about it, in one line."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its release, its image, and its modules (lib/modules/RELEASE)."""

    release: str
    image: Path
    modules: Path


def home() -> Path:
    """The cache folder."""
    named = os.environ.get("KVFABRIC_VM")
    if named:
        return Path(named).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return (Path(base) / "kvfabric" / "vm").resolve()


def tool(name: str, package: str) -> str:
    """The path of a command, or a refusal that names its package."""
    found = shutil.which(name)
    if found is None:
        raise VmError(f"{name} is missing; install it: apt-get install {package}")
    return found


def find() -> Kernel:
    """The unpacked kernel in the cache, fetched first when there is none."""
    tool("qemu-system-x86_64", "qemu-system-x86")
    tool("busybox", "busybox-static")
    cache = home()
    held = _unpacked(cache / "root")
    return held if held is not None else _fetch(cache)


def _unpacked(root: Path) -> Kernel | None:
    images = sorted((root / "boot").glob("vmlinuz-*"))
    if not images or not (root / "complete").exists():
        return None
    release = images[-1].name.removeprefix("vmlinuz-")
    modules = root / "lib/modules" / release
    if not modules.is_dir():
        modules = root / "usr/lib/modules" / release
    return Kernel(release, images[-1], modules)


def _fetch(cache: Path) -> Kernel:
    """Download the packages of the newest kernel and unpack them beside their place, then move."""
    apt, unpack = tool("apt-get", "apt"), tool("dpkg-deb", "dpkg")
    parts = _packages()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
        print(f"vm: fetching {', '.join(parts)} ...", flush=True)
        done = subprocess.run(
            [apt, "download", "-qq", *parts],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise VmError(
                f"{parts[0]} cannot be fetched ({why}); run apt-get update, or give it a network"
            )
        root = Path(folder) / "root"
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run([unpack, "-x", str(package), str(root)], check=True)
        (root / "complete").touch()
        kernel = _unpacked(root)
        if kernel is None:
            raise VmError(f"{', '.join(parts)}: no boot/vmlinuz inside; report the distribution")
        base = kernel.modules.parents[2]
        subprocess.run(
            [tool("busybox", "busybox-static"), "depmod", "-b", str(base), kernel.release],
            check=True,
            capture_output=True,
        )
        if (cache / "root").exists():
            shutil.rmtree(cache / "root")
        root.rename(cache / "root")
    found = _unpacked(cache / "root")
    assert found is not None
    return found


def _packages() -> list[str]:
    """The packages that hold the newest kernel and its modules."""
    query = tool("apt-cache", "apt")
    for meta in METAS:
        seen: list[str] = []
        waiting = [meta]
        while waiting:
            told = subprocess.run(
                [query, "depends", waiting.pop()], capture_output=True, text=True, check=False
            )
            fresh = [name for name in _PART.findall(told.stdout) if name not in seen]
            seen += fresh
            waiting += fresh
        if seen:
            return seen
    raise VmError(f"no package {' or '.join(METAS)} is known; run apt-get update")
