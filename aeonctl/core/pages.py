"""Pages: what an id stands for, why it is so, where that is from, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from aeonctl.core.base import Value
from aeonctl.core.catalog import Catalog
from aeonctl.core.judgements import Judgement
from aeonctl.core.rows import Rule
from aeonctl.core.signatures import Signature


class Page(Value):
    """One page. ``kind`` is finding | rule | option | check."""

    id: str
    kind: str
    what: str
    why: str = ""
    source: str = ""
    remedy: str = ""
    command: str = ""
    sample: str = ""
    more: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """The page's parts that are not empty, each with its name."""
        parts = [("what", self.what), ("why", self.why), ("looks", self.sample), ("do", self.remedy)]
        parts += [("type", self.command), ("source", self.source), *(("also", text) for text in self.more)]
        return [(name, text) for name, text in parts if text]


CHECKS = {
    "platform": "The operating system, and whether it runs inside Windows; it decides which rules hold.",
    "driver": "Whether NVML answers, and the driver's version; an engine cannot start without it.",
    "gpu": "The cards, their memory and what else uses it.",
    "memory": "The host's memory and swap; on unified memory it is the GPU's as well.",
    "docker": "Whether the Docker engine answers this user.",
    "docker-gpu": "Whether Docker can hand out GPUs: by the NVIDIA runtime, or by CDI.",
    "docker-disk": "Room for images where Docker keeps its data.",
    "hub-disk": "Room for models where the hub's cache is.",
    "seat": "Whether the seat that was asked for would start here.",
}


def finding_pages(ident: str, signatures: Iterable[Signature], judgements: Iterable[Judgement]) -> list[Page]:
    """The pages of a finding of ``diagnose``: one per way in which it is recognised."""
    found: dict[tuple[str, str], Page] = {}
    for row in signatures:
        if row.id == ident:
            page = Page(
                id=ident,
                kind="finding",
                what=f"{row.cause} ({row.severity})",
                source=row.source,
                remedy=row.remedy,
                command=row.command,
                sample=row.sample[:300],
            )
            found.setdefault((row.cause, row.remedy), page)
    for judged in judgements:
        if judged.id == ident:
            why = f"decided by {', or by '.join(json.dumps(condition) for condition in judged.when)}"
            page = Page(
                id=ident,
                kind="finding",
                what=judged.cause,
                why=why,
                source=judged.source,
                remedy=judged.remedy,
                command=judged.command,
            )
            found.setdefault((judged.cause, judged.remedy), page)
    return list(found.values())


def rule_page(rule: Rule) -> Page:
    """What a rule does, to whom, and why."""
    then = rule.then.model_dump(mode="json", exclude_unset=True)
    when = " or ".join(json.dumps(condition, ensure_ascii=False) for condition in rule.when)
    return Page(
        id=rule.id,
        kind="rule",
        what=f"{json.dumps(then, ensure_ascii=False)} when {when}",
        why=rule.why,
        source=rule.source,
        remedy=rule.remedy or "",
        command=f"aeonctl plan --seat SEAT --waive {rule.id}",
    )


def option_pages(option: str, catalog: Catalog) -> list[Page]:
    """What vLLM takes for an option, which seats set it and which rules touch it; empty when no version has it."""
    bare = option.removeprefix("--").partition(".")[0]
    kinds: list[str] = []
    for version in catalog.flags.versions:
        for table in catalog.flags.deciding(version):
            if found := table.find(bare):
                flag = found[1].model_dump(mode="json", exclude_none=True, exclude_defaults=True)
                kinds.append(f"vLLM {table.version}: {json.dumps(flag, ensure_ascii=False)}")
    if not kinds:
        return []
    kinds = list(dict.fromkeys(kinds))
    seats = [
        f"seat {seat.id} sets it to {seat.options[bare]}" for seat in catalog.seats.values() if bare in seat.options
    ]
    rules = [f"rule {rule.id}: {rule.why}" for rule in catalog.rules.values() if _touches(rule, bare)]
    return [
        Page(
            id=f"--{bare}",
            kind="option",
            what=kinds[-1],
            source="vLLM's own argument parser",
            command=f"aeonctl plan --seat SEAT --set {bare}=VALUE",
            more=(*kinds[:-1], *seats, *rules),
        )
    ]


def _touches(rule: Rule, option: str) -> bool:
    text = json.dumps([rule.when, rule.then.model_dump(mode="json", exclude_unset=True)])
    return f'"option.{option}' in text or f'"{option}"' in text or f'"{option}.' in text


def check_page(ident: str) -> Page | None:
    """What a check of ``doctor`` is for."""
    what = CHECKS.get(ident.partition(":")[0])
    return None if what is None else Page(id=ident, kind="check", what=what, command="aeonctl doctor", source="aeonctl")
