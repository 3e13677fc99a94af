"""The bundled profiles, read from the source tree as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from aeonctl.core.catalog import Catalog, Document

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "profiles"
DATA = Path(__file__).resolve().parent


def files(kind: str) -> list[Path]:
    """Every row file of a kind, in the order of their names."""
    return sorted(path for path in (PROFILES / kind).glob("**/*") if path.suffix in (".yaml", ".json"))


def load(path: Path) -> Any:
    """A file's content as plain data."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def read(kind: str) -> Iterator[Document]:
    """The catalogue's reader over the source tree."""
    for path in files(kind):
        yield Document(str(path.relative_to(ROOT)), path.stem, load(path))


def catalog() -> Catalog:
    """The catalogue of the bundled profiles."""
    return Catalog(read)
