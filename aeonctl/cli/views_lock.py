"""How locks are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aeonctl.cli.session import Outcome, Session

if TYPE_CHECKING:
    from aeonctl.core.lock import Entry
    from aeonctl.workflows.lock import Locked


def locked(done: Locked, session: Session) -> Outcome:
    """What is pinned now, and what was before."""
    entry = done.lock.locked
    if entry is not None:
        session.output.data(_lines(done.lock.seat, entry))
    if done.before is not None and entry is not None and done.before.parts != entry.parts:
        session.output.note(f"before: {done.before.parts.image.ref}@{done.before.parts.image.digest}")
    session.output.note(f"next: aeonctl up --seat {done.lock.seat} --frozen")
    return Outcome({"lock": done.as_json()})


def listed(locks: list[Locked], session: Session) -> Outcome:
    """Every seat that has a lock."""
    for one in locks:
        if one.lock.locked is not None:
            session.output.data(_lines(one.lock.seat, one.lock.locked))
    if not any(one.lock.locked for one in locks):
        session.output.note("nothing is locked; aeonctl lock --seat SEAT pins what up would run")
    return Outcome({"locks": [one.as_json() for one in locks]})


def _lines(seat: str, entry: Entry) -> str:
    parts = entry.parts
    rows = [
        ("image", f"{parts.image.ref}@{parts.image.digest}"),
        ("model", f"{parts.model.repo}@{parts.model.revision}"),
    ]
    if parts.drafter is not None:
        rows.append(("drafter", f"{parts.drafter.repo}@{parts.drafter.revision}"))
    rows.append(("passed", "no" if entry.passed_at is None else "yes"))
    return f"{seat}\n" + "".join(f"  {name:<8} {value}\n" for name, value in rows)
