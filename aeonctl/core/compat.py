"""The facts that rules speak of: host, image, model, seat, and how they compare."""

from __future__ import annotations

from typing import Any

from aeonctl.core.host import Gpu, Host, MemoryKind, Platform, vram_gib
from aeonctl.core.image import ImageFacts
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Request
from aeonctl.core.rows import Seat
from aeonctl.core.select import Choice
from aeonctl.core.units import GIB, version_key


def facts_of(
    request: Request, choice: Choice, host: Host, image: ImageFacts, model: ModelFacts, drafter: ModelFacts | None
) -> dict[str, Any]:
    """Every fact by its dotted name; one that is not known is None."""
    seat = choice.seat
    return {
        **_host_facts(host, choice.gpus),
        **image_facts_of(image, host, choice.gpus[0] if choice.gpus else None, needs_gpu=choice.seat.gpus > 0),
        "model.repo": model.repo,
        "model.quantization": model.quantization,
        "model.gated": model.gated and not model.present,
        "drafter.repo": drafter.repo if drafter else None,
        "drafter.gated": drafter.gated and not drafter.present if drafter else None,
        "seat.id": seat.id,
        "seat.gpus": seat.gpus,
        "seat.network": seat.container.network,
        "seat.card_match": choice.card_match,
        "seat.vram": _vram(request, seat, choice.gpus, host),
        "seat.vram_gib_min": seat.vram_gib_min,
        "seat.gpu_count": None if host.gpus is None else "enough" if len(choice.gpus) >= seat.gpus else "short",
        "seat.gpus_found": len(choice.gpus),
        "request.lan": request.lan,
    }


def _host_facts(host: Host, gpus: tuple[Gpu, ...]) -> dict[str, Any]:
    sizes = [vram_gib(gpu, host.memory) for gpu in gpus]
    known = [size for size in sizes if size is not None]
    gpu = gpus[0] if gpus else None
    return {
        "host.name": host.name,
        "host.platform": host.platform,
        "host.arch": host.arch,
        "host.memory_gib": None if host.memory.total_bytes is None else round(host.memory.total_bytes / GIB, 1),
        "host.gpu.sm": gpu.sm if gpu else None,
        "host.gpu.name": gpu.name if gpu else None,
        "host.gpu.memory": gpu.memory if gpu else None,
        "host.gpu.vram_gib": round(min(known), 2) if known and len(known) == len(sizes) else None,
        "host.gpu.mig": any(g.mig for g in gpus) if gpus else None,
        "host.gpu.count": None if host.gpus is None else len(host.gpus),
        "host.driver.version": host.driver.version,
        "host.driver.cuda": host.driver.cuda,
        "host.docker.runtime": host.docker.gpu.runtime,
        "host.docker.flavor": host.docker.flavor,
    }


def image_facts_of(image: ImageFacts, host: Host, gpu: Gpu | None, *, needs_gpu: bool) -> dict[str, Any]:
    """The facts of an image beside one GPU of a host (None when it has none, or the seat needs none)."""
    platforms = image.platforms or ((f"linux/{image.arch}",) if image.arch else None)
    return {
        "image.ref": image.ref,
        "image.family": image.family or "other",
        "image.vllm": image.vllm,
        "image.arch": image.arch or (" and ".join(p.partition("/")[2] for p in platforms) if platforms else None),
        "image.platform_match": None if platforms is None or host.arch is None else f"linux/{host.arch}" in platforms,
        "image.sm": " ".join(image.sm) if image.sm else None,
        "image.not_for": image.not_for,
        "image.sm_match": sm_match(image, gpu.sm) if gpu else None if needs_gpu else "none-needed",
        "image.driver": driver_match(image, host) if gpu else None,
        "image.cuda": image.needs_cuda or image.cuda,
        "image.driver_branch_min": image.driver_branch_min,
        "image.cpu_only": image.cpu_only,
        "image.advice": image.advice.get(str(gpu.sm) if gpu else "", _ADVICE),
        "image.facts_from": image.facts_from,
        "image.digest": image.digest,
        "image.tag_digest": image.tag_digest,
        "image.digest_moved": None if image.digest is None else image.tag_digest is not None,
    }


_ADVICE = "choose a seat of this machine's card: aeonctl seats lists them"


def sm_match(image: ImageFacts, sm: str | None) -> str:
    """How an image's kernels meet a GPU of compute capability ``sm``.

    ``excluded``: the image says that it is not for it. ``listed``: built for it. ``unlisted``: not built for it, but
    CUDA may run code built for a lower minor of the same major, or compile PTX. ``mismatch``: neither. ``unknown``.
    """
    if sm is None:
        return "unknown"
    if sm in image.not_for_sm:
        return "excluded"
    if image.sm is None:
        return "unknown"
    if sm in image.sm:
        return "listed"
    wanted = version_key(sm)
    same_major = any(version_key(built)[0] == wanted[0] and version_key(built) < wanted for built in image.sm)
    from_ptx = any(version_key(built) < wanted for built in image.ptx)
    return "unlisted" if same_major or from_ptx else "mismatch"


def driver_match(image: ImageFacts, host: Host) -> str:
    """Whether the driver is new enough for the image: ``ok``, ``old`` or ``unknown``.

    CUDA's minor versions are compatible, so an image built with 13.x runs on a driver that speaks any 13.y, unless the
    image itself demands more. The driver's version string is compared outside WSL2 only, where it is Linux's own.
    """
    if image.cpu_only:
        return "ok"
    floor = image.driver_branch_min
    if floor is not None and host.platform is not Platform.WSL2 and host.driver.version is not None:
        branch = version_key(host.driver.version)
        if branch and branch[0] < floor:
            return "old"
    if image.cuda is None and image.needs_cuda is None:
        return "unknown" if floor is None or host.driver.version is None else "ok"
    if host.driver.cuda is None:
        return "unknown"
    speaks = version_key(host.driver.cuda)
    if image.needs_cuda is not None and version_key(image.needs_cuda) > speaks:
        return "old"
    return "old" if image.cuda is not None and version_key(image.cuda)[0] > speaks[0] else "ok"


def _vram(request: Request, seat: Seat, gpus: tuple[Gpu, ...], host: Host) -> str:
    """Whether each GPU has the memory that the seat was made for; another model has needs of its own."""
    if seat.vram_gib_min is None or not gpus or request.model is not None:
        return "none-needed"
    sizes = [vram_gib(gpu, host.memory) for gpu in gpus]
    if any(size is None for size in sizes):
        return "unknown"
    return "enough" if all(size is not None and size >= seat.vram_gib_min for size in sizes) else "short"


def is_unified(gpus: tuple[Gpu, ...]) -> bool:
    """True when the seat's GPUs share the operating system's memory."""
    return any(gpu.memory is MemoryKind.UNIFIED for gpu in gpus)
