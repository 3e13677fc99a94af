"""Whether a download could be written, told before it begins."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from aeonctl.adapters.hub_cache import Place
from aeonctl.core.units import human_bytes
from aeonctl.errors import HostError


def check_writable(place: Place) -> None:
    """HostError model_cache_* when a folder that the download writes to is not ours to write."""
    locks = place.hub / ".locks" / place.root.name
    for folder in (place.snapshot, place.root / "blobs", place.root / "refs", place.tree.parent, locks):
        existing = nearest(folder)
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK, effective_ids=True):
            raise unwritable(place.hub, existing)


def check_room(hub: Path, needed: int) -> None:
    """HostError disk_full unless ``needed`` bytes may still be written below ``hub``."""
    if needed > free_bytes(hub):
        raise disk_full(hub, needed)


def nearest(path: Path) -> Path:
    """``path``, or the nearest of its parents that exists."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def free_bytes(folder: Path) -> int:
    """Bytes that a user may still write where ``folder`` is or will be."""
    return shutil.disk_usage(nearest(folder)).free


def disk_full(hub: Path, needed: int, cause: str | None = None) -> HostError:
    """No room for the model; ``needed`` in bytes."""
    free = free_bytes(hub)
    return HostError(
        "disk_full",
        f"the model needs {human_bytes(needed)} in {hub}, and {human_bytes(free)} are free",
        cause=cause or (),
        hint="make room (hf cache ls; hf cache rm), or set HF_HOME to a larger disk",
        needed=needed,
        free=free,
        path=str(hub),
    )


def unwritable(hub: Path, place: Path, cause: str | None = None) -> HostError:
    """The error for a cache that cannot be written at ``place``: read-only, somebody else's, or broken otherwise."""
    message = f"cannot write the model cache {hub}"
    existing = nearest(place)
    if _is_read_only(existing):
        return HostError(
            "model_cache_read_only",
            message,
            cause=cause or f"{existing} is on a file system that is mounted read-only",
            hint="set HF_HOME to a folder on a disk that may be written",
            path=str(existing),
        )
    owner = existing.lstat().st_uid
    if owner != os.geteuid():
        return HostError(
            "model_cache_not_yours",
            message,
            cause=cause or f"{existing} belongs to {_user(owner)} (a container that ran as root leaves such folders)",
            hint=f"make it yours: sudo chown -R $USER {hub}; or set HF_HOME to a folder that is",
            path=str(existing),
            owner=_user(owner),
        )
    return HostError(
        "model_cache_unwritable",
        message,
        cause=cause or f"{existing} is {'not writable (chmod u+w)' if existing.is_dir() else 'no folder'}",
        hint="make it a folder that you may write, or set HF_HOME to one",
        path=str(existing),
    )


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
