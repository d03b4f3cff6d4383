"""Victims of real runs: pauses make them where uplinks outrun NICs; without pauses none."""

from pathlib import Path

import pytest

from analysis.victim import Victims
from kvfabric.cli import main
from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.victim import victims_of

SCENARIO = """\
name: victims
fabric:
  family: leaf_spine
  nic: 100Gbps
  oversubscription: 4
  switch: {ports: 10, rate: 400Gbps, buffer: 2MiB}
placement: {prefill: 16, decode: 16}
model: gpt-oss-120b
gpu: H100-SXM
requests:
  arrivals: {rate: 8000/s}
  count: 120
  lengths:
    input: {kind: lognormal, mean: 1500, std: 1500}
    output: {kind: constant, mean: 20}
network: {transport: {control: none}, discipline: {alpha: 1/16, ecn: off}}
budget: {handoff: 30ms, allowed: 10%}
run: {seeds: 1}
policy: random
"""


def found(tmp_path: Path, text: str) -> Victims:
    path = tmp_path / "victims.yaml"
    path.write_text(text, encoding="utf-8")
    (job,) = jobs_of(load(path))
    return victims_of(job)


def test_pauses_slow_flows_that_congest_nothing(tmp_path: Path) -> None:
    seen = found(tmp_path, SCENARIO)
    assert seen.flows == 120
    assert seen.congesting > 5
    assert 3 <= seen.victims < seen.exposed / 4
    assert seen.median == pytest.approx(1.0, abs=0.02)
    assert seen.most > 1.5


def test_a_deep_buffer_pauses_nobody(tmp_path: Path) -> None:
    text = SCENARIO.replace("buffer: 2MiB", "buffer: 4GiB").replace("alpha: 1/16", "alpha: 1")
    seen = found(tmp_path, text)
    assert seen.congesting > 5
    assert (seen.exposed, seen.victims) == (0, 0)


def test_the_fluid_pauses_nobody(tmp_path: Path) -> None:
    seen = found(tmp_path, SCENARIO.replace("seeds: 1", "seeds: 1, emulator: fluid"))
    assert seen.congesting > 5
    assert (seen.exposed, seen.victims) == (0, 0)


def test_the_command_tells_a_row_for_every_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "victims.yaml"
    path.write_text(SCENARIO.replace("seeds: 1", "seeds: 1, emulator: fluid"), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(["victims", str(path), "--seeds", "2", "--count", "20"])
    assert left.value.code == 0
    assert capsys.readouterr().out.count("leaf-spine 2:1 (4:1 asked)") == 2
