"""Checks of what one seat needs: its image, its model, a port, memory, a token."""

from __future__ import annotations

from typing import NamedTuple

from aeonctl.core.checks import Finding, not_here
from aeonctl.core.checks_system import is_unified
from aeonctl.core.host import Host
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Plan
from aeonctl.core.units import GIB, human_bytes

_UNPACKED_SHARE = 3.5
"""Unpacked and compressed together, as a multiple of compressed, when only the compressed size is known."""


class SeatNeeds(NamedTuple):
    """A seat's plan, whether its image is on the engine (None is unknown), and the ports of our engines."""

    plan: Plan
    image_here: bool | None
    our_ports: frozenset[int] = frozenset()


def seat_findings(host: Host, needs: SeatNeeds) -> list[Finding]:
    """Every check of a seat that could be planned."""
    plan = needs.plan
    return [
        *_refusals(plan),
        _image(host, needs),
        _model(host, plan),
        _port(host, needs),
        _memory(host, plan),
        _token(host, plan),
        _gate(plan),
    ]


def _refusals(plan: Plan) -> list[Finding]:
    if not plan.refusals:
        return [Finding("seat", "starts", {"seat": plan.seat})]
    return [
        Finding("seat", "refused", {"why": r.why, "remedy": r.remedy or "aeonctl seats"}, None, r.rule)
        for r in plan.refusals
    ]


def _image(host: Host, needs: SeatNeeds) -> Finding:
    image = needs.plan.image
    facts = {"image": image.ref}
    if needs.image_here:
        return Finding("seat-image", "here", facts)
    size = image.unpacked_bytes
    if size is None and image.compressed_bytes is not None:
        size = int(image.compressed_bytes * _UNPACKED_SHARE)
    free = host.docker.image_root_free_bytes
    if size is None or free is None or needs.image_here is None:
        return Finding("seat-image", "unsized", facts)
    facts |= {"needed": human_bytes(size), "free": human_bytes(free)}
    return Finding("seat-image", "fits" if free > size else "short", facts)


def _names(parts: tuple[ModelFacts, ...]) -> dict[str, str]:
    names = [part.repo or part.path for part in parts]
    return {"models": " and ".join(names), "first": names[0]}


def _model(host: Host, plan: Plan) -> Finding:
    missing = plan.missing_models()
    if not missing:
        parts = tuple(part for part in (plan.model, plan.drafter) if part is not None)
        return Finding("seat-model", "here", _names(parts))
    disk = host.disk("hub-cache")
    sizes = [part.bytes for part in missing if part.bytes is not None]
    if len(sizes) < len(missing) or disk is None or disk.free_bytes is None:
        return Finding("seat-model", "unsized", _names(missing))
    facts = _names(missing) | {"needed": human_bytes(sum(sizes)), "free": human_bytes(disk.free_bytes)}
    return Finding("seat-model", "fits" if disk.free_bytes > sum(sizes) else "short", facts)


def _port(host: Host, needs: SeatNeeds) -> Finding:
    port = needs.plan.port
    owner = host.port_owner(port)
    facts = {"port": str(port), "seat": needs.plan.seat}
    if host.ports is None:
        return Finding("seat-port", "unknown", facts, host.unknown.get("ports"))
    if owner is None:
        return Finding("seat-port", "free", facts)
    taken = {entry.port for entry in host.ports}
    free = next((other for other in range(port + 1, 65536) if other not in taken), port)
    facts |= {"owner": owner, "free": str(free)}
    return Finding("seat-port", "ours" if port in needs.our_ports else "taken", facts)


def _memory(host: Host, plan: Plan) -> Finding:
    fit = plan.fit
    if not host.gpus or plan.container.gpus is None:
        return not_here("seat-memory")
    facts = {
        "seat": plan.seat,
        "weights": f"{fit.weights_gib}",
        "left": f"{fit.left_gib}",
        "budget": f"{fit.budget_gib}",
    }
    if fit.fits is False:
        return Finding("seat-memory", "short", facts)
    free = _free_gib(host)
    if free is not None and fit.budget_gib is not None and free < fit.budget_gib:
        return Finding("seat-memory", "busy", facts | {"free": f"{free:.1f}"})
    if fit.fits is None or fit.budget_gib is None:
        return Finding("seat-memory", "unknown")
    return Finding("seat-memory", "fits", facts)


def _free_gib(host: Host) -> float | None:
    """What a start could take now: the most that one card has free, or what is available of shared memory."""
    if is_unified(host):
        available = host.memory.available_bytes
        return None if available is None else available / GIB
    free = [gpu.vram_free_bytes for gpu in host.gpus or () if gpu.vram_free_bytes is not None]
    return max(free) / GIB if free else None


def _gated(plan: Plan) -> str | None:
    """The repository of the seat that is gated and not here yet."""
    return next((part.repo for part in plan.missing_models() if part.gated), None)


def _token(host: Host, plan: Plan) -> Finding:
    repo = _gated(plan)
    if repo is None:
        return Finding("seat-token", "not-needed")
    token = host.details.hub.token
    if token is None:
        return Finding("seat-token", "unknown")
    present = token in ("environment", "file")
    return Finding("seat-token", "present" if present else "missing", {"repo": repo})


def _gate(plan: Plan) -> Finding:
    repo = _gated(plan)
    return Finding("seat-gate", "open") if repo is None else Finding("seat-gate", "untold", {"repo": repo})
