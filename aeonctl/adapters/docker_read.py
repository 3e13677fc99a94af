"""What the Engine API's JSON says, as our values. Pure: nothing here talks to anyone.

Any field may be missing: newer engines leave out what is empty, and podman what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from aeonctl.core.container import LABEL
from aeonctl.core.image import FactsFrom, ImageConfig, ImageFacts, facts_from_config, parse_reference
from aeonctl.errors import UsageError
from aeonctl.ports import EngineRecord, EngineStatus, Listed

SEAT_LABEL = f"{LABEL}.seat"
"""A container with this label is ours."""

_STATUS = {
    "created": EngineStatus.CREATED,
    "configured": EngineStatus.CREATED,
    "initialized": EngineStatus.CREATED,
    "running": EngineStatus.RUNNING,
    "paused": EngineStatus.RUNNING,
    "restarting": EngineStatus.RESTARTING,
}
_NEVER = "0001-01-01"


def record(inspected: Mapping[str, Any]) -> EngineRecord:
    """One container's ``/containers/{id}/json``."""
    state = inspected.get("State") or {}
    config = inspected.get("Config") or {}
    host = inspected.get("HostConfig") or {}
    labels = config.get("Labels") or {}
    status = _STATUS.get(state.get("Status", ""), EngineStatus.EXITED)
    ended = status in {EngineStatus.EXITED, EngineStatus.RESTARTING}
    return EngineRecord(
        name=str(inspected.get("Name", "")).removeprefix("/"),
        status=status,
        ours=SEAT_LABEL in labels,
        labels=dict(labels),
        image=config.get("Image"),
        exit_code=state.get("ExitCode") if ended else None,
        oom_killed=bool(state.get("OOMKilled")),
        error=state.get("Error") or None,
        restart_count=inspected.get("RestartCount") or 0,
        restart_policy=(host.get("RestartPolicy") or {}).get("Name") or "no",
        started_at=epoch(state.get("StartedAt")),
        ident=str(inspected.get("Id", "")),
        published=_published(inspected),
    )


def listed(rows: Iterable[Mapping[str, Any]]) -> tuple[Listed, ...]:
    """The rows of ``/containers/json``; a container that is about to start again counts as alive."""
    named = ((str((row.get("Names") or [row.get("Id", "")])[0]).removeprefix("/"), row) for row in rows)
    alive = {"running", "restarting", "paused"}
    return tuple(sorted((Listed(name, row.get("State") in alive) for name, row in named), key=lambda one: one.name))


def epoch(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time with nanoseconds; None for Go's zero time or no time."""
    if not text or text.startswith(_NEVER):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _published(inspected: Mapping[str, Any]) -> tuple[int, ...]:
    """The host's ports, asked for (HostConfig) or given (NetworkSettings), each once and in order."""
    asked = (inspected.get("HostConfig") or {}).get("PortBindings") or {}
    given = (inspected.get("NetworkSettings") or {}).get("Ports") or {}
    bindings = [binding for table in (given, asked) for rows in table.values() for binding in rows or ()]
    return tuple(sorted({int(row["HostPort"]) for row in bindings if str(row.get("HostPort", "")).isdigit()}))


def image_facts(ref: str, inspected: Mapping[str, Any]) -> ImageFacts:
    """One image's ``/images/{name}/json``. ``unpacked_bytes`` is the space it takes in the engine's store."""
    config = inspected.get("Config") or {}
    entrypoint = config.get("Entrypoint")
    own = ImageConfig(
        architecture=inspected.get("Architecture") or None,
        os=inspected.get("Os") or None,
        env=tuple(config.get("Env") or ()),
        labels=dict(config.get("Labels") or {}),
        entrypoint=tuple(entrypoint) if entrypoint else None,
    )
    return facts_from_config(
        ref,
        own,
        FactsFrom.LOCAL,
        digest=digest_for(ref, inspected.get("RepoDigests") or ()),
        unpacked_bytes=inspected.get("Size"),
    )


def digest_for(ref: str, repo_digests: list[str] | tuple[str, ...]) -> str | None:
    """The registry's digest of ``ref`` among an image's RepoDigests; None for an image that no registry gave.

    One image can have several, one per reference it was pulled by: the one that ``ref`` itself names wins, then the
    first of ``ref``'s repository.
    """
    wanted = _repository(ref)
    found = [entry.partition("@")[2] for entry in repo_digests if _repository(entry) == wanted]
    named = ref.partition("@")[2]
    return named if named in found else found[0] if found else None


def _repository(ref: str) -> tuple[str, str] | None:
    try:
        parts = parse_reference(ref)
    except UsageError:
        return None
    return parts.registry, parts.repository
