"""Pages: what an id stands for, why it is so, where that is from, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from aeonctl.core.base import Value
from aeonctl.core.catalog import Catalog
from aeonctl.core.checks import CheckRow
from aeonctl.core.flags import Flag
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
            kinds += [f"vLLM {table.version}: {_shape(found[1])}" for found in (table.find(bare),) if found]
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


def _shape(flag: Flag) -> str:
    """How an option is written, in words."""
    words = {"flag": "a switch", "value": "one value", "list": "one or more values", "json": "a JSON object"}[flag.kind]
    if flag.number is not None:
        words = "a whole number" if flag.number == "int" else "a number"
    parts = [words, f"off with {flag.negative}" if flag.negative else ""]
    parts += [f"one of {', '.join(flag.choices)}" if flag.choices else ""]
    parts += [f"also written {', '.join(flag.aliases)}" if flag.aliases else ""]
    return "; ".join(part for part in parts if part)


def _touches(rule: Rule, option: str) -> bool:
    text = json.dumps([rule.when, rule.then.model_dump(mode="json", exclude_unset=True)])
    return f'"option.{option}' in text or f'"{option}"' in text or f'"{option}.' in text


def check_page(ident: str, checks: Mapping[str, CheckRow]) -> Page | None:
    """What a check of ``doctor`` is for, and what it can say; ``gpu-0`` is of the check ``gpu``."""
    row = checks.get(ident) or checks.get(ident.rpartition("-")[0])
    if row is None:
        return None
    situations = row.situations.values()
    said = (f"{one.status}: {one.says}" + (f" -> {one.remedy}" if one.remedy else "") for one in situations)
    return Page(
        id=row.id,
        kind="check",
        what=row.title,
        why=row.why,
        source=row.source,
        command="aeonctl doctor",
        more=tuple(said),
    )
