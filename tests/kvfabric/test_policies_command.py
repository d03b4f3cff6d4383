"""``kvfabric policies``: everything that can be written is listed, with what it rests on."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvfabric.command.policies import command
from topo.error import KvfabricError
from traffic.policy import foreign
from traffic.policy.registry import POLICIES


def told(*arguments: str) -> str:
    ran = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.output


def test_the_list_has_every_policy_with_what_it_sees_and_its_source() -> None:
    lines = told().splitlines()
    for name, kind in POLICIES.items():
        (line,) = [line for line in lines if line.strip().startswith(f"{name} ")]
        assert any(sight in line for sight in kind.sees or ["nothing"])
        assert kind.source.split()[0] in " ".join(lines)
    assert "bound: 1.5" in " ".join(lines)
    assert "docs/policies.md" in told()


def test_a_width_that_is_told_holds_for_tables_and_sentences_without_a_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for text in (told(), told("dynamo_kv")):
        assert max(map(len, text.splitlines())) <= 60
    monkeypatch.delenv("COLUMNS")
    lines = told().splitlines()
    assert any(
        line.startswith("Any takes order: ") and line.endswith("policies.md.") for line in lines
    )


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_each_is_described_with_its_parameters_and_a_line_for_a_scenario(name: str) -> None:
    text = told(name)
    kind = POLICIES[name]
    assert kind.source in text
    for parameter in kind.settings.__struct_fields__:
        assert parameter in text
    assert f"policy: {{kind: {name}" in text
    assert "``" not in text


def test_a_default_is_shown_as_a_scenario_would_write_it() -> None:
    text = told("topology_aware")
    assert "bound" in text
    assert "1.5" in text
    assert "whole number" in told("same_rack")
    assert "unset" in told("static_groups")
    assert "max | random | weighted" in told("llm_d")


def test_ones_of_installed_packages_are_listed_without_being_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer = EntryPoint("far_away", "no_such_module_here:Mine", foreign.GROUP)
    monkeypatch.setattr(foreign, "entry_points", lambda group: [offer])
    assert "far_away" in told()


def test_code_of_ones_own_is_described_with_a_permission_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_to_describe.py").write_text(
        "class Mine:\n"
        '    """Always the first."""\n'
        "    def __init__(self, slack: float = 0.5):\n"
        "        pass\n"
        "    def prefill(self, request, view):\n"
        "        return 0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    with pytest.raises(KvfabricError, match="this would run its code; write --allow-code"):
        told("mine_to_describe:Mine")
    text = told("mine_to_describe:Mine", "--allow-code")
    assert "Always the first." in text
    assert "policy: {kind: 'mine_to_describe:Mine', slack: 0.5}" in text


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(KvfabricError, match="did you mean round_robin"):
        told("roundrobin")
