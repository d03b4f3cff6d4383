"""One culprit planted in a healthy fabric: the blame of the packets names it first."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from analysis.blame import Blame, blame
from analysis.budget import budgets
from analysis.charge import Ledger
from analysis.handoff import handoffs
from analysis.summary import Sample
from analysis.witness import seen
from kvfabric.compare import jobs_of, manifest_of
from kvfabric.load import load
from kvfabric.run import run_cell
from topo.error import KvfabricError

TEXT = """\
name: planted
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps, buffer: 8MiB}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H200-SXM
requests: {arrivals: {rate: 1000/s}, count: 60}
budget: {handoff: 1s, allowed: 10%}
run: {seeds: 1}
"""


CALM = "network: {transport: {control: none}, discipline: {ecn: off}}\n"


def sample(tmp_path: Path, more: str = "", **changed: str) -> Sample:
    text = TEXT
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "s.yaml"
    path.write_text(text + more, encoding="utf-8")
    study = load(path)
    (job,) = jobs_of(study)
    cell = run_cell(job)
    manifest = manifest_of(study, [job], "")
    return Sample("f", "p", (cell,), (handoffs(cell, manifest),), (budgets(cell),), None)


def blamed(found: Sample, share: float | None = None) -> Blame:
    made = blame(found, None, share)
    assert made is not None
    return made


def first(found: Sample) -> tuple[str, str]:
    worst = blamed(found).culprits[0]
    return worst.kind, worst.place


def test_charges_add_up_to_every_hand_off_to_the_picosecond(tmp_path: Path) -> None:
    more = "handoff: {when: layer_wise, per_descriptor: 1us}\n"
    witness = seen(sample(tmp_path, more, **{"rate: 1000/s": "rate: 6000/s"}).cells[0], None)
    assert witness is not None
    ledger = Ledger(witness)
    assert len(ledger.request) > 40
    for request, took in zip(ledger.request.tolist(), ledger.took.tolist(), strict=True):
        assert sum(charge.ps for charge in ledger.charges(request)) == took


def test_the_kinds_of_a_blame_add_up_to_its_whole_time(tmp_path: Path) -> None:
    found = blamed(sample(tmp_path), share=1.0)
    assert found.handoffs == found.of == 60
    assert sum(found.kinds.values()) == found.total_ps
    named = sum(one.ps for one in found.culprits)
    assert named == found.total_ps - found.kinds["wire"]


def test_a_slow_link_to_a_decode_host_is_named_first(tmp_path: Path) -> None:
    slow = "faults: [{kind: degraded, link: [h11, leaf1], share: 10%}]\n"
    kind, place = first(sample(tmp_path, slow))
    assert kind in {"pacing", "pause", "queue"}
    assert place.endswith("> h11:0")


@pytest.mark.parametrize("calm", ["", CALM])
def test_a_slow_link_between_switches_is_named_first(tmp_path: Path, calm: str) -> None:
    slow = "faults: [{kind: degraded, link: [leaf0, spine0], share: 5%}]\n"
    kind, place = first(sample(tmp_path, slow + calm))
    assert kind in {"pacing", "pause", "queue"}
    assert place.startswith("leaf0:")
    assert "> spine0:" in place


@pytest.mark.parametrize("calm", ["", CALM])
def test_a_slow_nic_of_a_prefill_host_is_named_first(tmp_path: Path, calm: str) -> None:
    slow = "faults: [{kind: degraded, link: [h3, leaf0], share: 10%}]\n"
    kind, place = first(sample(tmp_path, slow + calm))
    assert kind in {"slow", "source"}
    assert place.startswith("h3:0 >")


def test_a_pause_is_charged_to_the_slow_port_at_the_root_of_its_chain(tmp_path: Path) -> None:
    slow = "faults: [{kind: degraded, link: [h11, leaf1], share: 5%}]\n"
    kind, place = first(sample(tmp_path, slow + CALM, **{"8MiB": "3MiB"}))
    assert kind == "pause"
    assert place.endswith("> h11:0")


def test_a_switch_port_with_too_little_headroom_is_named_first_for_what_it_lost(
    tmp_path: Path,
) -> None:
    poor = "network: {overrides: [{node: leaf0, towards: h3, headroom: 0KiB}],"
    more = poor + CALM.removeprefix("network: {")
    found = sample(tmp_path, more, **{"rate: 1000/s": "rate: 8000/s", "8MiB": "3MiB"})
    assert found.cells[0].manifest.totals["drops_lossless"] > 0
    worst = blamed(found).culprits[0]
    assert worst.kind == "retransmission"
    assert worst.place.startswith("leaf0:")
    assert found.cells[0].manifest.settings["overrides"] == "leaf0 towards h3: headroom 0 B"


def test_the_port_of_a_hot_decode_is_named_first(tmp_path: Path) -> None:
    hot = "models: [{model: gpt-oss-120b, share: 60%, prefill: 4, decode: 1}]\n"
    found = sample(tmp_path, hot, **{"rate: 1000/s": "rate: 3000/s"})
    worst = blamed(found).culprits[0]
    table = found.cells[0].requests
    ((hot_one, _),) = Counter(table["decode"].tolist()).most_common(1)
    flows = found.cells[0].flows
    node = flows["destination"][
        np.isin(flows["handoff"], table["request"][table["decode"] == hot_one])
    ]
    assert worst.place.endswith(f"> h{int(node[0])}:0")


def test_a_small_send_queue_is_named_first(tmp_path: Path) -> None:
    small = "network: {transport: {send_queue: 1, ack_message: true}}\nhandoff: {block: 16KiB}\n"
    kind, place = first(sample(tmp_path, small))
    assert kind == "window"
    assert "most at h" in place


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{node: leaf9, headroom: 0KiB}", "node 'leaf9': not in fabric 'leaf-spine'; it has h0"),
        ("{node: h3, headroom: 0KiB}", "node 'h3': a host, which has no headroom; name a switch"),
        (
            "{node: leaf0, towards: h11, headroom: 1KiB}",
            "'leaf0' to 'h11': no cable of fabric 'leaf-spine'; those",
        ),
        ("{node: leaf0, headroom: 8MiB}", "leave no room for a frame"),
    ],
)
def test_an_override_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, entry: str, told: str
) -> None:
    with pytest.raises(KvfabricError, match=r"s\.yaml:9: network.*" + told):
        sample(tmp_path, f"network: {{overrides: [{entry}]}}\n")


def test_a_healthy_fabric_has_no_culprit_of_half_of_the_time(tmp_path: Path) -> None:
    found = blamed(sample(tmp_path))
    assert all(found.share(one) < 0.5 for one in found.culprits)


def test_of_very_many_hand_offs_over_budget_the_slowest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.blame.MOST", 7)
    tight = sample(tmp_path, **{"handoff: 1s": "handoff: 1us"})
    found = blamed(tight)
    assert found.asked == "slowest 7 of those over budget"
    assert found.total_ps == int(np.sort(tight.handoffs[0].duration)[-7:].sum())
