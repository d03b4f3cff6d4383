"""Every command that a report names for what it has not looked at is one of the program's."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from click.testing import CliRunner

from analysis.record import StudyManifest
from analysis.review import UNHURT, elsewhere
from kvfabric.cli import kvfabric
from kvfabric.limit import not_modelled
from kvfabric.load import load


def test_the_commands_of_the_review_exist_with_their_options() -> None:
    study = cast(
        "StudyManifest", SimpleNamespace(reproduce=[], limits=[], fabrics=["f"], varied={})
    )
    lines = [shlex.split(where) for _, where in elsewhere(study).rows if "kvfabric" in where]
    assert len(lines) >= 6
    for _, *words in lines:
        verb = words[: words.index("SCENARIO")]
        told = CliRunner().invoke(kvfabric, [*verb, "--help"])
        assert told.exit_code == 0, words
        assert all(word in told.output for word in words if word.startswith("--")), words


def test_a_scenario_whose_links_hold_tells_so_in_the_words_that_the_review_looks_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: s\nfabric: {family: single_switch, nic: 100Gbps}\n"
        "placement: {prefill: 2, decode: 2}\nmodel: gpt-oss-120b\ngpu: H200-SXM\n"
        "requests: {arrivals: {rate: 10/s}, count: 4}\nbudget: {handoff: 1s, allowed: 10%}\n",
        encoding="utf-8",
    )
    assert UNHURT in not_modelled(load(path).scenario)
