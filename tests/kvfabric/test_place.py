"""A place that refuses (no right, too long a name) is told in a line, never by a traceback."""

import errno
import os
from pathlib import Path

import pytest

from kvfabric.cli import main
from kvfabric.command.study import place_of

SCENARIO = str(Path(__file__).parents[2] / "scenarios" / "one-switch.yaml")
LONG = "x" * 300


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("kvfabric: ")
    assert told.count("\n") == 1
    return told


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", SCENARIO, "--out", LONG],
        ["compare", SCENARIO, "--out", LONG],
        ["goodput", SCENARIO, "--out", LONG],
        ["run", LONG],
        ["report", LONG],
        ["diff", LONG, LONG],
        ["explain", LONG],
        ["init", "--prefill", "2", "--decode", "2", "--file", LONG],
    ],
    ids=lambda value: " ".join(each[:7] for each in value),
)
def test_a_name_that_is_too_long_is_told_in_a_line(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert LONG[:40] in refused(arguments, capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_behind_one_that_must_not_be_entered_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tmp_path.chmod(0)
    try:
        assert "Permission denied" in refused(
            ["run", SCENARIO, "--out", str(tmp_path / "a" / "b")], capsys
        )
    finally:
        tmp_path.chmod(0o700)


def test_a_refusal_without_a_name_and_a_missing_file_stay_bugs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in (OSError(errno.EACCES, "no"), FileNotFoundError(errno.ENOENT, "gone", "f")):

        def fail(error: OSError = error, **_: object) -> None:
            raise error

        monkeypatch.setattr("kvfabric.cli.kvfabric.main", fail)
        with pytest.raises(OSError, match=r"no|gone"):
            main(["policies"])


def test_a_directory_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    arguments = ["run", SCENARIO, "--out", str(tmp_path / "out")]
    assert "this directory is gone" in refused(arguments, capsys)


def test_a_name_that_is_no_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"a\xff")
    told = refused(["run", SCENARIO, "--out", f"{tmp_path}/{name}"], capsys)
    assert "a\\xff: not UTF-8; write a name that is" in told


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("first look", "first-look"),
        ("größe_1, a/b", "größe-1-a-b"),
        ("漢字", "漢字"),
        ("../..", "study"),
        ("🚀", "study"),
    ],
)
def test_results_land_below_out_by_the_letters_of_any_script(name: str, folder: str) -> None:
    assert place_of(name) == Path("out", folder)
    assert place_of(name, "2", "crosscheck") == Path("out", f"{folder}-2-crosscheck")
