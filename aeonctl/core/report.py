"""A text for a bug report: what doctor found, without anything that tells who or where.

Two nets. The text is built from named facts, never from a dump; and every line goes through a filter that takes out
what looks like a secret, a name, an address or a serial number, even at the price of taking too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aeonctl.core.checks import Check
from aeonctl.core.host import Host, MemoryKind
from aeonctl.core.units import human_bytes

_KNOWN_HOSTS = ("huggingface.co", "ghcr.io", "docker.io", "github.com", "vllm.ai", "public.ecr.aws")
_PUBLIC = r"(?:[\w\-]+\.)*(?:" + "|".join(re.escape(host) for host in _KNOWN_HOSTS) + ")"
_ENDINGS = "lan|local|home|internal|intranet|corp|net|org|com|io|dev|ai|de|eu|uk"
_HEADS = "hf|sk|ghp|gho|ghs|pat|nvapi|github_pat|glpat|xox[a-z]|AKIA"
_NAMES = r"[\w\-]*(?:token|secret|passw(?:or)?d|api[_\-]?key|serial)[\w\-]*"
_USER_FOLDERS = r"/mnt/[a-z]/Users|[a-z]:\\Users|/home|/Users|/var/home|/run/user|/media"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"\b(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/\-]{3,}", "<uuid>"),
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<uuid>"),
        (rf"\b(?:{_HEADS})[_\-]?[A-Za-z0-9_\-]{{8,}}", "<secret>"),
        (r"(?i)\b(?:bearer|basic)\s+\S+", "<secret>"),
        (rf"(?i)\b({_NAMES})(\s*[=:]\s*|\s+is\s+)\S+", r"\1\2<secret>"),
        (rf"\b(ssh|tcp|npipe|fd|https?)://(?!{_PUBLIC}(?:[/:\s]|$))[^\s)\"']+", r"\1://<host>"),
        (r"[\w.+\-]+@[\w.\-]+", "<address>"),
        (r"(?i)\b(?:[0-9a-f]{2}[:\-]){5}[0-9a-f]{2}\b", "<address>"),
        (r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)(?!-[a-z])", "<address>"),
        (r"(?i)(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:%\w+)?(?![\w:])", "<address>"),
        (rf"(?i)({_USER_FOLDERS})([/\\])[^/\\\s'\",)]+", r"\1\2<user>"),
        (rf"(?i)\b(?!{_PUBLIC}\b)(?:[a-z0-9\-]+\.)+(?:{_ENDINGS})\b", "<host>"),
        (r"(?<![\w.])(?=[A-Za-z0-9_]*\d)(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]{12,}(?![\w.])", "<id>"),
        (r"(?<![\w.])(?=[A-Z\-]*\d)[A-Z0-9]{2}[A-Z0-9\-]{6,}(?![\w.])", "<id>"),
        (r"(?<![\w.])\d{9,}(?![\w.])", "<id>"),
    )
)


def redacted(text: str, private: Iterable[str] = ()) -> str:
    """``text`` without secrets, names, addresses, serial numbers and home folders. ``private`` are words that name
    this machine or its user, and values that are secret; each is taken out wherever it stands."""
    for word in sorted({word for word in private if len(word) > 1}, key=len, reverse=True):
        inner = re.escape(word)
        before = r"(?<![A-Za-z0-9])" if word[0].isalnum() else ""
        after = r"(?![A-Za-z0-9])" if word[-1].isalnum() else ""
        text = re.sub(before + inner + after if len(word) < 8 else inner, "<private>", text, flags=re.IGNORECASE)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def report_text(host: Host, checks: Sequence[Check], version: str, private: Iterable[str] = ()) -> str:
    """The report, as Markdown to be pasted into an issue."""
    words = tuple(private)
    lines = ["### aeonctl doctor", "", f"aeonctl {version}", "", "```", *_facts(host), "", *_checks(checks), "```"]
    return "".join(f"{redacted(line, words)}\n" for line in lines)


def _facts(host: Host) -> list[str]:
    driver, docker, memory, system = host.driver, host.docker, host.memory, host.details.system
    dgx = (system.dgx or {}).get("DGX_OTA_VERSION") or (system.dgx or {}).get("DGX_SWBUILD_VERSION")
    lines = [
        _line("platform", host.platform, host.arch, host.kernel),
        _line("memory", _size(memory.total_bytes), "available", _size(memory.available_bytes)),
        _line("swap", _size(memory.swap_total_bytes)),
        _line("driver", driver.version, f"CUDA {driver.cuda}" if driver.cuda else None, driver.problem),
    ]
    for gpu in host.gpus or ():
        shared = "shared memory" if gpu.memory is MemoryKind.UNIFIED else _size(gpu.vram_total_bytes)
        lines.append(_line("gpu", gpu.name, f"sm {gpu.sm}", shared, "free", _size(gpu.vram_free_bytes)))
    ways = docker.gpu
    lines.append(_line("docker", docker.version, docker.flavor, docker.storage_driver, docker.problem))
    lines.append(_line("docker gpu", f"runtime {ways.runtime}", f"hook {ways.hook}", f"cdi {len(ways.cdi or ())}"))
    if dgx or system.firmware:
        lines.append(_line("dgx", dgx, system.product, system.firmware))
    wsl = host.details.wsl
    if wsl.version or wsl.networking:
        lines.append(_line("wsl", wsl.version, wsl.networking))
    return lines


def _line(name: str, *words: object) -> str:
    return f"{name:<11}" + " ".join(str(word) for word in words if word is not None)


def _size(size: int | None) -> str:
    return "unknown" if size is None else human_bytes(size)


def _checks(checks: Sequence[Check]) -> list[str]:
    lines = []
    for check in checks:
        if not check.applies:
            continue
        lines.append(f"{check.status:<5} {check.id:<18} {check.summary}")
        if check.detail:
            lines.append(f"{'':25}{check.detail}")
    return lines
