"""``aeonctl doctor``: what this machine is, and which seats it could serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aeonctl.core.checks import Check, Status, host_checks
from aeonctl.core.host import Host
from aeonctl.core.plan import Request
from aeonctl.errors import AeonError, HostError
from aeonctl.ports import Ports
from aeonctl.workflows.ask import Asked, plan_for
from aeonctl.workflows.hosts import catalog_of, host_of
from aeonctl.workflows.seats import SeatView, judged_seats


@dataclass(frozen=True)
class Diagnosis:
    """The host, every check, and every seat judged."""

    host: Host
    checks: list[Check]
    seats: list[SeatView]

    def as_json(self) -> dict[str, Any]:
        """``data`` of ``doctor --json``."""
        return {
            "host": self.host.model_dump(mode="json", exclude_none=True),
            "checks": [check.model_dump(mode="json") for check in self.checks],
            "seats": [view.as_json() for view in self.seats],
        }

    def error(self) -> HostError | None:
        """The error that ``doctor`` ends with; None when nothing failed."""
        failed = [check for check in self.checks if check.status is Status.FAIL]
        if not failed:
            return None
        return HostError(
            "checks_failed",
            f"{len(failed)} check{'s' if len(failed) > 1 else ''} failed: {', '.join(c.id for c in failed)}",
            hint=failed[0].remedy,
            failed=[check.id for check in failed],
        )


def doctor(seat: str | None, as_host: str | None, ports: Ports) -> Diagnosis:
    """All checks, to the end; with ``seat``, what that seat needs as well."""
    catalog = catalog_of(ports)
    host = host_of(as_host, ports, catalog)
    checks = host_checks(host)
    if seat is not None:
        checks += _seat_checks(seat, as_host, ports)
    return Diagnosis(host, checks, judged_seats(host, ports.hub, catalog))


def _seat_checks(seat: str, as_host: str | None, ports: Ports) -> list[Check]:
    try:
        plan = plan_for(Asked(Request(seat=seat), as_host=as_host), ports, catalog_of(ports))
    except AeonError as error:
        detail = "; ".join(error.causes) or None
        return [Check(id="seat", status=Status.FAIL, summary=error.message, detail=detail, remedy=error.hint)]
    checks = [
        Check(id=f"seat:{refusal.rule}", status=Status.FAIL, summary=refusal.why, remedy=refusal.remedy)
        for refusal in plan.refusals
    ]
    if not checks:
        checks.append(Check(id="seat", status=Status.PASS, summary=f"{plan.seat} would start on this machine"))
    for facts in plan.missing_models():
        remedy = f"aeonctl pull-model {facts.repo}"
        checks.append(
            Check(id="seat-model", status=Status.WARN, summary=f"{facts.repo} is not downloaded", remedy=remedy)
        )
    return checks
