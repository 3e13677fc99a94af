"""``aeonctl pull-model``: fetch before ``up`` has to."""

from __future__ import annotations

from dataclasses import dataclass

from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Request
from aeonctl.errors import UsageError
from aeonctl.ports import Ports, Reporter
from aeonctl.workflows.ask import Asked, named_model, plan_for, refuse
from aeonctl.workflows.hosts import catalog_of


@dataclass(frozen=True)
class Pulled:
    """One snapshot that is whole on the disk: its size, and how much of it was there before."""

    facts: ModelFacts
    reused_bytes: int


def pull_model(
    repo: str | None, seat: str | None, as_host: str | None, dry_run: bool, ports: Ports, report: Reporter
) -> list[Pulled]:
    """Download a repository's snapshot, or a seat's model and its drafter. UsageError unless exactly one is named."""
    if (repo is None) == (seat is None):
        raise UsageError(
            "nothing_to_pull",
            "name a model or a seat" if repo is None else "name a model or a seat, not both",
            hint="aeonctl pull-model --seat quality, or aeonctl pull-model Qwen/Qwen3-0.6B",
        )
    wanted = [named_model(repo, ports.hub)] if repo is not None else _of_seat(str(seat), as_host, ports)
    gated = [facts for facts in wanted if facts.gated and not facts.present]
    for facts in gated:
        report.warn(f"{facts.repo} is gated: accept its terms on its page on the hub first, and set HF_TOKEN")
    return [_fetch(facts, dry_run, ports, report) for facts in (*gated, *(f for f in wanted if f not in gated))]


def _of_seat(seat: str, as_host: str | None, ports: Ports) -> list[ModelFacts]:
    asked = Asked(Request(seat=seat), as_host=as_host)
    plan = plan_for(asked, ports, catalog_of(ports))
    refuse(plan)
    return [plan.model] if plan.drafter is None else [plan.model, plan.drafter]


def _fetch(facts: ModelFacts, dry_run: bool, ports: Ports, report: Reporter) -> Pulled:
    repo = str(facts.repo)
    needed, total = ports.hub.size(repo, facts.revision)
    if dry_run:
        return Pulled(facts.model_copy(update={"bytes": total}), total - needed)
    got = ports.hub.fetch(repo, facts.revision, lambda step: report.fetching(repo, step))
    report.settle()
    return Pulled(got, max(0, total - needed))
