"""Runs both engines' equality, laws and memory rules under the address and UB sanitizers.

    python bench/sanitize.py                 # builds in a scratch copy, then runs the tests
    python bench/sanitize.py --cache DIR     # keeps objects for the next time

The engine alone is instrumented (gcc's -fsanitize=address,undefined, and the bounds of vectors);
the bindings around it are not. Nothing in the checkout is touched. Ends with 1 when a test fails or
a sanitizer speaks.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from scratch import Toolchain, compile_engine, copy, preload, python

TESTS = (
    "tests/emulate/test_core_buffer.py",
    "tests/emulate/test_core_choice.py",
    "tests/emulate/test_core_equal.py",
    "tests/emulate/test_packet_law.py",
)
SLOW = ("terabyte", "million")
"""Tests whose size alone is the point: minutes under a sanitizer."""
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1",
          "-D_GLIBCXX_ASSERTIONS")  # fmt: skip
SECONDS = 600


def main() -> int:
    """Prints what pytest and the sanitizers say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="keep objects here from one run to the next")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        at = copy(Path(scratch) / "copy")
        tools = Toolchain("g++", ("-O1",), asked.cache or Path(scratch) / "objects", CHECKS)
        compile_engine(at, tools, asked.jobs)
        done = python(
            at, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k",
            " and ".join(f"not {name}" for name in SLOW), *TESTS, seconds=SECONDS,
            more={"LD_PRELOAD": preload("asan", "ubsan"), "ASAN_OPTIONS": "detect_leaks=0"},
        )  # fmt: skip
    print(done.stdout[-4000:] + done.stderr[-4000:], end="")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
