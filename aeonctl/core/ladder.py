"""The fallback ladder: which rung addresses the cause of a failed start, and what it would change.

Precedence: seat < rung < what the user pinned < safety rules. So a rung is looked up here against the options as they
stood when the start failed, and applied by the planner between the seat and the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aeonctl.core.base import Value
from aeonctl.core.container import LABEL
from aeonctl.core.flags import FlagTable
from aeonctl.core.options import ABSENT, Options, parse_setting, show_value
from aeonctl.core.plan import Decision
from aeonctl.core.rows import Change, Rung
from aeonctl.core.rules import as_number
from aeonctl.errors import ConfigurationError, UsageError

MOST_STEPS = 8
"""Rungs in one climb; each costs a boot, and a ladder that needs more is no ladder."""


class Step(Value):
    """A rung that was taken: what it set, with the numbers that the failure named."""

    rung: str
    settings: dict[str, str | bool]
    same_as: tuple[str, ...] = ()
    why: str
    source: str


@dataclass(frozen=True)
class Skipped:
    """A rung that addresses the cause and was not taken, and why not."""

    rung: str
    reason: str


@dataclass(frozen=True)
class Situation:
    """A failed start as the ladder sees it.

    ``cause`` and ``facts`` are the failure's; ``options`` are the engine's as they were; ``pinned`` are the paths that
    the user set; ``unified`` is whether the engine lives in the operating system's memory; ``taken`` are the steps so
    far, oldest first.
    """

    seat: str
    cause: str
    facts: Mapping[str, str | int | float]
    options: Options
    pinned: frozenset[str]
    unified: bool
    taken: Sequence[Step] = ()


def pinned_paths(settings: Iterable[str], table: FlagTable) -> frozenset[str]:
    """The canonical paths of ``--set`` and ``--unset``."""
    paths: set[str] = set()
    for text in settings:
        try:
            paths.add(parse_setting(text, table)[0])
        except UsageError:
            continue
    return frozenset(paths)


def candidates(situation: Situation, rungs: Iterable[Rung]) -> tuple[list[Step], list[Skipped]]:
    """Every step that addresses the cause, best first, and the rungs that do and cannot be taken.

    Both empty means that no rung addresses the cause. A seat's own rungs come before the general ones.
    """
    steps: list[Step] = []
    skipped: list[Skipped] = []
    addressing = [rung for rung in rungs if situation.cause in rung.causes]
    own = [rung for rung in addressing if situation.seat in rung.seats]
    for rung in (*own, *(rung for rung in addressing if not rung.seats)):
        found = _consider(rung, situation)
        if isinstance(found, Step):
            steps.append(found)
        else:
            skipped.append(found)
    return steps, skipped


def _consider(rung: Rung, situation: Situation) -> Step | Skipped:
    times = sum(step.rung == rung.id for step in situation.taken)
    if times >= rung.times:
        return Skipped(rung.id, "it was taken already")
    if situation.unified and rung.raises_memory:
        return Skipped(rung.id, "it takes more memory, which this machine's operating system lives in")
    same_as = tuple(path for change in rung.change for path in change.same_as)
    for path in (*(change.option for change in rung.change), *same_as):
        pin = _pin_on(path, situation.pinned)
        if pin is not None:
            return Skipped(rung.id, f"you set --{pin} yourself")
    settings: dict[str, str | bool] = {}
    for change in rung.change:
        if change.lower_to_fact is not None and change.lower_to_fact not in situation.facts:
            return Skipped(rung.id, f"the engine did not name {change.lower_to_fact}")
        value = _new_value(change, situation)
        if value is not None:
            settings[change.option] = value
    if not settings:
        return Skipped(rung.id, "it would change nothing")
    why = _filled(rung.why, situation.facts)
    return Step(rung=rung.id, settings=settings, same_as=same_as, why=why, source=rung.source)


def _pin_on(path: str, pinned: frozenset[str]) -> str | None:
    """The user's setting that decides this option: the same path, one inside it, or one around it."""
    for pin in sorted(pinned):
        if pin == path or pin.startswith(f"{path}.") or path.startswith(f"{pin}."):
            return pin
    return None


def _new_value(change: Change, situation: Situation) -> str | bool | None:
    """The value that the change sets; None where the option stands there, or beyond, already."""
    before = situation.options.look(change.option)
    if change.switch_on:
        return None if before is True else True
    limit = _limit(change, situation.facts)
    now = as_number(show_value(before))
    if limit is None:
        return None
    if before is not ABSENT and now is not None:
        target = float(limit)
        if (now >= target) if change.raise_to is not None else (now <= target):
            return None
    return limit


def _limit(change: Change, facts: Mapping[str, Any]) -> str | None:
    if change.lower_to_fact is None:
        return change.lower_to if change.lower_to is not None else change.raise_to
    number = as_number(facts.get(change.lower_to_fact))
    rounded = 0 if number is None else int(number) // change.multiple * change.multiple
    if rounded > 0:
        return str(rounded)
    small = 0 if number is None else int(number) // _LEAST_MULTIPLE * _LEAST_MULTIPLE
    return str(small) if small > 0 else None


_LEAST_MULTIPLE = 16
"""A number below its rung's multiple is rounded to the size of a KV block instead."""


def _filled(text: str, facts: Mapping[str, str | int | float]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: str(facts.get(match[1], "unknown")), text)


def apply_steps(options: Options, steps: Iterable[Step], pinned: frozenset[str]) -> Applied:
    """The options after these steps, each change with its Decision. A step whose option the user pinned is left out."""
    decisions: list[Decision] = []
    skipped: list[Skipped] = []
    for step in steps:
        pin = next((pin for path in (*step.settings, *step.same_as) if (pin := _pin_on(path, pinned))), None)
        if pin is not None:
            skipped.append(Skipped(step.rung, f"you set --{pin} yourself"))
            continue
        for path, value in step.settings.items():
            before = options.look(path)
            if before == value:
                continue
            options = options.with_value(path, value)
            decision = Decision(
                option=f"--{path}",
                before=show_value(before),
                after=value,
                rule=f"rung:{step.rung}",
                why=step.why,
                source=step.source,
            )
            decisions.append(decision)
    return Applied(options, tuple(decisions), tuple(skipped))


@dataclass(frozen=True)
class Applied:
    """Options after the steps of a ladder, and what became of each."""

    options: Options
    decisions: tuple[Decision, ...]
    skipped: tuple[Skipped, ...]


STEPS_LABEL = f"{LABEL}.rungs"


def steps_label(steps: Sequence[Step]) -> dict[str, str]:
    """The container's label that says which rungs it was started on; none for a start without any."""
    if not steps:
        return {}
    rows = [step.model_dump(mode="json") for step in steps]
    return {STEPS_LABEL: json.dumps(rows, separators=(",", ":"), ensure_ascii=False)}


def steps_of(data: object) -> tuple[Step, ...]:
    """Steps from plain data; empty when they cannot be read."""
    if not isinstance(data, list):
        return ()
    try:
        return tuple(Step.parse(row, "rungs") for row in data)
    except ConfigurationError:
        return ()


def steps_from_label(labels: Mapping[str, str]) -> tuple[Step, ...]:
    """The rungs that a container was started on."""
    try:
        return steps_of(json.loads(labels.get(STEPS_LABEL, "[]")))
    except ValueError:
        return ()
