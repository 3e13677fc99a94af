"""Recorded machines: a /proc and /sys below a folder, written from a mapping."""

from __future__ import annotations

from pathlib import Path

LINUX = "6.14.0-36-generic"
WSL2 = "6.6.87.2-microsoft-standard-WSL2"

MEMINFO = "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\nSwapTotal:  0 kB\nSwapFree:  0 kB\n"

NET_HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write files below ``root``; a name that ends in a slash is a folder, ``-> target`` makes a link."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content.removeprefix("-> "))
        else:
            path.write_text(content)
    return root


def linux(root: Path, **more: str) -> Path:
    """A plain machine with 64 GiB."""
    return write_tree(
        root,
        {
            "proc/sys/kernel/osrelease": f"{LINUX}\n",
            "proc/meminfo": MEMINFO,
            **more,
        },
    )


def wsl2(root: Path, **more: str) -> Path:
    """A WSL2 distribution with a GPU."""
    files = {"run/WSL/": "", "usr/lib/wsl/lib/libnvidia-ml.so.1": "", "dev/dxg": ""}
    return linux(root, **{"proc/sys/kernel/osrelease": f"{WSL2}\n", **files, **more})


def listening(port: int, inode: int, *, state: str = "0A", address: str = "0100007F", uid: int = 1000) -> str:
    """One line of /proc/net/tcp."""
    fields = f"{address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000"
    return f"   0: {fields}  {uid}        0 {inode} 1 00000000a6d9c125 100 0 0 10 0\n"
