"""Holds builds by other compilers and flags to the digests that are checked in.

    python bench/digest.py                   # gcc and clang, -O0 and -O3

Each build is made in a scratch copy, and runs tests/emulate/test_packet_digest.py, which has the
digests. A compiler that is not installed is named and left out. Ends with 1 when a build differs.
"""

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from scratch import Toolchain, compile_engine, copy, python

TEST = "tests/emulate/test_packet_digest.py"


def verdict(tools: Toolchain, jobs: int) -> str:
    """``same``, or what differs."""
    with tempfile.TemporaryDirectory() as scratch:
        at = copy(Path(scratch) / "copy")
        compile_engine(at, tools, jobs)
        done = python(at, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST, seconds=900)
    if done.returncode == 0:
        return "same"
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return "; ".join(failed) or done.stdout[-500:]


def main() -> int:
    """Prints a line a build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    parser.add_argument("--levels", nargs="+", default=["0", "3"], help="optimisation levels")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    differ = 0
    for compiler, level in itertools.product(asked.compilers, asked.levels):
        if shutil.which(compiler) is None:
            print(f"{compiler} -O{level}: {compiler} is not installed; left out")
            continue
        with tempfile.TemporaryDirectory() as cache:
            found = verdict(Toolchain(compiler, (f"-O{level}",), Path(cache)), asked.jobs)
        differ += found != "same"
        print(f"{compiler} -O{level}: {found}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
