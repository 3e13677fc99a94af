"""Checksums of a snapshot's files against its listing: SHA-256 of large files, git's own hash of small ones."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from aeonctl.adapters.hub_cache import Place, TreeFile
from aeonctl.adapters.hub_progress import Tally
from aeonctl.ports import FetchProgress

_PIECE_BYTES = 4 * 1024 * 1024
_MOST_THREADS = 8


def corrupt_files(
    place: Place, tree: Mapping[str, TreeFile], progress: Callable[[FetchProgress], None]
) -> dict[str, str]:
    """The files whose content is not the listed one, each with the reason. Hashing leaves Python's lock free, so
    several files are read at a time."""
    sizes = {name: file.size for name, file in tree.items()}
    tally = Tally(progress, FetchProgress(0, len(tree), 0, sum(sizes.values())), sizes)
    wrong: dict[str, str] = {}
    stop = threading.Event()

    def check(name: str) -> None:
        if stop.is_set():
            return
        try:
            found = _digest(place.snapshot / name, tree[name], lambda count: tally.step(name, "", count))
        except OSError as error:
            wrong[name] = str(error)
        else:
            if found != tree[name].etag:
                wrong[name] = f"its checksum is {found[:12]}…, and {tree[name].etag[:12]}… is listed"
        tally.finished(name)

    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        try:
            for _ in pool.map(check, sorted(tree, key=lambda name: -sizes[name])):
                pass
        except KeyboardInterrupt:
            stop.set()
            tally.stop()
            raise
    return dict(sorted(wrong.items()))


def _digest(path: Path, file: TreeFile, count: Callable[[int], None]) -> str:
    """The file's hash in the way that its listing has it."""
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            digest.update(view[:size])
            count(size)
    return digest.hexdigest()


def discard(place: Place, names: Mapping[str, str]) -> bool:
    """Take the files' blobs out of the cache, links and all; False when one of them stays."""
    gone = True
    for name in names:
        path = place.snapshot / name
        for part in (Path(os.path.realpath(path)), _blob(path), path):
            try:
                part.unlink(missing_ok=True)
            except OSError:
                gone = False
    return gone


def _blob(path: Path) -> Path:
    """What the snapshot's link names: the repository's own blob, which may be a link again."""
    with suppress(OSError):
        return Path(os.path.normpath(path.parent / path.readlink()))
    return path
