"""What real checkpoints are, by their own configurations, and which kernels they get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.core.catalog import Catalog
from aeonctl.core.checkpoint import Checkpoint, CheckpointFiles, read_checkpoint
from aeonctl.core.kernels import ArchitectureRow, KernelRow, architecture_row, is_new_enough, kernel_paths
from aeonctl.core.safetensors import Header, HeaderError, Tensor, header_length, parse_header
from tests.fakes.hub_server import weights

CONFIGS = Path(__file__).parent.parent / "data/configs"
EXPECTED: list[tuple[str, str, str, tuple[str, ...], int | None, bool, int, int | None, str | None, str]] = [
    (
        "AEON-7--Qwen3.6-27B-AEON-Ultimate-Uncensored-Multimodal-NVFP4-MTP",
        "Qwen3_5ForConditionalGeneration",
        "nvfp4-w4a4",
        ("nvfp4-w4a4",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    (
        "AEON-7--Qwen3.8-27B-NVFP4-MIXED",
        "Qwen3_5ForConditionalGeneration",
        "bf16",
        ("bf16",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    (
        "Frozenlock--Qwen3.8-27B-int4-AutoRound",
        "Qwen3_5ForConditionalGeneration",
        "int4-autoround",
        ("int4-autoround",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    (
        "Inferact--Qwen3.8-27B-NVFP4",
        "Qwen3_5ForConditionalGeneration",
        "nvfp4-w4a4",
        ("nvfp4-w4a4",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    (
        "Intel--gemma-4-31B-it-int4-AutoRound",
        "Gemma4ForConditionalGeneration",
        "int4-autoround",
        ("int4-autoround",),
        None,
        True,
        0,
        262144,
        None,
        "model",
    ),
    (
        "Lorbus--Qwen3.6-27B-int4-AutoRound",
        "Qwen3_5ForConditionalGeneration",
        "int4-autoround",
        ("int4-autoround",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    ("Qwen--Qwen2.5-14B-Instruct", "Qwen2ForCausalLM", "bf16", ("bf16",), None, False, 0, 32768, None, "model"),
    ("Qwen--Qwen2.5-7B-Instruct", "Qwen2ForCausalLM", "bf16", ("bf16",), None, False, 0, 32768, None, "model"),
    ("Qwen--Qwen3-0.6B", "Qwen3ForCausalLM", "bf16", ("bf16",), None, False, 0, 40960, None, "model"),
    (
        "Qwen--Qwen3-30B-A3B-GPTQ-Int4",
        "Qwen3MoeForCausalLM",
        "int4-gptq",
        ("int4-gptq",),
        128,
        False,
        0,
        40960,
        None,
        "model",
    ),
    ("Qwen--Qwen3-30B-A3B", "Qwen3MoeForCausalLM", "bf16", ("bf16",), 128, False, 0, 40960, None, "model"),
    ("Qwen--Qwen3-32B", "Qwen3ForCausalLM", "bf16", ("bf16",), None, False, 0, 40960, None, "model"),
    (
        "Qwen--Qwen3.5-2B",
        "Qwen3_5ForConditionalGeneration",
        "unknown",
        ("unknown",),
        None,
        False,
        0,
        262144,
        None,
        "model",
    ),
    ("Qwen--Qwen3.6-27B-FP8", "Qwen3_5ForConditionalGeneration", "fp8", ("fp8",), None, True, 1, 262144, None, "model"),
    ("Qwen--Qwen3.8-27B-FP8", "Qwen3_5ForConditionalGeneration", "fp8", ("fp8",), None, True, 1, 262144, None, "model"),
    (
        "RedHatAI--Llama-3.3-70B-Instruct-FP8-dynamic",
        "LlamaForCausalLM",
        "fp8",
        ("fp8",),
        None,
        False,
        0,
        131072,
        None,
        "model",
    ),
    (
        "RedHatAI--gemma-4-31B-it-FP8-Dynamic",
        "Gemma4ForConditionalGeneration",
        "fp8",
        ("fp8",),
        None,
        True,
        0,
        262144,
        None,
        "model",
    ),
    (
        "Salyut1--GLM-4.7-NVFP4",
        "Glm4MoeForCausalLM",
        "nvfp4-w4a4",
        ("nvfp4-w4a4",),
        160,
        False,
        1,
        202752,
        None,
        "model",
    ),
    (
        "TechxGenus--Meta-Llama-3-70B-Instruct-AWQ",
        "LlamaForCausalLM",
        "int4-awq",
        ("int4-awq",),
        None,
        False,
        0,
        8192,
        None,
        "model",
    ),
    (
        "deepseek-ai--DeepSeek-V4-Flash",
        "DeepseekV4ForCausalLM",
        "fp8+mxfp4",
        ("fp8", "mxfp4"),
        256,
        False,
        1,
        1048576,
        None,
        "model",
    ),
    ("google--gemma-3-27b-it", "Gemma3ForConditionalGeneration", "bf16", ("bf16",), None, True, 0, None, None, "model"),
    ("incoai--Qwen3.8-27B-DFlash2", "DFlash2DraftModel", "bf16", ("bf16",), None, False, 0, 262144, None, "drafter"),
    (
        "local--Qwen3-Next-80B-A3B-W4A16",
        "Qwen3NextForCausalLM",
        "unknown",
        ("unknown",),
        512,
        False,
        0,
        262144,
        None,
        "model",
    ),
    (
        "local--Qwen3.8-27B-EXL3",
        "Qwen3_5ForConditionalGeneration",
        "exl3",
        ("exl3",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    ("meta-llama--Llama-3.1-8B-Instruct", "LlamaForCausalLM", "bf16", ("bf16",), None, False, 0, 131072, None, "model"),
    ("meta-llama--Llama-3.1-8B", "LlamaForCausalLM", "bf16", ("bf16",), None, False, 0, 131072, None, "model"),
    (
        "mistralai--Mistral-Small-3.2-24B-Instruct-2506",
        "Mistral3ForConditionalGeneration",
        "bf16",
        ("bf16",),
        None,
        True,
        0,
        131072,
        None,
        "model",
    ),
    (
        "moonshotai--Kimi-K2-Thinking",
        "DeepseekV3ForCausalLM",
        "int4-w4a16",
        ("int4-w4a16",),
        384,
        False,
        0,
        262144,
        None,
        "model",
    ),
    (
        "nvidia--Llama-3.1-8B-Instruct-NVFP4",
        "LlamaForCausalLM",
        "nvfp4-w4a4",
        ("nvfp4-w4a4",),
        None,
        False,
        0,
        131072,
        None,
        "model",
    ),
    (
        "nvidia--Qwen3.6-27B-NVFP4",
        "Qwen3_5ForConditionalGeneration",
        "nvfp4-mixed",
        ("fp8", "nvfp4-w4a16"),
        None,
        True,
        1,
        262144,
        "fp8",
        "model",
    ),
    (
        "nvidia--Qwen3.6-35B-A3B-NVFP4",
        "Qwen3_5MoeForConditionalGeneration",
        "nvfp4-mixed",
        ("fp8", "nvfp4-w4a4"),
        256,
        True,
        1,
        262144,
        None,
        "model",
    ),
    ("openai--gpt-oss-120b", "GptOssForCausalLM", "mxfp4", ("mxfp4",), 128, False, 0, 131072, None, "model"),
    ("openai--gpt-oss-20b", "GptOssForCausalLM", "mxfp4", ("mxfp4",), 32, False, 0, 131072, None, "model"),
    (
        "unknown--Qwen3.8-27B-INT4-compressed-tensors",
        "Qwen3_5ForConditionalGeneration",
        "int4-w4a16",
        ("int4-w4a16",),
        None,
        True,
        1,
        262144,
        None,
        "model",
    ),
    ("z-lab--Qwen3.6-27B-DFlash", "DFlashDraftModel", "bf16", ("bf16",), None, False, 0, 262144, None, "drafter"),
    ("zai-org--GLM-5-FP8", "GlmMoeDsaForCausalLM", "fp8", ("fp8",), 256, False, 1, 202752, None, "model"),
]
"""Name, architecture, quantization, its parts, experts, vision, MTP layers, context, KV cache, kind."""


@pytest.mark.parametrize("row", EXPECTED, ids=[row[0] for row in EXPECTED])
def test_a_real_configuration(row: tuple[Any, ...]) -> None:
    found = read_checkpoint(CheckpointFiles(json.loads((CONFIGS / f"{row[0]}.json").read_text())))
    assert (
        found.architecture,
        found.quantization,
        found.parts,
        found.experts,
        found.vision,
        found.mtp_layers,
        found.context,
        found.kv_cache,
        found.kind,
    ) == row[1:]
    assert found.moe is (row[4] is not None)


def test_every_configuration_has_its_answer() -> None:
    assert sorted(path.stem for path in CONFIGS.glob("*.json")) == sorted(row[0] for row in EXPECTED)


def shard(**types: str) -> Header:
    return Header({name.replace("__", "."): Tensor(dtype, (4,), 8) for name, dtype in types.items()})


def read(config: dict[str, Any], modelopt: dict[str, Any] | None = None, **more: Any) -> Checkpoint:
    return read_checkpoint(CheckpointFiles(config, modelopt or {}, **more))


INT8 = {"weights": {"num_bits": 8, "type": "int"}}


def modelopt(algorithm: str, **layers: str) -> dict[str, Any]:
    quantized = {name: {"quant_algo": algo} for name, algo in layers.items()}
    return {"quantization": {"quant_algo": algorithm, "kv_cache_quant_algo": "FP8", "quantized_layers": quantized}}


@pytest.mark.parametrize(
    ("config", "separate", "headers", "quantization", "parts"),
    [
        ({}, modelopt("NVFP4"), [shard(a__weight="U8", a__input_scale="F32")], "nvfp4-w4a4", ("nvfp4-w4a4",)),
        ({}, modelopt("NVFP4"), [shard(a__weight="U8", a__weight_scale="F32")], "nvfp4-w4a16", ("nvfp4-w4a16",)),
        ({}, modelopt("NVFP4"), [], "nvfp4-w4a4", ("nvfp4-w4a4",)),
        ({}, modelopt("W4A16_NVFP4"), [], "nvfp4-w4a16", ("nvfp4-w4a16",)),
        ({}, modelopt("MIXED_PRECISION", a="FP8", b="NVFP4"), [], "nvfp4-mixed", ("fp8", "nvfp4-w4a4")),
        ({}, modelopt("MIXED_PRECISION", a="FP8", b="W4A16_NVFP4"), [], "nvfp4-mixed", ("fp8", "nvfp4-w4a16")),
        ({}, modelopt("MIXED_PRECISION"), [], "nvfp4-mixed", ("fp8", "nvfp4-w4a16")),
        ({}, modelopt("FP8_PER_CHANNEL"), [], "fp8", ("fp8",)),
        ({}, modelopt("W4A16_AWQ"), [], "int4-awq", ("int4-awq",)),
        ({}, modelopt("NEW_THING"), [], "new_thing", ("new_thing",)),
        ({"torch_dtype": "float16"}, {}, [], "fp16", ("fp16",)),
        ({"text_config": {"dtype": "float32"}}, {}, [], "fp32", ("fp32",)),
        ({"torch_dtype": "float16"}, {}, [shard(a="BF16")], "bf16", ("bf16",)),
        ({"dtype": "odd"}, {}, [shard(a="U8")], "odd", ("odd",)),
        ({"quantization_config": {"config_groups": {"g": INT8}}}, {}, [], "int8", ("int8",)),
        ({"quantization_config": {"config_groups": {"g": 1}}}, {}, [], "unknown", ("unknown",)),
        ({"quantization_config": "?"}, {"quantization": 3}, [], "unknown", ("unknown",)),
        ({"compression_config": {"quant_method": "bitsandbytes"}}, {}, [], "bitsandbytes", ("bitsandbytes",)),
    ],
)  # fmt: skip
def test_how_weights_are_quantized(
    config: dict[str, Any], separate: dict[str, Any], headers: list[Header], quantization: str, parts: tuple[str, ...]
) -> None:
    found = read(config, separate, headers=headers)
    assert (found.quantization, found.parts) == (quantization, parts)


def test_what_else_the_files_tell() -> None:
    found = read(
        {"transformers_version": "5.1.0", "num_experts": True, "architectures": []},
        modelopt("NVFP4"),
        tokenizer={"tokenizer_class": "TokenizersBackend", "chat_template": "{{ x }}"},
        headers=[shard(a="BF16", b="U8"), shard(c="U8")],
    )
    assert (found.tokenizer, found.transformers, found.chat_template) == ("TokenizersBackend", "5.1.0", True)
    assert (found.kv_cache, found.experts, found.architecture) == ("fp8", None, None)
    assert found.bytes_by_type == {"U8": 16, "BF16": 8}
    assert not read({}).chat_template
    assert read({}, has_template_file=True).chat_template


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({}, 32768),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"type": "yarn", "factor": 4.0}, 32768),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32768),
    ],
)
def test_the_context(rope: dict[str, Any], context: int) -> None:
    assert read({"max_position_embeddings": 32768, "rope_scaling": rope}).context == context


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog(ProfileFiles({"HOME": "/nowhere"}).read)


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("Inferact--Qwen3.8-27B-NVFP4", ["sm120-nvfp4-w4a4"]),
        ("Salyut1--GLM-4.7-NVFP4", ["sm120-nvfp4-moe"]),
        ("nvidia--Qwen3.6-27B-NVFP4", ["sm120-fp8", "sm120-nvfp4-w4a16"]),
        ("openai--gpt-oss-20b", ["sm120-mxfp4"]),
        ("TechxGenus--Meta-Llama-3-70B-Instruct-AWQ", ["sm120-int4"]),
        ("local--Qwen3.8-27B-EXL3", [None]),
    ],
)
def test_the_kernels_on_an_rtx_5090(catalog: Catalog, name: str, paths: list[str | None]) -> None:
    checkpoint = read(json.loads((CONFIGS / f"{name}.json").read_text()))
    rows = catalog.rows("kernels", KernelRow).values()
    assert [row.id if row else None for _, row in kernel_paths(checkpoint, "12.0", rows)] == paths
    assert [row for _, row in kernel_paths(checkpoint, None, rows)] == [None] * len(paths)


def test_the_first_vllm_of_an_architecture(catalog: Catalog) -> None:
    rows = catalog.rows("architectures", ArchitectureRow).values()
    qwen = architecture_row(read({"architectures": ["Qwen3_5ForConditionalGeneration"]}), rows)
    assert qwen is not None
    assert qwen.since_vllm == "0.17.0"
    assert architecture_row(read({}), rows) is None
    listed = [name for row in rows for name in row.architectures]
    assert len(listed) == len(set(listed))
    assert (is_new_enough("0.17.0", "0.17.0"), is_new_enough("v0.9.2", "0.17.0")) == (True, False)
    assert (is_new_enough(None, "0.17.0"), is_new_enough("nightly", "0.17.0"), is_new_enough("0.17", "0.17.0")) == (
        None,
        None,
        True,
    )


WHOLE = weights(b"w", 400)


def test_a_header() -> None:
    length = header_length(WHOLE[:8], len(WHOLE))
    (tensor,) = parse_header(WHOLE[8 : 8 + length], len(WHOLE)).tensors.values()
    assert (tensor.dtype, tensor.size, tensor.shape) == ("U8", len(WHOLE) - 8 - length, (tensor.size,))


@pytest.mark.parametrize(
    ("start", "size", "words"),
    [
        (b"version ", 130, "LFS pointer"),
        (b"", 0, "too short"),
        (b"<html><b", 900, "its header would be"),
        ((1).to_bytes(8, "little"), 900, "its header would be 1 bytes"),
        ((200_000_000).to_bytes(8, "little"), 10**12, "its header would be 200000000"),
    ],
)
def test_what_is_no_safetensors_file(start: bytes, size: int, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        header_length(start, size)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b'{"w": 1}',
        b'{"w": {"dtype": "U8", "shape": [1], "data_offsets": [1]}}',
        b'{"w": {"dtype": "U8", "shape": 1, "data_offsets": [0, 1]}}',
        b'{"w": {"dtype": "U8", "shape": [1], "data_offsets": [5, 1]}}',
        b'{"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 99999]}}',
        b'{"w": {"dtype": "U8", "shape": [1]}}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_header(raw: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_header(raw, len(raw) + 9)
    assert parse_header(b'{"__metadata__": {"format": "pt"}}', 8 + 34).tensors == {}
