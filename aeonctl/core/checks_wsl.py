"""Checks of the Linux inside Windows: what the guest was given, and what Windows does behind its back."""

from __future__ import annotations

import math

from aeonctl.core.checks import Finding, not_here, unknown
from aeonctl.core.host import DockerFlavor, Host, Platform
from aeonctl.core.units import GIB, human_bytes, version_key

_ENOUGH_GIB = 24
_SWAP_GIB = 8
_TDR_ENOUGH = 10
_FIXED_IN = (2, 7)
_BLACKWELL = "12.0"
_WINDOWS_ROOM_BYTES = 40 * 10**9


def is_wsl(host: Host) -> bool:
    """True inside WSL2."""
    return host.platform is Platform.WSL2


def wslconfig_lines(total_bytes: int, config: dict[str, str] | None, *, wanted_gib: int = _ENOUGH_GIB) -> list[str]:
    """What to write into .wslconfig: memory and swap for this machine.

    Without a ``memory=`` of its own, WSL2 gets half of the PC's memory, so the PC has twice what is seen; Windows is
    left a quarter of it and never less than 6 GiB. A PC whose size cannot be concluded is told what is wanted.
    """
    seen = math.ceil(total_bytes / GIB)
    by_default = config is not None and "wsl2.memory" not in config
    pc = 2 * seen if by_default else None
    memory = max(wanted_gib, seen) if pc is None else max(seen, min(pc - max(6, pc // 4), max(wanted_gib, pc * 3 // 4)))
    return ["[wsl2]", f"memory={memory}GB", f"swap={max(_SWAP_GIB, math.ceil(memory / 4))}GB"]


def _config_facts(host: Host) -> dict[str, object]:
    total = host.memory.total_bytes or 0
    lines = wslconfig_lines(total, host.details.wsl.config)
    return {"lines": "\\n".join(lines), "shown": ", ".join(lines)}


def wsl_memory(host: Host) -> Finding:
    """Whether the guest's memory is enough to load a large model."""
    if not is_wsl(host):
        return not_here("wsl-memory")
    total = host.memory.total_bytes
    if total is None:
        return unknown("wsl-memory", host.unknown.get("memory"))
    facts = {"total": f"{total / GIB:.1f} GiB", **_config_facts(host)}
    return Finding("wsl-memory", "little" if total < _ENOUGH_GIB * GIB else "enough", facts)


def wsl_swap(host: Host) -> Finding:
    """Whether the guest has swap to fall back on while a checkpoint streams through."""
    if not is_wsl(host):
        return not_here("wsl-swap")
    total, swap = host.memory.total_bytes, host.memory.swap_total_bytes
    if total is None or swap is None:
        return unknown("wsl-swap", host.unknown.get("memory"))
    facts = {"swap": human_bytes(swap), **_config_facts(host)}
    if swap == 0:
        return Finding("wsl-swap", "none", facts)
    return Finding("wsl-swap", "enough" if swap >= 4 * GIB or total >= 2 * _ENOUGH_GIB * GIB else "little", facts)


def wsl_driver(host: Host) -> Finding:
    """Whether a Linux driver was installed where only Windows' may be."""
    if not is_wsl(host):
        return not_here("wsl-driver")
    wsl = host.details.wsl
    if wsl.linux_packages:
        return Finding("wsl-driver", "packages", {"packages": " ".join(wsl.linux_packages)})
    if wsl.foreign_libraries:
        return Finding("wsl-driver", "libraries", {"files": " ".join(wsl.foreign_libraries)})
    if None in (wsl.linux_packages, wsl.foreign_libraries):
        return unknown("wsl-driver", host.unknown.get("details.wsl.linux_packages"))
    return Finding("wsl-driver", "clean")


def wsl_nvidia_smi(host: Host) -> Finding:
    """Whether nvidia-smi, which lies outside the usual folders, is found."""
    if not is_wsl(host):
        return not_here("wsl-nvidia-smi")
    place = host.details.wsl.nvidia_smi
    return unknown("wsl-nvidia-smi") if place is None else Finding("wsl-nvidia-smi", place)


def wsl_tdr(host: Host) -> Finding:
    """How long Windows lets the GPU work before it takes it for hung. Advice, never a failure."""
    if not is_wsl(host):
        return not_here("wsl-tdr")
    delay = host.details.wsl.tdr_seconds
    if delay is None:
        return Finding("wsl-tdr", "untold", {}, host.unknown.get("details.wsl.tdr_seconds"))
    return Finding("wsl-tdr", "short" if delay < _TDR_ENOUGH else "long", {"delay": delay})


def wsl_idle(host: Host) -> Finding:
    """Whether Windows ends the distribution, and the engine in it, when the last window is closed."""
    if not is_wsl(host):
        return not_here("wsl-idle")
    flavor, config = host.docker.flavor, host.details.wsl.config
    if flavor is DockerFlavor.DESKTOP:
        return Finding("wsl-idle", "desktop")
    if flavor is None or config is None:
        return Finding("wsl-idle", "untold", {}, host.unknown.get("details.wsl.config"))
    return Finding("wsl-idle", "kept" if config.get("general.instanceidletimeout") == "-1" else "ends")


def wsl_network(host: Host) -> Finding:
    """How Windows and the network reach what listens in here."""
    if not is_wsl(host):
        return not_here("wsl-network")
    mode = host.details.wsl.networking
    if mode is None:
        return unknown("wsl-network", host.unknown.get("details.wsl.networking"))
    known = mode if mode in ("nat", "mirrored", "none") else "other"
    forwarding = (host.details.wsl.config or {}).get("wsl2.localhostforwarding", "true").lower()
    if known == "nat" and forwarding == "false":
        known = "nat-closed"
    return Finding("wsl-network", known, {"mode": mode})


def wsl_version(host: Host) -> Finding:
    """Whether this WSL is one with the fault in CUDA graphs on Blackwell."""
    if not is_wsl(host):
        return not_here("wsl-version")
    version = host.details.wsl.version
    if version is None:
        return unknown("wsl-version", host.unknown.get("details.wsl.version"))
    blackwell = any(gpu.sm == _BLACKWELL for gpu in host.gpus or ())
    old = version_key(version) < _FIXED_IN
    return Finding("wsl-version", "old" if old and blackwell else "fine", {"version": version})


def wsl_disk(host: Host) -> Finding:
    """Whether Windows' disk, on which the distribution's own disk grows, has room."""
    if not is_wsl(host):
        return not_here("wsl-disk")
    free = host.details.wsl.windows_free_bytes
    if free is None:
        return unknown("wsl-disk", host.unknown.get("details.wsl.windows_free_bytes"))
    return Finding("wsl-disk", "little" if free < _WINDOWS_ROOM_BYTES else "enough", {"free": human_bytes(free)})


def all_wsl(host: Host) -> list[Finding]:
    """Every check that is about WSL2."""
    parts = (wsl_memory, wsl_swap, wsl_driver, wsl_nvidia_smi, wsl_version)
    return [part(host) for part in (*parts, wsl_tdr, wsl_idle, wsl_network, wsl_disk)]
