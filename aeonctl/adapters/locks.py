"""Locks between processes by ``flock``: the kernel drops one when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from aeonctl.errors import HostError
from aeonctl.ports import Clock

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class FileLocks:
    """ports.Locks as files under ``<state>/locks``. A lock's file stays behind; only the kernel's lock on it counts."""

    def __init__(self, state: Path, clock: Clock) -> None:
        self._folder = state / "locks"
        self._clock = clock

    @contextmanager
    def hold(self, name: str, who: str) -> Iterator[str | None]:
        """Take the lock without waiting: yields None when it is taken, else the words of whoever holds it.

        HostError state_unwritable when the state folder cannot be written or its file system has no locks.
        """
        descriptor = self._open(name)
        try:
            if self._take(descriptor):
                note = {"pid": os.getpid(), "who": who, "since": self._clock.timestamp()}
                self._write(descriptor, json.dumps(note))
                try:
                    yield None
                finally:
                    os.ftruncate(descriptor, 0)
            else:
                yield holder_words(os.pread(descriptor, 65536, 0))
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        if not _NAME.fullmatch(name):
            message = f"not a name for a lock: {name!r}"
            raise ValueError(message)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error

    def _take(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._unwritable(error) from error
        return True

    def _write(self, descriptor: int, text: str) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> HostError:
        return HostError(
            "state_unwritable",
            f"cannot take a lock in {self._folder}",
            cause=str(error),
            hint="make that folder writable, or set XDG_STATE_HOME to one on a local disk",
            path=str(self._folder),
        )


def holder_words(note: bytes) -> str:
    """What a lock's file says of its holder, in words; a file that is still empty or unreadable has no name."""
    try:
        data = json.loads(note)
        since = datetime.fromtimestamp(data["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{data['who']} (pid {data['pid']}, since {since})"
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return "another process"
