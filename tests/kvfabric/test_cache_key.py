"""The key ``cache``: prefix caches of a scenario, in its cells and its report."""

from pathlib import Path

import numpy as np
import pytest

from analysis.caching import caching
from analysis.idle import gpu_time
from analysis.measure import MEASURES
from analysis.observed import read_observed
from analysis.page import page
from analysis.record import Cell, cell_directory, read_study
from analysis.result import result
from analysis.summary import samples
from kvfabric.compare import jobs_of, run_study
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import run_cell
from kvfabric.source import ScenarioError
from topo.unit import PS_PER_S

TEXT = """\
name: cached
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps}}
placement: {prefill: 4, decode: 4, storage: STORAGE}
model: gpt-oss-20b
gpu: H100-SXM
requests:
  count: 40
  arrivals: {rate: 40/s}
  sessions:
    {first: {kind: constant, mean: 600}, tool: {kind: constant, mean: 90}, run: 20ms, think: 20ms,
    message: {kind: constant, mean: 50}, output: {kind: constant, mean: 40}, context: 2000,
    wait: 50ms, token: 1ms, shared: 256, block_tokens: 64}
budget: {handoff: 50ms, allowed: 10%}
run: {seeds: 1, emulator: EMULATOR}
"""
TIERS = """\
cache:
  tiers:
    - {kind: hbm, size: 30MB}
    - {kind: dram, size: 60MB, rate: 400Gbps}
    - {kind: remote, size: 1TB}
"""


def written(tmp_path: Path, more: str, emulator: str = "packet", storage: int = 2) -> Path:
    path = tmp_path / "s.yaml"
    text = TEXT.replace("EMULATOR", emulator).replace("STORAGE", str(storage))
    path.write_text(text + more, encoding="utf-8")
    return path


def run(path: Path) -> Cell:
    (job,) = jobs_of(load(path))
    assert job.impossible is None
    return run_cell(job)


@pytest.mark.parametrize("emulator", ["packet", "fluid"])
def test_pool_traffic_crosses_the_fabric_and_is_no_hand_off(tmp_path: Path, emulator: str) -> None:
    without = run(written(tmp_path, "", emulator))
    having = run(written(tmp_path, TIERS + "policy: random\n", emulator))
    told, totals = having.observed["cache"], having.manifest.totals
    numbers, size = (having.flows[name].astype(np.int64) for name in ("handoff", "bytes"))
    moved = int(told["read_bytes"].sum() + told["written_bytes"].sum())
    assert int(size[numbers < 0].sum()) == moved > 0
    assert totals["cache.remote.read_bytes"] == told["read_bytes"].sum() > 0
    assert totals["cache.cached_tokens"] == sum(
        int(told[f"cached_{kind}_tokens"].sum()) for kind in ("hbm", "dram", "ssd", "remote")
    )
    assert int(size[numbers >= 0].sum()) == int(without.flows["bytes"].astype(np.int64).sum())
    assert having.manifest.duration_ps == int(
        having.flows["finish_ps"].astype(np.int64)[numbers >= 0].max()
    )
    assert "cache" not in without.observed
    assert not [name for name in without.manifest.totals if name.startswith("cache.")]
    assert "prefix caches" not in without.manifest.settings
    assert having.manifest.settings["prefix caches"] == (
        "hbm 30 MB, dram 60 MB at 400 Gbps, remote 1 TB, least recently used leave, loaded before "
        "the prefill, written through, class 3"
    )


def test_gpu_time_tells_loads_from_work(tmp_path: Path) -> None:
    cell = run(written(tmp_path, TIERS + "policy: random\n", "fluid"))
    found = gpu_time(cell)
    assert found is not None
    start, end = (cell.requests[f"prefill_{name}_ps"].astype(np.int64) for name in ("start", "end"))
    loads = cell.manifest.totals["cache.idle_ps"]
    assert loads == cell.observed["cache"]["load_ps"].sum() > 0
    assert found.prefill_load == pytest.approx(loads / PS_PER_S)
    whole = int((end - start).sum())  # prompts of one instance never overlap
    assert found.prefill_work + found.prefill_load == pytest.approx(whole / PS_PER_S)


def test_a_run_does_not_wait_for_what_is_still_being_written(tmp_path: Path) -> None:
    path = written(tmp_path, TIERS, "fluid", storage=1)
    text = path.read_text("utf-8").replace("rate: 40/s", "rate: 4000/s")
    path.write_text(text.replace("nic: 100Gbps", "nic: 10Gbps"), encoding="utf-8")
    cell = run(path)
    numbers, finish = (cell.flows[name].astype(np.int64) for name in ("handoff", "finish_ps"))
    assert (finish[numbers < 0] < 0).any()
    assert cell.manifest.duration_ps == finish[numbers >= 0].max()


def test_colocated_instances_keep_prefix_blocks_too(tmp_path: Path) -> None:
    cell = run(written(tmp_path, TIERS + "serving: {mode: colocated}\n", "fluid"))
    totals = cell.manifest.totals
    assert totals["cache.remote.read_bytes"] > 0
    numbers = cell.flows["handoff"].astype(np.int64)
    assert len(numbers)
    assert (numbers < 0).all()
    assert totals["cache.cached_tokens"] > 0


def test_users_who_wait_find_their_sessions_again(tmp_path: Path) -> None:
    path = written(tmp_path, TIERS, "fluid")
    text = path.read_text("utf-8").replace("  arrivals: {rate: 40/s}\n", "  closed: {users: 3}\n")
    path.write_text(text, encoding="utf-8")
    cell = run(path)
    assert cell.manifest.totals["cache.cached_tokens"] > 0
    assert not [note for note in cell.manifest.notes if "prefix blocks" in note]


def test_requests_without_blocks_are_told_to_find_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, TIERS, "fluid")
    text = path.read_text("utf-8")
    start, end = text.index("  sessions"), text.index("budget")
    path.write_text(text[:start] + text[end:], encoding="utf-8")
    cell = run(path)
    assert "cache" not in cell.observed
    assert "cache: the requests carry no prefix blocks, so nothing is found again." in (
        cell.manifest.notes
    )


def test_a_comparison_tells_what_each_alternative_found(tmp_path: Path) -> None:
    compare = (
        "compare:\n  policy: [random, cache_aware]\n  cache: [null, {label: a block, "
        "tiers: [{kind: hbm, size: 4MB}]}, {label: hbm, tiers: [{kind: hbm, size: 9GB}]}]\n"
    )
    path, out = written(tmp_path, compare, "fluid"), tmp_path / "out"
    run_study(load(path), out, processes=1, progress=lambda done, whole: None, reproduce="")
    study = read_study(out)
    assert {cell.manifest.fabric for cell in study.cells} == {
        *("leaf-spine no cache", "leaf-spine a block", "leaf-spine hbm")
    }
    rows = {row[:2]: row for row in caching(samples(study)).rows}
    assert not [fabric for fabric, _ in rows if fabric == "leaf-spine no cache"]
    known = {key: float(row[2].split()[0]) for key, row in rows.items()}
    assert known["leaf-spine hbm", "cache_aware"] > known["leaf-spine a block", "cache_aware"]
    assert known["leaf-spine hbm", "cache_aware"] > known["leaf-spine hbm", "random"] > 0
    measured = {
        (sample.fabric, sample.policy): MEASURES["known"].estimate(sample, study.manifest)
        for sample in samples(study)
    }
    assert measured["leaf-spine no cache", "random"] is None
    exact = measured["leaf-spine hbm", "cache_aware"]
    assert exact is not None
    assert round(100 * exact.value) == round(known["leaf-spine hbm", "cache_aware"])
    manifest = study.cells[-1].manifest
    table = read_observed(cell_directory(out, manifest.cell), manifest.digest, "cache")
    assert len(table["request"]) == 40
    assert "Prefix caches" in page(result(study, out), [], {})


@pytest.mark.parametrize(
    ("more", "storage", "says"),
    [
        ("cache: {tiers: []}\n", 1, "cache.tiers: none: write at least one"),
        ("cache: {tiers: [{kind: tape, size: 1GB}]}\n", 1, "write hbm or dram or ssd or remote"),
        ("cache: {tiers: [{kind: dram, size: 1GB}]}\n", 1, "cache: tier dram: needs the rate"),
        (TIERS, 0, "lies on storage hosts; write placement.storage, e.g. 1"),
        (
            "cache: {tiers: [{kind: remote, size: 1TB, rate: 1Gbps}]}\n",
            1,
            "cache: tier remote: is as fast as the fabric",
        ),
        (
            "cache: {tiers: [{kind: hbm, size: 70GB}]}\n",
            1,
            "cache: tier hbm: 70 GB, but the weights of gpt-oss-20b leave 58",
        ),
    ],
)
def test_caches_that_cannot_be_are_refused_with_their_place(
    more: str, storage: int, says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, more, "fluid", storage)
    with pytest.raises(ScenarioError) as caught:
        jobs_of(load(path))
    assert "s.yaml:15: cache" in str(caught.value)
    assert says in str(caught.value)


def test_the_report_says_what_caches_leave_out(tmp_path: Path) -> None:
    told = " ".join(not_modelled(load(written(tmp_path, TIERS)).scenario))
    assert "The pool's directory answers at once" in told
    assert "Nothing but hand-offs and the pool of prefix blocks crosses the fabric." in told
    without = " ".join(not_modelled(load(written(tmp_path, "")).scenario))
    assert "No prefix cache on the prefill side (`cache`)." in without
    assert "Nothing but hand-offs crosses the fabric." in without
