"""Fetching images: judged first, room looked for, then pulled while somebody watches that it moves."""

from __future__ import annotations

from dataclasses import replace as with_changes

from aeonctl.core.catalog import Catalog
from aeonctl.core.host import Host
from aeonctl.core.image import FactsFrom, ImageFacts, pinned
from aeonctl.core.images import check_room, judge_image, room_for
from aeonctl.core.plan import Plan, Request
from aeonctl.core.planner import make_plan
from aeonctl.core.units import human_bytes, human_seconds
from aeonctl.errors import DownloadError, HostError, UsageError
from aeonctl.ports import Ports, PullProgress, Reporter
from aeonctl.workflows.ask import Asked, gather, plan_for, refuse, refuse_for
from aeonctl.workflows.hosts import catalog_of, host_of
from aeonctl.workflows.images import check_row, from_registry

QUIET_SECONDS = 30.0
"""Silence after which the user is told."""

GIVE_UP_SECONDS = 600.0
"""Silence after which a pull is given up, unless ``--timeout`` says otherwise."""


def settle_image(plan: Plan, asked: Asked, ports: Ports, catalog: Catalog) -> tuple[Plan, Asked]:
    """Before a pull: the seat's image as its registry has it, judged again, and the room for it. An image that is here
    is asked about nowhere.

    DownloadError offline | registry_* | image_*; RefusedError; HostError disk_full.
    """
    if asked.rehearsal or ports.docker.image(plan.image_ref) is not None:
        return plan, asked
    if asked.offline:
        raise DownloadError(
            "offline",
            f"image {plan.image_ref} is not on this machine",
            cause="--offline forbids fetching it",
            hint=f"first: aeonctl pull-image --seat {plan.seat}",
        )
    if plan.image.facts_from is FactsFrom.REGISTRY:
        asked = with_changes(asked, image=plan.image)
    inputs = gather(asked, ports, catalog)
    if inputs.image.facts_from is not FactsFrom.REGISTRY:
        known = inputs.image
        if asked.frozen or asked.request.image is not None:
            facts = from_registry(pinned(known.ref, known.digest), inputs.host, ports, catalog)
            facts = facts.model_copy(update={"ref": known.ref, "digest": known.digest or facts.digest})
        else:
            facts = check_row(catalog.images[inputs.choice.seat.image], inputs.host, ports)
        asked = with_changes(asked, image=facts)
        inputs = with_changes(inputs, image=facts)
    plan = make_plan(inputs, catalog)
    refuse(plan)
    check_room(plan.image, room_for(plan.image, ports.docker.layers()), inputs.host)
    return plan, asked


class PullWatch:
    """Shows a pull's progress and notices when it stands still."""

    def __init__(self, ref: str, expected: int | None, ports: Ports, report: Reporter, timeout: float | None) -> None:
        """``expected`` is what will be downloaded in bytes; ``timeout`` the silence in seconds that ends the pull."""
        self._ref, self._clock, self._report = ref, ports.clock, report
        self._expected = expected or 0
        self._limit = GIVE_UP_SECONDS if timeout is None else timeout
        self._last: PullProgress | None = None
        self._moved = self._clock.now()
        self._told = False

    def step(self, step: PullProgress) -> None:
        """One step, or the same one again. DownloadError image_pull_failed (reason ``stalled``) ends the pull."""
        now = self._clock.now()
        if step != self._last:
            self._last, self._moved, self._told = step, now, False
            self._report.pulling(self._ref, with_changes(step, total=max(step.total, self._expected)))
            return
        silent = now - self._moved
        if silent >= self._limit:
            raise self._stalled(silent)
        if silent >= QUIET_SECONDS and not self._told:
            self._told = True
            self._report.warn(
                f"the pull of {self._ref} stands still: no byte for {human_seconds(silent)} "
                f"(given up after {human_seconds(self._limit)})"
            )

    def _stalled(self, silent: float) -> DownloadError:
        done = "" if self._last is None else f", after {human_bytes(self._last.done)} of this phase"
        return DownloadError(
            "image_pull_failed",
            f"could not pull {self._ref}: it stands still",
            cause=f"no byte came for {human_seconds(silent)}{done}",
            hint="check the network of the Docker engine, then try again: layers that came whole stay; "
            "--timeout SECONDS waits longer",
            reason="stalled",
            image=self._ref,
        )


def pull_watched(ref: str, image: ImageFacts, ports: Ports, report: Reporter, timeout: float | None = None) -> None:
    """Pull ``ref``, whose facts are ``image``. DownloadError image_pull_failed; HostError docker_*."""
    room = room_for(image, ports.docker.layers())
    report.note(f"pulling {ref}" + (f": {human_bytes(room.download)} to download" if room and room.download else ""))
    try:
        ports.docker.pull(ref, PullWatch(ref, room.download if room else None, ports, report, timeout).step)
    finally:
        report.settle()


def pull_image(
    ref: str | None, seat: str | None, as_host: str | None, ports: Ports, report: Reporter, timeout: float | None = None
) -> ImageFacts:
    """Judge an image against the host, then pull it, pinned by its digest. RefusedError before a byte of it moves."""
    if (ref is None) == (seat is None):
        raise UsageError(
            "nothing_to_pull",
            "name an image or a seat" if ref is None else "name an image or a seat, not both",
            hint="aeonctl pull-image --seat quality",
        )
    catalog = catalog_of(ports)
    facts = _named(str(ref), as_host, ports, catalog) if seat is None else _of_seat(seat, as_host, ports, catalog)
    name = pinned(facts.ref, facts.digest)
    if facts.facts_from is not FactsFrom.LOCAL:
        pull_watched(name, facts, ports, report, timeout)
    here = ports.docker.image(name)
    if here is None:
        return facts
    return here.model_copy(update={"ref": facts.ref, "digest": facts.digest, "bytes_moved": facts.bytes_moved})


def _of_seat(seat: str, as_host: str | None, ports: Ports, catalog: Catalog) -> ImageFacts:
    asked = Asked(Request(seat=seat), as_host=as_host, must_know_image=True)
    plan = plan_for(asked, ports, catalog)
    refuse(plan)
    return settle_image(plan, asked, ports, catalog)[0].image


def _named(ref: str, as_host: str | None, ports: Ports, catalog: Catalog) -> ImageFacts:
    """An image without a seat, as it is here or in its registry, judged by what it says of itself."""
    host: Host = host_of(as_host, ports, catalog)
    here = _here(ref, ports)
    facts = here or from_registry(ref, host, ports, catalog)
    verdict = judge_image(facts, host, catalog.rules.values())
    refuse_for(ref, host.name, verdict.refusals, facts)
    if here is None:
        check_room(facts, room_for(facts, ports.docker.layers()), host)
    return facts


def _here(ref: str, ports: Ports) -> ImageFacts | None:
    try:
        return ports.docker.image(ref)
    except HostError:
        return None
