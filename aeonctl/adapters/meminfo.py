"""This machine's memory: how much is available, who has the rest, and giving cached weights back without root."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aeonctl.adapters.proc import ProcTree
from aeonctl.ports import MemoryUser

_LEAST_USER = 512 * 1024 * 1024
_LEAST_FILE = 1024 * 1024


class SystemMemory:
    """``ports.SystemMemory`` of the machine below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._tree = ProcTree(root)

    def available(self) -> int | None:
        """See ``ports.SystemMemory``."""
        memory = self._tree.memory()
        return None if memory is None else memory.available_bytes

    def users(self) -> tuple[MemoryUser, ...]:
        """See ``ports.SystemMemory``."""
        users: list[MemoryUser] = []
        for entry in self._tree.path("proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            resident = _resident(self._tree.text("proc", entry.name, "status") or "")
            if resident >= _LEAST_USER:
                name = self._tree.process(int(entry.name)) or "a process"
                users.append(MemoryUser(int(entry.name), name, resident))
        return tuple(sorted(users, key=lambda user: -user.resident_bytes)[:5])

    def evict(self, folders: Iterable[Path]) -> int:
        """See ``ports.SystemMemory``."""
        total = 0
        for folder in folders:
            for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
                total += _evict(path)
        return total


def _evict(path: Path) -> int:
    """Ask the kernel to drop one file's pages; what is dirty or mapped stays."""
    try:
        if not path.is_file() or (size := path.stat().st_size) < _LEAST_FILE:
            return 0
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return size


def _resident(status: str) -> int:
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            digits = line.split()[1]
            return int(digits) * 1024 if digits.isdigit() else 0
    return 0
