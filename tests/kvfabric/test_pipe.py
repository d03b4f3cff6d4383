"""Standard output that ends early: `kvfabric ... | head` is no error and says nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    ("--help",),
    ("schema",),
    ("topo", "list"),
    ("topo", "list", "--help"),
    ("topo", "show", "leaf_spine", "--prefill", "4", "--decode", "4"),
    ("topo", "check", "torus", "--ports", "16"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_goes_away_ends_a_command_quietly(arguments):
    command = subprocess.Popen(
        [sys.executable, "-m", "kvfabric", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    told = command.stderr.read()
    command.stderr.close()
    lines = [line for line in told.splitlines() if b" s so far" not in line]
    assert (command.wait(60), lines) == (0, [])


def test_a_full_device_is_one_line():
    with Path("/dev/full").open("wb") as full:
        command = subprocess.run(
            [sys.executable, "-m", "kvfabric", "topo", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert command.returncode == 2
    assert command.stderr == b"kvfabric: standard output: No space left on device\n"
