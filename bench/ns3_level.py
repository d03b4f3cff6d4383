"""Flow by flow against ns-3 with what differs beside the preset level, in scratch copies of both.

    python bench/ns3_level.py .../conweave-ns3 DIRECTORY

In a copy of the reference engine a CNP is a flag on an ACK of 60 B, as in ns-3, and DCQCN's alpha
has 40 bits in place of 20; in a copy of ns-3 times are picoseconds in place of nanoseconds. Then
step.py runs on both. Nothing outside the directory is touched.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from scratch import Toolchain, compile_engine, copy, python

OURS = (
    ("frame.hpp", "ack_wire = data_overhead + 4;", "ack_wire = 60;"),
    ("frame.hpp", 'static_assert(ack_wire - preamble_and_gap >= 64, "an ACK is above the least '
                  'Ethernet frame");', ""),
    ("flow.hpp", "struct Flow {", "struct Flow {\n    bool echo = false;"),
    ("driver_host.cpp",
     "answer(packet.flow, FrameKind::cnp, cnp_wire, transport_.cnp_priority);",
     "flow.echo = true;"),
    ("driver_host.cpp", "    packet.hop = 1;\n    write(id);\n    enqueue(port_id, id);",
     "    packet.hop = 1;\n    packet.marked = flow.echo;\n    flow.echo = false;\n"
     "    write(id);\n    enqueue(port_id, id);"),
    ("driver_host.cpp", "    if (packet.kind == FrameKind::ack) {\n",
     "    if (packet.marked) flow.rate.cnp(control_[port_id], now_);\n"
     "    if (packet.kind == FrameKind::ack) {\n"),
    ("dcqcn.hpp", "s.initial_q10 << 10;", "s.initial_q10 << 30;"),
    ("dcqcn.hpp", "(1024 - s.keep_q10) << 10;", "(1024 - s.keep_q10) << 30;"),
    ("dcqcn.hpp", "(current_ * alpha_ >> (20 + s.gd_shift))",
     "static_cast<std::int64_t>(static_cast<__int128>(current_) * alpha_ >> (40 + s.gd_shift))"),
)  # fmt: skip

THEIRS = (
    ("int main(int argc, char *argv[]) {", "\n    Time::SetResolution(Time::PS);"),
    ("GetDelay().GetTimeStep()", " / 1000"),
)
"""After which text of the program what is put in: the second is of the headroom's delay."""


def edit(path: Path, old: str, new: str) -> None:
    """Replaces what must occur once."""
    text = path.read_text()
    if text.count(old) != 1:
        raise RuntimeError(f"{path.name} has {old!r} {text.count(old)} times: write the edit anew")
    path.write_text(text.replace(old, new))


def simulator(build: Path, to: Path) -> None:
    """Copies a build of ns-3 and compiles its program anew."""
    shutil.copytree(build, to, symlinks=True)
    program = to / "scratch" / "network-load-balance.cc"
    for anchor, more in THEIRS:
        edit(program, anchor, anchor + more)
    libraries = [f"-l{lib.stem[3:]}" for lib in (to / "build").glob("libns3.19-*-optimized.so")]
    command = [
        "g++", "-O2", "-std=c++11", "-w", f"-I{to / 'build'}", str(program),
        "-o", str(to / "build" / "scratch" / "network-load-balance"), f"-L{to / 'build'}",
        "-Wl,--no-as-needed", *libraries,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ {program.name}: {done.stderr[-2000:]}")


def main() -> None:
    """Builds both and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="directory of a built conweave ns-3")
    parser.add_argument("to", type=Path, help="a directory that does not exist yet")
    asked, more = parser.parse_known_args()
    asked.to.mkdir(parents=True)
    simulator(asked.build, asked.to / "ns3")
    ours = copy(asked.to.resolve() / "ours")
    for name, old, new in OURS:
        edit(ours / "emulate" / "engine" / name, old, new)
    compile_engine(ours, Toolchain("g++", ("-O1",), asked.to / "objects"))
    step = [str(ours / "bench" / "step.py"), str((asked.to / "ns3").resolve())]
    done = python(ours, *step, "--unit-ps", "1", "--engine", "reference", *more, seconds=7200)
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
