"""`kvfabric doctor` and `kvfabric clean` say what there is in lines that one can act on."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from emulate.mininet import doctor, record, support
from emulate.mininet.error import EmulationError
from emulate.mininet.record import Record, open_record
from emulate.mininet.support import Probe, demand_support
from kvfabric.command.clean import command as clean
from kvfabric.command.doctor import command as doctor_command


def _run(command: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, [], standalone_mode=False)  # type: ignore[arg-type]
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_the_doctor_answers_on_any_machine() -> None:
    code, told = _run(doctor_command)
    assert code in (0, 1)
    assert "Mininet" in told
    assert ("real frames are possible here" in told) == (code == 0)


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Probe("mnexec", False, "missing", "write: apt install mininet")
    monkeypatch.setattr(doctor, "needs", lambda: [missing])
    code, told = _run(doctor_command)
    assert code == 1
    assert "apt install mininet" in told
    assert "real frames are not possible here: mnexec" in told


def test_what_is_only_better_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    better = Probe("TCP dctcp", False, "no", "modprobe", needed=False)
    monkeypatch.setattr(doctor, "probes", lambda: [better])
    assert _run(doctor_command)[0] == 0


def test_not_root_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EmulationError, match=r"root: user 1000; run it as root, with `sudo -E`"):
        demand_support()


def test_no_mininet_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "_root", lambda: Probe("root", True, ""))
    monkeypatch.setattr(support.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(EmulationError, match=r"pip install 'kvfabric\[mininet\]'"):
        demand_support()


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "_root", lambda: Probe("root", True, ""))
    monkeypatch.setattr(support, "_python", lambda: [])
    monkeypatch.setattr(support, "find_program", lambda name: None if name == "mnexec" else name)
    with pytest.raises(EmulationError, match="mnexec: missing; write: apt install mininet"):
        demand_support()


class TestClean:
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not Path("/proc/self/stat").exists():
            pytest.skip("/proc is Linux's")
        monkeypatch.setattr(record, "FOLDER", tmp_path)
        monkeypatch.setattr("emulate.mininet.clean.clean.__defaults__", (tmp_path,))

    def test_with_nothing_left_it_says_so(self) -> None:
        assert _run(clean) == (0, "nothing is left of any run\n")

    def test_a_run_under_way_is_kept_and_a_dead_one_removed(self, tmp_path: Path) -> None:
        mine = open_record("a running test", tmp_path)
        dead = Record("kv0dea", 1, -1, "a dead one", base=str(tmp_path))
        dead.folder.mkdir()
        dead.write()
        code, told = _run(clean)
        assert code == 0
        assert f"{mine.prefix} (a running test): is running, as process {os.getpid()}" in told
        assert "kv0dea (a dead one): removed 0 process(es), 0 interface(s), 1 file(s)" in told
        assert [p.name for p in tmp_path.iterdir()] == [mine.prefix]
