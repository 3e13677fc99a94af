"""WSL2's own details: files of the distribution, .wslconfig on Windows, and programs that are asked with a limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from aeonctl.adapters.proc import ProcTree
from aeonctl.core import detailparse
from aeonctl.core.hostdetails import WslDetails

_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")
_NAMES = ("libcuda.so.1", "libnvidia-ml.so.1")
_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
_DEFAULT_TDR = 2
_REG = "mnt/c/Windows/System32/reg.exe"


def wsl_details(
    tree: ProcTree, which: Callable[[str], str | None], seconds: float, unknown: dict[str, str]
) -> WslDetails:
    """Everything that can be read of WSL2 here. Each program is asked for at most ``seconds``. Raises nothing."""
    status = tree.text("var/lib/dpkg/status")
    if status is None:
        unknown["details.wsl.linux_packages"] = "/var/lib/dpkg/status cannot be read"
    return WslDetails(
        version=_wslinfo(tree, "--version", seconds, unknown, "version"),
        networking=_wslinfo(tree, "--networking-mode", seconds, unknown, "networking"),
        gpu_device=tree.exists("dev/dxg"),
        linux_packages=None if status is None else detailparse.driver_packages(status),
        foreign_libraries=_foreign_libraries(tree),
        nvidia_smi=_nvidia_smi(tree, which),
        tdr_seconds=_tdr(tree, seconds, unknown),
        config=_config(tree, unknown),
        windows_free_bytes=_windows_free(tree, unknown),
    )


def run(command: Sequence[str], seconds: float) -> tuple[int, str] | None:
    """A program's exit code and output; None when it cannot be run or takes too long."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout.decode("utf-8", "replace").replace("\0", "")


def _wslinfo(tree: ProcTree, question: str, seconds: float, unknown: dict[str, str], fact: str) -> str | None:
    program = tree.path("bin/wslinfo")
    answer = run([str(program), question], seconds) if program.exists() else None
    if answer is None or answer[0] != 0 or not answer[1].strip():
        unknown[f"details.wsl.{fact}"] = "wslinfo gave no answer"
        return None
    text = answer[1].strip()
    return detailparse.wsl_version(text) if fact == "version" else text.split()[0].lower()


def _foreign_libraries(tree: ProcTree) -> tuple[str, ...]:
    """Libraries of a driver that are none of Windows'."""
    found = []
    home = os.path.realpath(tree.path("usr/lib/wsl"))
    for folder in _FOLDERS:
        for name in _NAMES:
            path = tree.path(folder, name)
            real = os.path.realpath(path)
            if path.exists() and not real.startswith(home + os.sep):
                found.append(f"/{folder}/{name}")
    return tuple(found)


def _nvidia_smi(tree: ProcTree, which: Callable[[str], str | None]) -> Literal["on-path", "off-path", "absent"]:
    if which("nvidia-smi"):
        return "on-path"
    return "off-path" if tree.exists("usr/lib/wsl/lib/nvidia-smi") else "absent"


def _tdr(tree: ProcTree, seconds: float, unknown: dict[str, str]) -> int | None:
    """Windows' registry through a program of Windows, which runs only where interop is on."""
    program = tree.path(_REG)
    if not program.exists():
        unknown["details.wsl.tdr_seconds"] = "programs of Windows cannot be run from here"
        return None
    answer = run([str(program), "query", _KEY, "/v", "TdrDelay"], seconds)
    if answer is None:
        unknown["details.wsl.tdr_seconds"] = "programs of Windows cannot be run from here"
        return None
    return _DEFAULT_TDR if answer[0] == 1 else detailparse.tdr_delay(answer[1])


def _config(tree: ProcTree, unknown: dict[str, str]) -> dict[str, str] | None:
    """.wslconfig of the one Windows user who has one; ``{}`` when Windows' users can be seen and none has."""
    users = tree.path("mnt/c/Users")
    try:
        found = [path for folder in users.iterdir() if _is_file(path := folder / ".wslconfig")]
    except OSError:
        unknown["details.wsl.config"] = "Windows' users cannot be seen from here (/mnt/c/Users)"
        return None
    if len(found) > 1:
        unknown["details.wsl.config"] = "several users of this PC have a .wslconfig"
        return None
    if not found:
        return {}
    try:
        return detailparse.wslconfig(found[0].read_text(encoding="utf-8", errors="replace"))
    except OSError:
        unknown["details.wsl.config"] = ".wslconfig cannot be read"
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _windows_free(tree: ProcTree, unknown: dict[str, str]) -> int | None:
    try:
        space = os.statvfs(tree.path("mnt/c"))
    except OSError:
        unknown["details.wsl.windows_free_bytes"] = "Windows' disk is not mounted (/mnt/c)"
        return None
    return space.f_bavail * space.f_frsize
