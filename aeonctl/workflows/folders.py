"""Folders that are written like names of something else."""

from __future__ import annotations

from pathlib import Path

from aeonctl.errors import ConfigurationError
from aeonctl.ports import ModelHub


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
