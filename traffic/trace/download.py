"""Public traces by name: fetched once, checked by SHA-256, with licence and citation.

Addresses are pinned to a commit, so that a name always means the same bytes. A file is written
beside its place and moved there whole; a file that is already there is checked and kept. Nothing
is redistributed: each trace stays under its own licence.
"""

import os
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from traffic.catalog.table import unknown
from traffic.error import TraceError

_TIMEOUT_S: Final = 30
_CHUNK: Final = 2**16
_AZURE: Final = (
    "https://raw.githubusercontent.com/Azure/AzurePublicDataset/"
    "b469a113cedca53ddc3bdea71a143dc4b7d8700c/data/"
)
_MOONCAKE: Final = (
    "https://raw.githubusercontent.com/kvcache-ai/Mooncake/"
    "3b5a594133958449a1feaf1c9e0fc1b553e34a28/FAST25-release/traces/"
)
_SPLITWISE: Final = (
    "Patel et al., Splitwise: Efficient generative LLM inference using phase splitting, ISCA 2024"
)


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """Where a public trace lies, what it must hash to, and on what terms it may be used."""

    name: str
    url: str
    size_bytes: int
    sha256: str
    licence: str
    citation: str

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.url.rsplit("/", 1)[-1]


PUBLIC: Final = {
    trace.name: trace
    for trace in (
        PublicTrace(
            name="azure-code",
            url=_AZURE + "AzureLLMInferenceTrace_code.csv",
            size_bytes=320_117,
            sha256="54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
            licence="CC-BY 4.0",
            citation=_SPLITWISE,
        ),
        PublicTrace(
            name="azure-conv",
            url=_AZURE + "AzureLLMInferenceTrace_conv.csv",
            size_bytes=719_188,
            sha256="2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
            licence="CC-BY 4.0",
            citation=_SPLITWISE,
        ),
        PublicTrace(
            name="mooncake",
            url=_MOONCAKE + "conversation_trace.jsonl",
            size_bytes=3_029_533,
            sha256="b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
            licence="Apache-2.0",
            citation=(
                "Qin et al., Mooncake: Trading more storage for less computation, a "
                "KVCache-centric architecture for serving LLM chatbot, FAST 2025"
            ),
        ),
    )
}
"""Every public trace by name."""


@dataclass(frozen=True, slots=True)
class Download:
    """A trace that lies checked at ``path``; ``fetched`` is False when it was there already."""

    trace: PublicTrace
    path: Path
    fetched: bool


def get(name: str, directory: Path) -> Download:
    """The public trace of that name in the directory; an unknown name is a `CatalogError`."""
    trace = PUBLIC.get(name)
    if trace is None:
        raise unknown("trace", name, list(PUBLIC))
    return fetch(trace, directory)


def fetch(trace: PublicTrace, directory: Path) -> Download:
    """Fetch one trace; without network, or with other bytes than promised, a `TraceError`."""
    path = directory / trace.file
    if directory.exists() and not directory.is_dir():
        raise TraceError(f"{directory}: is a file; give a directory to write to")
    try:
        if path.exists():
            if sha256(path.read_bytes()).hexdigest() != trace.sha256:
                raise TraceError(
                    f"{path}: exists but is not {trace.name} (its SHA-256 differs); "
                    "move it away or give another directory"
                )
            return Download(trace, path, fetched=False)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; give a directory to write to") from None
    content = _body(trace)
    found = sha256(content).hexdigest()
    if found != trace.sha256:
        raise TraceError(
            f"{trace.url}: SHA-256 {found[:16]}... is not the pinned {trace.sha256[:16]}...; "
            "nothing was written; try again, or fetch it by hand and compare"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(path, content)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; give a directory to write to") from None
    return Download(trace, path, fetched=True)


def _body(trace: PublicTrace) -> bytes:
    """The bytes at the address, never more than one above the promised size."""
    content = bytearray()
    try:
        # The address is one of this module's own constants or a test's, never a user's text.
        with urlopen(trace.url, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            while len(content) <= trace.size_bytes and (chunk := answer.read(_CHUNK)):
                content += chunk
    except HTTPError as error:
        error.close()
        raise TraceError(
            f"{trace.url}: answered {error.code} {error.reason}; fetch the file by hand"
        ) from None
    except (URLError, HTTPException, OSError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise TraceError(
            f"{trace.url}: cannot be reached ({why}); is there a network? "
            "fetch the file elsewhere and give its path"
        ) from None
    return bytes(content)


def _write(path: Path, content: bytes) -> None:
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(beside).chmod(0o644)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
