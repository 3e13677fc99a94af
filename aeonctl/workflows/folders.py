"""A model as a user writes it: a repository's name, or a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from aeonctl.core.secrets import without_login
from aeonctl.errors import ConfigurationError
from aeonctl.ports import ModelHub

if TYPE_CHECKING:
    from aeonctl.core.model import ModelFacts


_REPO_PART = re.compile(r"\w[\w.\-]{0,95}", re.ASCII)
_REVISION = re.compile(r"(?:[\w\-][\w.\-]*(?:/[\w\-][\w.\-]*)*)?", re.ASCII)


def refuse_bare_folder(named: str, hub: ModelHub, command: str) -> None:
    """ConfigurationError model_name_ambiguous when ``named`` is a model's folder here, written without ./ in front.

    A rehearsal's hub plays folders under names of its own, so there nothing is ambiguous.
    """
    try:
        is_folder = hub.folder(Path(named)).repo is None
    except ConfigurationError:
        return
    if is_folder:
        raise ConfigurationError(
            "model_name_ambiguous",
            f"{named} is a folder here, and reads like another name",
            cause="a folder is written with ./ in front",
            hint=f"{command} ./{named}",
        )


def named_model(named: str, hub: ModelHub) -> ModelFacts:
    """``REPO[@REVISION]`` in the hub's cache, or a folder (``/…``, ``./…``, ``~/…``)."""
    if named.startswith(("/", "./", "../", "~")) or named in (".", ".."):
        return hub.folder(Path(named)).model_copy(update={"repo": None})
    repo, _, revision = named.partition("@")
    parts = repo.split("/")
    if len(parts) != 2 or not all(_REPO_PART.fullmatch(part) for part in parts) or not _REVISION.fullmatch(revision):
        raise ConfigurationError(
            "model_name_invalid",
            f"not a model: {without_login(named)[:200]!r}",
            cause="a model is ORGANISATION/NAME[@REVISION] on the hub, or a folder written /like/this or ./like/this",
            hint=f"for a folder write ./{without_login(named)[:200]}" if named else "--model Qwen/Qwen3-0.6B",
        )
    facts = hub.locate(repo, revision or None)
    if not facts.present:
        refuse_bare_folder(named, hub, "--model")
    return facts
