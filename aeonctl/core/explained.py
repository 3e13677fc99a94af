"""Why each option of a plan is what it is: a rule, the user, the program, or the seat."""

from __future__ import annotations

from typing import Any

from aeonctl.core.base import Value
from aeonctl.core.plan import Decision, Plan
from aeonctl.core.rows import Seat


class Explained(Value):
    """One option or environment variable of a plan. ``by`` is a rule's id, ``--set``, ``seat`` or ``aeonctl``."""

    option: str
    value: Any = None
    by: str
    why: str
    source: str


def explained(plan: Plan, seat: Seat) -> list[Explained]:
    """Every option and variable of the plan, in the order of the command; options that a rule took away come last."""
    decided = {decision.option: decision for decision in plan.decisions}
    rows = [_row(name, value, decided, seat) for name, value in _options(plan.container.command)]
    rows += [_row(name, value, decided, seat) for name, value in plan.container.env.items()]
    told = {row.option for row in rows}
    for decision in plan.decisions:
        if decision.option not in told and decision.option.split(".")[0] not in told:
            rows.append(_by_decision(decision, decision.after))
    return rows


def _options(command: tuple[str, ...]) -> list[tuple[str, str]]:
    """The options of an argv, each with its words."""
    found: list[tuple[str, list[str]]] = []
    for word in command:
        if word.startswith("--"):
            found.append((word, []))
        elif found:
            found[-1][1].append(word)
    return [(name, " ".join(words)) for name, words in found]


def _row(name: str, value: str | None, decided: dict[str, Decision], seat: Seat) -> Explained:
    bare = name.removeprefix("--")
    on = f"--{bare.removeprefix('no-')}"
    for known, decision in decided.items():
        if known in (name, on) or known.startswith(f"{name}."):
            return _by_decision(decision, value, name)
    if bare in seat.options or bare.removeprefix("no-") in seat.options or name in seat.container.env:
        return Explained(option=name, value=value, by="seat", why=seat.why, source=seat.source)
    if name in seat.container.pass_env:
        return Explained(option=name, value=value, by="seat", why="handed on from your environment", source=seat.source)
    why = "the container needs it to find the model or to be reached"
    return Explained(option=name, value=value, by="aeonctl", why=why, source="aeonctl")


def _by_decision(decision: Decision, value: Any, name: str | None = None) -> Explained:
    return Explained(
        option=name or decision.option, value=value, by=decision.rule, why=decision.why, source=decision.source
    )
