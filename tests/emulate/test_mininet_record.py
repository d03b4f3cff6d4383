"""The record of a run says who made it, and what is removed is what it names."""

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from emulate.mininet.clean import clean
from emulate.mininet.process import MARK, began, end_all, marked, marked_environment
from emulate.mininet.record import Record, open_record, records, with_interfaces, with_nodes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_a_record_is_there_before_anything_else(tmp_path: Path) -> None:
    record = open_record("a test", tmp_path)
    assert record.folder.is_dir()
    assert records(tmp_path) == [record]
    assert record.alive


def test_what_is_added_is_written(tmp_path: Path) -> None:
    record = with_interfaces(open_record("a test", tmp_path), ["x-1", "x-2"])
    record = with_nodes(record, {"leaf0": 17})
    assert records(tmp_path) == [record]


def test_a_run_under_way_is_left_alone(tmp_path: Path) -> None:
    record = open_record("a test", tmp_path)
    assert clean(tmp_path) == ([], [record])
    assert record.folder.is_dir()


def test_a_number_that_another_process_has_now_is_not_alive(tmp_path: Path) -> None:
    record = msgspec.structs.replace(open_record("a test", tmp_path), began=1)
    assert not record.alive


def test_a_record_cut_off_in_writing_is_cleaned(tmp_path: Path) -> None:
    record = open_record("a test", tmp_path)
    (record.folder / "record.json").write_text('{"prefix": "kv')
    (cleaned,), running = clean(tmp_path)
    assert (cleaned.prefix, running) == (record.prefix, [])
    assert list(tmp_path.iterdir()) == []


def test_foreign_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "kv12").mkdir()
    clean(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"other", "kv12"}


def test_marked_processes_end_and_others_do_not(tmp_path: Path) -> None:
    prefix = f"kv-test-{os.getpid()}"
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    # A child of a marked process is marked too, and lives on when its parent has ended.
    nest = [sys.executable, "-c", f"import subprocess; subprocess.Popen({sleep!r})"]
    with subprocess.Popen(sleep) as foreign:
        subprocess.run(nest, env=marked_environment(prefix), check=True)
        near = {**os.environ, MARK: prefix + "0"}
        with subprocess.Popen(sleep, env=near) as neighbour:
            assert len(marked(prefix)) == 1
            (ended,) = end_all(prefix)
            assert began(ended) is None
            assert marked(prefix) == []
            assert neighbour.poll() is None
            assert foreign.poll() is None
            neighbour.kill()
        foreign.kill()


def test_when_a_process_began_stays_the_same() -> None:
    first = began(os.getpid())
    time.sleep(0.02)
    assert first is not None
    assert began(os.getpid()) == first


def test_a_process_that_is_gone_began_never() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert began(done.pid) is None


def test_a_record_of_another_kind_is_not_alive(tmp_path: Path) -> None:
    (tmp_path / "kv0abc").mkdir()
    assert records(tmp_path) == [Record("kv0abc", 0, -1, "unknown", base=str(tmp_path))]
