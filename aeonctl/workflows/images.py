"""What is known of an image before it is pulled: from the engine here, the registry, or the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aeonctl.core.catalog import Catalog, facts_from_row
from aeonctl.core.host import Host
from aeonctl.core.image import ImageFacts, parse_reference, pinned
from aeonctl.core.images import drift, with_row
from aeonctl.core.lock import Parts
from aeonctl.core.rows import ImageRow, Seat
from aeonctl.errors import DownloadError, HostError
from aeonctl.ports import Ports

if TYPE_CHECKING:
    from aeonctl.workflows.ask import Asked

_PASSING = frozenset({"registry_unreachable", "registry_failed", "registry_rate_limited"})
"""Troubles of a registry that say nothing about the image."""


def image_facts(
    asked: Asked, seat: Seat, host: Host, ports: Ports, catalog: Catalog, parts: Parts | None = None
) -> ImageFacts:
    """The image of a start: a local one by its own config; else what a registry says of the user's, or what the
    catalogue says of the seat's. A registry is asked about the seat's image only with ``--check``.

    DownloadError as the registry port, where the image cannot be known without it.
    """
    row = catalog.images[seat.image]
    if asked.image is not None:
        return asked.image
    if asked.rehearsal:
        facts = facts_from_row(row)
        return facts if asked.request.image is None else _renamed(facts, asked.request.image)
    if parts is not None:
        ref, digest = parts.image.ref, parts.image.digest
        held = facts_of_ref(ref, catalog).model_copy(update={"digest": digest})
        return _local(ref, digest, host, ports, catalog) or held
    if asked.request.image is not None:
        return _of_user(asked, asked.request.image, host, ports, catalog)
    if asked.check_image:
        return _checked(asked, row, host, ports)
    local = None if host.recorded else _local(row.ref, row.digest, host, ports, catalog)
    return local or facts_from_row(row)


def _renamed(facts: ImageFacts, ref: str) -> ImageFacts:
    return facts.model_copy(update={"ref": ref, "digest": None})


def facts_of_ref(ref: str, catalog: Catalog) -> ImageFacts:
    """What the catalogue knows of a reference; little, when it is in no row."""
    row = catalog.image_row(ref)
    return facts_from_row(row, ref) if row else ImageFacts(ref=ref, digest=parse_reference(ref).digest)


def _local(ref: str, digest: str | None, host: Host, ports: Ports, catalog: Catalog) -> ImageFacts | None:
    """The image here by its own config; a recorded host of another architecture would not get this one."""
    try:
        facts = ports.docker.image(pinned(ref, digest))
    except HostError:
        return None
    if facts is None or (host.recorded and None not in (facts.arch, host.arch) and facts.arch != host.arch):
        return None
    return with_row(facts.model_copy(update={"ref": ref, "digest": digest or facts.digest}), catalog.image_row(ref))


def _of_user(asked: Asked, ref: str, host: Host, ports: Ports, catalog: Catalog) -> ImageFacts:
    local = _local(ref, parse_reference(ref).digest, host, ports, catalog)
    if local is not None and not asked.check_image:
        return local
    reason = "--offline forbids asking the registry"
    if not asked.offline:
        try:
            return from_registry(ref, host, ports, catalog)
        except DownloadError as error:
            if asked.must_know_image or error.code != "registry_unreachable":
                raise
            reason = error.message
    known = local or facts_of_ref(ref, catalog)
    note = f"nobody could be asked about {ref}: {reason}; it is judged by what is known of it here"
    return known.model_copy(update={"notes": (note,)})


def from_registry(ref: str, host: Host, ports: Ports, catalog: Catalog) -> ImageFacts:
    """What the registry says of a reference, completed by the catalogue; where they differ is noted."""
    facts = ports.registry.image(ref, host.arch)
    row = catalog.image_row(ref)
    if row is None:
        return facts
    notes = drift(facts, row)
    here = (facts.digest, facts.platform_digest)
    if row.digest is not None and row.ref == ref.partition("@")[0] and row.digest not in here:
        notes += (f"{ref} is another build now ({facts.digest}) than the one in the catalogue ({row.digest})",)
    return with_row(facts, row).model_copy(update={"notes": notes})


def _checked(asked: Asked, row: ImageRow, host: Host, ports: Ports) -> ImageFacts:
    """``--check``: the seat's image as the registry has it; a silent registry leaves the catalogue's facts."""
    try:
        if asked.offline:
            raise DownloadError("registry_unreachable", "--offline forbids asking the registry")  # noqa: TRY301
        return check_row(row, host, ports)
    except DownloadError as error:
        if error.code not in _PASSING:
            raise
        note = f"{row.ref} could not be checked: {error.message}; these are the catalogue's facts"
        return facts_from_row(row).model_copy(update={"notes": (note,)})


def check_row(row: ImageRow, host: Host, ports: Ports) -> ImageFacts:
    """The seat's image as the registry has it now. Where the tag has left the pinned digest, the facts are the pinned
    build's and ``tag_digest`` says what the tag means now. DownloadError as the registry port."""
    tag = ports.registry.image(row.ref, host.arch)
    facts = tag
    if row.digest is not None and row.digest not in (tag.digest, tag.platform_digest):
        try:
            facts = ports.registry.image(pinned(row.ref, row.digest), host.arch)
        except DownloadError as error:
            if error.code != "image_not_found":
                raise
        facts = facts.model_copy(
            update={
                "tag_digest": tag.digest,
                "bytes_moved": tag.bytes_moved + (facts.bytes_moved if facts is not tag else 0),
            }
        )
    update = {"ref": row.ref, "digest": row.digest or tag.digest, "notes": drift(facts, row)}
    return with_row(facts, row).model_copy(update=update)
