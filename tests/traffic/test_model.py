"""KV bytes against the catalogue's own sums, written-out cases, and a token-by-token count."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.catalog.table import shipped
from traffic.compute.gpu import gpu, gpus
from traffic.error import CatalogError, ComputeError
from traffic.model import Attention, Weights, model, models

ROWS: list[dict[str, str]] = list(csv.DictReader(shipped("models.csv").splitlines()))
SMALL = {
    "model": "toy",
    "attention": "MHA",
    "layers": "2",
    "kv_layers_full": "2",
    "kv_layers_sliding": "0",
    "sliding_window_tokens": "",
    "hidden_dim": "8",
    "q_heads": "4",
    "kv_heads": "4",
    "head_dim": "2",
    "kv_lora_rank_dim": "",
    "rope_dim": "",
    "qk_nope_dim": "",
    "v_head_dim": "",
    "kv_bytes_per_value_default": "2",
    "params_total_1e9": "1",
    "params_active_1e9": "1",
    "experts": "0",
    "experts_per_token": "0",
    "weight_format": "bf16",
    "max_position_tokens": "1000",
    "source": "test",
    "note": "",
}


def catalogue(folder: Path, **cells: str) -> Path:
    row = SMALL | cells
    file = folder / "own.csv"
    file.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    return file


@pytest.mark.parametrize("row", ROWS, ids=[row["model"] for row in ROWS])
def test_kv_bytes_of_every_model_equal_the_catalogues_own_column(row: dict[str, Any]) -> None:
    found = model(row["model"])
    cap = int(row["kv_sliding_bf16_bytes_at_most"])
    tokens = 5_000
    assert found.kv_bytes(tokens, "bf16") == int(row["kv_full_bf16_bytes_per_token"]) * tokens + cap
    fp8 = int(row["kv_full_fp8_bytes_per_token"]) * tokens + cap // 2
    assert found.kv_bytes(tokens, "fp8") == fp8
    assert found.useful_tp == int(row["useful_tp_shards"])
    assert row["source"]


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [
        # 2 x layers x kv_heads x head_dim x 2 B a token, from each model's public config.json.
        ("Llama-3.1-8B", 1, 2 * 32 * 8 * 128 * 2),
        ("Llama-3.1-70B", 1000, 327_680_000),
        ("DeepSeek-V3", 1, 61 * (512 + 64) * 2),
        ("gpt-oss-120b", 550, 36_864 * 550 + 4_718_592),
        ("gpt-oss-120b", 128, 2 * 36_864 * 128),
        ("gpt-oss-120b", 1, 73_728),
        ("gpt-oss-120b", 0, 0),
    ],
)
def test_kv_bytes_in_written_out_cases(name: str, tokens: int, expected: int) -> None:
    assert model(name).kv_bytes(tokens) == expected


def test_a_prompt_of_the_base_profile_is_25_megabytes_on_gpt_oss_120b() -> None:
    assert model("gpt-oss-120b").kv_bytes(550) == 24_993_792


MIXED = ("gpt-oss-120b", "gpt-oss-20b", "Llama-3.1-8B", "DeepSeek-V3")


@given(st.sampled_from(MIXED), st.integers(0, 400), st.integers(0, 300))
def test_the_sum_over_steps_equals_a_token_by_token_count(
    name: str, tokens: int, steps: int
) -> None:
    found = model(name)
    counted = sum(found.kv_bytes(tokens + i) for i in range(steps))
    assert found.kv_bytes_sum(tokens, steps) == counted


@given(st.sampled_from(sorted(models())), st.integers(0, 10**10), st.data())
def test_ranks_hold_the_whole_cache_once_or_in_equal_copies(
    name: str, total: int, data: st.DataObject
) -> None:
    found = model(name)
    tp = data.draw(st.sampled_from(found.tensor_parallel))
    held = found.rank_bytes(total, tp)
    copies = tp // found.shards(tp)
    assert len(held) == tp
    assert sum(held) == copies * total
    assert max(held) - min(held) <= 1
    assert all(len(set(held[i : i + copies])) == 1 for i in range(0, tp, copies))


def test_more_ranks_than_kv_heads_are_allowed_and_said() -> None:
    found = model("Qwen3-30B-A3B")
    assert found.rank_bytes(10, 8) == (3, 3, 3, 3, 2, 2, 2, 2)
    assert "only 4 distinct KV shard(s)" in found.notes(8)[-1]
    assert not found.notes(4)


def test_mla_ranks_each_hold_the_whole_latent() -> None:
    assert model("DeepSeek-V3").rank_bytes(70_272, 8) == (70_272,) * 8


@pytest.mark.parametrize("tp", [0, -1, 3, 128])
def test_a_degree_that_does_not_divide_the_heads_is_refused_with_those_that_do(tp: int) -> None:
    with pytest.raises(ComputeError, match=f"tp {tp}: .*write "):
        model("Llama-3.1-70B").check_tp(tp)


@pytest.mark.parametrize(
    ("name", "gibibytes", "tolerance"),
    [
        # Checkpoint sizes from the gpt-oss model card (arXiv 2508.10925, table 1).
        ("gpt-oss-120b", 60.8, 0.3),
        ("gpt-oss-20b", 12.8, 0.3),
    ],
)
def test_mxfp4_weights_are_as_large_as_the_published_checkpoints(
    name: str, gibibytes: float, tolerance: float
) -> None:
    assert model(name).weight_bytes / 2**30 == pytest.approx(gibibytes, abs=tolerance)


def test_weights_take_two_bytes_a_parameter_in_bf16_and_one_in_fp8() -> None:
    assert model("Llama-3.1-8B").weight_bytes == 2 * model("Llama-3.1-8B").parameters
    assert model("DeepSeek-V3").weight_bytes == model("DeepSeek-V3").parameters
    assert model("Llama-3.1-8B").expert_bytes == 0


@pytest.mark.parametrize("row", [r for r in ROWS if r["experts"] != "0" and r["params_total_1e9"]])
def test_active_parameters_are_the_dense_ones_and_the_chosen_experts(row: dict[str, str]) -> None:
    found = model(row["model"])
    dense = found.parameters - found.expert_parameters
    chosen = found.expert_parameters * found.experts_per_token / found.experts
    assert dense > 0
    assert dense + chosen == pytest.approx(found.active_parameters, abs=found.experts)


def test_names_are_found_in_any_case_and_misspelt_ones_get_close_matches() -> None:
    assert model("LLAMA-3.1-8b").name == "Llama-3.1-8B"
    assert gpu("h100-sxm").name == "H100-SXM"
    with pytest.raises(CatalogError, match=r"model 'gpt-os-120b'.*did you mean gpt-oss-120b"):
        model("gpt-os-120b")
    with pytest.raises(CatalogError, match=r"GPU 'H100'.*did you mean H100-SXM"):
        gpu("H100")
    with pytest.raises(CatalogError, match="known: H100-SXM, "):
        gpu("zzz")


def test_an_unknown_kv_format_is_refused() -> None:
    with pytest.raises(CatalogError, match="write one of bf16, fp16, fp8"):
        model("Qwen3-8B").kv_bytes(1, "int3")


def test_every_gpu_states_what_the_roofline_needs() -> None:
    for one in gpus().values():
        assert one.bf16_flops > 10**14
        assert one.memory_bytes >= 48 * 10**9
        assert not one.fp8_flops or 1.9 < one.fp8_flops / one.bf16_flops < 2.1
        assert one.source


def test_a_users_file_adds_models_and_replaces_shipped_ones(tmp_path: Path) -> None:
    own = catalogue(tmp_path)
    assert model("toy", own).kv_bytes(10) == 2 * 2 * 4 * 2 * 2 * 10
    assert model("toy", own).attention is Attention.MHA
    assert model("Qwen3-8B", own) == model("Qwen3-8B")
    with pytest.raises(CatalogError, match="'toy'"):
        model("toy")


def test_a_row_of_ones_own_replaces_the_shipped_one_in_any_case(tmp_path: Path) -> None:
    own = catalogue(tmp_path, model="QWEN3-8b")
    assert model("Qwen3-8B", own).layers == 2
    assert [name for name in models(own) if name.lower() == "qwen3-8b"] == ["QWEN3-8b"]


def test_a_name_stands_once_in_a_file_and_a_file_has_rows(tmp_path: Path) -> None:
    own = catalogue(tmp_path)
    head, row = own.read_text().splitlines()
    twice = tmp_path / "twice.csv"
    twice.write_text(f"{head}\n{row}\n{row.replace('toy', 'TOY', 1)}\n")
    with pytest.raises(CatalogError, match=r"twice.csv:3: model 'TOY' stands at .*:2 too"):
        models(twice)
    empty = tmp_path / "empty.csv"
    empty.write_text(head + "\n")
    with pytest.raises(CatalogError, match=r"empty\.csv: no rows"):
        models(empty)


def test_multi_query_attention_keeps_one_head(tmp_path: Path) -> None:
    own = catalogue(tmp_path, attention="MQA", kv_heads="1")
    assert model("toy", own).kv_bytes(1) == 2 * 2 * 1 * 2 * 2
    assert model("toy", own).rank_bytes(100, 4) == (100,) * 4


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"attention": "XXX"}, "own.csv:2: attention 'XXX': write one of MHA, GQA, MQA, MLA"),
        ({"attention": "MLA"}, "own.csv:2: kv_lora_rank_dim is empty; write a number"),
        ({"layers": "two"}, "own.csv:2: layers 'two': write a number"),
        ({"layers": "nan"}, "own.csv:2: layers 'nan'"),
        ({"layers": "-2"}, "own.csv:2: layers '-2'"),
        ({"layers": "1.5"}, "own.csv:2: layers 1.5: write a whole number"),
        ({"layers": "1"}, "own.csv:2: 2 full \\+ 0 sliding KV layers of 1"),
        ({"kv_heads": "0"}, "own.csv:2: kv_heads 0"),
        ({"sliding_window_tokens": "128"}, "own.csv:2: 0 sliding layers with a window of 128"),
        ({"params_active_1e9": "2"}, "own.csv:2: more active than total"),
        ({"experts_per_token": "2"}, "own.csv:2: more experts a token"),
        ({"model": ""}, "own.csv:2: model is empty"),
        ({"model": "\x1b[31mred"}, "own.csv:2: model .*: write a name of at most 80 printable"),
        ({"model": "x" * 81}, "own.csv:2: model 'x{40}': write a name of at most 80 printable"),
        ({"params_total_1e9": "1e300"}, "own.csv:2: params_total_1e9 '1e300': write at most"),
        ({"q_heads": "3", "kv_heads": "2"}, "own.csv:2: 3 query heads do not divide over 2 KV"),
        ({"note": "a,b"}, "own.csv:2: not 23 cells"),
    ],
)
def test_a_bad_cell_is_refused_with_file_and_line(
    tmp_path: Path, cells: dict[str, str], told: str
) -> None:
    with pytest.raises(CatalogError, match=told):
        model("toy", catalogue(tmp_path, **cells))


def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no such file"):
        model("toy", tmp_path / "none.csv")
    (tmp_path / "text.csv").write_text("hello\n")
    with pytest.raises(CatalogError, match=r"text\.csv:1: missing column 'model'"):
        model("toy", tmp_path / "text.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match="not UTF-8"):
        model("toy", tmp_path / "bytes.csv")


def test_weight_formats_are_those_of_the_catalogue() -> None:
    assert {model(row["model"]).weights for row in ROWS} == set(Weights)
