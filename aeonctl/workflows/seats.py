"""``aeonctl seats`` and ``aeonctl show``: what fits this machine, and every detail of one seat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aeonctl.core.catalog import Catalog, facts_from_row
from aeonctl.core.host import Host
from aeonctl.core.inputs import Inputs
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Plan, Refusal, Request
from aeonctl.core.planner import make_plan
from aeonctl.core.rows import Seat
from aeonctl.core.select import choose_seat
from aeonctl.errors import HostError
from aeonctl.ports import ModelHub, Ports
from aeonctl.workflows.folders import refuse_bare_folder
from aeonctl.workflows.hosts import catalog_of, host_of
from aeonctl.workflows.learned import learned_of


@dataclass(frozen=True)
class SeatView:
    """One seat on one host: refusals when it would be refused, ``unfit`` when no plan can be made at all."""

    seat: Seat
    card: str
    plan: Plan | None
    unfit: str | None = None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why it would not start here."""
        return self.plan.refusals if self.plan is not None else ()

    @property
    def fits(self) -> bool:
        """True when ``up`` would start it."""
        return self.plan is not None and not self.plan.refusals

    def as_json(self) -> dict[str, Any]:
        """One entry of ``data.seats``."""
        seat = self.seat
        return {
            "id": seat.id,
            "title": seat.title,
            "card": self.card,
            "gpus": seat.gpus,
            "fits": self.fits,
            "refusals": [refusal.model_dump(mode="json") for refusal in self.refusals],
            "unfit": self.unfit,
            "downloaded": None if self.plan is None else self.plan.model.present,
            "why": seat.why,
            "source": seat.source,
        }


def seats(as_host: str | None, ports: Ports) -> tuple[Host, list[SeatView]]:
    """Every seat of the catalogue, judged for this host (or the recorded one); those that fit come first."""
    catalog = catalog_of(ports)
    host = host_of(as_host, ports, catalog)
    return host, judged_seats(host, ports.hub, catalog)


def judged_seats(host: Host, hub: ModelHub, catalog: Catalog) -> list[SeatView]:
    """Every seat against one host, by the catalogue's facts alone."""
    views = [_judge(seat, host, hub, catalog) for seat in catalog.seats.values()]
    return sorted(views, key=lambda view: (not view.fits, view.seat.id))


def _judge(seat: Seat, host: Host, hub: ModelHub, catalog: Catalog) -> SeatView:
    card = catalog.cards[seat.card].title if seat.card else "no GPU"
    try:
        choice = choose_seat(seat.id, host, catalog)
    except HostError as error:
        return SeatView(seat, card, None, error.message)
    row = catalog.models[seat.model.id]
    drafter_row = catalog.models[seat.drafter.id] if seat.drafter else None

    def located(repo: str, revision: str | None, size: int | None) -> ModelFacts:
        facts = hub.locate(repo, revision)
        return facts if facts.present else facts.model_copy(update={"bytes": size})

    model = located(row.repo, row.revision, row.bytes).model_copy(update={"quantization": row.quantization})
    drafter = located(drafter_row.repo, drafter_row.revision, drafter_row.bytes) if drafter_row else None
    inputs = Inputs(Request(seat=seat.id), choice, host, facts_from_row(catalog.images[seat.image]), model, drafter)
    return SeatView(seat, card, make_plan(inputs, catalog))


def show(seat_id: str, as_host: str | None, ports: Ports) -> dict[str, Any]:
    """Everything about one seat: its rows whole, with why and source of each."""
    catalog = catalog_of(ports)
    if seat_id not in catalog.seats and "/" in seat_id:
        refuse_bare_folder(seat_id, ports.hub, "aeonctl show")
    seat = catalog.seat(seat_id) if "/" in seat_id else _by_name(seat_id, as_host, ports, catalog)
    return {
        "seat": seat.model_dump(mode="json"),
        "card": catalog.cards[seat.card].model_dump(mode="json") if seat.card else None,
        "image": catalog.images[seat.image].model_dump(mode="json"),
        "model": catalog.models[seat.model.id].model_dump(mode="json"),
        "drafter": catalog.models[seat.drafter.id].model_dump(mode="json") if seat.drafter else None,
        "learned": learned_of(seat.id, ports),
    }


def _by_name(name: str, as_host: str | None, ports: Ports, catalog: Catalog) -> Seat:
    return choose_seat(name, host_of(as_host, ports, catalog), catalog).seat
