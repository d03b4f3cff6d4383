"""Fetching a public trace, from a server on this machine: whole and checked, or not at all."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from traffic.error import CatalogError, TraceError
from traffic.trace.download import PUBLIC, PublicTrace, fetch, get

CONTENT = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,5\n"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.endswith("missing.csv"):
            self.send_error(404)
            return
        body = CONTENT * 10_000 if self.path.endswith("longer.csv") else CONTENT
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + 9 * self.path.endswith("cut.csv")))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            # The client hangs up on purpose when a body is longer than promised.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def public(url: str) -> PublicTrace:
    return PublicTrace("tiny", url, len(CONTENT), sha256(CONTENT).hexdigest(), "CC0", "nobody")


def test_a_trace_arrives_whole_with_its_terms(address: str, tmp_path: Path) -> None:
    done = fetch(public(address + "tiny.csv"), tmp_path / "new" / "folder")
    assert done.fetched
    assert done.path == tmp_path / "new" / "folder" / "tiny.csv"
    assert done.path.read_bytes() == CONTENT
    assert (done.trace.licence, done.trace.citation) == ("CC0", "nobody")
    assert [p.name for p in done.path.parent.iterdir()] == ["tiny.csv"]


def test_a_trace_that_is_there_is_checked_and_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_bytes(CONTENT)
    assert not fetch(public("http://127.0.0.1:9/tiny.csv"), tmp_path).fetched


def test_another_file_of_that_name_is_left_alone(address: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_bytes(b"mine")
    with pytest.raises(TraceError, match="exists but is not tiny"):
        fetch(public(address + "tiny.csv"), tmp_path)
    assert (tmp_path / "tiny.csv").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("missing.csv", "answered 404"),
        ("longer.csv", "is not the pinned"),
        ("cut.csv", "cannot be reached|is not the pinned"),
    ],
)
def test_a_wrong_answer_writes_nothing(address: str, tmp_path: Path, file: str, told: str) -> None:
    trace = public(address + file)
    if file == "cut.csv":
        trace = replace(trace, size_bytes=len(CONTENT) + 9, sha256="0" * 64)
    with pytest.raises(TraceError, match=told) as refused:
        fetch(trace, tmp_path)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_no_network_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(TraceError, match=r"cannot be reached \(.*\); is there a network\?") as told:
        fetch(public(f"http://127.0.0.1:{port}/tiny.csv"), tmp_path)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="give a directory to write to"):
        fetch(public("http://127.0.0.1:9/tiny.csv"), tmp_path / "file")


def test_an_unknown_name_is_answered_with_close_ones(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"trace 'azure'.*azure-code or azure-conv"):
        get("azure", tmp_path)


def test_every_public_trace_is_pinned_to_a_commit_and_names_its_terms() -> None:
    assert set(PUBLIC) == {"azure-code", "azure-conv", "mooncake"}
    for trace in PUBLIC.values():
        commit = trace.url.split("/")[5]
        assert len(commit) == 40
        assert len(trace.sha256) == 64
        assert trace.licence
        assert trace.citation


def test_the_pinned_checksums_are_those_of_the_files_at_hand(
    azure_code: Path, mooncake_conversation: Path
) -> None:
    for name, path in (("azure-code", azure_code), ("mooncake", mooncake_conversation)):
        content = path.read_bytes()
        assert sha256(content).hexdigest() == PUBLIC[name].sha256
        assert len(content) == PUBLIC[name].size_bytes
