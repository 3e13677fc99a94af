"""What stands in the way of a start: a name or a port that is taken, and what a run that was killed left behind."""

from __future__ import annotations

from pathlib import Path

from aeonctl.core.container import LABEL
from aeonctl.core.ladder import steps_from_label
from aeonctl.core.plan import Plan
from aeonctl.errors import AeonError, HostError
from aeonctl.ports import EngineRecord, Engines, EngineStatus, Ports, Reporter
from aeonctl.workflows.down import stop_engine


def make_way(
    existing: EngineRecord | None, plan: Plan, replacing: bool, engines: Engines, ports: Ports, report: Reporter
) -> None:
    """Refuse a name that is taken; with ``--replace``, stop our own engine first.

    What a killed run or a dead engine of the very same plan left behind is cleared away without being asked.
    """
    if existing is None:
        return
    name = existing.name
    if existing.ours and _is_left_over(existing, plan):
        report.note(f"clearing away what is left of engine {name} ({existing.status})")
        keep_log(name, engines, ports)
        stop_engine(existing, engines, ports, report)
        return
    if not existing.ours:
        raise HostError(
            "name_in_use",
            f"a container called {name} exists, and aeonctl did not make it",
            cause=f"it is {existing.status}, from image {existing.image}",
            hint=f"give the engine another name: --name {name}-2",
            name=name,
        )
    if not replacing and existing.status is EngineStatus.EXITED:
        code = "" if existing.exit_code is None else f" (exit code {existing.exit_code})"
        raise HostError(
            "name_in_use",
            f"engine {name} exists already, and has ended{code}",
            cause=f"its container is kept so that its log can be read: aeonctl logs {name}",
            hint=f"aeonctl down {name} removes it; aeonctl up … --replace does so and starts again",
            name=name,
        )
    if not replacing:
        runs = existing.labels.get(f"{LABEL}.seat", "another seat")
        raise HostError(
            "name_in_use",
            f"engine {name} exists already ({existing.status}), with other settings",
            cause=f"it was started as {runs}",
            hint=f"aeonctl up … --replace stops and replaces it; aeonctl down {name} removes it",
            name=name,
        )
    report.note(f"replacing engine {name}")
    stop_engine(existing, engines, ports, report)


def _is_left_over(existing: EngineRecord, plan: Plan) -> bool:
    if existing.status is EngineStatus.CREATED:
        return True
    climbed = bool(steps_from_label(existing.labels)) and existing.labels.get(f"{LABEL}.seat") == plan.seat
    return existing.status is EngineStatus.EXITED and (same_spec(existing, plan) or climbed)


def check_port(plan: Plan, engines: Engines, ports: Ports) -> None:
    """HostError port_in_use, with its owner's name."""
    owner = next(
        (e.name for e in engines.ours() if plan.port in e.published and e.status is EngineStatus.RUNNING), None
    )
    who = f"engine {owner}" if owner else ports.host.port_owner(plan.port)
    if who is not None:
        raise HostError(
            "port_in_use",
            f"port {plan.port} is taken",
            cause=f"{who} listens on it",
            hint=f"another port: --port {plan.port + 1}" + (f", or aeonctl down {owner}" if owner else ""),
            port=plan.port,
            owner=who,
        )


def same_spec(record: EngineRecord, plan: Plan) -> bool:
    """Whether a container is of this very plan, alive or not."""
    return record.ours and record.labels.get(f"{LABEL}.spec-hash") == plan.spec_hash


def keep_log(name: str, engines: Engines, ports: Ports) -> Path | None:
    """Copy an engine's log into the state folder before the engine is removed; None when there is nothing to keep."""
    folder = ports.state / "logs"
    path = folder / f"{name}-{ports.clock.timestamp():.0f}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as kept:
            for chunk in engines.log(name, follow=False):
                kept.write(chunk)
    except (OSError, AeonError):
        return None
    return path
