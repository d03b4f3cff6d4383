"""What cannot be put on real frames is refused in one line, before anything is created."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click import BadParameter, Command
from click.testing import CliRunner

import kvfabric.crosscheck
import kvfabric.emulate
from emulate.mininet import support
from kvfabric.command.crosscheck import command as crosscheck
from kvfabric.command.emulate import command as emulate
from topo.error import KvfabricError

SCENARIOS = Path(__file__).parents[2] / "scenarios"
TEXT = (SCENARIOS / "real-frames.yaml").read_text()
TRANSPORT = "kind: rocev2, control: dcqcn, preset: connectx"
DISCIPLINE = "pfc: true, headroom: sonic, alpha: 1/16, "
MARKS = "ecn: {kmin: 20KiB, kmax: 80KiB, pmax: 20%}"
MODULES = (kvfabric.emulate, kvfabric.crosscheck)

Refused = Callable[..., str]

pytestmark = pytest.mark.parametrize(
    "command", [emulate, crosscheck], ids=["emulate", "crosscheck"]
)


@pytest.fixture(name="refused")
def _refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Command) -> Refused:
    """The one line of a command; a network that is made fails the test.

    ``changes`` are texts in the scenario and what they become.
    """

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a network was made")

    for module in MODULES:
        monkeypatch.setattr(module, "network", never)
    monkeypatch.chdir(tmp_path)

    def told(*options: str, changes: tuple[tuple[str, str], ...] = ()) -> str:
        text = TEXT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        Path("a.yaml").write_text(text)
        asked = ["a.yaml", "--dilation", "10000", *options]
        done = CliRunner().invoke(command, asked, standalone_mode=False)
        assert isinstance(done.exception, KvfabricError | BadParameter), done.output
        assert [each.name for each in tmp_path.iterdir()] == ["a.yaml"]
        assert "\n" not in str(done.exception)
        return str(done.exception)

    return told


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything."""
    for module in MODULES:
        for name in ("demand_support", "demand_drivers"):
            monkeypatch.setattr(module, name, lambda: None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            ((DISCIPLINE, f"cut_through: true, {DISCIPLINE}"),),
            "cut_through: a socket hands over whole frames; write cut_through: false, or",
        ),
        (
            ((TRANSPORT, f"{TRANSPORT}, drain: 200Gbps"),),
            "drain 200 Gbps: hosts of real frames take data as it comes; leave it out, or",
        ),
        (
            (
                (TRANSPORT, "kind: infiniband"),
                (DISCIPLINE + MARKS, "ecn: off"),
                ("2MiB", "64MiB"),
            ),
            "transport infiniband: credits have no frames on Ethernet; write kind: rocev2, or",
        ),
        (
            (
                (
                    "policy: random",
                    "policy: random\n"
                    "faults: [{kind: down, link: [leaf0, spine0], from: 1ms, until: 2ms}]",
                ),
            ),
            "faults: real frames do not know faults of links and switches yet; leave them out, or",
        ),
        (
            (
                ("prefill: 4, decode: 4, by", "prefill: 40, decode: 40, by"),
                ("ports: 16", "ports: 128"),
                ("2MiB", "64MiB"),
            ),
            "fabric 'leaf-spine leaves=2 spines=2': 4 switches and 80 hosts; real frames are for",
        ),
    ],
    ids=["cut-through", "drain", "infiniband", "faults", "size"],
)
def test_what_frames_do_not_know(
    refused: Refused, changes: tuple[tuple[str, str], ...], told: str
) -> None:
    assert refused(changes=changes).startswith(told)


@pytest.mark.parametrize("times", ["0", "-3", "abc", "1.5", "1e4"])
def test_a_dilation_that_is_no_whole_number(refused: Refused, times: str) -> None:
    told = refused("--dilation", times)
    assert told == f"{times!r} is no whole number of at least 1; write 10000"


def test_a_wall_that_is_no_duration(refused: Refused) -> None:
    advice = "no duration, or longer than 2,562 h; write 90s, 15min or 2h"
    assert refused("--wall", "15") == f"--wall '15': {advice}"
    assert refused("--wall", "999999h") == f"--wall '999999h': {advice}"


@pytest.mark.usefixtures("able")
def test_no_room_for_the_dilation(refused: Refused) -> None:
    told = refused("--wall", "10s", "--count", "10", "--dilation", "100,000")
    assert "more than --wall 10s; write a --dilation of at most" in told


def test_an_alternative_that_is_not_there(refused: Refused) -> None:
    assert refused("--alternative", "2") == ("--alternative 2: a.yaml compares 1; write at most 1")


def test_no_root(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refused() == "root: user 1000; run it as root, with `sudo -E`"


def test_no_mininet(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(support, "_root", lambda: support.Probe("root", True, "here"))
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mininet" else find(name)
    )
    told = refused()
    assert told.startswith("Mininet's Python package: none in ")
    assert told.endswith("write: pip install 'kvfabric[mininet]'")


@pytest.mark.usefixtures("able")
def test_a_congestion_control_that_the_kernel_has_not(refused: Refused, command: Command) -> None:
    if command is crosscheck:
        assert refused("--tcp", "cubist").startswith("tcp 'cubist': this kernel has ")
    else:
        told = refused("--tcp", "cubic")
        assert told.startswith("--tcp cubic: of the kernel dataplane; add --dataplane kernel, or")
