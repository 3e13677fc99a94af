"""The locks of seats, one file each in the state folder; docs/decisions/0004 says why there and why so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from aeonctl.core.lock import Entry, Parts, SeatLock, parts_of
from aeonctl.core.plan import Plan, Request
from aeonctl.errors import ConfigurationError, RefusedError, UsageError
from aeonctl.workflows.records import write_record

if TYPE_CHECKING:
    from aeonctl.ports import Ports


def folder_of(state: Path) -> Path:
    """Where the files are."""
    return state / "seat-locks"


def _path(seat: str, state: Path) -> Path:
    return folder_of(state) / f"{seat.replace('/', '--')}.json"


def _read(path: Path) -> SeatLock:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            "lock_invalid",
            f"{path} cannot be read",
            cause=str(error),
            hint=f"remove it; aeonctl lock --seat {path.stem.replace('--', '/', 1)} writes it anew",
        ) from error
    return SeatLock.parse(data, str(path), "lock_invalid")


def read_lock(seat: str, state: Path) -> SeatLock:
    """The lock of a seat, empty when there is none. ConfigurationError lock_invalid for a file that is none."""
    path = _path(seat, state)
    return _read(path) if path.exists() else SeatLock(seat=seat)


def all_locks(state: Path) -> list[SeatLock]:
    """Every lock there is, by seat."""
    return [_read(path) for path in sorted(folder_of(state).glob("*.json"))]


def write_lock(lock: SeatLock, state: Path) -> Path:
    """Write a lock whole or not at all. HostError state_unwritable."""
    path = _path(lock.seat, state)
    write_record(path, lock.model_dump(mode="json"))
    return path


def frozen_parts(seat: str, drafted: bool, request: Request, ports: Ports) -> Parts:
    """What ``--frozen`` uses. UsageError when parts are named as well; RefusedError lock_missing | lock_incomplete."""
    named = [f"--{name}" for name in ("image", "model", "drafter") if getattr(request, name) is not None]
    if named:
        raise UsageError(
            "frozen_and_named",
            f"--frozen takes everything from the lock, and {', '.join(named)} names another",
            hint=f"leave --frozen out, or: aeonctl lock --seat {seat}",
        )
    lock = read_lock(seat, ports.state)
    if lock.locked is None:
        raise RefusedError(
            "lock_missing",
            f"--frozen: nothing is locked for {seat}",
            cause="the image digest and the revisions of the models are missing",
            hint=f"aeonctl lock --seat {seat}",
            seat=seat,
        )
    if drafted and lock.locked.parts.drafter is None:
        raise RefusedError(
            "lock_incomplete",
            f"--frozen: the lock of {seat} lacks a part",
            cause="the seat has a drafter, and no revision of it is locked",
            hint=f"aeonctl lock --seat {seat}",
            seat=seat,
        )
    return lock.locked.parts


def record_start(plan: Plan, ports: Ports) -> None:
    """Remember what a start ran with, so that ``rollback`` can find it once ``verify`` has passed it.

    A rehearsal, and a start with parts that cannot be pinned (a folder of the user's), leave nothing.
    """
    parts, _ = parts_of(plan)
    if plan.rehearsal or parts is None:
        return
    entry = Entry(parts=parts, spec_hash=plan.spec_hash, at=ports.clock.timestamp())
    write_lock(read_lock(plan.seat, ports.state).with_start(entry), ports.state)


def mark_passed(spec_hash: str, ports: Ports) -> tuple[str, ...]:
    """Mark every start of that spec, and what is locked as it, as passed; the seats where there was one."""
    marked = []
    for lock in all_locks(ports.state):
        changed = lock.with_passed(spec_hash, ports.clock.timestamp())
        if changed != lock:
            write_lock(changed, ports.state)
            marked.append(lock.seat)
    return tuple(marked)
