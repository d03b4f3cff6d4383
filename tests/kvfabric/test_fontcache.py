"""Where the drawing library keeps its cache: a spare place only where the usual one is shut."""

import os
import tempfile
from pathlib import Path

import pytest

from kvfabric import fontcache
from kvfabric.fontcache import spare_cache


def test_a_home_that_can_be_written_to_needs_no_spare_place(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert spare_cache(environment) is None
    assert environment == {"HOME": str(tmp_path)}
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_is_no_directory_gets_a_place_that_can_be_written_to(tmp_path: Path) -> None:
    shut = tmp_path / "home"
    shut.write_text("a file, so that nothing can be made below it", encoding="utf-8")
    environment = {"HOME": str(shut)}
    spare = spare_cache(environment)
    assert spare is not None
    assert environment["MPLCONFIGDIR"] == str(spare)
    assert os.access(spare, os.W_OK)
    assert spare_cache(environment) is None


def test_a_cache_alone_that_is_shut_is_enough_and_places_named_apart_are_looked_at(
    tmp_path: Path,
) -> None:
    shut = tmp_path / "shut"
    shut.write_text("", encoding="utf-8")
    apart = {"HOME": str(shut), "XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    assert spare_cache(apart) is None
    assert spare_cache({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(shut)}) is not None


def test_a_place_that_the_user_named_is_left_alone(tmp_path: Path) -> None:
    shut = tmp_path / "home"
    shut.write_text("", encoding="utf-8")
    environment = {"HOME": str(shut), "MPLCONFIGDIR": "/mine"}
    assert spare_cache(environment) is None
    assert environment["MPLCONFIGDIR"] == "/mine"


def test_without_any_temporary_directory_there_is_shared_memory_or_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut, memory = tmp_path / "home", tmp_path / "memory"
    shut.write_text("", encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(fontcache, "_SPARE", (None, str(memory)))
    assert spare_cache({"HOME": str(shut)}) is None
    memory.mkdir()
    spare = spare_cache({"HOME": str(shut)})
    assert spare is not None
    assert spare.parent == memory
