"""How restart policies, guards and rescues are shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from aeonctl.cli.session import Outcome, Session

if TYPE_CHECKING:
    from aeonctl.workflows.promote import Promoted
    from aeonctl.workflows.rescue import Rescued


def promoted(done: Promoted, session: Session) -> Outcome:
    """An engine's restart policy, before and after."""
    from aeonctl.workflows.promote import as_json

    changed = f"{done.before} -> {done.policy}" if done.before != done.policy else f"{done.policy}, as before"
    session.output.note(f"engine {done.name}: restart policy {changed}")
    return Outcome(as_json(done))


def install(name: str | None, floor_gib: float | None, session: Session) -> Outcome:
    """The unit's path on stdout, and how to turn it on."""
    from aeonctl.workflows import guard as flow

    home = Path(session.ports.environment.get("HOME") or Path.home())
    command = (sys.executable, "-m", "aeonctl")
    done = flow.install(name, floor_gib, command, home, session.ports, session.report)
    session.output.note(f"turn it on: systemctl --user daemon-reload && systemctl --user enable --now {done.unit}")
    session.output.note("to keep it while nobody is logged in: loginctl enable-linger")
    session.output.data(f"{done.path}\n")
    return Outcome({"unit": done.unit, "path": str(done.path), "text": done.text})


def rescued(done: Rescued, session: Session) -> Outcome:
    """What was cleared and killed, one line each."""
    where = f" on {done.host} (try {done.attempt})" if done.host else ""
    session.output.note(
        f"{len(done.policies_cleared)} restart policies cleared, {len(done.killed)} containers killed{where}"
    )
    for name in done.killed:
        session.output.data(f"killed {name}\n")
    return Outcome(done.as_json())
