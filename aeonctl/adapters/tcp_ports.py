"""Which TCP ports of this machine are taken, and by whom."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from aeonctl.adapters.proc import ProcTree
from aeonctl.core.hostparse import listeners, socket_inode
from aeonctl.errors import AeonError

Published = Callable[[], Mapping[int, str]]
"""Host ports that running containers publish, with the container's name. May raise AeonError."""

UNKNOWN_OWNER = "an unknown process"


def nothing_published() -> Mapping[int, str]:
    """No containers."""
    return {}


def is_taken(port: int) -> bool | None:
    """Whether binding ``port`` fails because it is taken; None when one may not try (below 1024, for one).

    The option that lets a socket take a port from connections that have ended makes this the question that Docker
    will ask: only a listener says no.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("", port))
        except OSError as error:
            return True if error.errno == errno.EADDRINUSE else None
    return False


class TcpPorts:
    """The ports in use below a /proc.

    ``published`` names containers: a port that Docker forwards without a proxy process has no listener here at all.
    ``taken`` tries to bind, and only corroborates: it knows no owner, but it also sees what /proc cannot, such as a
    port of Windows in WSL's mirrored mode.
    """

    def __init__(
        self,
        tree: ProcTree,
        *,
        published: Published = nothing_published,
        taken: Callable[[int], bool | None] = is_taken,
    ) -> None:
        self._tree = tree
        self._published = published
        self._taken = taken

    def in_use(self, ask: Iterable[int] = ()) -> dict[int, str | None] | None:
        """Every port in use with its owner in words, None for an owner that may not be known; those of ``ask`` are
        also tried. None when the kernel's table cannot be read."""
        table = self._listening()
        if table is None:
            return None
        owners = self._owners({inode for inodes in table.values() for inode in inodes})
        found = {port: _owner(inodes, owners) for port, inodes in table.items()}
        found |= {port: f"container {name}" for port, name in self._containers().items()}
        return found | {port: None for port in ask if port not in found and self._taken(port)}

    def owner(self, port: int) -> str | None:
        """Who has ``port``, in words; None when nobody has."""
        container = self._containers().get(port)
        if container is not None:
            return f"container {container}"
        inodes = (self._listening() or {}).get(port)
        if inodes:
            return _owner(inodes, self._owners(inodes)) or UNKNOWN_OWNER
        return UNKNOWN_OWNER if self._taken(port) else None

    def _containers(self) -> Mapping[int, str]:
        try:
            return self._published()
        except AeonError:
            return {}

    def _listening(self) -> dict[int, set[int]] | None:
        """The inodes of the sockets that listen, by port."""
        tables = [text for name in ("tcp", "tcp6") if (text := self._tree.text("proc/net", name)) is not None]
        if not tables:
            return None
        found: dict[int, set[int]] = {}
        for listener in (listener for table in tables for listener in listeners(table)):
            found.setdefault(listener.port, set()).add(listener.inode)
        return dict(sorted(found.items()))

    def _owners(self, inodes: set[int]) -> dict[int, str]:
        """The process that holds each socket, the oldest where workers inherited it; another user's stay out."""
        owners: dict[int, str] = {}
        for pid in self._pids():
            for inode in self._sockets(pid) & inodes - owners.keys():
                name = self._tree.process(pid)
                owners[inode] = f"process {name} (pid {pid})" if name else f"process {pid}"
            if len(owners) == len(inodes):
                break
        return owners

    def _pids(self) -> list[int]:
        try:
            return sorted(int(entry.name) for entry in self._tree.path("proc").iterdir() if entry.name.isdecimal())
        except OSError:
            return []

    def _sockets(self, pid: int) -> set[int]:
        folder = self._tree.path("proc", str(pid), "fd")
        try:
            links = list(folder.iterdir())
        except OSError:
            return set()
        inodes = (socket_inode(_target(link)) for link in links)
        return {inode for inode in inodes if inode is not None}


def _target(link: Path) -> str:
    """Where a link of /proc leads; nowhere when the file was closed meanwhile."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _owner(inodes: set[int], owners: Mapping[int, str]) -> str | None:
    return next((owners[inode] for inode in sorted(inodes) if inode in owners), None)
