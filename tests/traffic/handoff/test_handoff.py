"""A hand-off as flows: bytes to the byte, ranks to ranks, and where the entropy comes from."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from traffic.emulator import FLOW
from traffic.error import ComputeError, HandoffError
from traffic.handoff.flow import Handoff, entropy, flows
from traffic.handoff.reshard import check_pair
from traffic.model import Model, model, models

LLAMA = model("Llama-3.1-70B")
KNOWN = [name for name, found in models().items() if found.parameters]


def made(
    found: Model = LLAMA, size: int = 1_000_003, tp: int = 8, block: int = 1000, **more: Any
) -> NDArray[np.void]:
    asked: dict[str, Any] = {
        "kv_bytes": size,
        "source": range(tp),
        "destination": range(100, 100 + tp),
        "request": 17,
        "handoff_id": 5,
        "first_flow": 40,
        "release_ps": 99,
        "seed": 1,
    }
    return flows(Handoff(block_bytes=block), found, **(asked | more))


def test_each_rank_sends_its_shard_to_its_peer() -> None:
    rows = made()
    assert rows.dtype == FLOW
    assert rows["bytes"].tolist() == [125_001] * 3 + [125_000] * 5
    assert rows["descriptors"].tolist() == [126] * 3 + [125] * 5
    assert rows["source"].tolist() == list(range(8))
    assert rows["destination"].tolist() == list(range(100, 108))
    assert rows["flow"].tolist() == list(range(40, 48))
    assert set(rows["handoff"].tolist()) == {5}
    assert set(rows["release_ps"].tolist()) == {99}
    assert set(rows["path"].tolist()) == {-1}
    assert set(rows["priority"].tolist()) == {3}
    assert rows["write"].all()


def test_a_base_prompt_on_one_gpu_is_one_flow_of_96_descriptors() -> None:
    (row,) = flows(
        Handoff(),
        model("gpt-oss-120b"),
        kv_bytes=24_993_792,
        source=[3],
        destination=[9],
        request=0,
        handoff_id=0,
        first_flow=0,
        release_ps=0,
        seed=0,
    )
    assert (row["bytes"], row["descriptors"]) == (24_993_792, 96)


def test_every_mla_rank_receives_the_whole_latent() -> None:
    assert made(model("DeepSeek-V3"))["bytes"].tolist() == [1_000_003] * 8


@given(st.sampled_from(KNOWN), st.integers(1, 10**11), st.integers(1, 2**30), st.data())
def test_bytes_and_blocks_are_conserved(
    name: str, size: int, block: int, data: st.DataObject
) -> None:
    found = model(name)
    tp = data.draw(st.sampled_from(found.tensor_parallel))
    rows = made(found, size, tp, block)
    assert int(rows["bytes"].sum()) == size * (tp // found.shards(tp))
    assert rows["bytes"].min() >= 1
    assert bool((rows["descriptors"] * block >= rows["bytes"]).all())
    assert bool(((rows["descriptors"] - 1) * block < rows["bytes"]).all())


def test_a_rank_without_a_byte_has_no_flow() -> None:
    rows = made(size=3)
    assert rows["bytes"].tolist() == [1, 1, 1]
    assert rows["flow"].tolist() == [40, 41, 42]


def test_entropy_depends_on_seed_request_and_rank_only() -> None:
    first = made()["entropy"]
    assert np.array_equal(first, made(first_flow=9, handoff_id=1, release_ps=7)["entropy"])
    assert not np.array_equal(first, made(request=18)["entropy"])
    assert not np.array_equal(first, made(seed=2)["entropy"])
    assert len(set(first.tolist())) == 8


def test_requests_and_ranks_share_no_entropy() -> None:
    drawn = {entropy(1, request, rank) for request in range(100) for rank in range(8)}
    # 800 draws of 32 bits: one collision has a chance of 1 in 13,000.
    assert len(drawn) == 800


def test_entropy_is_evenly_spread() -> None:
    drawn = np.array([entropy(1, request, 0) % 16 for request in range(16_000)])
    counts = np.bincount(drawn, minlength=16)
    # Chi-square of 15 degrees of freedom lies below 44.3 but for 1 in 10,000.
    assert ((counts - 1000) ** 2 / 1000).sum() < 44.3


def test_degrees_over_which_the_heads_do_not_divide_are_refused_before_a_run() -> None:
    with pytest.raises(ComputeError, match="tp 3: Llama"):
        check_pair(LLAMA, 8, 3)
    for prefill, decode in ((8, 8), (4, 8), (8, 1), (16, 8), (8, 32)):
        check_pair(LLAMA, prefill, decode)


def test_a_host_does_not_hand_over_to_itself() -> None:
    with pytest.raises(HandoffError, match="host 2 would send 125 kB to itself"):
        made(destination=[100, 101, 2, 103, 104, 105, 106, 107])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"block_bytes": 0}, "handoff.block 0B"),
        ({"when": "layerwise"}, "handoff.when 'layerwise': not modelled; write after_prefill or"),
        ({"direction": "drag"}, "handoff.direction 'drag': not modelled; write push or pull"),
        ({"layout": "hdn"}, "handoff.layout 'hdn': not modelled; write nhd or hnd"),
        ({"staging": "cpu", "copy_bps": 1}, "handoff.staging 'cpu': not modelled; write none or"),
        ({"staging": "gpu"}, "handoff.staging gpu with a copy rate of 0bps"),
        ({"copy_bps": 10**12}, "handoff.staging none with a copy rate of 1Tbps"),
        ({"priority": 8}, "handoff.priority 8: write 0 to 7"),
        ({"block_tokens": -1}, "handoff.block -1 tokens: write e.g. 16 tokens"),
        ({"block_tokens": 16, "merged": 1.5}, "handoff.merged 1.5: not a share"),
        ({"merged": 0.5}, "handoff.merged: only blocks of tokens merge"),
        ({"layers_per_chunk": 0}, "handoff.layers_per_chunk 0: write 1 or more"),
        (
            {"direction": "pull", "when": "layer_wise"},
            "handoff.direction pull with handoff.when layer_wise: .*write direction push",
        ),
    ],
)
def test_settings_that_are_not_modelled_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(HandoffError, match=told):
        Handoff(**settings)


def test_an_empty_hand_off_is_refused() -> None:
    with pytest.raises(HandoffError, match=r"hand-off [0-9]+: 0B"):
        made(size=0)
