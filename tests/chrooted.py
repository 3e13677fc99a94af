"""A root of its own with bind mounts, as a container has, made by the kernel without any container engine.

Run as a program: ``chrooted.py NEW_ROOT MOUNTS_JSON PATHS_JSON`` prints, for each path, its device and inode as found
inside (null where there is nothing). The namespace, and the mounts in it, end with the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aeonctl.core.container import Mount

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def can_chroot() -> bool:
    """Whether this user may make mounts and a root of its own."""
    return os.geteuid() == 0


def identities(new_root: Path, mounts: tuple[Mount, ...], paths: list[str]) -> list[list[int] | None]:
    """Device and inode of each path inside a root that holds ``mounts`` and nothing else."""
    pairs = [[mount.source, mount.target] for mount in mounts]
    command = [sys.executable, "-I", "-S", __file__, str(new_root), json.dumps(pairs), json.dumps(paths)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    found: list[list[int] | None] = json.loads(ran.stdout)
    return found


def _inside(new_root: str, mounts: list[list[str]], paths: list[str]) -> list[list[int] | None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(code: int) -> None:
        if code:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    checked(libc.unshare(_CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    for source, target in sorted(mounts, key=lambda pair: pair[1].count("/")):
        at = Path(new_root + target)
        if Path(source).is_dir():
            at.mkdir(parents=True, exist_ok=True)
        else:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.touch()
        checked(libc.mount(source.encode(), str(at).encode(), None, _MS_BIND, None))
    os.chroot(new_root)
    os.chdir("/")
    return [_identity(path) for path in paths]


def _identity(path: str) -> list[int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return [found.st_dev, found.st_ino]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_inside(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))))
