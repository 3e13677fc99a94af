"""The facts that a boot needs about a model folder, read from its config.json; errors as vLLM words them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeonctl.rehearsal_engine.argv import ServeOptions
from aeonctl.rehearsal_engine.settings import Settings

DEFAULT_CONTEXT_TOKENS = 40_960
_GIB = 2**30


class BootError(Exception):
    """A boot that fails in the API server: ``kind`` is the exception's name in vLLM's traceback."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class ModelFacts:
    """What the boot log says about a model: its architecture, context in tokens, weights in GiB and in files."""

    architecture: str
    max_model_len: int
    weights_gib: float
    shards: int
    hybrid: bool


def read_model(options: ServeOptions, settings: Settings) -> ModelFacts:
    """Read the model folder; raises BootError where vLLM would die before its engine starts."""
    config = _read_config(settings.model_dir or Path(options.model), options.model)
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else config
    shards = sorted((settings.model_dir or Path(options.model)).glob("*.safetensors"))
    architectures = config.get("architectures") or ["Qwen3ForCausalLM"]
    return ModelFacts(
        architecture=str(architectures[0]),
        max_model_len=_context(options, settings, inner.get("max_position_embeddings")),
        weights_gib=sum(shard.stat().st_size for shard in shards) / _GIB,
        shards=max(1, len(shards)),
        hybrid="linear_attention" in (inner.get("layer_types") or [])
        or "ConditionalGeneration" in str(architectures[0]),
    )


def _read_config(folder: Path, named: str) -> dict[str, Any]:
    if not folder.is_dir():
        if re.fullmatch(r"[\w.-]+/[\w.-]+", named):
            raise BootError(
                "huggingface_hub.errors.LocalEntryNotFoundError",
                "Cannot find an appropriate cached snapshot folder for the specified revision on the local disk and "
                "outgoing traffic has been disabled.",
            )
        raise BootError(
            "huggingface_hub.errors.HFValidationError",
            "Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
            f"'{named}'. Use `repo_type` argument if needed.",
        )
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise BootError(
            "ValueError",
            f"Invalid repository ID or local directory specified: '{named}'.\nPlease verify the following "
            "requirements:\n"
            "1. Provide a valid Hugging Face repository ID.\n2. Specify a local directory that contains a recognized "
            "configuration file.\n   - For Hugging Face models: ensure the presence of a 'config.json'.",
        ) from None
    return config if isinstance(config, dict) else {}


def _context(options: ServeOptions, settings: Settings, derived: Any) -> int:
    wanted = options.given.get("max-model-len")
    limit = int(derived) if isinstance(derived, int) else None
    if wanted is None or wanted == -1:
        return limit or DEFAULT_CONTEXT_TOKENS
    if limit is not None and wanted > limit and not settings.long_max_model_len and "hf-overrides" not in options.given:
        raise BootError(
            "pydantic_core._pydantic_core.ValidationError",
            f"1 validation error for ModelConfig\n  Value error, User-specified max_model_len ({wanted}) is greater "
            "than the "
            f"derived max_model_len (max_position_embeddings={float(limit)} or model_max_length=None in model's "
            "config.json). "
            "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        )
    return int(wanted)
