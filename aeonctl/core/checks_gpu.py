"""Checks of the driver, the cards, and who else uses them."""

from __future__ import annotations

from collections.abc import Mapping

from aeonctl.core.catalog import CardMatch
from aeonctl.core.checks import Finding, not_here, unknown
from aeonctl.core.host import Gpu, Host, MemoryKind, Platform, vram_gib
from aeonctl.core.units import GIB, human_bytes

_DESKTOP_BYTES = GIB
"""What a desktop with a browser takes of a card; more is another program's model."""

_WINDOWS_BYTES = 2 * GIB


def platform(host: Host) -> Finding:
    """Which kernel and which processor."""
    if host.platform is None or host.arch is None:
        return unknown("platform", host.unknown.get("platform") or host.unknown.get("arch"))
    facts = {"arch": host.arch}
    return Finding("platform", "wsl2" if host.platform is Platform.WSL2 else "linux", facts, host.kernel)


def kernel(host: Host, faults: Mapping[str, str]) -> Finding:
    """Whether this kernel's release is one that is known for a fault."""
    if host.kernel is None:
        return unknown("kernel", host.unknown.get("kernel"))
    fault = next((words for prefix, words in faults.items() if host.kernel.startswith(prefix)), None)
    if fault is None:
        return Finding("kernel", "fine", {"kernel": host.kernel})
    return Finding("kernel", "faulty", {"kernel": host.kernel, "fault": fault})


def driver(host: Host) -> Finding:
    """Whether NVML answers, and if not, why."""
    found, files = host.driver, host.details.driver
    facts = {
        "version": found.version or "of unknown version",
        "cuda": found.cuda or "unknown",
        "module": files.module or found.version or "of unknown version",
        "library": files.library or "of another version",
        "cards": files.pci_cards,
        "packages": " ".join(host.details.wsl.linux_packages or ()),
    }
    if found.problem is not None:
        wsl = host.platform is Platform.WSL2
        situation = _wsl_driver_problem(host) if wsl else _linux_driver_problem(host)
        return Finding("driver", situation, facts, found.detail)
    if found.version is None:
        return unknown("driver", host.unknown.get("driver.version"))
    if host.gpus == ():
        return Finding("driver", "no-devices", facts, found.detail)
    return Finding("driver", "windows" if host.platform is Platform.WSL2 else "answers", facts)


def _wsl_driver_problem(host: Host) -> str:
    wsl, problem = host.details.wsl, host.driver.problem
    if wsl.gpu_device is False:
        return "wsl-no-gpu-device"
    if wsl.linux_packages:
        return "wsl-linux-driver"
    if problem in ("blocked", "not_loaded"):
        return "wsl-blocked"
    return "wsl-missing" if problem == "library_missing" else "wsl-failed"


def _linux_driver_problem(host: Host) -> str:
    files, problem = host.details.driver, host.driver.problem
    if problem == "library_missing":
        if files.pci_cards == 0 or (files.pci_cards is None and host.gpus == ()):
            return "no-card"
        return "missing" if files.pci_cards else "missing-perhaps"
    if problem == "not_loaded":
        return "nouveau" if files.nouveau else "secure-boot" if files.secure_boot else "not-loaded"
    if problem == "no_devices":
        log = host.details.kernel_log
        closed = host.driver.open_module is False or (log is not None and log.open_module_needed)
        return "closed-module" if closed else "no-devices"
    return {"mismatch": "mismatch", "no_permission": "no-permission", "blocked": "blocked"}.get(problem or "", "failed")


def gpus(host: Host, cards: Mapping[int, CardMatch | None]) -> list[Finding]:
    """Each GPU, and whether its card is known; one finding when there is none."""
    if host.gpus is None:
        return [unknown("gpu", host.unknown.get("gpus"))]
    if not host.gpus:
        return [Finding("gpu", "none")]
    return [_gpu(gpu, host, cards.get(gpu.index)) for gpu in host.gpus]


def _gpu(gpu: Gpu, host: Host, match: CardMatch | None) -> Finding:
    size = vram_gib(gpu, host.memory)
    kind = "shared with the system" if gpu.memory is MemoryKind.UNIFIED else "of its own memory"
    facts = {
        "index": gpu.index,
        "name": gpu.name or "unnamed",
        "sm": gpu.sm or "unknown",
        "memory": "memory unknown" if size is None else f"{size:.1f} GiB {kind}",
        "card": match.card.title if match else "",
    }
    if gpu.sm is None or (size is None and match is None):
        situation = "unread"
    elif match is None:
        situation = "unknown-card"
    else:
        situation = "known" if match.by_name else "alike"
    return Finding("gpu", situation, facts, host.unknown.get(f"gpus.{gpu.index}"), str(gpu.index))


def gpu_users(host: Host) -> Finding:
    """Who else holds GPU memory now."""
    if not host.gpus:
        return _no_gpu(host, "gpu-users")
    if host.platform is Platform.WSL2:
        return _windows_users(host)
    if any(gpu.processes is None for gpu in host.gpus):
        return unknown("gpu-users", _reason(host, "processes"))
    processes = [process for gpu in host.gpus for process in gpu.processes or ()]
    if not processes:
        return Finding("gpu-users", "none")
    words = [
        f"{process.name or 'process'} (pid {process.pid})"
        + (f" {human_bytes(process.used_bytes)}" if process.used_bytes is not None else "")
        for process in processes
    ]
    used = sum(process.used_bytes or 0 for process in processes)
    sizes_known = all(process.used_bytes is not None for process in processes)
    facts = {"users": ", ".join(words), "used": human_bytes(used), "pid": processes[0].pid}
    return Finding("gpu-users", "desktop" if sizes_known and used < _DESKTOP_BYTES else "some", facts)


def _windows_users(host: Host) -> Finding:
    """Windows' own use shows only in what is free."""
    used = [
        gpu.vram_total_bytes - gpu.vram_free_bytes
        for gpu in host.gpus or ()
        if gpu.vram_total_bytes is not None and gpu.vram_free_bytes is not None
    ]
    if not used:
        return unknown("gpu-users", "under WSL2 the users of a card are never visible, and its free memory is unknown")
    situation = "windows-much" if max(used) > _WINDOWS_BYTES else "windows-little"
    return Finding("gpu-users", situation, {"used": human_bytes(max(used))})


def gpu_mig(host: Host) -> Finding:
    """Whether a card is cut into slices."""
    if not host.gpus:
        return _no_gpu(host, "gpu-mig")
    cut = [gpu for gpu in host.gpus if gpu.mig]
    if cut:
        return Finding("gpu-mig", "on", {"index": cut[0].index, "slices": sum(len(g.mig_devices) for g in cut)})
    if any(gpu.mig is None for gpu in host.gpus):
        return unknown("gpu-mig", _reason(host, "mig"))
    return Finding("gpu-mig", "off")


def gpu_ecc(host: Host) -> Finding:
    """Whether the cards correct memory errors."""
    if not host.gpus:
        return _no_gpu(host, "gpu-ecc")
    if any(gpu.ecc is None for gpu in host.gpus):
        return unknown("gpu-ecc", _reason(host, "ecc"))
    return Finding("gpu-ecc", "on" if all(gpu.ecc for gpu in host.gpus) else "off")


def kernel_log(host: Host, meanings: Mapping[str, str]) -> Finding:
    """NVIDIA's errors in the kernel's log. The table says of an Xid: ``situation: what it means``."""
    log = host.details.kernel_log
    if log is None:
        return unknown("kernel-log", host.unknown.get("details.kernel_log"))
    graded = [(number, *_meaning(meanings.get(number))) for number in log.xids]
    for situation in ("lost", "hardware", "program"):
        hits = [(number, words) for number, grade, words in graded if grade == situation]
        if hits:
            words = "; ".join(f"Xid {number} ({words}) x{log.xids[number]}" for number, words in hits)
            return Finding("kernel-log", situation, {"errors": words})
    if log.no_memory:
        return Finding("kernel-log", "no-memory", {"count": log.no_memory})
    if log.oom_kills:
        return Finding("kernel-log", "oom", {"count": log.oom_kills})
    return Finding("kernel-log", "clean")


def _meaning(text: str | None) -> tuple[str, str]:
    grade, sign, words = (text or "").partition(": ")
    return (grade, words) if sign else ("program", "see NVIDIA's Xid catalogue")


def _no_gpu(host: Host, check: str) -> Finding:
    return unknown(check, host.unknown.get("gpus")) if host.gpus is None else not_here(check)


def _reason(host: Host, fact: str) -> str | None:
    """Why a fact of some GPU is unknown."""
    names = (f"gpus.{gpu.index}.{fact}" for gpu in host.gpus or ())
    return next((host.unknown[name] for name in names if name in host.unknown), None)
