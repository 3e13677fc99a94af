"""aeonctl's own locks, records and containers, as doctor sees them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from aeonctl.adapters.locks import holder_words
from aeonctl.core.container import LABEL
from aeonctl.core.hostdetails import OwnContainer, OwnState
from aeonctl.errors import AeonError
from aeonctl.ports import EngineRecord


class OwnEngines(Protocol):
    """What lists our containers: the Docker engine's adapter."""

    def ours(self) -> Iterable[EngineRecord]:
        """Every engine with our labels, running or not. May raise AeonError."""


def own_state(state: Path, engines: OwnEngines | None, unknown: dict[str, str]) -> OwnState:
    """The state folder, and our containers unless ``engines`` is None. Raises nothing."""
    held, stale = _locks(state / "locks")
    containers: tuple[OwnContainer, ...] | None = None
    if engines is None:
        unknown["details.own.containers"] = "Docker does not answer"
    else:
        try:
            containers = tuple(_container(record, state) for record in engines.ours())
        except AeonError as error:
            unknown["details.own.containers"] = error.message
    return OwnState(writable=_writable(state), held=held, stale=stale, containers=containers)


def _container(record: EngineRecord, state: Path) -> OwnContainer:
    spec_hash = record.labels.get(f"{LABEL}.spec-hash", "")
    proof = state / "verifications" / f"{spec_hash}.json"
    verified = bool(spec_hash) and "/" not in spec_hash and proof.is_file()
    return OwnContainer(name=record.name, restart=record.restart_policy, status=str(record.status), verified=verified)


def _writable(state: Path) -> bool:
    """Whether the folder can be written, or made."""
    for folder in (state, *state.parents):
        if folder.exists():
            return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return False


def _locks(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of living holders, and those that dead ones left behind."""
    held: list[str] = []
    stale: list[str] = []
    for path in sorted(folder.glob("*.lock")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(f"{path.stem}: {holder_words(os.pread(descriptor, 65536, 0))}")
        except OSError:
            continue
        else:
            if note := os.pread(descriptor, 65536, 0):
                stale.append(f"{path.stem}: {holder_words(note)}")
        finally:
            os.close(descriptor)
    return tuple(held), tuple(stale)
