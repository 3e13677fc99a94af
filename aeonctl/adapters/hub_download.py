"""One download: what the hub lists, what of it is here, and the files that are fetched.

This module imports huggingface_hub; import it where that is paid for.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, constants, get_token, hf_hub_download
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils._runtime import is_xet_available

from aeonctl.adapters.hub_cache import COMMIT, Place, TreeFile, read_tree, unlike, write_tree
from aeonctl.adapters.hub_errors import HUB_ERRORS, Asked, no_hub, stalled, translated
from aeonctl.adapters.hub_progress import Tally
from aeonctl.adapters.hub_workers import StandstillError, run_all
from aeonctl.ports import FetchProgress

_METADATA_SECONDS = 10.0
_PIECE_BYTES = 1024 * 1024
"""Read from the network at once, per file; huggingface_hub's own 10 MiB cost memory and gain nothing."""


@dataclass(frozen=True)
class Access:
    """Who asks which hub for what. ``token`` False sends none, None is huggingface_hub's own choice."""

    repo: str
    revision: str | None
    hub: Path
    endpoint: str
    token: str | bool | None

    def words(self) -> dict[str, Any]:
        """The arguments that huggingface_hub's functions share."""
        return {"endpoint": self.endpoint, "token": self.token}

    def asked(self, needed: int = 0) -> Asked:
        """The same for an error's message."""
        has_token = bool(self.token if self.token is not None else get_token())
        return Asked(self.repo, self.revision, self.hub, self.endpoint, has_token, needed)


class Download(NamedTuple):
    """What a fetch will do: every file of the commit, those that are not in the snapshot (``wanted``), those of them
    whose bytes are not here at all (``missing``), and those that are here and wrong (``damaged``)."""

    place: Place
    gated: bool
    tree: Mapping[str, TreeFile]
    wanted: tuple[str, ...]
    missing: frozenset[str]
    damaged: frozenset[str]

    @property
    def needed(self) -> int:
        """Bytes still to come."""
        return sum(self.tree[name].size for name in self.missing)

    def start(self) -> FetchProgress:
        """What is here already, and what there is in all."""
        total = sum(file.size for file in self.tree.values())
        return FetchProgress(len(self.tree) - len(self.wanted), len(self.tree), total - self.needed, total)


def prepare(hub: Path, access: Access) -> Download:
    """Ask the hub for the commit and its files, and whether we may have them. Nothing is written."""
    repo = access.repo
    with asking(access):
        api = HfApi(**access.words())
        info = api.model_info(repo, revision=access.revision or "main", timeout=_METADATA_SECONDS)
        commit = info.sha or ""
        if not COMMIT.fullmatch(commit):
            raise no_hub(repo, access.endpoint, f"it names no commit but {commit!r}")
        if info.gated:
            api.auth_check(repo)
        place = Place(hub, repo, commit)
        tree = read_tree(place)
        if tree is None:
            entries = api.list_repo_tree(repo, recursive=True, revision=commit)
            tree = {entry.path: _listed(entry) for entry in entries if isinstance(entry, RepoFile)}
    wrong = unlike(place, tree, look_inside=True)
    damaged = {name for name, size in wrong.items() if size is not None}
    missing = set(damaged)
    for name in wrong.keys() - damaged:
        size = _blob_size(place, tree[name])
        if size != tree[name].size:
            missing.add(name)
            damaged |= {name} if size is not None else set()
    order = sorted(wrong, key=lambda name: -tree[name].size)
    return Download(place, bool(info.gated), tree, tuple(order), frozenset(missing), frozenset(damaged))


def _listed(entry: RepoFile) -> TreeFile:
    if entry.lfs is None:
        return TreeFile(entry.size, entry.blob_id, None, entry.xet_hash)
    return TreeFile(entry.lfs.size, entry.blob_id, entry.lfs.sha256, entry.xet_hash)


def _blob_size(place: Place, file: TreeFile) -> int | None:
    """The size of a file's blob, from another revision or (in the shared store) another repository."""
    blobs = [place.root / "blobs" / file.etag]
    if file.xet_hash:
        blobs.append(place.hub / "blobs" / file.xet_hash[:2] / file.xet_hash)
    for blob in blobs:
        with suppress(OSError):
            return blob.stat().st_size
    return None


def download_files(
    download: Download, access: Access, progress: Callable[[FetchProgress], None], stall_seconds: float
) -> None:
    """Fetch the wanted files. A download from the Xet store that stands still is tried again over plain HTTP."""
    with asking(access, download.needed):
        write_tree(download.place, download.tree)
        try:
            _attempt(download, access, progress, stall_seconds)
        except StandstillError:
            if not is_xet_available() or not any(download.tree[name].xet_hash for name in download.missing):
                raise stalled(access.repo, stall_seconds) from None
            _attempt_without_xet(access, progress, stall_seconds)


def _attempt_without_xet(access: Access, progress: Callable[[FetchProgress], None], stall_seconds: float) -> None:
    rest = prepare(access.hub, access)
    before = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = True
    try:
        _attempt(rest, access, progress, stall_seconds)
    except StandstillError:
        raise stalled(access.repo, stall_seconds) from None
    finally:
        constants.HF_HUB_DISABLE_XET = before


def _attempt(
    download: Download, access: Access, progress: Callable[[FetchProgress], None], stall_seconds: float
) -> None:
    sizes = {name: download.tree[name].size if name in download.missing else 0 for name in download.wanted}
    tally = Tally(progress, download.start(), sizes)

    def fetch(name: str) -> None:
        hf_hub_download(
            access.repo,
            name,
            revision=download.place.commit,
            cache_dir=download.place.hub,
            force_download=name in download.damaged,
            tqdm_class=tally.bar_class(name),
            **access.words(),
        )

    run_all(fetch, download.wanted, tally, stall_seconds)


@contextmanager
def asking(access: Access, needed: int = 0) -> Iterator[None]:
    """Translate what huggingface_hub raises, and keep its own log lines and warnings off the terminal."""
    logger = logging.getLogger("huggingface_hub")
    level, piece = logger.level, constants.DOWNLOAD_CHUNK_SIZE
    logger.setLevel(logging.CRITICAL)
    constants.DOWNLOAD_CHUNK_SIZE = _PIECE_BYTES
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except HUB_ERRORS as error:
        raise translated(error, access.asked(needed)) from error
    except (KeyError, TypeError, AttributeError) as error:  # its JSON has not the fields that a hub's has
        raise no_hub(access.repo, access.endpoint, f"{type(error).__name__}: {error}") from error
    finally:
        logger.setLevel(level)
        constants.DOWNLOAD_CHUNK_SIZE = piece
