"""What is asked wrongly of the command line is told in one line, with what to write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvfabric.cli import main
from kvfabric.load import load
from kvfabric.source import ScenarioError

FIRST_LOOK = Path(__file__).parents[2] / "scenarios" / "first-look.yaml"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compar"], "no command 'compar'; did you mean compare?"),
        (["zzz"], "no command 'zzz'; write one of compare, run, "),
        (["diff", "A"], "missing argument 'B'; write kvfabric diff [OPTIONS] A B"),
        (["topo", "draw", "leaf_spine"], "missing option '--out' / '--to'; write kvfabric topo "),
    ],
)
def test_what_is_missing_or_unknown_is_told_with_what_to_write(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert capsys.readouterr().err.startswith(f"kvfabric: {told}")


def test_a_name_that_the_locale_does_not_know_is_not_called_other_than_utf_8() -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    asked = [sys.executable, "-m", "kvfabric", "topo", "show", "ü.json"]
    made = subprocess.run(asked, env=os.environ | locale, capture_output=True, check=False)
    assert made.returncode == 2
    assert b"this locale knows no such characters; set LC_ALL=C.UTF-8" in made.stderr


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ("compare: {polcy: [random]}", "compare.polcy: unknown key; write one of name, "),
        ("compare: {policy: random}", "compare.policy: must be a list"),
        ("compare: [random]", "compare: must map keys to lists"),
    ],
)
def test_a_run_refuses_a_comparison_that_is_none(tmp_path: Path, compare: str, told: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(FIRST_LOOK.read_text("utf-8").split("compare:")[0] + compare, "utf-8")
    with pytest.raises(ScenarioError, match=told):
        load(path, compare=False)
