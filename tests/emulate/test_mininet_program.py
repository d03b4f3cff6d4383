"""Programs that only root's search path has are found without it."""

import os
import shutil

import pytest

from emulate.mininet.program import find_program, widen_path


def test_a_program_that_is_found_is_on_the_widened_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    widen_path()
    assert os.environ["PATH"] == "/nowhere:/usr/sbin:/sbin:/usr/local/sbin"
    assert shutil.which("sysctl") == find_program("sysctl")
    once = os.environ["PATH"]
    widen_path()
    assert os.environ["PATH"] == once
