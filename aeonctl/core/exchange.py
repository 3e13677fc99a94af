"""What goes through the ports: plain records, made by adapters and read by workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class EngineStatus(StrEnum):
    """What a container or process is doing."""

    CREATED = "created"
    RUNNING = "running"
    RESTARTING = "restarting"
    EXITED = "exited"


@dataclass(frozen=True)
class EngineRecord:
    """One engine (or foreign container) under one name. ``ours`` is false for a container without our labels."""

    name: str
    status: EngineStatus
    ours: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    exit_code: int | None = None
    oom_killed: bool = False
    error: str | None = None
    restart_count: int = 0
    restart_policy: str = "no"
    started_at: float | None = None
    ident: str = ""
    rehearsal: bool = False
    published: tuple[int, ...] = ()


@dataclass(frozen=True)
class Listed:
    """One container in a list: no more than one cheap question tells. ``alive`` includes one that Docker is about to
    start again."""

    name: str
    alive: bool


@dataclass(frozen=True)
class PullProgress:
    """One step of a pull: a phase (``download``, ``extract``), bytes done and in total (0 when unknown).

    ``messages`` counts what the engine has said so far: the same number twice means silence.
    """

    phase: str
    done: int
    total: int
    messages: int = 0


@dataclass(frozen=True)
class FetchProgress:
    """One step of a model download: files and bytes, done and in total, and the bytes of the file that just moved."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    file: str | None = None
    file_done: int = 0
    file_total: int = 0


@dataclass(frozen=True)
class Reply:
    """An HTTP answer: its status, its body as JSON when it is JSON, and the text."""

    status: int
    json: Any
    text: str


@dataclass(frozen=True)
class RemoteAnswer:
    """What one command on another machine came to. ``landed`` is false when no session began; ``code`` is the
    command's own exit code, ``words`` what it or ssh complained of."""

    landed: bool
    code: int
    output: str
    words: str


@dataclass(frozen=True)
class MemoryUser:
    """A process that holds much of the machine's memory."""

    pid: int
    name: str
    resident_bytes: int


@dataclass(frozen=True)
class GuardTask:
    """What a guard watches: one container by name. ``floor_bytes`` 0 never kills; ``record`` is where it tells what it
    did; ``wait_seconds`` is how long it waits for the container to come."""

    name: str
    floor_bytes: int
    stall_share: float
    health_port: int | None
    restarts: int
    minutes: float
    record: Path
    wait_seconds: float
