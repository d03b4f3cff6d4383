"""Plants errors in the engine, one at a time, and shows which test finds each.

    python bench/mutation.py                 # all of them, a table
    python bench/mutation.py --only 7 12     # some of them

The errors are planted in a scratch copy, all in one build, each behind the number of an environment
variable (mutant schemata: Untch, Offutt, Harrold, ISSTA 1993); with none chosen the copy must pass
everything. After those of the decisions that both engines share come those of the core's own
shortcuts (planted_core.py). The tests that run are closed forms and literal tables only: that two
engines agree proves nothing about what they share. Ends with 1 when an error goes unnoticed.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from planted import MUTATIONS as SHARED
from planted import Mutation
from planted_core import CORE
from scratch import Toolchain, compile_engine, copy, python

TESTS = tuple(
    f"tests/emulate/test_packet_{name}.py"
    for name in (
        "decision", "dcqcn", "nic", "exact", "stop", "peer", "lone", "queue", "pause", "credit",
        "share", "class", "observe", "rate", "buffer", "chain",
    )
)  # fmt: skip
MUTATIONS = SHARED + CORE
VARIABLE = "KVFABRIC_MUTANT"
_SELECT = f"""
#include <cstdlib>
namespace kvfabric {{
inline const int planted = [] {{
    const char* text = std::getenv("{VARIABLE}");
    return text == nullptr ? 0 : std::atoi(text);
}}();
}}
"""


def plant(at: Path, number: int, mutation: Mutation) -> None:
    """Writes one error into the copy, behind its number."""
    for name, old, new in mutation.edits:
        path = at / "emulate" / "engine" / name
        text = path.read_text()
        if text.count(old) != 1:
            raise RuntimeError(
                f"error {number}, {mutation.name}: {name} has {old!r} {text.count(old)} times; "
                "the source has moved on: write the edit anew"
            )
        path.write_text(text.replace(old, new.replace("PLANTED", f"(planted == {number})")))


def prepare(at: Path, cache: Path) -> None:
    """A copy with all errors planted, built."""
    copy(at)
    for number, mutation in enumerate(MUTATIONS, 1):
        plant(at, number, mutation)
    header = at / "emulate" / "engine" / "time.hpp"
    header.write_text(header.read_text().replace("#pragma once\n", "#pragma once\n" + _SELECT, 1))
    compile_engine(at, Toolchain("g++", ("-O1",), cache))


def verdict(at: Path, number: int) -> str:
    """The first test that fails under this error, or an empty string when none does."""
    os.environ[VARIABLE] = str(number)
    for file in TESTS:
        if not (at / file).exists():
            continue
        done = python(
            at, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly",
            "--hypothesis-seed=0", "-m", "not slow", file, seconds=900,
        )  # fmt: skip
        if done.returncode == 1:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
            return failed.group(1) if failed else file
        if done.returncode:
            # A crash finds the error too; a run that cannot start does not.
            return f"{file}: pytest ended with {done.returncode}"
    return ""


def judge(at: Path, number: int) -> str:
    """`verdict` in a process of its own, for its environment."""
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(verdict, at, number).result()
        except subprocess.TimeoutExpired:
            return "a test that never ended"


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="+", help="numbers of errors")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="directory that keeps objects between runs")
    asked = parser.parse_args()
    all_of_them = range(1, len(MUTATIONS) + 1)
    numbers = asked.only or all_of_them
    if unknown := [n for n in numbers if n not in all_of_them]:
        parser.error(f"--only {unknown[0]}: write numbers from 1 to {len(MUTATIONS)}")
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch) / "copy"
        at.mkdir()
        prepare(at, asked.cache or Path(scratch) / "objects")
        if broken := judge(at, 0):
            print(f"without an error, {broken} fails: nothing can be said", file=sys.stderr)
            return 1
        missed = 0
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            for number, found in zip(
                numbers, pool.map(lambda n: judge(at, n), numbers), strict=True
            ):
                short = found.removeprefix("tests/emulate/") or "NOTHING FOUND IT"
                print(f"{number:>3}  {MUTATIONS[number - 1].name:<58} {short}", flush=True)
                missed += not found
    print(f"{len(numbers) - missed} of {len(numbers)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
