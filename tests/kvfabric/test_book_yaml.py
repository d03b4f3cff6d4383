"""What the book shows of scenario files is a scenario: every block loads and can be staged."""

import re
from pathlib import Path

import pytest
import yaml

from kvfabric.build import stage
from kvfabric.load import load

BOOK = Path(__file__).parents[2] / "docs"
BASE = """\
name: book
fabric: {family: leaf_spine, nic: 100Gbps, leaves: 4, spines: 2, switch: {ports: 32, rate: 100Gbps}}
placement: {prefill: 16, decode: 16}
model: gpt-oss-20b
gpu: H200-SXM
requests: {sessions: {turns: 2}, arrivals: {rate: 4/s}, count: 6}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1}
"""
KEYS = {"cache", "faults", "failover", "handoff", "instance", "network", "policy", "requests"}


def blocks() -> list[tuple[str, str]]:
    """Page and text of the blocks whose keys are those of a scenario."""
    pages = [(page.name, page.read_text("utf-8")) for page in sorted(BOOK.glob("*.md"))]
    return [
        (name, block)
        for name, text in pages
        for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        if not block.startswith("- ") and KEYS & set(yaml.safe_load(block))
    ]


def test_the_book_shows_some() -> None:
    assert {"caches.md", "failures.md", "packet-model.md", "results.md"} <= {p for p, _ in blocks()}


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=page) for page, block in blocks() if ":Near" not in block]
)
def test_a_block_of_the_book_is_part_of_a_scenario(tmp_path: Path, block: str) -> None:
    base = "".join(
        line for line in BASE.splitlines(True) if f"\n{line.split(':')[0]}:" not in f"\n{block}"
    )
    path = tmp_path / "book.yaml"
    path.write_text(base + block, encoding="utf-8")
    study = load(path)
    stage(study.scenario, study.source)
