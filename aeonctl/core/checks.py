"""What the host's facts mean for serving a model: one check each, with a way out.

What a check says, how bad it is and what to type are rows (``profiles/checks``); a pure function decides which of the
row's situations a host is in. Nothing stops at the first failure, and an unknown is neither a pass nor a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from aeonctl.core.base import Row, Value, invalid

CheckId = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


class Status(StrEnum):
    """How a check came out. ``skip`` is for what does not apply, or what nobody could tell."""

    PASS = "pass"  # noqa: S105 - a check that passed
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Check(Value):
    """One answer of ``doctor``: an id, how it came out, one sentence, and what to do about it.

    ``applies`` is false for a check that has nothing to say about this kind of machine.
    """

    id: str
    status: Status
    summary: str
    detail: str | None = None
    remedy: str | None = None
    applies: Annotated[bool, Field(exclude=True)] = True


class Situation(Value):
    """One way in which a check can come out; ``says`` and ``remedy`` name facts in braces."""

    status: Status
    says: str
    remedy: str | None = None


class CheckRow(Row):
    """What one check of ``doctor`` knows. ``table`` holds knowledge by key (an Xid's meaning, a kernel's fault)."""

    id: CheckId
    title: str
    situations: dict[CheckId, Situation]
    table: dict[str, str] = Field(default_factory=dict)


NOT_HERE = "not-here"
"""The situation of a check that is about another kind of machine."""

UNKNOWN = "unknown"
"""The situation in which the facts that decide are not known."""


class Finding(NamedTuple):
    """What a check's function decided: the row, its situation, and the facts that the words speak of.

    ``part`` tells several findings of one check apart (GPU 0, GPU 1).
    """

    check: str
    situation: str
    facts: Mapping[str, Any] = {}
    detail: str | None = None
    part: str | None = None


def not_here(check: str) -> Finding:
    """The check is about another kind of machine."""
    return Finding(check, NOT_HERE)


def unknown(check: str, why: str | None = None) -> Finding:
    """Nobody could tell."""
    return Finding(check, UNKNOWN, {}, why)


def check_of(finding: Finding, rows: Mapping[str, CheckRow]) -> Check:
    """A finding in its row's words; ConfigurationError profile_invalid when the row has none for it."""
    row = rows.get(finding.check)
    ident = finding.check if finding.part is None else f"{finding.check}-{finding.part}"
    if finding.situation in (NOT_HERE, UNKNOWN) and row is not None and finding.situation not in row.situations:
        words = "does not apply to this machine" if finding.situation == NOT_HERE else "could not be told here"
        return Check(
            id=ident,
            status=Status.SKIP,
            summary=f"{row.title}: {words}",
            detail=finding.detail,
            applies=finding.situation != NOT_HERE,
        )
    situation = row.situations.get(finding.situation) if row is not None else None
    if situation is None:
        raise invalid(f"check {finding.check}", [f"situations.{finding.situation}: it is not there"])
    try:
        says = situation.says.format_map(finding.facts)
        remedy = situation.remedy.format_map(finding.facts) if situation.remedy else None
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise invalid(f"check {finding.check}", [f"situations.{finding.situation}: {error!r} in braces"]) from error
    return Check(id=ident, status=situation.status, summary=says, detail=finding.detail, remedy=remedy)


def checks_of(findings: Iterable[Finding], rows: Mapping[str, CheckRow]) -> list[Check]:
    """Every finding in its row's words."""
    return [check_of(finding, rows) for finding in findings]
