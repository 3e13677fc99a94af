"""Engines as local processes that rehearse: no GPU, no Docker, the same life as a container's.

Each engine has a folder under ``STATE/rehearsal``: ``spec.json`` (what was asked), ``process.json`` (who runs it),
``ended.json`` (how it ended) and ``log``. A folder without ``process.json`` is a start that never was.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal as signals
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from aeonctl.adapters import supervise
from aeonctl.adapters.docker_read import SEAT_LABEL
from aeonctl.adapters.rehearsal_argv import process_argv, process_environment
from aeonctl.core.container import ContainerSpec
from aeonctl.core.host import Docker
from aeonctl.core.image import ImageFacts
from aeonctl.errors import ConfigurationError, EngineError, HostError
from aeonctl.ports import EngineRecord, EngineStatus, Listed, LogStream, PullProgress

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_PIECE = 65536
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class _Process:
    """What ``process.json`` says."""

    pid: int
    ticks: int
    supervisor: int
    supervisor_ticks: int
    started_at: float

    @property
    def alive(self) -> bool:
        return supervise.start_ticks(self.pid) == self.ticks

    @property
    def supervised(self) -> bool:
        return supervise.start_ticks(self.supervisor) == self.supervisor_ticks


class Rehearsal:
    """``ports.Engines`` with a process per engine. ``command`` is what the container's argv is appended to."""

    def __init__(
        self,
        state: Path,
        *,
        command: Sequence[str] = (sys.executable, "-m", "aeonctl.rehearsal_engine"),
        step: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """``state`` is made when the first engine starts; ``step`` is told of steps that a crash may part."""
        self._step = step
        self._root = state / "rehearsal"
        self._command = tuple(command)

    def describe(self) -> Docker:
        """No Docker is asked: whether one answers is not known."""
        return Docker(reachable=None)

    def find(self, name: str) -> EngineRecord | None:
        """See ``ports.Engines``."""
        if _NAME.fullmatch(name) is None:
            return None
        folder = self._root / name
        process, spec = _process(folder), _spec(folder)
        if process is None or spec is None:
            return None
        status, code, error = _state(folder, process)
        return EngineRecord(
            name=name,
            status=status,
            ours=SEAT_LABEL in spec.labels,
            labels=dict(spec.labels),
            image=spec.image,
            exit_code=code,
            error=error,
            restart_policy=spec.restart,
            started_at=process.started_at,
            ident=f"pid-{process.pid}-{process.ticks}",
            rehearsal=True,
            published=tuple(sorted({entry.host_port for entry in spec.publish})),
        )

    def ours(self) -> tuple[EngineRecord, ...]:
        """See ``ports.Engines``."""
        names = sorted(entry.name for entry in self._root.iterdir()) if self._root.is_dir() else []
        records = (self.find(name) for name in names)
        return tuple(record for record in records if record is not None and record.ours)

    def listed(self, *, foreign: bool) -> tuple[Listed, ...]:  # noqa: ARG002
        """See ``ports.Engines``. There is no foreign rehearsal."""
        return tuple(Listed(record.name, record.status is EngineStatus.RUNNING) for record in self.ours())

    def image(self, ref: str) -> ImageFacts | None:  # noqa: ARG002
        """A rehearsal has no images."""
        return None

    def pull(self, ref: str, progress: Callable[[PullProgress], None]) -> None:
        """Nothing to fetch."""

    def layers(self) -> tuple[tuple[str, ...], ...]:
        """A rehearsal has no images."""
        return ()

    def start(self, spec: ContainerSpec, environment: Mapping[str, str]) -> EngineRecord:
        """See ``ports.Engines``. Restart policies are kept and shown; nothing restarts a rehearsal."""
        if _NAME.fullmatch(spec.name) is None:
            hint = "letters, digits, and _ . - after the first"
            raise EngineError("start_failed", f"{spec.name!r} is not a name for an engine", hint=hint)
        if self.find(spec.name) is not None:
            hint = f"choose another --name, or: aeonctl down {spec.name}"
            raise HostError("name_in_use", f"could not start {spec.name}: the name is taken", hint=hint)
        _check_mounts(spec)
        _check_ports(spec)
        folder = self._root / spec.name
        _discard(folder)
        folder.mkdir(mode=0o700, parents=True)
        self._step("rehearsal:folder")
        started = False
        try:
            supervise.write_whole(folder / "spec.json", spec.model_dump(mode="json"))
            self._step("rehearsal:spec")
            self._launch(folder, [*self._command, *process_argv(spec)], process_environment(spec, environment))
            self._step("rehearsal:launched")
            record = self.find(spec.name)
            if record is None:
                raise EngineError("start_failed", f"{spec.name} was removed while it started")
            started = True
        finally:
            if not started:
                _kill(folder)
                _discard(folder)
        return record

    def log(self, name: str, *, follow: bool, tail: int | None = None) -> LogStream:
        """See ``ports.Engines``."""
        if self.find(name) is None:
            raise _no_engine(name)
        file = (self._root / name / "log").open("rb")
        if tail is not None:
            file.seek(_tail_start(file, tail))
        return _Log(file, (lambda: self._running(name)) if follow else (lambda: False))

    def cpu_seconds(self, name: str) -> float | None:
        """See ``ports.Engines``."""
        process = _process(self._root / name) if _NAME.fullmatch(name) else None
        if process is None or not process.alive:
            return None
        ticks = 0
        for entry in Path("/proc").iterdir():
            fields = supervise.stat_fields(int(entry.name)) if entry.name.isdigit() else None
            if fields is not None and int(fields[3]) == process.pid:
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / os.sysconf("SC_CLK_TCK")

    def signal(self, name: str, signal: str) -> None:
        """See ``ports.Engines``. As in a container, SIGKILL reaches every process and others the first one."""
        process = _process(self._root / name) if _NAME.fullmatch(name) else None
        if process is not None:
            _send(process, signals.Signals[signal])

    def set_restart(self, name: str, policy: str) -> None:
        """See ``ports.Engines``. EngineError not_running when there is no such engine."""
        spec = _spec(self._root / name) if self.find(name) else None
        if spec is None:
            raise _no_engine(name)
        changed = spec.model_copy(update={"restart": policy})
        supervise.write_whole(self._root / name / "spec.json", changed.model_dump(mode="json"))

    def remove(self, name: str) -> None:
        """See ``ports.Engines``. EngineError still_running when it was not stopped."""
        record = self.find(name)
        if record is not None and record.status is EngineStatus.RUNNING:
            raise EngineError("still_running", f"{name} still runs", hint=f"aeonctl down {name}")
        if _NAME.fullmatch(name):
            _discard(self._root / name)

    def _running(self, name: str) -> bool:
        record = self.find(name)
        return record is not None and record.status is EngineStatus.RUNNING

    def _launch(self, folder: Path, command: list[str], environment: Mapping[str, str]) -> None:
        """Start the supervisor and hear from it how that went."""
        reading, writing = os.pipe()
        with os.fdopen(reading, encoding="utf-8") as report, (folder / "log").open("ab") as log:
            try:
                first = subprocess.Popen(
                    [sys.executable, "-I", supervise.__file__, str(folder), str(writing), "--", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(environment),
                    pass_fds=(writing,),
                    start_new_session=True,
                )
            finally:
                os.close(writing)
            answer = json.loads(report.read() or "{}")
            first.wait()
        if "pid" not in answer:
            cause = answer.get("error", "the supervisor ended without a word")
            raise EngineError("start_failed", f"{folder.name} could not be started", cause=cause)


class _Log:
    """A log file, followed until the engine has ended or ``close``."""

    def __init__(self, file: IO[bytes], running: Callable[[], bool]) -> None:
        self._file = file
        self._running = running
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self._closed.is_set():
            may_grow = self._running()
            piece = self._file.read(_PIECE)
            if piece:
                return piece
            if not may_grow:
                break
            self._closed.wait(_POLL_SECONDS)
        self._file.close()
        raise StopIteration

    def close(self) -> None:
        self._closed.set()


def _state(folder: Path, process: _Process) -> tuple[EngineStatus, int | None, str | None]:
    """How it is, its exit code, and what is wrong. An engine whose end is still being written down counts as
    running."""
    ended = _json(folder / supervise.ENDED)
    if ended is None and (process.alive or process.supervised):
        return EngineStatus.RUNNING, None, None
    ended = ended or _json(folder / supervise.ENDED)
    if ended is None:
        return EngineStatus.EXITED, None, "how it ended is not known: its supervisor ended before it"
    return EngineStatus.EXITED, ended.get("exit_code"), None


def _process(folder: Path) -> _Process | None:
    data = _json(folder / supervise.PROCESS)
    try:
        return None if data is None else _Process(**data)
    except TypeError:
        return None


def _spec(folder: Path) -> ContainerSpec | None:
    data = _json(folder / "spec.json")
    try:
        return None if data is None else ContainerSpec.parse(data, str(folder / "spec.json"))
    except ConfigurationError:
        return None


def _json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _send(process: _Process, number: signals.Signals) -> None:
    """Signal exactly this process: the descriptor keeps its pid from meaning another between look and signal."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if not process.alive:
                return
            if number is signals.SIGKILL:
                os.killpg(process.pid, number)
            else:
                signals.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _kill(folder: Path) -> None:
    process = _process(folder)
    if process is not None:
        _send(process, signals.SIGKILL)


def _discard(folder: Path) -> None:
    """Remove a folder in one step as seen from outside: under a name that is no engine's, then for good."""
    trash = folder.with_name(f".{folder.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def _check_mounts(spec: ContainerSpec) -> None:
    for mount in spec.mounts:
        if mount.type == "bind" and not Path(mount.source).exists():
            raise EngineError(
                "start_failed",
                f"could not start {spec.name}: a folder that it mounts does not exist",
                cause=f"{mount.source} (for {mount.target})",
            )


def _check_ports(spec: ContainerSpec) -> None:
    """Refuse a taken port, as Docker does when it publishes one."""
    for entry in spec.publish if spec.network == "bridge" else ():
        family = socket.AF_INET6 if ":" in entry.host_ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((entry.host_ip, entry.host_port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise EngineError(
                        "start_failed", f"could not publish port {entry.host_port}", cause=str(error)
                    ) from error
                hint = "choose another --port, or stop whoever listens there (ss -ltnp)"
                message = f"could not start {spec.name}: port {entry.host_port} is taken"
                raise HostError("port_in_use", message, hint=hint, port=entry.host_port) from error


def _tail_start(file: IO[bytes], lines: int) -> int:
    """Where the last ``lines`` lines begin, read from the end in pieces."""
    end = position = file.seek(0, os.SEEK_END)
    wanted = lines
    if wanted <= 0:
        return end
    while position > 0:
        step = min(_PIECE, position)
        position -= step
        file.seek(position)
        piece = file.read(step)
        at = len(piece)
        while (at := piece.rfind(b"\n", 0, at)) >= 0:
            if position + at + 1 == end:
                continue
            wanted -= 1
            if wanted <= 0:
                return position + at + 1
    return 0


def _no_engine(name: str) -> EngineError:
    return EngineError("not_running", f"there is no engine {name}", hint="aeonctl status")
