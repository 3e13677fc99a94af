"""``aeonctl down``: stop what aeonctl started, and prove that it is gone."""

from __future__ import annotations

from dataclasses import dataclass

from aeonctl.core.container import LABEL
from aeonctl.errors import EngineError, RefusedError, UsageError
from aeonctl.ports import EngineRecord, Engines, EngineStatus, Ports, Reporter
from aeonctl.workflows.find import engine_url, every_engine, home_of
from aeonctl.workflows.guard import record_path
from aeonctl.workflows.records import remove_record

_ALIVE = (EngineStatus.RUNNING, EngineStatus.RESTARTING)
_KILL_SECONDS = 20.0
GRACE_READY, GRACE_STARTING = 30.0, 10.0
"""Seconds between SIGTERM and SIGKILL. A ready engine leaves within one; one that is still starting was seen to ignore
SIGTERM for more than 15 s on a real GPU, so waiting longer for it gains nothing."""

_REMOVAL_SECONDS = 5.0
"""How long a container may still be seen after its removal began; somebody else may be removing it too."""


@dataclass(frozen=True)
class Stopped:
    """One engine that is gone: how long it took, and whether it had to be killed."""

    name: str
    seconds: float
    killed: bool
    was: str
    rehearsal: bool = False


def down(name: str | None, everything: bool, grace: float | None, ports: Ports, report: Reporter) -> list[Stopped]:
    """Stop one engine, or all of ours. Nothing to stop is no error; a foreign container is never touched."""
    targets = _targets(name, everything, ports, report)
    stopped = [stop_engine(record, home_of(record, ports), ports, report, grace) for record in targets]
    for engine in stopped:
        remove_record(record_path(engine.name, ports))
    return stopped


def _targets(name: str | None, everything: bool, ports: Ports, report: Reporter) -> list[EngineRecord]:
    if name is not None:
        record = _named(name, ports)
        if record is None:
            report.note(f"no engine called {name} exists")
        return [] if record is None else [record]
    engines = every_engine(ports, report)
    if not engines:
        report.note("no engine of aeonctl exists")
    if everything or len(engines) < 2:
        return engines
    names = ", ".join(record.name for record in engines)
    raise UsageError(
        "engine_ambiguous",
        "several engines exist; say which one to stop",
        cause=names,
        hint=f"aeonctl down {engines[0].name}, or aeonctl down --all",
    )


def _named(name: str, ports: Ports) -> EngineRecord | None:
    record = ports.rehearsal.find(name) or ports.docker.find(name)
    if record is not None and not record.ours:
        raise RefusedError(
            "foreign_container",
            f"container {name} is not aeonctl's, so it is not stopped",
            cause=f"it has no label {LABEL}.seat",
            hint=f"docker stop {name} if you mean it",
        )
    return record


def stop_engine(
    record: EngineRecord, engines: Engines, ports: Ports, report: Reporter, grace: float | None = None
) -> Stopped:
    """SIGTERM, wait, SIGKILL if need be, remove, and look again. EngineError stop_failed when it is still there."""
    clock, name, began = ports.clock, record.name, ports.clock.now()
    ports.step("down:found")
    killed = False
    if record.status in _ALIVE:
        if record.restart_policy != "no":
            engines.set_restart(name, "no")
        ports.step("down:policy")
        limit = grace if grace is not None else _grace(record, ports)
        if limit > 0:
            engines.signal(name, "SIGTERM")
            ports.step("down:term")
        if not _gone_within(name, limit, engines, ports):
            killed = True
            if limit > 0:
                report.warn(f"engine {name} did not leave within {limit:.0f} s of SIGTERM; sending SIGKILL")
            engines.signal(name, "SIGKILL")
            if not _gone_within(name, _KILL_SECONDS, engines, ports):
                raise _stop_failed(name, f"it still runs {_KILL_SECONDS:.0f} s after SIGKILL")
    ports.step("down:stopped")
    try:
        engines.remove(name)
    except EngineError as error:
        raise _stop_failed(name, error.message) from error
    ports.step("down:removed")
    deadline = clock.now() + _REMOVAL_SECONDS
    while (left := engines.find(name)) is not None and clock.now() < deadline:
        clock.sleep(0.1)
    if left is not None:
        raise _stop_failed(name, f"it is still {left.status}")
    return Stopped(name, round(clock.now() - began, 2), killed, record.status.value, record.rehearsal)


def _stop_failed(name: str, cause: str) -> EngineError:
    return EngineError(
        "stop_failed",
        f"engine {name} could not be removed",
        cause=cause,
        hint=f"docker rm -f {name}; if that hangs, the Docker daemon needs a look (aeonctl doctor)",
    )


def _grace(record: EngineRecord, ports: Ports) -> float:
    """How long to wait: an engine that answers /health will leave in order, one that does not is still starting."""
    url = engine_url(record)
    reply = ports.http.get(f"{url}/health", timeout=2.0) if url else None
    return GRACE_READY if reply is not None else GRACE_STARTING


def _gone_within(name: str, limit: float, engines: Engines, ports: Ports) -> bool:
    deadline = ports.clock.now() + limit
    while True:
        record = engines.find(name)
        if record is None or record.status not in _ALIVE:
            return True
        if ports.clock.now() >= deadline:
            return False
        ports.clock.sleep(0.1)
