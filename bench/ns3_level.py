"""Flow by flow against ns-3 with what differs beside the preset level, in scratch copies of both.

    python bench/ns3_level.py .../conweave-ns3 DIRECTORY
    python bench/ns3_level.py .../conweave-ns3 DIRECTORY --rules CNP ALPHA TIME    # some of them

Edits the rules of `RULES` in a copy of the reference engine and one of ns-3, and runs step.py on
both. Nothing outside the directory is touched.
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scratch import Toolchain, compile_engine, copy, python


@dataclass(frozen=True)
class Rule:
    """A rule made level: edits (file, text that occurs once, text in its place) of either copy."""

    ours: tuple[tuple[str, str, str], ...] = ()
    theirs: tuple[tuple[str, str, str], ...] = ()


PROGRAM = "scratch/network-load-balance.cc"

RULES = {
    "CNP": Rule(ours=(
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
    )),
    "ALPHA": Rule(ours=(
        ("dcqcn.hpp", "s.initial_q10 << 10;", "s.initial_q10 << 30;"),
        ("dcqcn.hpp", "(1024 - s.keep_q10) << 10;", "(1024 - s.keep_q10) << 30;"),
        ("dcqcn.hpp", "(current_ * alpha_ >> (20 + s.gd_shift))",
         "static_cast<std::int64_t>("
         "static_cast<__int128>(current_) * alpha_ >> (40 + s.gd_shift))"),
    )),
    "MEMORY": Rule(ours=(
        ("driver_port.cpp", "            departed(packet, port.came_by, port_id);", ""),
        ("driver_port.cpp", "    at(end, EventKind::sent, port_id, 0);",
         "    at(end, EventKind::sent, port_id, 0);\n"
         "    if (!port.at_host) departed(packet, port.came_by, port_id);"),
        ("driver_switch.cpp", "stored = packet.wire - preamble_and_gap;", "stored = packet.wire;"),
        ("driver_switch.cpp", "egress - first, packet.wire - preamble_and_gap);",
         "egress - first, packet.wire);"),
        ("buffer.hpp", "std::clamp<Bytes>(-group.above, 0, frame);", "0;"),
        ("buffer.hpp",
         "const bool fits = group.shared() + rest <= threshold() && used_ + rest <= pool_;",
         "const bool fits = true;"),
        ("buffer.hpp", "used_ -= std::min(frame, group.shared());", "used_ -= frame;"),
    )),
    "TIME": Rule(theirs=(
        (PROGRAM, "int main(int argc, char *argv[]) {",
         "int main(int argc, char *argv[]) {\n    Time::SetResolution(Time::PS);"),
        (PROGRAM, "GetDelay().GetTimeStep()", "GetDelay().GetTimeStep() / 1000"),
    )),
}  # fmt: skip
"""Ours as ns-3 has them: a CNP is a flag on an ACK of 60 B; DCQCN's alpha has 40 bits in place of
20; memory is free when the first bit leaves, counts whole frames, and the pool counts reserves too.
ns-3's as ours: times are picoseconds."""


def edit(path: Path, old: str, new: str) -> None:
    """Replaces what must occur once."""
    text = path.read_text()
    if text.count(old) != 1:
        raise RuntimeError(f"{path.name} has {old!r} {text.count(old)} times: write the edit anew")
    path.write_text(text.replace(old, new))


def simulator(build: Path, to: Path, rules: list[str]) -> None:
    """Copies a build of ns-3 and compiles its program anew.

    Without its assertions: one of them wants all cables equally long, which only ConWeave needs.
    """
    shutil.copytree(build, to, symlinks=True)
    for rule in rules:
        for name, old, new in RULES[rule].theirs:
            edit(to / name, old, new)
    libraries = [f"-l{lib.stem[3:]}" for lib in (to / "build").glob("libns3.19-*-optimized.so")]
    command = [
        "g++", "-O2", "-std=c++11", "-w", "-DNDEBUG", f"-I{to / 'build'}", str(to / PROGRAM),
        "-o", str(to / "build" / "scratch" / "network-load-balance"), f"-L{to / 'build'}",
        "-Wl,--no-as-needed", *libraries,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"g++ {PROGRAM}: {done.stderr[-2000:]}")


def main() -> None:
    """Builds both and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="directory of a built conweave ns-3")
    parser.add_argument("to", type=Path, help="a directory that does not exist yet")
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=RULES)
    asked, more = parser.parse_known_args()
    asked.to.mkdir(parents=True)
    simulator(asked.build, asked.to / "ns3", asked.rules)
    ours = copy(asked.to.resolve() / "ours")
    for rule in asked.rules:
        for name, old, new in RULES[rule].ours:
            edit(ours / "emulate" / "engine" / name, old, new)
    compile_engine(ours, Toolchain("g++", ("-O1",), asked.to / "objects"))
    unit = "1" if "TIME" in asked.rules else "1000"
    step = [str(ours / "bench" / "step.py"), str((asked.to / "ns3").resolve())]
    step += ["--unit-ps", unit, "--engine", "reference"]
    done = python(ours, *step, *more, seconds=7200)
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
