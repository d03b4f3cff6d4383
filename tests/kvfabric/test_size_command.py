"""``kvfabric traffic size``: a table that a person can act on, and refusals in one line."""

from pathlib import Path

import pytest

from kvfabric.cli import main

SCENARIO = """\
name: small
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {process: deterministic, rate: 400/s}, count: 40}
budget: {handoff: 5ms, allowed: 10%}
"""


def kvfabric(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_the_pools_that_a_load_asks_for_are_told_with_their_hand_offs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    assert kvfabric("traffic", "size", path) == 0
    told = capsys.readouterr().out
    for word in ("400 requests/s", "needed at 70%", "instances there are", "a prompt", "a step"):
        assert word in told
    assert "of the 400 Gbps that the fabric carries" in told
    assert kvfabric("traffic", "size", path, "--use", "35%") == 0
    other = capsys.readouterr().out

    def needed(text: str) -> list[int]:
        line = next(line for line in text.splitlines() if "needed" in line)
        return [int(word) for word in line.split() if word.isdigit()][::2]

    twice = [2 * count for count in needed(told)]
    assert all(abs(b - a) <= 1 for a, b in zip(twice, needed(other), strict=True))


def test_instances_that_serve_both_phases_are_not_sized_as_two_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO + "serving: {mode: colocated}\n", encoding="utf-8")
    assert kvfabric("traffic", "size", path) == 2
    told = capsys.readouterr().err
    assert "small.yaml:8: serving.mode: colocated: its instances serve both phases" in told
    assert told.count("\n") == 1


def test_every_model_is_sized_by_its_own_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    more = "models: [{model: Qwen3-8B, share: 25%, prefill: 1, decode: 1}]\n"
    path.write_text(SCENARIO.replace("count: 40", "count: 400") + more, encoding="utf-8")
    assert kvfabric("traffic", "size", path) == 0
    told = capsys.readouterr().out
    titles = [line.split() for line in told.splitlines() if line.startswith("What ")]
    assert [words[5] for words in titles] == ["gpt-oss-120b", "Qwen3-8B"]
    first, second = (float(words[1]) for words in titles)
    assert first + second == pytest.approx(400, rel=0.02)
    assert second == pytest.approx(100, rel=0.25)


def test_a_use_that_is_no_share_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    for wrong in ("100%", "0%", "much"):
        assert kvfabric("traffic", "size", path, "--use", wrong) == 2
        told = capsys.readouterr().err
        assert told.startswith("kvfabric: --use: ")
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    "arrivals",
    [
        "{process: poisson, rate: 400/s}",
        "{process: gamma, cv: 8, rate: 400/s}",
        "{process: on_off, rate: 400/s}",
        "{process: diurnal, rate: 400/s}",
    ],
)
def test_the_rate_that_the_scenario_declares_is_sized_whatever_a_short_sample_shows(
    arrivals: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        SCENARIO.replace("{process: deterministic, rate: 400/s}", arrivals), encoding="utf-8"
    )
    assert kvfabric("traffic", "size", path) == 0
    assert "What 400 requests/s ask for" in capsys.readouterr().out


def test_requests_that_fit_no_instance_are_told_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    wide = "lengths: {input: {kind: lognormal, mean: 200000, std: 400000}}, arrivals:"
    path.write_text(SCENARIO.replace("arrivals:", wide), encoding="utf-8")
    assert kvfabric("traffic", "size", path) == 0
    assert "of 10,000 requests do not fit the KV memory" in capsys.readouterr().out
