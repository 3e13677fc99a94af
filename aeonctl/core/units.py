"""Sizes and versions, parsed and shown in one way everywhere."""

from __future__ import annotations

import re

KIB, MIB, GIB = 1024, 1024**2, 1024**3


def gib(size: int) -> float:
    """``size`` bytes in GiB, to two decimals (what vLLM prints)."""
    return round(size / GIB, 2)


def human_bytes(size: int) -> str:
    """``size`` bytes as people read them: ``25.2 GB`` (powers of ten, as registries and hubs print)."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def human_seconds(seconds: float) -> str:
    """``seconds`` as ``0.4 s``, ``42 s``, ``3 min 20 s`` or ``1 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def version_key(text: str) -> tuple[int, ...]:
    """The numbers at the start of a version, for comparing: ``0.27.1+aeon.sm120`` → ``(0, 27, 1)``.

    A text that starts with no number gives ``()``, which is less than every version.
    """
    match = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


_SHM = re.compile(r"(\d+)([bkmg]?)", re.IGNORECASE)
_SHM_FACTOR = {"": 1, "b": 1, "k": KIB, "m": MIB, "g": GIB}


def docker_bytes(text: str) -> int:
    """A size as ``docker run --shm-size`` takes it (``8g``, ``64m``, ``1024``), in bytes; ValueError otherwise."""
    match = _SHM.fullmatch(text)
    if match is None:
        message = f"not a size for Docker: {text!r} (write it like 8g)"
        raise ValueError(message)
    return int(match[1]) * _SHM_FACTOR[match[2].lower()]
