"""What two sources say of one image, and the room that a pull of it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from aeonctl.core.compat import image_facts_of
from aeonctl.core.host import Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.core.options import Options
from aeonctl.core.plan import Refusal, Remark
from aeonctl.core.rows import ImageRow, Rule
from aeonctl.core.rules import Draft, apply_rules
from aeonctl.core.units import human_bytes
from aeonctl.errors import HostError

UNPACKED_PER_COMPRESSED = 2.5
"""What gzip makes of a CUDA image, rounded up: the Spark image has 8.2 GB to pull and takes 18.3 GB on the disk."""


def with_row(facts: ImageFacts, row: ImageRow | None) -> ImageFacts:
    """An image's own words, completed by what the catalogue knows of it: whom its maker warns off, the driver that it
    needs, its size unpacked. Where both speak, the image's own word stays."""
    if row is None:
        return facts
    own = {
        "sm": facts.sm or row.sm or None,
        "ptx": facts.ptx if facts.sm else row.ptx,
        "not_for": facts.not_for or row.not_for,
        "not_for_sm": tuple(dict.fromkeys((*facts.not_for_sm, *row.not_for_sm))),
        "cuda": facts.cuda or row.cuda,
        "driver_branch_min": facts.driver_branch_min or row.driver_branch_min,
        "vllm": facts.vllm or row.vllm,
        "cpu_only": facts.cpu_only or row.cpu_only,
        "unpacked_bytes": facts.unpacked_bytes or row.local_bytes,
        "family": facts.family or row.family,
        "row": row.id,
        "advice": row.advice,
    }
    return facts.model_copy(update=own)


def drift(facts: ImageFacts, row: ImageRow) -> tuple[str, ...]:
    """Where an image's own config says something else than the catalogue; only what both speak of is compared."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("platforms", set(facts.platforms or ()), set(row.platforms)),
        ("compute capabilities", set(facts.sm or ()), set(row.sm)),
        ("CUDA", facts.cuda, row.cuda),
        ("vLLM", facts.vllm, row.vllm),
        ("its label not_for", facts.not_for, row.not_for),
    )
    return tuple(
        f"{what}: the registry says {_words(theirs)}, the catalogue {_words(ours)}; the registry's word is used"
        for what, theirs, ours in pairs
        if theirs and ours and theirs != ours
    )


def _words(value: object) -> str:
    return ", ".join(sorted(map(str, value))) if isinstance(value, set) else str(value)


class Room(NamedTuple):
    """What a pull needs, in bytes: to download, on the disk once unpacked, and what is here already (compressed)."""

    download: int
    unpacked: int
    here: int

    @property
    def needed(self) -> int:
        """The most that the disk has to hold at once: what comes, packed and unpacked."""
        return self.download + self.unpacked


def room_for(image: ImageFacts, chains: Iterable[tuple[str, ...]]) -> Room | None:
    """The room for an image beside the local images, each given as the chain of its layers' diff ids, lowest first.

    A layer is reused where it lies on the same layers as in a local image, so what counts is the longest common
    beginning. None when no size is known.
    """
    if image.compressed_bytes is None:
        return None if image.unpacked_bytes is None else Room(0, image.unpacked_bytes, 0)
    kept = max((_common(image, chain) for chain in chains), default=0)
    here = sum(layer.size for layer in image.layers[:kept])
    download = image.compressed_bytes - here
    unpacked = image.unpacked_bytes or int(image.compressed_bytes * UNPACKED_PER_COMPRESSED)
    share = download / image.compressed_bytes if image.compressed_bytes else 0.0
    return Room(download, int(unpacked * share), here)


def _common(image: ImageFacts, chain: tuple[str, ...]) -> int:
    count = 0
    for layer, local in zip(image.layers, chain, strict=False):
        if layer.diff_id != local:
            break
        count += 1
    return count


def check_room(image: ImageFacts, room: Room | None, host: Host) -> None:
    """HostError disk_full, with numbers, when the file system of the engine's images is too small for the pull.

    Nothing is said where a size or the free space is unknown (an engine on another machine).
    """
    free = host.docker.image_root_free_bytes
    if room is None or free is None or room.needed <= free:
        return
    there = f"; {human_bytes(room.here)} of it are here already" if room.here else ""
    known = "" if image.unpacked_bytes else " (estimated)"
    raise HostError(
        "disk_full",
        f"there is no room for {image.ref}: {human_bytes(room.needed)} are needed, {human_bytes(free)} are free",
        cause=(
            f"{human_bytes(room.download)} to download and {human_bytes(room.unpacked)} unpacked{known}{there}",
            f"Docker keeps its images in {host.docker.image_root}",
        ),
        hint="docker system df shows what can go (docker image prune); or move Docker's data-root to a larger disk",
        path=host.docker.image_root,
        needed_bytes=room.needed,
        download_bytes=room.download,
        unpacked_bytes=room.unpacked,
        reused_bytes=room.here,
        free_bytes=free,
    )


class Verdict(NamedTuple):
    """What the rules say of an image on a host, without any seat."""

    refusals: tuple[Refusal, ...]
    warnings: tuple[Remark, ...]


def judge_image(image: ImageFacts, host: Host, rules: Iterable[Rule]) -> Verdict:
    """An image against a host's architecture, driver and first GPU, by the rules that are about images alone."""
    gpu = host.gpus[0] if host.gpus else None
    facts = {
        "host.name": host.name,
        "host.platform": host.platform,
        "host.arch": host.arch,
        "host.gpu.sm": gpu.sm if gpu else None,
        "host.gpu.name": gpu.name if gpu else None,
        "host.driver.version": host.driver.version,
        "host.driver.cuda": host.driver.cuda,
        **image_facts_of(image, host, gpu, needs_gpu=False),
    }
    about_images = [rule for rule in rules if rule.id.startswith("image-")]
    draft = apply_rules(Draft(Options(), {}, {}), about_images, facts)
    return Verdict(draft.refusals, draft.warnings)


def facts_line(image: ImageFacts) -> str:
    """Where the facts are from, and what it cost, in words."""
    if image.facts_from is FactsFrom.REGISTRY:
        return f"facts from the registry's manifest and config, {human_bytes(image.bytes_moved)} moved"
    if image.facts_from is FactsFrom.LOCAL:
        return "it is here, facts from its own config"
    if image.facts_from is FactsFrom.CATALOGUE:
        return "facts from the catalogue, nobody was asked (--check asks the registry)"
    return "nothing is known of it"
