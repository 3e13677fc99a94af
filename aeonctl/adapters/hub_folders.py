"""A folder that the user names as a model: what it is, or why it is none."""

from __future__ import annotations

from pathlib import Path

from aeonctl.adapters.hub_cache import place_of, read_plain, read_snapshot
from aeonctl.core.model import ModelFacts
from aeonctl.errors import ConfigurationError


def read_folder(folder: Path) -> tuple[ModelFacts, dict[str, str]]:
    """What is in a folder, a snapshot of a cache or any other, and the problems of its files by path. OSError."""
    place = place_of(folder)
    return read_snapshot(place) if place else read_plain(folder)


def check_folder(folder: Path, named: Path) -> None:
    """Refuse what is no model's folder, each kind in its own words."""
    if not folder.exists():
        raise bad_folder(
            named, f"there is no {folder}", "a repository is written org/name, a folder with a leading / or ./"
        )
    if not folder.is_dir():
        raise bad_folder(named, "it is a file", f"name the folder that it is in: {folder.parent}")
    if (folder / "config.json").exists() or (folder / "config.json").is_symlink():
        return
    if any(folder.glob("**/*.gguf")):
        raise bad_folder(
            named, "it holds GGUF files only", "these seats serve safetensors; name a folder with config.json"
        )
    if (folder / "adapter_config.json").exists():
        raise bad_folder(named, "it holds an adapter (LoRA) only", "name the base model's folder as --model")
    snapshots = sorted(folder.glob("snapshots/*/config.json"))
    hint = f"did you mean {snapshots[-1].parent}?" if snapshots else "name the folder with config.json in it"
    raise bad_folder(named, "there is no config.json in it", hint)


def bad_folder(named: Path, cause: str, hint: str) -> ConfigurationError:
    """The error for a folder that no engine could load."""
    return ConfigurationError(
        "model_folder_invalid", f"{named} is not a model's folder", cause=cause, hint=hint, path=str(named)
    )
