"""The files of a model's folder that tell what it is."""

from __future__ import annotations

from pathlib import Path

from aeonctl.adapters.hub_cache import read_json
from aeonctl.adapters.weights import read_header
from aeonctl.core.checkpoint import CheckpointFiles


def read_checkpoint_files(folder: Path) -> CheckpointFiles:
    """Everything but the weights themselves. OSError, or HeaderError of a damaged shard."""
    headers = [read_header(path, path.stat().st_size) for path in sorted(folder.glob("*.safetensors"))]
    templates = ("chat_template.jinja", "chat_template.json")
    return CheckpointFiles(
        config=read_json(folder / "config.json") or {},
        modelopt=read_json(folder / "hf_quant_config.json") or {},
        tokenizer=read_json(folder / "tokenizer_config.json") or {},
        has_template_file=any((folder / name).is_file() for name in templates),
        headers=headers,
    )
