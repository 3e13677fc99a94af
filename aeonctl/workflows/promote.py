"""``aeonctl promote`` and ``demote``: the restart policy of an engine whose verification passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aeonctl.core.container import LABEL
from aeonctl.errors import EngineError, RefusedError
from aeonctl.ports import EngineRecord, EngineStatus, Ports, Reporter
from aeonctl.workflows.find import home_of, one_engine, summary_of
from aeonctl.workflows.records import read_record

KEPT_ALIVE = "unless-stopped"


@dataclass(frozen=True)
class Promoted:
    """An engine and the restart policy that it has now."""

    name: str
    before: str
    policy: str
    unified: bool


def promote(name: str | None, ports: Ports, report: Reporter) -> Promoted:
    """Let Docker start the engine again whenever it ends, once its verification has passed.

    EngineError not_running; RefusedError not_verified when this very spec has no passed verification on record.
    """
    record = _engine(name, ports, report)
    if record.status is not EngineStatus.RUNNING:
        raise EngineError(
            "not_running",
            f"engine {record.name} does not run ({record.status})",
            hint="aeonctl up starts it; promote is for an engine that has proved itself",
        )
    digest = record.labels.get(f"{LABEL}.spec-hash", "")
    verification = read_record(ports.state / "verifications" / f"{digest}.json") or {}
    if verification.get("spec_hash") != digest or verification.get("passed") is not True:
        raise RefusedError(
            "not_verified",
            f"engine {record.name} is not promoted: nothing shows that these settings survive real use",
            cause=f"there is no passed verification of spec {digest}",
            hint=f"aeonctl verify {record.name}",
            name=record.name,
            spec_hash=digest,
        )
    ports.step("promote:checked")
    unified = bool(summary_of(record).get("unified"))
    home_of(record, ports).set_restart(record.name, KEPT_ALIVE)
    ports.step("promote:set")
    if unified:
        report.warn(
            "this machine's memory is unified: an engine that fails on every start can take the whole machine down "
            "after each reset, before anyone can log in"
        )
        report.note(f"aeonctl guard {record.name} --install keeps a guard on it; aeonctl rescue is the way out")
    return Promoted(record.name, record.restart_policy, KEPT_ALIVE, unified)


def demote(name: str | None, ports: Ports, report: Reporter) -> Promoted:
    """Take the restart policy away again; the engine runs on. EngineError not_running when there is none."""
    record = _engine(name, ports, report)
    home_of(record, ports).set_restart(record.name, "no")
    ports.step("demote:set")
    return Promoted(record.name, record.restart_policy, "no", bool(summary_of(record).get("unified")))


def _engine(name: str | None, ports: Ports, report: Reporter) -> EngineRecord:
    record = one_engine(name, ports, report)
    if record is None:
        words = f" called {name}" if name else ""
        raise EngineError("not_running", f"there is no engine{words}", hint="aeonctl status lists them")
    return record


def as_json(done: Promoted) -> dict[str, Any]:
    """``data`` of ``promote --json`` and ``demote --json``."""
    return {"name": done.name, "before": done.before, "restart_policy": done.policy, "unified": done.unified}
