"""``aeonctl doctor``: what this machine is, what is wrong with it, and which seats it could serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aeonctl import __version__
from aeonctl.core.catalog import Catalog, Document, Read
from aeonctl.core.checks import Check, CheckRow, Finding, Status, check_of, checks_of
from aeonctl.core.checks_own import Surroundings, host_findings
from aeonctl.core.checks_seat import SeatNeeds, seat_findings
from aeonctl.core.host import Host
from aeonctl.core.plan import Plan, Request
from aeonctl.core.report import report_text
from aeonctl.core.secrets import is_secret
from aeonctl.errors import AeonError, ConfigurationError, HostError
from aeonctl.ports import EngineStatus, Ports
from aeonctl.workflows.ask import Asked, plan_for
from aeonctl.workflows.gputest import gpu_test
from aeonctl.workflows.hosts import host_of
from aeonctl.workflows.seats import SeatView, judged_seats

_KINDS = ("cards", "images", "models", "rules", "seats", "checks")


@dataclass(frozen=True)
class Diagnosis:
    """The host, every check, every seat judged (none when the catalogue is broken), and the text for a report."""

    host: Host
    checks: list[Check]
    seats: list[SeatView]
    report: str

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


@dataclass(frozen=True)
class _Known:
    """The host that was probed already, for what would probe again."""

    host: Host

    def probe(self, *, ports: Iterable[int] = ()) -> Host:  # noqa: ARG002 - all ports in use were listed
        """The host as it is known."""
        return self.host

    def port_owner(self, port: int) -> str | None:
        """Who has the port by what is known."""
        return self.host.port_owner(port)


def doctor(seat: str | None, as_host: str | None, ports: Ports, *, try_gpu: bool = False) -> Diagnosis:
    """All checks, to the end; with ``seat``, what that seat needs as well. ``try_gpu`` starts a container for it.

    ConfigurationError host_not_found | host_invalid for ``as_host``; nothing else stops it.
    """
    read = _read_once(ports.profiles.read)
    catalog = Catalog(read)
    probing = as_host is None and ports.inspection is not None
    host = ports.inspection.probe() if probing and ports.inspection else host_of(as_host, ports, catalog)
    known = replace(ports, host=_Known(host))
    rows, unreadable = check_rows(read)
    broken = (*unreadable, *_broken(catalog))
    seats = [] if broken else judged_seats(host, ports.hub, catalog)
    ours = _our_ports(host, as_host, ports)
    around = Surroundings(
        cards={} if broken else {gpu.index: catalog.card_of(gpu, host) for gpu in host.gpus or ()},
        seat_ports=_seat_ports(seats),
        our_ports=ours,
        overrides=None if broken else _overrides(read),
        broken=broken,
    )
    checks = checks_of(host_findings(host, around, rows), rows)
    plan = None
    if seat is not None:
        plan, seat_checks = _seat_checks(seat, as_host, known, catalog, rows, ours)
        checks += seat_checks
    if host.gpus and host.docker.reachable and as_host is None:
        images = [plan.image_ref] if plan is not None else _images(seats)
        checks.append(check_of(gpu_test(host, images, ports, try_gpu=try_gpu), rows))
    return Diagnosis(host, checks, seats, report_text(host, checks, __version__, _private(ports)))


def _read_once(read: Read) -> Read:
    """The same documents without reading a kind again; one that cannot be read fails each time."""
    kept: dict[str, list[Document]] = {}

    def again(kind: str) -> Iterator[Document]:
        if kind in kept:
            yield from kept[kind]
            return
        documents: list[Document] = []
        for document in read(kind):
            documents.append(document)
            yield document
        kept[kind] = documents

    return again


def check_rows(read: Read) -> tuple[dict[str, CheckRow], tuple[str, ...]]:
    """What doctor knows, the user's rows in place of bundled ones, and the words of files that cannot be used.

    A broken file of the user's never takes the bundled rows away.
    """
    rows: dict[str, CheckRow] = {}
    broken: list[str] = []
    try:
        for document in read("checks"):
            listed = document.data if isinstance(document.data, list) else [document.data]
            try:
                parsed = [CheckRow.parse(row, document.origin) for row in listed]
            except ConfigurationError as error:
                broken += [f"{error.message}: {cause}" for cause in error.causes]
                continue
            for row in parsed:
                bundled = rows.get(row.id)
                missing = sorted(bundled.situations.keys() - row.situations.keys()) if bundled else []
                if missing:
                    broken.append(f"{document.origin} is not valid: {row.id}.situations: {missing[0]} is missing")
                else:
                    rows[row.id] = row
    except ConfigurationError as error:
        broken.append("; ".join((error.message, *error.causes)))
    return rows, tuple(broken)


def _broken(catalog: Catalog) -> tuple[str, ...]:
    """Every kind of profile that cannot be used, in words."""
    words: list[str] = []
    for kind in ("cards", "images", "models", "rules", "seats", "flags"):
        try:
            getattr(catalog, kind)
        except ConfigurationError as error:
            words.append(f"{error.message}: {'; '.join(error.causes)}")
    return tuple(dict.fromkeys(words))


def _overrides(read: Read) -> tuple[str, ...]:
    """The ids of the user's rows that replace bundled ones."""
    found: list[str] = []
    for kind in _KINDS:
        bundled: set[str] = set()
        for document in read(kind):
            listed = document.data if isinstance(document.data, list) else [document.data]
            ids = {str(row.get("id") or document.name) for row in listed if isinstance(row, dict)}
            if document.origin.startswith("profiles/"):
                bundled |= ids
            else:
                found += sorted(ids & bundled)
    return tuple(found)


def _our_ports(host: Host, as_host: str | None, ports: Ports) -> frozenset[int]:
    """The ports that engines of ours publish here."""
    if as_host is not None or not host.docker.reachable:
        return frozenset()
    try:
        engines = ports.docker.ours()
    except AeonError:
        return frozenset()
    running = (engine for engine in engines if engine.status is EngineStatus.RUNNING)
    return frozenset(port for engine in running for port in engine.published)


def _seat_ports(seats: list[SeatView]) -> dict[int, str]:
    """The ports of the seats that fit."""
    return {view.plan.port: view.seat.id for view in seats if view.fits and view.plan is not None}


def _images(seats: list[SeatView]) -> list[str]:
    fitting = (view.plan for view in seats if view.fits and view.plan is not None and view.seat.gpus)
    return list(dict.fromkeys(plan.image_ref for plan in fitting))


def _seat_checks(
    seat: str,
    as_host: str | None,
    ports: Ports,
    catalog: Catalog,
    rows: Mapping[str, CheckRow],
    ours: frozenset[int],
) -> tuple[Plan | None, list[Check]]:
    try:
        plan = plan_for(Asked(Request(seat=seat), as_host=as_host), ports, catalog)
    except AeonError as error:
        facts = {"why": error.message, "remedy": error.hint or "aeonctl seats"}
        detail = "; ".join(error.causes) or None
        return None, [check_of(Finding("seat", "unplanned", facts, detail), rows)]
    host = ports.host.probe()
    needs = SeatNeeds(plan, _image_here(plan, host, as_host, ports), ours)
    return plan, checks_of(seat_findings(host, needs), rows)


def _image_here(plan: Plan, host: Host, as_host: str | None, ports: Ports) -> bool | None:
    if as_host is not None:
        return False
    if not host.docker.reachable:
        return None
    try:
        return ports.docker.image(plan.image_ref) is not None
    except AeonError:
        return None


def _private(ports: Ports) -> list[str]:
    """What a report must not hold: the values of secret variables, and what names this machine and its user."""
    words = [value for name, value in ports.environment.items() if is_secret(name)]
    return [*words, *(ports.inspection.private_words() if ports.inspection is not None else ())]
