"""``aeonctl lock`` and ``aeonctl rollback``: which bytes a seat runs with, and back to those that passed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aeonctl.core.lock import Entry, SeatLock, parts_of
from aeonctl.core.select import choose_seat
from aeonctl.errors import ConfigurationError, RefusedError
from aeonctl.ports import Ports
from aeonctl.workflows.ask import Asked, plan_for, refuse
from aeonctl.workflows.hosts import catalog_of, host_of
from aeonctl.workflows.lockfiles import all_locks, read_lock, write_lock


@dataclass(frozen=True)
class Locked:
    """A seat's lock as it is now, the file that holds it, and what was locked before."""

    lock: SeatLock
    path: Path | None = None
    before: Entry | None = None

    def as_json(self) -> dict[str, Any]:
        """One entry of ``data.locks``."""
        data = self.lock.model_dump(mode="json")
        return data | {"path": None if self.path is None else str(self.path)}


def locks(ports: Ports) -> list[Locked]:
    """Every seat's lock."""
    return [Locked(lock) for lock in all_locks(ports.state)]


def lock(asked: Asked, ports: Ports) -> Locked:
    """Lock what ``up`` would run for a seat. A registry is asked only for a digest that nobody here knows.

    RefusedError lock_incomplete with everything that has no digest or revision; RefusedError of the plan.
    """
    catalog = catalog_of(ports)
    plan = plan_for(asked, ports, catalog)
    if plan.image.digest is None and not asked.offline:
        plan = plan_for(replace(asked, check_image=True), ports, catalog)
    refuse(plan)
    parts, missing = parts_of(plan)
    if parts is None:
        raise RefusedError(
            "lock_incomplete",
            f"{plan.seat} cannot be locked yet",
            cause=(*missing, *plan.image.notes),
            hint=f"aeonctl pull-model --seat {plan.seat}, and aeonctl pull-image --seat {plan.seat}",
            seat=plan.seat,
        )
    old = read_lock(plan.seat, ports.state)
    new = old.with_locked(Entry(parts=parts, spec_hash=plan.spec_hash, at=ports.clock.timestamp()))
    return Locked(new, write_lock(new, ports.state), old.locked)


def rollback(seat: str, as_host: str | None, ports: Ports) -> Locked:
    """Lock the parts that passed last, other than the ones in use. ConfigurationError nothing_passed."""
    catalog = catalog_of(ports)
    seat_id = seat if "/" in seat else choose_seat(seat, host_of(as_host, ports, catalog), catalog).seat.id
    catalog.seat(seat_id)
    old = read_lock(seat_id, ports.state)
    target = old.last_passed()
    if target is None:
        raise ConfigurationError(
            "nothing_passed",
            f"there is nothing to roll {seat_id} back to",
            cause="no start of it with other parts has passed a verification",
            hint="aeonctl up, then aeonctl verify: what passes is remembered",
            seat=seat_id,
        )
    new = old.with_locked(target)
    return Locked(new, write_lock(new, ports.state), old.current())
