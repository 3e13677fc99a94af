"""What ``verify`` found, as one JSON file per spec hash."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aeonctl.adapters.files import write_whole
from aeonctl.errors import HostError

_SPEC_HASH = re.compile(r"[0-9a-f]{6,64}")


class FileRecords:
    """ports.Records under ``<state>/verifications``."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "verifications"

    def save(self, spec_hash: str, record: Mapping[str, Any]) -> Path:
        """Write ``<spec-hash>.json`` whole, in the place of an earlier one."""
        path = self._path(spec_hash)
        if path is None:
            message = f"not a spec hash: {spec_hash!r}"
            raise ValueError(message)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(record, indent=1, ensure_ascii=False).encode())
        except OSError as error:
            raise HostError(
                "state_unwritable",
                f"cannot keep the verification in {self._folder}",
                cause=str(error),
                hint="make that folder writable, or set XDG_STATE_HOME to one that is",
                path=str(self._folder),
            ) from error
        return path

    def load(self, spec_hash: str) -> Mapping[str, Any] | None:
        """The record, if it is there and is one."""
        path = self._path(spec_hash)
        try:
            data = None if path is None else json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def _path(self, spec_hash: str) -> Path | None:
        return self._folder / f"{spec_hash}.json" if _SPEC_HASH.fullmatch(spec_hash) else None
