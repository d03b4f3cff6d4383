"""Results on disk: what is written comes back, whole or not at all."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.error import RecordError
from analysis.record import (
    FLOWS,
    PORTS,
    REQUESTS,
    Cell,
    CellManifest,
    StudyManifest,
    cell_directory,
    cell_id,
    read_cell,
    read_manifest,
    read_study,
    write_cell,
    write_study,
)


def manifest(**changes: object) -> CellManifest:
    base = CellManifest(
        cell="a",
        fabric="mesh",
        policy="random",
        seed=1,
        scenario_sha256="0" * 64,
        version="0.1.0",
        emulator="packet",
    )
    return msgspec.structs.replace(base, **changes)


def small_cell(**changes: object) -> Cell:
    requests = {name: np.arange(3, dtype=np.int64) for name in REQUESTS}
    flows = {name: np.arange(5, dtype=np.int64) for name in FLOWS}
    ports = {name: np.arange(2, dtype=np.int64) for name in PORTS}
    return Cell(manifest(**changes), requests, flows, ports | {"name": np.array(["a:0", "b:1"])})


def study(**changes: object) -> StudyManifest:
    base = StudyManifest(
        name="s",
        question="?",
        scenario_sha256="0" * 64,
        fabrics=["mesh"],
        policies=["random"],
        seeds=[1, 2],
        budget_ps=10,
        allowed=0.01,
    )
    return msgspec.structs.replace(base, **changes)


def test_a_cell_comes_back_as_written(tmp_path: Path) -> None:
    written = small_cell()
    write_cell(tmp_path / "a", written)
    back = read_cell(tmp_path / "a")
    for name in ("requests", "flows", "ports"):
        assert list(back.table(name)) == list(written.table(name))
        for column, values in written.table(name).items():
            assert np.array_equal(back.table(name)[column], values), column
    assert msgspec.structs.replace(back.manifest, digest={}) == written.manifest


def test_the_same_cell_gives_the_same_bytes(tmp_path: Path) -> None:
    write_cell(tmp_path / "one" / "a", small_cell())
    write_cell(tmp_path / "two" / "a", small_cell())
    for file in sorted((tmp_path / "one" / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / "a" / file.name).read_bytes()


def test_an_impossible_cell_has_a_reason_and_no_tables(tmp_path: Path) -> None:
    write_cell(tmp_path / "a", Cell(manifest(impossible="no path from p0 to d0")))
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["manifest.json"]
    assert read_cell(tmp_path / "a").manifest.impossible == "no path from p0 to d0"


def test_a_cell_is_not_overwritten(tmp_path: Path) -> None:
    write_cell(tmp_path / "a", small_cell())
    with pytest.raises(RecordError, match="already there"):
        write_cell(tmp_path / "a", small_cell())


def test_a_half_written_cell_of_a_killed_run_is_not_seen_and_is_replaced(tmp_path: Path) -> None:
    part = tmp_path / "cells" / ".a.part"
    part.mkdir(parents=True)
    (part / "requests.parquet").write_bytes(b"PAR1")
    write_study(tmp_path, study())
    assert read_study(tmp_path).cells == ()
    write_cell(tmp_path / "cells" / "a", small_cell())
    assert not part.exists()
    assert len(read_study(tmp_path).cells) == 1


@pytest.mark.parametrize("name", ["requests", "flows", "ports"])
def test_a_truncated_table_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    write_cell(tmp_path / "a", small_cell())
    file = tmp_path / "a" / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(RecordError, match=f"{name}.parquet: differs from its manifest") as caught:
        read_cell(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    write_cell(tmp_path / "a", small_cell())
    (tmp_path / "a" / "flows.parquet").unlink()
    with pytest.raises(RecordError, match=r"flows.parquet: No such file"):
        read_cell(tmp_path / "a")


def test_another_schema_is_refused_before_its_fields_are_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"schema": 99, "strange": []}))
    with pytest.raises(RecordError, match="schema 99, this version reads 1"):
        read_cell(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"schema":1}', b"[" * 9999])
def test_a_damaged_manifest_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(RecordError) as caught:
        read_cell(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"schema":1}'])
def test_a_damaged_manifest_of_a_study_asks_for_a_folder_of_its_own(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "study.json").write_bytes(content)
    with pytest.raises(RecordError, match="damaged, remove the folder and run the study again"):
        read_manifest(tmp_path)


def test_a_manifest_with_a_field_of_a_later_version_is_not_called_only_damaged(
    tmp_path: Path,
) -> None:
    write_cell(tmp_path / "a", small_cell())
    path = tmp_path / "a" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}))
    with pytest.raises(RecordError, match="unknown field `later`; the file is of a newer kvfabric"):
        read_cell(tmp_path / "a")


def test_a_column_of_fractions_is_refused(tmp_path: Path) -> None:
    cell = small_cell()
    cell.flows["bytes"] = np.array([0.5] * 5)
    with pytest.raises(RecordError, match=r"flows.bytes: float64 is not a whole number"):
        write_cell(tmp_path / "a", cell)
    assert not (tmp_path / "a").exists()


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    cell = small_cell()
    del cell.requests["kv_bytes"]
    with pytest.raises(RecordError, match="kv_bytes"):
        write_cell(tmp_path / "a", cell)


def test_a_study_reads_its_cells_in_its_own_order_and_counts_the_missing(tmp_path: Path) -> None:
    asked = study(fabrics=["z", "a"], policies=["q", "p"], seeds=[2, 1])
    write_study(tmp_path, asked)
    for fabric, policy, seed in [("a", "p", 1), ("z", "p", 2), ("z", "q", 1), ("z", "q", 2)]:
        name = cell_id(fabric, policy, seed)
        cell = small_cell(cell=name, fabric=fabric, policy=policy, seed=seed)
        write_cell(cell_directory(tmp_path, name), cell)
    back = read_study(tmp_path)
    keys = [(c.manifest.fabric, c.manifest.policy, c.manifest.seed) for c in back.cells]
    assert keys == [("z", "q", 2), ("z", "q", 1), ("z", "p", 2), ("a", "p", 1)]
    assert back.missing == 4


def test_a_cell_of_another_scenario_is_refused(tmp_path: Path) -> None:
    write_study(tmp_path, study())
    write_cell(tmp_path / "cells" / "a", small_cell(scenario_sha256="f" * 64))
    with pytest.raises(RecordError, match="another scenario"):
        read_study(tmp_path)


def test_labels_that_look_alike_get_different_directories() -> None:
    assert cell_id("a/b", "p", 1) != cell_id("a b", "p", 1)
    assert cell_directory(Path("o"), cell_id("../../etc", "<script>", 1)).parent == Path("o/cells")


def test_a_path_is_not_a_cell_id() -> None:
    with pytest.raises(RecordError, match="not a plain directory name"):
        cell_directory(Path("o"), "../x")
