"""Which kernels a checkpoint will run on, and whether an image knows its architecture: rows under profiles/."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from aeonctl.core.base import Row
from aeonctl.core.checkpoint import Checkpoint
from aeonctl.core.host import SM
from aeonctl.core.rows import Id


class KernelRow(Row):
    """A kind of weight on a compute capability: the kernels that vLLM takes, and whether they are native to the card.

    ``moe`` narrows it to mixtures of experts (or to dense models); ``advice`` is what its user should know.
    """

    id: Id
    quantization: tuple[str, ...]
    sm: tuple[SM, ...]
    moe: bool | None = None
    path: str
    native: bool
    since_vllm: str | None = None
    advice: str | None = None


class ArchitectureRow(Row):
    """The first vLLM that is known to serve an architecture, and the transformers that it needs."""

    id: Id
    architectures: tuple[str, ...]
    since_vllm: str
    transformers: str | None = None


class KernelPath(NamedTuple):
    """One part of a checkpoint on a card: the row that knows it, or None."""

    part: str
    row: KernelRow | None


def kernel_paths(checkpoint: Checkpoint, sm: str | None, rows: Iterable[KernelRow]) -> tuple[KernelPath, ...]:
    """For each kind of weight in it, the row that fits best: one for its shape before one for any shape."""
    known = list(rows)
    paths = []
    for part in checkpoint.parts:
        fits = [row for row in known if part in row.quantization and sm in row.sm and row.moe in (None, checkpoint.moe)]
        fits.sort(key=lambda row: row.moe is None)
        paths.append(KernelPath(part, fits[0] if fits else None))
    return tuple(paths)


def architecture_row(checkpoint: Checkpoint, rows: Iterable[ArchitectureRow]) -> ArchitectureRow | None:
    """The row that lists the checkpoint's architecture."""
    return next((row for row in rows if checkpoint.architecture in row.architectures), None)


def is_new_enough(version: str | None, least: str) -> bool | None:
    """Whether a release is at least another; None when it is not known, or is no release's number."""
    have, need = _release(version), _release(least)
    return None if have is None or need is None else have >= need


def _release(version: str | None) -> tuple[int, ...] | None:
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return None if match is None else tuple(int(part or 0) for part in match.groups())
