"""``aeonctl show MODEL_DIR``: what a checkpoint is, the kernels that it takes here, and the images that know it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeonctl.core.checkpoint import Checkpoint
from aeonctl.core.host import Host
from aeonctl.core.kernels import (
    ArchitectureRow,
    KernelPath,
    KernelRow,
    architecture_row,
    is_new_enough,
    kernel_paths,
)
from aeonctl.core.model import ModelFacts
from aeonctl.core.rows import ImageRow
from aeonctl.ports import Ports
from aeonctl.workflows.hosts import catalog_of, host_of


@dataclass(frozen=True)
class ImageView:
    """One image for this card: whether its vLLM knows the architecture; None when nobody can tell."""

    id: str
    vllm: str | None
    new_enough: bool | None


@dataclass(frozen=True)
class ModelView:
    """A model's folder on one host."""

    facts: ModelFacts
    checkpoint: Checkpoint
    host: Host
    sm: str | None
    kernels: tuple[KernelPath, ...]
    architecture: ArchitectureRow | None
    images: tuple[ImageView, ...]

    def as_json(self) -> dict[str, Any]:
        """``data`` of ``show MODEL_DIR --json``."""
        row = self.architecture
        return {
            "model": self.facts.model_dump(mode="json"),
            "checkpoint": {**self.checkpoint.model_dump(mode="json"), "moe": self.checkpoint.moe},
            "host": self.host.name,
            "sm": self.sm,
            "kernels": [
                {"part": part, **({} if row is None else row.model_dump(mode="json"))} for part, row in self.kernels
            ],
            "architecture": None if row is None else row.model_dump(mode="json"),
            "images": [{"id": one.id, "vllm": one.vllm, "new_enough": one.new_enough} for one in self.images],
        }


def is_folder_name(text: str) -> bool:
    """Whether a word on the command line names a folder, not a seat."""
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..")


def show_model(folder: str, as_host: str | None, ports: Ports) -> ModelView:
    """Read a folder. ConfigurationError model_folder_invalid as ModelHub.folder."""
    catalog = catalog_of(ports)
    facts = ports.hub.folder(Path(folder))
    checkpoint = ports.hub.checkpoint(Path(facts.path))
    host = host_of(as_host, ports, catalog)
    sm = host.gpus[0].sm if host.gpus else None
    row = architecture_row(checkpoint, catalog.rows("architectures", ArchitectureRow).values())
    kernels = kernel_paths(checkpoint, sm, catalog.rows("kernels", KernelRow).values())
    images = [_judge(image, row) for image in catalog.images.values() if sm is None or sm in image.sm]
    return ModelView(facts, checkpoint, host, sm, kernels, row, tuple(images))


def _judge(image: ImageRow, row: ArchitectureRow | None) -> ImageView:
    new_enough = None if row is None else is_new_enough(image.vllm, row.since_vllm)
    return ImageView(image.id, image.vllm, new_enough)
