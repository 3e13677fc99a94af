"""Small facts that outlive a run, one JSON file each below the state folder, read whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aeonctl.errors import HostError


def read_record(path: Path) -> dict[str, Any] | None:
    """The record in a file; None when there is none, or when the file is not a whole JSON object."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_record(path: Path, data: dict[str, Any], step: Callable[[str], None] = lambda _name: None) -> None:
    """Write a record so that a reader finds the old one or the new one. HostError state_unwritable."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            half = (text := json.dumps(data, indent=1, ensure_ascii=False))[: len(text) // 2]
            file.write(half)
            file.flush()
            step("record:half")
            file.write(text[len(half) :])
            file.flush()
            os.fsync(file.fileno())
        step("record:written")
        temporary.rename(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HostError(
            "state_unwritable",
            f"{path} could not be written",
            cause=error.strerror or str(error),
            hint="make room on that disk, or set XDG_STATE_HOME to a folder of yours",
            path=str(path),
        ) from error


def remove_record(path: Path) -> None:
    """Forget a record; nothing happens when there is none."""
    path.unlink(missing_ok=True)
