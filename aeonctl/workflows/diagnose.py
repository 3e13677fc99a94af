"""``aeonctl diagnose``: what a log means, be it a file, a stream, or what an engine of ours has written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aeonctl.core.container import LABEL
from aeonctl.core.diagnosis import Diagnosis, diagnose
from aeonctl.core.evidence import facts_of_host, facts_of_text
from aeonctl.core.failure import FailureScan
from aeonctl.core.knowledge import diagnosis_knowledge
from aeonctl.errors import EngineError
from aeonctl.ports import EngineRecord, EngineStatus, Ports, Reporter
from aeonctl.workflows.find import home_of, one_engine
from aeonctl.workflows.hosts import catalog_of, host_of


@dataclass(frozen=True)
class LogInput:
    """A log in pieces, and what is known beside it. ``host_text`` is pasted output of the host's own commands."""

    name: str
    chunks: Iterable[bytes]
    host_text: str = ""
    seat: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def diagnose_log(log: LogInput, as_host: str | None, ports: Ports) -> Diagnosis:
    """Read a log to its end and judge it. A host is asked only where ``as_host`` names a recorded one."""
    knowledge = diagnosis_knowledge(ports.profiles.read)
    scan = FailureScan(knowledge.log)
    for chunk in log.chunks:
        scan.read(chunk)
    scan.finish()
    host = {} if as_host is None else facts_of_host(host_of(as_host, ports, catalog_of(ports)))
    return diagnose(scan, knowledge, host | log.facts | facts_of_text(log.host_text, knowledge.signs), log.seat)


def engine_log(name: str | None, host_text: str, ports: Ports, report: Reporter) -> LogInput:
    """The log of an engine of ours, with how it ended and on what machine. EngineError not_running."""
    record = one_engine(name, ports, report)
    if record is None:
        raise EngineError(
            "not_running",
            "there is no engine" + (f" and no file called {name}" if name else ""),
            hint="aeonctl status lists the engines; give the file of a kept log, or - for standard input",
        )
    facts = _facts_of(record, ports)
    if not record.rehearsal:
        facts = facts_of_host(ports.host.probe()) | facts
    seat = record.labels.get(f"{LABEL}.seat")
    return LogInput(record.name, home_of(record, ports).log(record.name, follow=False), host_text, seat, facts)


def _facts_of(record: EngineRecord, ports: Ports) -> dict[str, Any]:
    running = record.status is EngineStatus.RUNNING
    facts: dict[str, Any] = {
        "oom_killed": record.oom_killed,
        "restart_count": record.restart_count,
        "restart_policy": record.restart_policy,
    }
    if running:
        facts["container_running"] = True
        if record.started_at is not None:
            facts["run_seconds"] = max(0.0, ports.clock.timestamp() - record.started_at)
    elif record.exit_code is not None:
        facts["exit_code"] = record.exit_code
    return facts
