"""Where the public traces lie: ``KVFABRIC_DATA``, or ``shared/data`` beside the repository."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def public_trace() -> Callable[..., Path]:
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("KVFABRIC_DATA", root.parent / "shared" / "data"))

    def find(*names: str) -> Path:
        for name in names:
            if (folder / name).is_file():
                return folder / name
        pytest.skip(
            f"no {names[0]} in {folder}: fetch it with `kvfabric traffic get` and set KVFABRIC_DATA"
        )

    return find


@pytest.fixture(scope="session")
def azure_code(public_trace: Callable[..., Path]) -> Path:
    return public_trace("AzureLLMInferenceTrace_code.csv")


@pytest.fixture(scope="session")
def mooncake_conversation(public_trace: Callable[..., Path]) -> Path:
    return public_trace("conversation_trace.jsonl", "mooncake_conversation_trace.jsonl")
