"""The model of a rehearsal: a folder with a configuration and no weights, made where a download would be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from aeonctl.adapters.files import write_whole
from aeonctl.core.checkpoint import Checkpoint, CheckpointFiles, read_checkpoint
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.ports import FetchProgress

_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 262144,
    "about": "a model folder that aeonctl made for a rehearsal; there are no weights",
}


class RehearsalHub:
    """ports.ModelHub without a hub: every repository exists, and is empty."""

    def __init__(self, state: Path) -> None:
        self._models = state / "rehearsal-models"

    def locate(self, repo: str, revision: str | None) -> ModelFacts:
        """The folder of a repository, ``present`` once ``fetch`` has made it."""
        folder = self._models / repo.replace("/", "--")
        return ModelFacts(
            repo=repo,
            revision=revision,
            present=(folder / "config.json").is_file(),
            layout=Layout.PLAIN,
            path=str(folder),
            hub_home=str(self._models),
        )

    def folder(self, path: Path) -> ModelFacts:
        """A folder that the user names is played by one of ours, so that nothing of theirs is read."""
        return self.locate(f"folder/{path.name or 'root'}", None)

    def size(self, repo: str, revision: str | None) -> tuple[int, int]:  # noqa: ARG002
        """Nothing is downloaded."""
        return 0, 0

    def fetch(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        """Make the folder."""
        path = Path(self.locate(repo, revision).path) / "config.json"
        content = json.dumps(_CONFIG, indent=2).encode()
        progress(FetchProgress(0, 1, 0, len(content), "config.json"))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
        progress(FetchProgress(1, 1, len(content), len(content), "config.json"))
        return self.locate(repo, revision)

    def verify(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> None:
        """There is nothing to verify."""

    @staticmethod
    def checkpoint(folder: Path) -> Checkpoint:  # noqa: ARG004
        """What the made configuration says."""
        return read_checkpoint(CheckpointFiles(_CONFIG))
