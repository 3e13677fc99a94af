"""Which bytes a seat ran with: the digest of its image and the revisions of its models, and whether they passed.

One file per seat holds what is locked (``up --frozen`` uses exactly that) and the starts so far, oldest first.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.plan import Plan

_KEPT = 20
"""Starts that are remembered; one that passed is kept beyond them while it is the last that did."""


class LockedImage(Value):
    """An image by its reference and the digest that is run."""

    ref: str
    digest: str


class LockedModel(Value):
    """A repository on the hub at one commit."""

    repo: str
    revision: str


class Parts(Value):
    """Everything that a start fetches from elsewhere."""

    image: LockedImage
    model: LockedModel
    drafter: LockedModel | None = None


class Entry(Value):
    """One set of parts, the spec hash that it was planned or started as, and when (seconds since the epoch)."""

    parts: Parts
    spec_hash: str
    at: float
    passed_at: float | None = None


class SeatLock(Value):
    """The file of one seat."""

    version: Literal[1] = 1
    seat: str
    locked: Entry | None = None
    history: tuple[Entry, ...] = Field(default=())

    def with_locked(self, entry: Entry) -> SeatLock:
        """The same with ``entry`` locked; what is known of the same parts and spec stays known."""
        return self.model_copy(update={"locked": self._known(entry)})

    def with_start(self, entry: Entry) -> SeatLock:
        """The same with one more start, the latest; an equal earlier one is moved to the end."""
        known = self._known(entry)
        others = [old for old in self.history if not _same(old, entry)]
        kept = others[-(_KEPT - 1) :]
        passed = [old for old in others if old.passed_at is not None]
        if passed and not any(old.passed_at is not None for old in kept):
            kept = [max(passed, key=lambda old: old.passed_at or 0.0), *kept]
        return self.model_copy(update={"history": (*kept, known)})

    def with_passed(self, spec_hash: str, at: float) -> SeatLock:
        """The same with every entry of that spec marked as passed."""

        def mark(entry: Entry) -> Entry:
            return entry.model_copy(update={"passed_at": at}) if entry.spec_hash == spec_hash else entry

        locked = None if self.locked is None else mark(self.locked)
        return self.model_copy(update={"locked": locked, "history": tuple(mark(entry) for entry in self.history)})

    def current(self) -> Entry | None:
        """What is in use: the locked parts, else those of the latest start."""
        return self.locked or (self.history[-1] if self.history else None)

    def last_passed(self) -> Entry | None:
        """The entry that passed last among those with other parts than the current one; None when there is none."""
        current = self.current()
        passed = [
            entry
            for entry in self.history
            if entry.passed_at is not None and (current is None or entry.parts != current.parts)
        ]
        return max(passed, key=lambda entry: entry.passed_at or 0.0, default=None)

    def _known(self, entry: Entry) -> Entry:
        """``entry`` with the mark that an equal one has."""
        marks = [old.passed_at for old in (*self.history, self.locked) if old is not None and _same(old, entry)]
        passed = max((mark for mark in marks if mark is not None), default=entry.passed_at)
        return entry.model_copy(update={"passed_at": passed})


def _same(one: Entry, other: Entry) -> bool:
    return one.parts == other.parts and one.spec_hash == other.spec_hash


def parts_of(plan: Plan) -> tuple[Parts | None, tuple[str, ...]]:
    """The parts of a plan, or None and what it lacks to be pinned, in words."""
    missing: list[str] = []
    if plan.image.digest is None:
        missing.append(f"image {plan.image.ref} has no digest: no registry gave it, or nobody was asked")
    models = [("model", plan.model), *([("drafter", plan.drafter)] if plan.drafter is not None else [])]
    for what, facts in models:
        if facts.repo is None:
            missing.append(f"{what} {facts.path} is a folder of your own, which has no revision")
        elif facts.revision is None:
            missing.append(f"{what} {facts.repo} is not on this machine, so its revision is not known")
    if missing or plan.image.digest is None:
        return None, tuple(missing)
    found = [LockedModel(repo=str(facts.repo), revision=str(facts.revision)) for _, facts in models]
    image = LockedImage(ref=plan.image.ref.partition("@")[0], digest=plan.image.digest)
    return Parts(image=image, model=found[0], drafter=found[1] if len(found) > 1 else None), ()
