"""The hub's settings and the state of its cache. The token is never read further than to see that it is there."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aeonctl.core.detailparse import bare_endpoint
from aeonctl.core.hostdetails import HubDetails

TokenFrom = Literal["environment", "file", "unreadable", "none"]

_TRUE = {"1", "ON", "YES", "TRUE"}
_MOST_ENTRIES = 50_000


def hub_details(environment: Mapping[str, str], home: Path, hub: Path, seconds: float) -> HubDetails:
    """The settings, and what a look through the cache of at most ``seconds`` found. Raises nothing."""
    token, exposed = _token(environment, home)
    scan = _scan(hub, seconds)
    switches = (environment.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return HubDetails(
        token=token,
        token_exposed=exposed,
        endpoint=bare_endpoint((environment.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")),
        offline=any(switch in _TRUE for switch in switches),
        writable=_writable(hub),
        foreign_files=scan.foreign,
        dangling=tuple(dict.fromkeys(scan.dangling)),
        leftovers=scan.leftovers,
        leftover_bytes=scan.leftover_bytes,
        scanned=scan.whole,
    )


def _token(environment: Mapping[str, str], home: Path) -> tuple[TokenFrom, bool | None]:
    """Where a token is from, and whether others may read its file."""
    if environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN"):
        return "environment", None
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface"
    folder = Path(environment.get("HF_HOME") or cache).expanduser()
    path = Path(environment.get("HF_TOKEN_PATH") or folder / "token")
    try:
        state = path.stat()
    except FileNotFoundError:
        return "none", None
    except OSError:
        return "unreadable", None
    if state.st_size == 0:
        return "none", None
    if not os.access(path, os.R_OK):
        return "unreadable", None
    return "file", bool(state.st_mode & (stat.S_IRGRP | stat.S_IROTH)) and _reachable(path.parent)


def _reachable(folder: Path) -> bool:
    """Whether others may enter every folder on the way."""
    return all(parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for parent in (folder, *folder.parents))


def _writable(hub: Path) -> bool | None:
    for folder in (hub, *hub.parents):
        try:
            if folder.exists():
                return os.access(folder, os.W_OK | os.X_OK)
        except OSError:
            return None
    return None


@dataclass
class _Scan:
    foreign: int = 0
    leftovers: int = 0
    leftover_bytes: int = 0
    dangling: list[str] = field(default_factory=list)
    whole: bool = True


def _scan(hub: Path, seconds: float) -> _Scan:
    """Look at every entry of the cache, as far as the time goes."""
    found = _Scan()
    end = time.monotonic() + seconds
    user = os.getuid()
    for count, entry in enumerate(_entries(hub, found)):
        if count >= _MOST_ENTRIES or time.monotonic() > end:
            found.whole = False
            break
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        found.foreign += user != 0 and state.st_uid != user
        if entry.name.endswith(".incomplete"):
            found.leftovers += 1
            found.leftover_bytes += state.st_size
        elif stat.S_ISLNK(state.st_mode) and not os.path.exists(entry.path):  # noqa: PTH110 - a str of scandir
            found.dangling.append(_repository(Path(entry.path), hub))
    return found


def _entries(folder: Path, found: _Scan) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder; a folder that may not be read makes the look incomplete."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError:
        found.whole = False
        return
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path), found)


def _repository(path: Path, hub: Path) -> str:
    """The repository that an entry of the cache belongs to."""
    top = path.relative_to(hub).parts[0]
    return top.removeprefix("models--").replace("--", "/") if top.startswith("models--") else top
