#!/usr/bin/env python3
"""Run a command under a distribution kernel, in QEMU, on this machine's own files.

    python3 vm/boot.py [--results DIR] [--memory MIB] [--cores N] -- COMMAND ...

The root file system of the guest is this machine's, read only, under an overlay in the guest's own
memory: what the command writes is gone when it ends, except under the results folder, which the
guest sees under the same path. There is no network. The command's output is streamed, its exit code
returned. KVM is used where a trial boot under it ends in time, otherwise emulation (TCG), which is
about ten times slower. Needs qemu-system-x86, busybox-static and apt; no root.

Only the standard library: this runs before the project is set up, with any Python from 3.11 on.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from image import initramfs
from kernel import Kernel, VmError, find

TRIAL_S = 8
"""How long a boot under KVM may take to power off; a working one takes two seconds."""

DEFAULT_LIMIT_S = 3600


def kvm_works(kernel: Kernel, image: Path) -> bool:
    """Whether a guest that only powers off does so in time: the device alone proves nothing."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    command = [*_machine("kvm", 1, 512), *_boot(kernel, image, "kvfabric.trial=1")]
    try:
        done = subprocess.run(
            [*command, "-nic", "none"], capture_output=True, timeout=TRIAL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _machine(accelerator: str, cores: int, memory_mib: int) -> list[str]:
    kind = ["kvm", "host"] if accelerator == "kvm" else ["tcg,thread=multi", "max"]
    return [
        *("qemu-system-x86_64", "-accel", kind[0], "-cpu", kind[1]),
        *("-smp", str(cores), "-m", str(memory_mib)),
        *("-display", "none", "-no-reboot", "-monitor", "none"),
    ]


def _boot(kernel: Kernel, image: Path, extra: str) -> list[str]:
    line = f"console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off {extra}"
    return ["-kernel", str(kernel.image), "-initrd", str(image), "-append", line]


def _share(path: str, tag: str, *, writable: bool) -> list[str]:
    # Names with commas would end the option: QEMU reads a doubled one as itself.
    where = path.replace(",", ",,")
    kind = "" if writable else ",readonly=on"
    return [
        "-virtfs",
        f"local,path={where},mount_tag={tag},security_model=none,multidevs=remap{kind}",
    ]


def run(command: list[str], results: Path, cores: int, memory_mib: int, limit_s: int) -> int:
    """Boot, run, power off; the command's exit code, or 124 when the limit was reached."""
    kernel = find()
    image = initramfs(kernel)
    accelerator = "kvm" if kvm_works(kernel, image) else "tcg"
    results.mkdir(parents=True, exist_ok=True)
    print(f"vm: Linux {kernel.release}, {accelerator}, {cores} cores, {memory_mib} MiB", flush=True)
    with tempfile.TemporaryDirectory(prefix="kvfabric-vm-") as folder:
        order = Path(folder)
        script = f"cd {shlex.quote(str(Path.cwd()))} || exit 125\nexec {shlex.join(command)}\n"
        (order / "command").write_text(script)
        (order / "results").write_text(str(results.resolve()) + "\n")
        (order / "modules").write_text(str(kernel.modules) + "\n")
        guest = [
            *_machine(accelerator, cores, memory_mib),
            *_boot(kernel, image, ""),
            *_share("/", "host", writable=False),
            *_share(str(order), "order", writable=True),
            *_share(str(results.resolve()), "results", writable=True),
            *("-nic", "none", "-chardev", "stdio,id=out,signal=off"),
            *("-device", "virtio-serial-pci", "-device", "virtconsole,chardev=out"),
            *("-serial", f"file:{order / 'kernel.log'}"),
        ]
        code = _watch(guest, limit_s)
        if code is not None:
            return code
        told = order / "exit"
        if not told.exists():
            log = (order / "kernel.log").read_text(errors="replace").splitlines()[-20:]
            print(
                "vm: the guest stopped before the command ended; its last lines:", *log, sep="\n  "
            )
            return 125
        return int(told.read_text())


def _watch(guest: list[str], limit_s: int) -> int | None:
    """Run QEMU and pass its console on; None when it ended by itself."""
    process = subprocess.Popen(
        guest, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit_s, stop)
    timer.daemon = True
    timer.start()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: process.kill())
    try:
        while chunk := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(chunk.replace(b"\r\n", b"\n"))
            sys.stdout.buffer.flush()
        process.wait()
    except KeyboardInterrupt:
        process.kill()
        return 130
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if late.is_set():
        print(f"vm: stopped after {limit_s} s; allow more with --limit", flush=True)
        return 124
    return None


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="vm/boot.py",
        description="Run a command under a distribution kernel in QEMU, on this machine's files.",
        epilog="example: python3 vm/boot.py --results out/vm -- uname -r",
    )
    parser.add_argument("--results", type=Path, default=Path("out/vm"), help="writable folder")
    parser.add_argument("--cores", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--memory", type=int, default=3072, help="MiB of the guest")
    parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT_S, help="seconds it may take")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    asked = parser.parse_args()
    try:
        return run(asked.command, asked.results, asked.cores, asked.memory, asked.limit)
    except VmError as error:
        print(f"vm: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
