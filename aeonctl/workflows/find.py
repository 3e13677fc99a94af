"""The engines of this machine, wherever they run."""

from __future__ import annotations

import json
from typing import Any

from aeonctl.core.container import LABEL
from aeonctl.errors import HostError, UsageError
from aeonctl.ports import EngineRecord, Engines, Ports, Reporter


def every_engine(ports: Ports, report: Reporter) -> list[EngineRecord]:
    """All engines of ours, rehearsals and containers. A Docker that does not answer is said, not raised, when there are
    rehearsals to speak of; otherwise HostError docker_*."""
    rehearsals = list(ports.rehearsal.ours())
    try:
        containers = list(ports.docker.ours())
    except HostError as error:
        if not rehearsals:
            raise
        report.warn(f"{error.message}; only rehearsals are listed")
        containers = []
    return rehearsals + containers


def home_of(record: EngineRecord, ports: Ports) -> Engines:
    """What runs an engine."""
    return ports.rehearsal if record.rehearsal else ports.docker


def one_engine(name: str | None, ports: Ports, report: Reporter) -> EngineRecord | None:
    """The engine called ``name``, or the only one there is; None when there is none. UsageError engine_ambiguous."""
    engines = every_engine(ports, report)
    if name is not None:
        return next((record for record in engines if record.name == name), None)
    if len(engines) > 1:
        names = ", ".join(record.name for record in engines)
        raise UsageError(
            "engine_ambiguous",
            "several engines exist; name one",
            cause=names,
            hint=f"aeonctl logs {engines[0].name}",
        )
    return engines[0] if engines else None


def summary_of(record: EngineRecord) -> dict[str, Any]:
    """What an engine's labels say about it; empty when they cannot be read."""
    try:
        summary = json.loads(record.labels.get(f"{LABEL}.plan", "{}"))
    except ValueError:
        return {}
    return summary if isinstance(summary, dict) else {}


def engine_url(record: EngineRecord) -> str | None:
    """Where an engine answers, seen from this machine."""
    port = summary_of(record).get("port") or next(iter(record.published), None)
    return f"http://127.0.0.1:{port}" if port else None
