"""What a checkpoint is, read from the files that come with its weights: config.json, ModelOpt's hf_quant_config.json,
the tokenizer's configuration, the chat template, and the headers of the safetensors files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.safetensors import Header

Json = Mapping[str, Any]


@dataclass(frozen=True)
class CheckpointFiles:
    """The files as they were read; an empty mapping for one that is not there."""

    config: Json
    modelopt: Json = field(default_factory=dict)
    tokenizer: Json = field(default_factory=dict)
    has_template_file: bool = False
    headers: Sequence[Header] = ()


class Checkpoint(Value):
    """One model (or drafter). ``quantization`` is the name that kernels are chosen by; a mixture's ``parts`` are the
    names of what is in it. ``context`` is in tokens; ``bytes_by_type`` counts the weights per type as stored."""

    architecture: str | None
    model_type: str | None
    kind: Literal["model", "drafter"]
    quantization: str
    parts: tuple[str, ...]
    kv_cache: str | None
    experts: int | None
    vision: bool
    mtp_layers: int
    chat_template: bool
    tokenizer: str | None
    transformers: str | None
    context: int | None
    bytes_by_type: dict[str, int] = Field(default_factory=dict)

    @property
    def moe(self) -> bool:
        """Whether it is a mixture of experts."""
        return self.experts is not None


def read_checkpoint(files: CheckpointFiles) -> Checkpoint:
    """Everything above; what the files do not say is None, and never guessed."""
    config = files.config
    text = _mapping(config.get("text_config"))
    architectures = config.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else None
    parts = tuple(sorted(set(_parts(files))))
    return Checkpoint(
        architecture=architecture,
        model_type=_text(config.get("model_type")),
        kind="drafter" if _is_drafter(config, architecture) else "model",
        quantization=_one_name(parts),
        parts=parts,
        kv_cache=_kv_cache(files),
        experts=_first_number(config, text, names=("num_experts", "n_routed_experts", "num_local_experts")),
        vision=isinstance(config.get("vision_config"), dict),
        mtp_layers=_first_number(config, text, names=("mtp_num_hidden_layers", "num_nextn_predict_layers")) or 0,
        chat_template=files.has_template_file or bool(files.tokenizer.get("chat_template")),
        tokenizer=_text(files.tokenizer.get("tokenizer_class")),
        transformers=_text(config.get("transformers_version")),
        context=_context(config, text),
        bytes_by_type=_bytes_by_type(files.headers),
    )


def _is_drafter(config: Json, architecture: str | None) -> bool:
    names = ("Draft", "Eagle", "Medusa", "MTPModel")
    return "dflash_config" in config or any(name in (architecture or "") for name in names)


def _context(config: Json, text: Json) -> int | None:
    """The longest sequence; a YaRN factor stretches what the model was trained on."""
    for part in (text, config):
        length = part.get("max_position_embeddings")
        if isinstance(length, int) and not isinstance(length, bool):
            scaling = _mapping(part.get("rope_scaling") or part.get("rope_parameters"))
            trained, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
            if scaling.get("rope_type", scaling.get("type")) == "yarn" and isinstance(factor, int | float):
                return max(length, int(factor * trained)) if isinstance(trained, int) else length
            return length
    return None


def _kv_cache(files: CheckpointFiles) -> str | None:
    """The type that the checkpoint itself asks for its KV cache; vLLM follows it where nobody says otherwise."""
    named = _mapping(files.modelopt.get("quantization")).get("kv_cache_quant_algo")
    scheme = _mapping(_quantization_config(files.config).get("kv_cache_scheme"))
    if isinstance(named, str):
        return named.lower()
    return f"{scheme.get('type', 'float')}{scheme['num_bits']}".replace("float", "fp") if "num_bits" in scheme else None


def _bytes_by_type(headers: Sequence[Header]) -> dict[str, int]:
    total: dict[str, int] = {}
    for header in headers:
        for name, count in header.bytes_by_type().items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _quantization_config(config: Json) -> Json:
    inline = config.get("quantization_config") or _mapping(config.get("text_config")).get("quantization_config")
    return _mapping(inline) or _mapping(config.get("compression_config"))


def _parts(files: CheckpointFiles) -> Iterator[str]:
    """The kinds of weight in it, by what quantized them."""
    inline = _quantization_config(files.config)
    modelopt = _mapping(files.modelopt.get("quantization"))
    layers = _mapping(modelopt.get("quantized_layers") or inline.get("quantized_layers"))
    algorithm = str(modelopt.get("quant_algo") or inline.get("quant_algo") or "").upper()
    method = str(inline.get("quant_method") or "").lower()
    groups = [_mapping(group) for group in _mapping(inline.get("config_groups")).values()]
    if layers:
        yield from (
            _algorithm(str(_mapping(layer).get("quant_algo") or "").upper(), files) for layer in layers.values()
        )
    elif groups:
        yield from (_group(group) for group in groups)
    elif algorithm == "MIXED_PRECISION":
        yield from ("fp8", "nvfp4-w4a16")
    elif algorithm:
        yield _algorithm(algorithm, files)
    elif method:
        yield _METHODS.get(method, method)
    else:
        yield _plain(files)
    if "fp4" in str(files.config.get("expert_dtype")):
        yield "mxfp4"


_METHODS = {
    "auto-round": "int4-autoround",
    "awq": "int4-awq",
    "awq_marlin": "int4-awq",
    "gptq": "int4-gptq",
    "gptq_marlin": "int4-gptq",
    "fbgemm_fp8": "fp8",
    "gpt_oss_mxfp4": "mxfp4",
}


def _algorithm(name: str, files: CheckpointFiles) -> str:
    """ModelOpt's name for a way to quantize. NVFP4 has activation scales, unless the headers show that it has none."""
    if name == "NVFP4":
        names = [tensor for header in files.headers for tensor in header.tensors]
        has_scales = any(tensor.endswith(".input_scale") for tensor in names)
        return "nvfp4-w4a4" if has_scales or not names else "nvfp4-w4a16"
    if "NVFP4" in name:
        return "nvfp4-w4a16"
    if name.startswith("FP8"):
        return "fp8"
    return {"W4A16_AWQ": "int4-awq", "W4A8_AWQ": "int4-awq", "MXFP4": "mxfp4", "MXFP8": "mxfp8"}.get(name, name.lower())


def _group(group: Json) -> str:
    """One group of compressed-tensors: bits and type of its weights, and of its activations when they are quantized."""
    weights, activations = _mapping(group.get("weights")), _mapping(group.get("input_activations"))
    bits, kind = weights.get("num_bits"), weights.get("type")
    if kind == "float" and bits == 4:
        return "nvfp4-w4a4" if activations.get("num_bits") == 4 else "nvfp4-w4a16"
    if kind == "float" and bits == 8:
        return "fp8"
    if bits == 4:
        return "int4-w4a16"
    return "int8" if bits == 8 else "unknown"


def _plain(files: CheckpointFiles) -> str:
    """Weights that nobody quantized: their type by the headers, else by the configuration."""
    names = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}
    stored = next(iter(_bytes_by_type(files.headers)), None)
    if stored in names:
        return names[str(stored)]
    text = _mapping(files.config.get("text_config"))
    for part in (files.config, text):
        named = part.get("dtype") or part.get("torch_dtype")
        if isinstance(named, str):
            return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(named, named)
    return "unknown"


def _one_name(parts: tuple[str, ...]) -> str:
    """A single kind's own name; a mixture with NVFP4 in it is ``nvfp4-mixed``, any other names what is in it."""
    if len(parts) == 1:
        return parts[0]
    return "nvfp4-mixed" if any(part.startswith("nvfp4") for part in parts) else "+".join(parts)


def _first_number(*configs: Json, names: tuple[str, ...]) -> int | None:
    for config in configs:
        for name in names:
            value = config.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
