"""Reading a machine's /proc and /sys, or a recorded copy of them under another root."""

from __future__ import annotations

from pathlib import Path

from aeonctl.core.host import Memory
from aeonctl.core.hostparse import PlatformFacts, memory_of, platform_of, process_name

_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")


class ProcTree:
    """The files of a kernel below ``root``. What cannot be read is None; nothing raises."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def path(self, *parts: str) -> Path:
        """The path of a file below the root."""
        return self.root.joinpath(*parts)

    def text(self, *parts: str) -> str | None:
        """A file's text, or None when it cannot be read (absent, or another user's)."""
        try:
            return self.path(*parts).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            return None

    def exists(self, *parts: str) -> bool:
        """Whether there is such a file, as far as one may look."""
        try:
            return self.path(*parts).exists()
        except OSError:
            return False

    def platform(self) -> PlatformFacts:
        """linux or wsl2, with the corroborators looked up."""
        return platform_of(
            self.text("proc/sys/kernel/osrelease"),
            run_wsl=self.exists("run/WSL"),
            interop=self.exists("proc/sys/fs/binfmt_misc/WSLInterop"),
            wslinfo=self.exists("init") and self.exists("bin/wslinfo"),
            wsl_library=self.exists("usr/lib/wsl/lib"),
        )

    def memory(self) -> Memory | None:
        """System memory; None when /proc/meminfo cannot be read."""
        text = self.text("proc/meminfo")
        return None if text is None else memory_of(text)

    def process(self, pid: int) -> str | None:
        """A process's name; None when it has ended or is in another PID namespace."""
        return process_name(self.text("proc", str(pid), "comm"), self.text("proc", str(pid), "cmdline"))

    def nvidia_cards(self) -> int | None:
        """How many NVIDIA display devices the PCI bus shows, driver or not; None when one cannot look."""
        try:
            devices = [device.name for device in self.path("sys/bus/pci/devices").iterdir()]
        except OSError:
            return None
        return sum(self._is_nvidia_card(device) for device in devices)

    def _is_nvidia_card(self, device: str) -> bool:
        vendor = self.text("sys/bus/pci/devices", device, "vendor") or ""
        kind = self.text("sys/bus/pci/devices", device, "class") or ""
        return vendor.strip() == _NVIDIA and kind.startswith(_DISPLAY)
