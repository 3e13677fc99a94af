"""``aeonctl pull-model``: fetch before ``up`` has to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aeonctl.errors import UsageError
from aeonctl.ports import ModelHub, Ports, Reporter
from aeonctl.workflows.folders import named_model

if TYPE_CHECKING:  # a repository's pull needs no plan, and pays for no planner
    from aeonctl.core.model import ModelFacts


@dataclass(frozen=True)
class Pulled:
    """One snapshot that is whole on the disk: its size, and how much of it was there before."""

    facts: ModelFacts
    reused_bytes: int


def pull_model(
    repo: str | None,
    seat: str | None,
    as_host: str | None,
    dry_run: bool,
    ports: Ports,
    report: Reporter,
    *,
    verify: bool = False,
) -> list[Pulled]:
    """Download a repository's snapshot, or a seat's model and its drafter; the model comes first in the answer.

    UsageError unless exactly one is named. Whatever can be refused is refused before the first byte: what may not be
    had (what is gated is asked for first), and what does not fit on the disk in all. ``verify`` reads every byte after.
    """
    if (repo is None) == (seat is None):
        raise UsageError(
            "nothing_to_pull",
            "name a model or a seat" if repo is None else "name a model or a seat, not both",
            hint="aeonctl pull-model --seat quality, or aeonctl pull-model Qwen/Qwen3-0.6B",
        )
    wanted = [_named(repo, ports.hub)] if repo is not None else _of_seat(str(seat), as_host, ports)
    sizes = ask_first(wanted, ports.hub, report)
    if dry_run:
        return [_sized(facts, *sizes[str(facts.repo)]) for facts, _ in wanted]
    pulled = [_fetch(one, sizes[str(one[0].repo)], ports, report) for one in wanted]
    for one in pulled if verify else ():
        _verify(one.facts, ports, report)
    return pulled


Wanted = tuple["ModelFacts", str | None]
"""What is here of a model, and the revision that was asked for: None is the main branch, as the hub has it now."""


def ask_first(wanted: Sequence[Wanted], hub: ModelHub, report: Reporter) -> dict[str, tuple[int, int]]:
    """The bytes to fetch and in all, by repository. Every refusal of the hub comes here, gated repositories first."""
    for facts, _ in wanted:
        if facts.gated and not facts.present:
            report.note(
                f"{facts.repo} is gated: it needs its terms accepted on its page, and HF_TOKEN or hf auth login"
            )
    sizes: dict[str, tuple[int, int]] = {}
    for facts, revision in sorted(wanted, key=lambda one: not one[0].gated):
        is_this_commit = facts.present and facts.revision == revision
        sizes[str(facts.repo)] = (0, facts.bytes or 0) if is_this_commit else hub.size(str(facts.repo), revision)
    return sizes


def _named(text: str, hub: ModelHub) -> Wanted:
    facts = named_model(text, hub)
    if facts.repo is None:
        raise UsageError(
            "nothing_to_pull",
            f"{facts.path} is a folder on this machine; there is nothing to download",
            hint=f"aeonctl show {facts.path} tells what is in it",
        )
    return facts, text.partition("@")[2] or None


def _of_seat(name: str, as_host: str | None, ports: Ports) -> list[Wanted]:
    from aeonctl.core.plan import Request
    from aeonctl.workflows.ask import Asked, plan_for, refuse
    from aeonctl.workflows.hosts import catalog_of

    catalog = catalog_of(ports)
    plan = plan_for(Asked(Request(seat=name), as_host=as_host), ports, catalog)
    refuse(plan)
    seat = catalog.seat(plan.seat)
    wanted: list[Wanted] = [(plan.model, catalog.models[seat.model.id].revision)]
    if plan.drafter is not None and seat.drafter is not None:
        wanted.append((plan.drafter, catalog.models[seat.drafter.id].revision))
    return wanted


def _sized(facts: ModelFacts, needed: int, total: int) -> Pulled:
    return Pulled(facts.model_copy(update={"bytes": total}), total - needed)


def _fetch(wanted: Wanted, size: tuple[int, int], ports: Ports, report: Reporter) -> Pulled:
    facts, revision = wanted
    repo = str(facts.repo)
    needed, total = size
    got = ports.hub.fetch(repo, revision, lambda step: report.fetching(repo, step))
    report.settle()
    return Pulled(got, max(0, total - needed))


def _verify(facts: ModelFacts, ports: Ports, report: Reporter) -> None:
    repo = str(facts.repo)
    ports.hub.verify(repo, facts.revision, lambda step: report.fetching(f"{repo} (checksums)", step))
    report.settle()
    report.note(f"{repo}: every file has the checksum that the hub lists")
