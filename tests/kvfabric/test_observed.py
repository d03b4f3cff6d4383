"""What the packets of a cell met, kept beside it: blame, hops, pauses, stops, queues."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.error import RecordError
from analysis.observed import BLAME, OBSERVED, read_observed
from analysis.pathology import spreads
from analysis.record import Cell, read_cell, write_cell
from analysis.summary import Sample
from analysis.wording import NONE
from emulate.discipline import Discipline
from emulate.marking import PROFILES
from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.observed import SERIES_PORTS, observed
from kvfabric.run import run_cell, served

TEXT = """\
name: observed
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps, buffer: 8MiB}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H200-SXM
requests: {arrivals: {rate: 4000/s}, count: 24}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, emulator: EMULATOR}
"""


def cell(tmp_path: Path, emulator: str) -> Cell:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("EMULATOR", emulator), encoding="utf-8")
    (job,) = jobs_of(load(path))
    return run_cell(job)


def test_a_packet_cell_keeps_the_parts_of_every_flow_and_where_its_last_packet_waited(
    tmp_path: Path,
) -> None:
    made = cell(tmp_path, "packet")
    assert [name for name in made.observed if name in OBSERVED] == list(OBSERVED)
    blame, hops = made.observed["blame"], made.observed["hops"]
    assert blame["flow"].tolist() == made.flows["flow"].tolist()
    parts = np.sum([blame[name] for name in BLAME if name.startswith("blame_")], axis=0)
    assert (parts == made.flows["finish_ps"] - made.flows["release_ps"]).all()
    again = blame["flow"][blame["blame_retransmission_ps"] > 0]
    waited = (hops["queued_ps"] > 0) | (hops["paused_ps"] > 0) | (hops["hop"] == 0)
    assert (waited | np.isin(hops["flow"], again)).all()
    egress = made.observed["egress"]
    assert egress["far_port"][egress["far_port"]].tolist() == egress["port"].tolist()
    assert set(egress["buffer_bytes"].tolist()) == {0, 8 * 2**20}
    behind = hops["queued_ps"][hops["hop"] > 0].sum()
    assert behind == blame["blame_queued_ps"].sum() > 0
    assert len(np.unique(made.observed["series"]["port"])) <= SERIES_PORTS


def test_the_tables_come_back_one_by_one(tmp_path: Path) -> None:
    made, place = cell(tmp_path, "packet"), tmp_path / "cell"
    write_cell(place, made)
    digest = read_cell(place).manifest.digest
    for name, table in made.observed.items():
        back = read_observed(place, digest, name)
        assert {column: values.tolist() for column, values in back.items()} == {
            column: values.tolist() for column, values in table.items()
        }


def test_unknown_missing_and_damaged_tables_are_refused_in_a_line(tmp_path: Path) -> None:
    made, place = cell(tmp_path, "packet"), tmp_path / "cell"
    write_cell(place, made)
    digest = read_cell(place).manifest.digest
    with pytest.raises(RecordError, match="table 'queues': write one of blame, hops"):
        read_observed(place, digest, "queues")
    with pytest.raises(RecordError, match="no table stops; only packet cells have one"):
        read_observed(place, {}, "stops")
    (place / "stops.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordError, match="differs from its manifest"):
        read_observed(place, digest, "stops")


def test_of_real_frames_the_pauses_are_kept_and_spread_as_they_do_in_packets(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("EMULATOR", "packet").replace("8MiB", "2MiB"), encoding="utf-8")
    (job,) = jobs_of(load(path))
    _, emulator, _ = served(job)
    telemetry = replace(emulator.telemetry(), hops={})  # real frames have none
    kept = observed(job.stage.fabric, telemetry)
    assert set(kept) == {"pauses", "stops", "egress"}
    assert len(kept["stops"]["port"])
    whole = run_cell(job)
    frames = replace(whole, observed=kept)
    (one,), (other,) = (
        spreads([Sample("f", "p", (cell,), (), (), None)], None).rows for cell in (whole, frames)
    )
    assert other[2:6] == one[2:6]  # root, ports, depth, head-of-line time
    assert other[7] == NONE  # queues are not sampled there


def test_the_ports_of_switches_keep_from_where_on_they_mark(tmp_path: Path) -> None:
    made = cell(tmp_path, "packet")
    marking, tier = made.observed["marking"], made.ports["tier"]
    assert marking["port"].tolist() == np.flatnonzero(tier > 0).tolist()
    sonic = PROFILES["sonic"].at
    assert set(marking["kmin_bytes"].tolist()) == {sonic.kmin_bytes}
    assert set(marking["kmax_bytes"].tolist()) == {sonic.kmax_bytes}
    (job,) = jobs_of(load(tmp_path / "s.yaml"))
    _, emulator, _ = served(job)
    for rules in (None, Discipline(ecn="off")):
        kept = observed(job.stage.fabric, emulator.telemetry(), rules)
        assert not len(kept["marking"]["port"])


def test_a_fluid_cell_has_none(tmp_path: Path) -> None:
    assert not set(cell(tmp_path, "fluid").observed) & set(OBSERVED)
