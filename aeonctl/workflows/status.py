"""``aeonctl status`` and ``aeonctl logs``: what runs, whether it lives, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from aeonctl.core.container import LABEL
from aeonctl.core.death import DeathScan
from aeonctl.core.guard import guard_error
from aeonctl.core.knowledge import BootKnowledge, boot_knowledge
from aeonctl.core.loglines import LineSplitter
from aeonctl.core.phases import BootProgress
from aeonctl.errors import EngineError, HostError
from aeonctl.ports import EngineRecord, EngineStatus, Ports, Reporter
from aeonctl.workflows.find import engine_url, every_engine, home_of, one_engine, summary_of
from aeonctl.workflows.guard import guard_story

_TAIL = 4000
"""Log lines that are read to tell a boot's phase or a death; a boot writes a few hundred."""


@dataclass(frozen=True)
class EngineView:
    """One engine as ``status`` shows it. ``state`` is ready | starting | dead | stopped | restarting; ``why`` says how
    a death is known."""

    record: EngineRecord
    state: str
    phase: str | None
    why: str | None
    uptime: float | None
    verified: bool | None = None
    """Whether ``verify`` passed for this very spec; None when it was never run."""
    guard: str | None = None
    killed_by_guard: bool = False

    def as_json(self) -> dict[str, Any]:
        """One entry of ``data.engines``."""
        record, summary = self.record, summary_of(self.record)
        return {
            "name": record.name,
            "seat": record.labels.get(f"{LABEL}.seat"),
            "state": self.state,
            "phase": self.phase,
            "why": self.why,
            "url": engine_url(record),
            "served_names": summary.get("served_names", []),
            "max_model_len": summary.get("max_model_len"),
            "model": summary.get("model"),
            "image": record.image,
            "exit_code": record.exit_code,
            "oom_killed": record.oom_killed,
            "restart_policy": record.restart_policy,
            "restart_count": record.restart_count,
            "uptime_seconds": None if self.uptime is None else round(self.uptime),
            "spec_hash": record.labels.get(f"{LABEL}.spec-hash"),
            "waived": [rule for rule in record.labels.get(f"{LABEL}.waived", "").split(",") if rule],
            "verified": self.verified,
            "rehearsal": record.rehearsal,
            "guard": self.guard,
        }


def status(ports: Ports, report: Reporter) -> list[EngineView]:
    """Every engine of ours. An engine that died is in the list as ``dead``, whatever its exit code was."""
    engines = every_engine(ports, report)
    knowledge = boot_knowledge(ports.profiles.read) if engines else None
    views = [_with_guard(_view(record, ports, knowledge), ports) for record in engines if knowledge is not None]
    return [replace(view, verified=_verified(view.record, ports)) for view in views]


def _verified(record: EngineRecord, ports: Ports) -> bool | None:
    found = ports.records.load(record.labels.get(f"{LABEL}.spec-hash", ""))
    return None if found is None else found.get("passed") is True


def _with_guard(view: EngineView, ports: Ports) -> EngineView:
    """The same with what its memory guard did, which explains a death better than an exit code."""
    words, killed = guard_story(view.record, ports)
    alive = view.record.status in (EngineStatus.RUNNING, EngineStatus.RESTARTING)
    if words is None or (killed and alive):
        return view
    why = "; ".join(part for part in (words, view.why) if part)
    return replace(view, why=why, guard=words, killed_by_guard=killed)


def _view(record: EngineRecord, ports: Ports, knowledge: BootKnowledge) -> EngineView:
    uptime = None
    if record.started_at is not None and record.status is EngineStatus.RUNNING:
        uptime = max(0.0, ports.clock.timestamp() - record.started_at)
    if record.status is EngineStatus.CREATED:
        return EngineView(record, "stopped", None, "created, never started", None)
    death, progress = _read_log(record, ports, knowledge)
    if record.status is not EngineStatus.RUNNING:
        state = "restarting" if record.status is EngineStatus.RESTARTING else "dead"
        words = f"exit code {record.exit_code}" + (", out of memory" if record.oom_killed else "")
        return EngineView(record, state, progress.phase.value, f"{words}; {death}" if death else words, None)
    url = engine_url(record)
    reply = ports.http.get(f"{url}/health", timeout=3.0) if url else None
    if death is not None:
        lies = " (and /health still says 200)" if reply is not None and reply.status == 200 else ""
        return EngineView(record, "dead", progress.phase.value, f"its log says: {death}{lies}", uptime)
    if reply is None:
        stopped_answering = progress.ready
        why = "it was ready, and does not answer any more" if stopped_answering else None
        return EngineView(record, "dead" if stopped_answering else "starting", progress.phase.value, why, uptime)
    if reply.status == 200:
        return EngineView(record, "ready", "ready", None, uptime)
    return EngineView(record, "dead", progress.phase.value, f"/health says {reply.status}", uptime)


def _read_log(record: EngineRecord, ports: Ports, knowledge: BootKnowledge) -> tuple[str | None, BootProgress]:
    """The line that shows a death, and how far the boot came, from the end of the log."""
    scan, progress, splitter = DeathScan(knowledge.log.life), BootProgress(knowledge.phases), LineSplitter()
    with suppress(EngineError, HostError):  # one that is being removed has no log any more, and the others have theirs
        for chunk in home_of(record, ports).log(record.name, follow=False, tail=_TAIL):
            for line in splitter.feed(chunk):
                scan.feed(line)
                progress.feed(line, 0.0)
    for line in splitter.flush():
        scan.feed(line)
        progress.feed(line, 0.0)
    gone = record.status is EngineStatus.EXITED  # and still here: nobody stopped it with aeonctl, which removes it
    return scan.line or (scan.after_stop if gone else None), progress


def dead_engines(views: list[EngineView]) -> EngineError | None:
    """The error that ``status`` ends with when an engine died; None when all is well."""
    dead = [view for view in views if view.state == "dead"]
    if not dead:
        return None
    name = dead[0].record.name
    killed = [view for view in dead if view.killed_by_guard]
    if killed:
        return guard_error(killed[0].record.name, str(killed[0].guard))
    return EngineError(
        "engine_died",
        f"engine {name} is dead" if len(dead) == 1 else f"{len(dead)} engines are dead",
        cause=tuple(f"{view.record.name}: {view.why}" for view in dead),
        hint=f"aeonctl logs {name} shows its last words; aeonctl down {name} clears it away",
        engines=[view.record.name for view in dead],
    )


def logs(name: str | None, follow: bool, tail: int | None, ports: Ports, report: Reporter) -> Iterator[bytes]:
    """An engine's log, in pieces as they come. EngineError not_running when there is no such engine."""
    record = one_engine(name, ports, report)
    if record is None:
        raise EngineError(
            "not_running",
            "there is no engine" + (f" called {name}" if name else ""),
            hint="aeonctl status lists them; logs of starts that failed are kept in the state folder",
        )
    if record.rehearsal:
        report.note(f"engine {record.name} is a rehearsal: no GPU, no model")
    yield from home_of(record, ports).log(record.name, follow=follow, tail=tail)
    if follow:
        after = home_of(record, ports).find(record.name)
        if after is not None and after.status is EngineStatus.EXITED:
            report.warn(f"engine {record.name} ended with exit code {after.exit_code}")
