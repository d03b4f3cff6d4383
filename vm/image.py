"""The initramfs: a static busybox, the modules that reach the root over 9p, and `init.sh`."""

import lzma
import os
import subprocess
from pathlib import Path

from kernel import Kernel, VmError, home, tool

WANTED = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
"""Modules without which there is no root; what they need is found from their own tables."""


def initramfs(kernel: Kernel) -> Path:
    """The image for this kernel and this `init.sh`, made when it is not in the cache."""
    script = Path(__file__).with_name("init.sh").read_bytes()
    busybox = Path(tool("busybox", "busybox-static")).read_bytes()
    entries: list[tuple[str, int, bytes]] = [
        *((name, 0o040755, b"") for name in ("bin", "dev", "proc", "sys", "new", "mod")),
        ("bin/busybox", 0o100755, busybox),
        ("init", 0o100755, script),
    ]
    order = _order(kernel)
    entries += [(f"mod/{i:02}.ko", 0o100644, _body(path)) for i, path in enumerate(order)]
    made = home() / f"initramfs-{kernel.release}"
    content = archive(entries)
    if not made.exists() or made.read_bytes() != content:
        beside = made.with_name(f".{made.name}.{os.getpid()}")
        beside.write_bytes(content)
        beside.replace(made)
    return made


def _order(kernel: Kernel) -> list[Path]:
    """The files of the wanted modules, each after those that it needs; built-in ones have none."""
    files = {_name(path): path for path in kernel.modules.rglob("*.ko*")}
    built = (kernel.modules / "modules.builtin").read_text()
    inside = {_name(Path(line)) for line in built.splitlines()}
    order: list[Path] = []

    def add(module: str) -> None:
        if module in inside:
            return
        if module not in files:
            raise VmError(f"kernel {kernel.release} has no module {module}; use another kernel")
        if files[module] in order:
            return
        for need in needs(_body(files[module])):
            add(need)
        order.append(files[module])

    for module in WANTED:
        add(module.replace("-", "_"))
    return order


def _name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def _body(path: Path) -> bytes:
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        unzip = tool("zstd", "zstd")
        return subprocess.run([unzip, "-dcq", str(path)], check=True, capture_output=True).stdout
    return path.read_bytes()


def needs(module: bytes) -> list[str]:
    """The modules that a module names in its own information."""
    at = module.find(b"\0depends=")
    if at < 0:
        return []
    text = module[at + 9 : module.index(b"\0", at + 9)].decode()
    return [name.replace("-", "_") for name in text.split(",") if name]


def archive(entries: list[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive in "newc" form (kernel.org, "initramfs buffer format")."""
    out = bytearray()
    for inode, (name, mode, body) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = (inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + body
        out += bytes(-len(out) % 4)
    return bytes(out)
