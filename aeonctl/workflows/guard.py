"""The memory guard: a look before the start, a process beside the engine, and what it did told afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aeonctl.core.catalog import Catalog
from aeonctl.core.guard import (
    MINUTES,
    RESTARTS,
    floor_bytes,
    guard_error,
    guard_row,
    guard_words,
    killed_by_guard,
    start_trouble,
)
from aeonctl.core.host import Host
from aeonctl.core.plan import Plan
from aeonctl.core.render import render_text
from aeonctl.core.units import GIB
from aeonctl.errors import ConfigurationError, EngineError, HostError, UsageError
from aeonctl.ports import EngineRecord, GuardTask, Ports, Reporter
from aeonctl.workflows.find import one_engine, summary_of
from aeonctl.workflows.records import read_record, remove_record

_WAIT_SECONDS = 120.0
"""How long a guard that ``up`` started waits for its container, which comes within seconds."""
_FOREVER = 10.0 * 365 * 86400


def record_path(name: str, ports: Ports) -> Path:
    """Where the guard of an engine tells what it did."""
    return ports.state / "guard" / f"{name}.json"


def check_memory(
    plan: Plan, host: Host, floor_gib: float | None, ports: Ports, catalog: Catalog, report: Reporter
) -> None:
    """Before a guarded start: give the weights' cache back, then see whether the engine fits beside the rest.

    HostError host_memory_low. A rehearsal is judged by the recorded machine's memory.
    """
    if not plan.guarded:
        return
    row = guard_row(catalog.guard.values(), unified=plan.unified)
    available = host.memory.available_bytes
    if not plan.rehearsal:
        folders = [Path(part.path) for part in (plan.model, plan.drafter) if part is not None and part.present]
        dropped = ports.memory.evict(folders)
        if dropped:
            report.note(f"the page cache of {dropped / GIB:.1f} GiB of weights is given back")
        available = ports.memory.available()
    floor = floor_bytes(row, host.memory.total_bytes, floor_gib)
    need = plan.fit.budget_gib if plan.unified else None
    trouble = start_trouble(row, floor, available, need, _users(host, ports, rehearsal=plan.rehearsal))
    if isinstance(trouble, HostError):
        raise trouble
    if trouble is not None:
        report.warn(trouble)


def _users(host: Host, ports: Ports, *, rehearsal: bool) -> list[str]:
    """Who else uses the GPUs and the memory, in words."""
    words = [
        f"{process.name or 'a process'} (pid {process.pid}) uses GPU {gpu.index}"
        + (f": {process.used_bytes / GIB:.1f} GiB" if process.used_bytes else "")
        for gpu in host.gpus or ()
        for process in gpu.processes or ()
    ]
    if not rehearsal:
        users = ports.memory.users()
        words += [f"{user.name} (pid {user.pid}) holds {user.resident_bytes / GIB:.1f} GiB" for user in users]
    return words


def start_guard(
    plan: Plan, host: Host, floor_gib: float | None, ports: Ports, catalog: Catalog, report: Reporter
) -> None:
    """Start the guard before the container, so that it is ready when memory starts to go. HostError guard_*."""
    name = plan.container.name
    remove_record(record_path(name, ports))
    if not plan.guarded or plan.rehearsal:
        return
    row = guard_row(catalog.guard.values(), unified=plan.unified)
    floor = floor_bytes(row, host.memory.total_bytes, floor_gib)
    ports.guards.start(task_for(name, floor, row.stall_share, plan.port, _WAIT_SECONDS, ports))
    report.note(f"a memory guard is on watch: under {floor / GIB:.1f} GiB of available memory it kills {name}")


def task_for(
    name: str, floor: int, stall_share: float, port: int | None, wait_seconds: float, ports: Ports
) -> GuardTask:
    """What a guard of this engine is to do."""
    return GuardTask(name, floor, stall_share, port, RESTARTS, MINUTES, record_path(name, ports), wait_seconds)


def guarded_death(plan: Plan, ports: Ports) -> EngineError | None:
    """EngineError host_memory_guard when the guard killed the engine that was just started; None otherwise."""
    if not plan.guarded or plan.rehearsal:
        return None
    path = record_path(plan.container.name, ports)
    for _ in range(20):
        record = read_record(path)
        if record is None or killed_by_guard(record):
            break
        ports.clock.sleep(0.1)
    words = guard_words(record)
    return guard_error(plan.container.name, words) if killed_by_guard(record) and words else None


def guard_story(record: EngineRecord, ports: Ports) -> tuple[str | None, bool]:
    """What a guard did to this very container, in words, and whether it killed it."""
    told = read_record(record_path(record.name, ports))
    words = guard_words(told, record.ident)
    return words, words is not None and killed_by_guard(told)


@dataclass(frozen=True)
class Installed:
    """A systemd unit that was written, and what to type next."""

    unit: str
    path: Path
    text: str


def guard(
    name: str | None, floor_gib: float | None, wait: bool, ports: Ports, catalog: Catalog, report: Reporter
) -> None:
    """Watch one engine in this process until it ends; returns only where nothing can be watched.

    EngineError not_running; HostError guard_elsewhere; UsageError for a rehearsal.
    """
    record = _engine(name, wait, ports, report)
    wanted = record.name if record is not None else str(name)
    if record is not None and record.rehearsal:
        raise UsageError(
            "guard_rehearsal", f"engine {wanted} is a rehearsal", cause="it takes no memory", hint="aeonctl status"
        )
    summary = summary_of(record) if record is not None else {}
    unified, port = bool(summary.get("unified")), summary.get("port")
    row = guard_row(catalog.guard.values(), unified=unified)
    floor = floor_bytes(row, ports.host.probe().memory.total_bytes, floor_gib)
    report.note(f"watching {wanted}: under {floor / GIB:.2f} GiB of available memory it is killed (Ctrl-C ends this)")
    seconds = _FOREVER if wait else 1.0
    ports.guards.become(task_for(wanted, floor, row.stall_share, port, seconds, ports))


def _engine(name: str | None, wait: bool, ports: Ports, report: Reporter) -> EngineRecord | None:
    try:
        record = one_engine(name, ports, report)
    except HostError:
        if not wait or name is None:
            raise
        return None
    if record is None and not (wait and name):
        words = f" called {name}" if name else ""
        raise EngineError("not_running", f"there is no engine{words}", hint="aeonctl status lists them")
    return record


def install(
    name: str | None, floor_gib: float | None, command: Sequence[str], home: Path, ports: Ports, report: Reporter
) -> Installed:
    """Write a systemd user unit that keeps a guard on one engine. ConfigurationError file_not_written."""
    record = _engine(name, False, ports, report)
    wanted = str(record.name if record is not None else name)
    unit = f"aeonctl-guard-{wanted}.service"
    floor = ["--guard-floor", f"{floor_gib:g}"] if floor_gib is not None else []
    words = [*command, "guard", wanted, "--wait", *floor]
    passed = ("DOCKER_HOST", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PYTHONPATH")
    text = render_text(
        ports.profiles.template("guard.service.j2"),
        name=wanted,
        unit=unit,
        command=" ".join(_unit_word(word, dollars="$$") for word in words),
        environment=[_unit_word(f"{key}={ports.environment[key]}") for key in passed if key in ports.environment],
    )
    folder = Path(ports.environment.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    path = folder / unit
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{unit}"
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)
    except OSError as error:
        raise ConfigurationError(
            "file_not_written", f"{path} could not be written", cause=str(error), hint="make that folder yours"
        ) from error
    return Installed(unit, path, text)


def _unit_word(word: str, *, dollars: str = "$") -> str:
    """One word of a unit file: quoted, with what systemd would expand doubled."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollars)
    return f'"{escaped}"'
