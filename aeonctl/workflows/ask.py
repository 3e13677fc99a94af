"""From what the user asked to a plan: gather the facts, then decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aeonctl.core.catalog import Catalog
from aeonctl.core.host import Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.core.inputs import Inputs
from aeonctl.core.ladder import Step
from aeonctl.core.lock import Parts
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Plan, Refusal, Request
from aeonctl.core.planner import make_plan
from aeonctl.core.rows import ModelRow
from aeonctl.core.select import Choice, choose_seat
from aeonctl.core.units import human_bytes
from aeonctl.errors import HostError, RefusedError
from aeonctl.ports import Engines, ModelHub, Ports
from aeonctl.workflows.folders import named_model
from aeonctl.workflows.hosts import host_of
from aeonctl.workflows.images import image_facts
from aeonctl.workflows.lockfiles import frozen_parts
from aeonctl.workflows.seats import judged_seats


@dataclass(frozen=True)
class Asked:
    """One request with what must stay out of a plan: the secrets' values, and where the facts come from.

    ``check_image`` asks the registry about the seat's image too; ``image`` are facts that are settled already;
    ``frozen`` takes image and models from the seat's lock.
    """

    request: Request
    as_host: str | None = None
    offline: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)
    must_know_image: bool = False
    steps: tuple[Step, ...] = ()
    check_image: bool = False
    image: ImageFacts | None = None
    frozen: bool = False

    @property
    def rehearsal(self) -> bool:
        """True when nothing real may be touched."""
        return self.request.rehearsal


def gather(asked: Asked, ports: Ports, catalog: Catalog) -> Inputs:
    """Every fact that the plan needs. Nothing is pulled, and nothing is asked of a network unless the user named an
    image that the engine here does not have."""
    host = host_of(asked.as_host, ports, catalog)
    choice = _choose(asked, host, ports, catalog)
    seat = choice.seat
    parts = frozen_parts(seat.id, seat.drafter is not None, asked.request, ports) if asked.frozen else None
    image = image_facts(asked, seat, host, ports, catalog, parts)
    model, drafter = model_facts(asked, choice, ports, catalog, parts)
    return Inputs(asked.request, choice, host, image, model, drafter, asked.steps)


def _choose(asked: Asked, host: Host, ports: Ports, catalog: Catalog) -> Choice:
    """The seat that is meant; where none is for this machine, the error says what would fit."""
    try:
        return choose_seat(asked.request.seat, host, catalog)
    except (RefusedError, HostError) as error:
        fitting = [view.seat.id for view in judged_seats(host, hub_for(asked, ports), catalog) if view.fits]
        if fitting and error.code in ("no_seat_for_card", "no_gpu"):
            words = ", ".join(f"--seat {seat}" for seat in fitting)
            error.hint = f"what would fit {host.name}: {words}"
            error.facts["fitting"] = fitting
        raise


def plan_for(asked: Asked, ports: Ports, catalog: Catalog) -> Plan:
    """Gather and decide."""
    return make_plan(gather(asked, ports, catalog), catalog)


def engines_for(asked: Asked, ports: Ports) -> Engines:
    """Where the engine will run."""
    return ports.rehearsal if asked.rehearsal else ports.docker


def hub_for(asked: Asked, ports: Ports) -> ModelHub:
    """Where the model comes from."""
    return ports.rehearsal_hub if asked.rehearsal else ports.hub


def model_facts(
    asked: Asked, choice: Choice, ports: Ports, catalog: Catalog, parts: Parts | None = None
) -> tuple[ModelFacts, ModelFacts | None]:
    """The model and the drafter: the seat's own, what the user named, or what the seat's lock holds."""
    hub, seat, request = hub_for(asked, ports), choice.seat, asked.request
    if parts is not None:
        held = {"model": f"{parts.model.repo}@{parts.model.revision}"}
        held |= {"drafter": f"{parts.drafter.repo}@{parts.drafter.revision}"} if parts.drafter else {}
        request = request.model_copy(update=held)
    model = _one_model(request.model, catalog.models[seat.model.id], hub)
    if seat.drafter is None:
        return model, None
    return model, _one_model(request.drafter, catalog.models[seat.drafter.id], hub)


def _one_model(named: str | None, row: ModelRow, hub: ModelHub) -> ModelFacts:
    if named is None:
        facts = hub.locate(row.repo, row.revision)
        size = facts.bytes if facts.present else row.bytes
        return facts.model_copy(
            update={"bytes": size, "quantization": row.quantization or facts.quantization, "gated": row.gated}
        )
    return named_model(named, hub)


def refuse(plan: Plan) -> None:
    """Stop here if the plan has refusals: RefusedError with all of them, nothing pulled."""
    refuse_for(plan.seat, plan.host, plan.refusals, plan.image)


def refuse_for(what: str, host: str, refusals: tuple[Refusal, ...], image: ImageFacts) -> None:
    """RefusedError with every reason, and what it cost to know them."""
    if not refusals:
        return
    first = refusals[0]
    code = _REFUSAL_CODES.get(first.rule, "image_incompatible" if first.rule.startswith("image-") else "refused")
    remedies = [refusal.remedy for refusal in refusals if refusal.remedy]
    causes = [f"{refusal.why} [{refusal.rule}]" for refusal in refusals]
    if image.facts_from is FactsFrom.REGISTRY:
        causes.append(f"nothing was pulled: the registry's word for it was {human_bytes(image.bytes_moved)}")
    raise RefusedError(
        code,
        f"{what} is refused on {host}",
        cause=tuple(causes),
        hint="; or ".join(dict.fromkeys(remedies)) or "aeonctl seats lists what fits this machine",
        refusals=[refusal.model_dump(mode="json") for refusal in refusals],
        bytes_moved=image.bytes_moved,
    )


_REFUSAL_CODES = {
    "weights-do-not-fit": "does_not_fit",
    "seat-vram-short": "does_not_fit",
    "gpu-count-short": "does_not_fit",
    "option-unknown": "setting_forbidden",
    "model-not-mountable": "model_not_mountable",
}
