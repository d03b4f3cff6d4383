"""Files from outside: what is not read, and what its one line says."""

import os
from pathlib import Path

import pytest

from topo.error import KvfabricError
from topo.intake import Intake

LISTS = Intake(KvfabricError, absent="write a list that is there", other="write a list")


def content(path: Path) -> str:
    return LISTS.content(path, 1, large="lists are short", encoding="save it as UTF-8")


def told(path: Path) -> str:
    with pytest.raises(KvfabricError) as error:
        content(path)
    return str(error.value).replace(f"{path.parent}/", "")


def test_a_text_is_read_whole_and_without_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffzwölf\r\n".encode())
    assert content(path) == "zwölf\r\n"


def test_a_file_may_be_as_large_as_the_bound_and_no_larger(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 2**20)
    assert len(content(path)) == 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    assert told(path) == "a.txt: larger than 1 MiB; lists are short"


def test_what_is_absent_or_no_file_is_told_in_the_askers_words(tmp_path: Path) -> None:
    assert told(tmp_path / "a.txt") == "a.txt: no such file; write a list that is there"
    assert told(tmp_path / "a\0") == "a\0: not a path; write a list that is there"
    (tmp_path / "folder").mkdir()
    assert told(tmp_path / "folder") == "folder: not a file; write a list"
    os.mkfifo(tmp_path / "pipe")
    assert told(tmp_path / "pipe") == "pipe: not a file; write a list"
    deep = tmp_path / ("a" * 300)
    assert told(deep).endswith("File name too long; write a list that is there")


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo \xff\n")
    assert told(path) == "a.txt:2: byte 0xff is not UTF-8 text; save it as UTF-8"
