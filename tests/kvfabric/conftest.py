"""What tests of scenario keys share: a small scenario, to which each adds the keys it is about."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

HEAD: Final = {
    "name": "small",
    "fabric": "{family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}",
    "placement": "{prefill: 8, decode: 8}",
    "model": "gpt-oss-120b",
    "gpu": "H100-SXM",
    "budget": "{handoff: 5ms, allowed: 10%}",
}
"""The keys that every scenario has, a line each."""


@pytest.fixture(autouse=True)
def without_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves output as wide as it comes: workers of pytest-xdist set ``COLUMNS``."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes ``s.yaml``: `HEAD`, with other values and more keys, a line each, then ``more``."""

    def written(more: str = "", **keys: str) -> Path:
        path = tmp_path / "s.yaml"
        head = "".join(f"{key}: {value}\n" for key, value in (HEAD | keys).items())
        path.write_text(head + more, encoding="utf-8")
        return path

    return written
