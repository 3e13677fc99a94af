"""What is known about the machine and the container beside the log: from a text of shell output, or from our own eyes.

The text is what people paste: commands after ``$`` and what they printed. Which line tells which fact is a row; only
``docker inspect`` with a format of its own is read by what the format asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from aeonctl.core.host import Host, MemoryKind, Platform
from aeonctl.core.logrows import LogForm
from aeonctl.core.units import GIB

Facts = Mapping[str, Any]

_FORMAT = re.compile(
    r"docker (?:container )?(?:inspect|ps)\b.*?(?:-f|--format)[ =](?P<quote>['\"])(?P<format>.*?)(?P=quote)"
)
_FIELD = re.compile(r"\{\{\s*(?:json )?\.(?P<path>[\w.]+)\s*\}\}")
_INSPECTED = {
    "ExitCode": "exit_code",
    "OOMKilled": "oom_killed",
    "RestartCount": "restart_count",
    "RestartPolicy.Name": "restart_policy",
    "HostConfig.RestartPolicy.Name": "restart_policy",
    "HostConfig.ShmSize": "shm_bytes",
    "HostConfig.IpcMode": "ipc",
    "HostConfig.DeviceRequests": "device_requests",
    "HostConfig.Memory": "memory_limit_bytes",
    "Status": "status",
    "StartedAt": "started_at",
    "FinishedAt": "finished_at",
}


class HostSign(LogForm):
    """A line of the host's own output that tells a fact about it."""

    fact: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    value: bool | int | float | str | None = True
    """The fact's value; None takes the pattern's first group."""
    scale: float = 1.0
    """What a number in the group is multiplied by."""


def facts_of_text(text: str, signs: Sequence[HostSign]) -> dict[str, Any]:
    """The facts that pasted output tells; an unknown fact is absent."""
    facts: dict[str, Any] = {}
    asked: list[str] | None = None
    for line in _whole_lines(text):
        if line.lstrip().startswith(("$", "#")):
            asked = _asked(line)
        elif asked:
            facts |= _answered(asked, line)
            asked = None
        for sign in signs:
            if sign.contains in line and (found := sign.pattern.search(line)):
                facts.setdefault(sign.fact, _told(sign, found))
    return facts | _run_seconds(facts)


def _whole_lines(text: str) -> list[str]:
    """The lines, a mount's source and destination as JSON writes them below each other in one."""
    return re.sub(r'("Source": *"[^"]*",) *\r?\n', r"\1 ", text).splitlines()


def _told(sign: HostSign, found: re.Match[str]) -> Any:
    if sign.value is not None:
        return sign.value
    text = found[1]
    try:
        return round(float(text) * sign.scale, 3)
    except ValueError:
        return text


def _asked(line: str) -> list[str] | None:
    """The fields that a ``docker inspect`` asks for, in order, and the words around them."""
    found = _FORMAT.search(line)
    if not found:
        return None
    pattern, names, at = "", [], 0
    for field in _FIELD.finditer(found["format"]):
        pattern += re.escape(found["format"][at : field.start()]) + r"(\S*?)"
        names.append(field["path"].removeprefix("State."))
        at = field.end()
    return [pattern + re.escape(found["format"][at:]), *names] if names else None


def _answered(asked: list[str], line: str) -> dict[str, Any]:
    found = re.fullmatch(asked[0], line.strip())
    if not found:
        return {}
    known = ((_INSPECTED.get(name), text) for name, text in zip(asked[1:], found.groups(), strict=True))
    return {name: _value(text) for name, text in known if name is not None}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _run_seconds(facts: Facts) -> dict[str, float]:
    """How long the container ran, when both ends are told."""
    try:
        began, ended = (datetime.fromisoformat(str(facts[name])) for name in ("started_at", "finished_at"))
        return {"run_seconds": (ended - began).total_seconds()}
    except (KeyError, ValueError, TypeError):
        return {}


def facts_of_host(host: Host) -> dict[str, Any]:
    """What the probe, or a recorded host, tells."""
    facts: dict[str, Any] = {}
    if host.platform is not None:
        facts["wsl2"] = host.platform is Platform.WSL2
    if host.gpus:
        facts["unified_memory"] = any(gpu.memory is MemoryKind.UNIFIED for gpu in host.gpus)
        facts["gpu_count"] = len(host.gpus)
    if host.memory.total_bytes is not None:
        facts["mem_total_gib"] = round(host.memory.total_bytes / GIB, 1)
    if host.memory.available_bytes is not None:
        facts["mem_available_gib"] = round(host.memory.available_bytes / GIB, 1)
    if host.arch is not None:
        facts["arch"] = host.arch
    return facts
