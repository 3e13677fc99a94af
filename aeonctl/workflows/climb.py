"""Climbing the fallback ladder: after a failed allocation, the next plan to try, or the error that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aeonctl.core.catalog import Catalog
from aeonctl.core.inputs import Inputs
from aeonctl.core.ladder import MOST_STEPS, Situation, Skipped, Step, candidates, pinned_paths
from aeonctl.core.options import Options
from aeonctl.core.plan import Plan
from aeonctl.core.planner import make_plan
from aeonctl.errors import EngineError
from aeonctl.ports import Reporter

_MOST_STEPS_UNIFIED = 3
"""Failed starts on unified memory were seen to leave memory behind that only a reboot gives back."""


@dataclass
class Climb:
    """One ``up`` on its ladder. ``inputs`` are what the latest plan was made of; ``taken`` are this climb's steps."""

    inputs: Inputs
    plan: Plan
    catalog: Catalog
    taken: list[Step] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    def step_down(self, error: EngineError, report: Reporter) -> None:
        """Make ``plan`` the one after the next rung that addresses the failure's cause.

        Raises ``error`` itself when no rung addresses it, EngineError ladder_exhausted when none is left.
        """
        self.tried.add(self.plan.spec_hash)
        cause, facts = _cause_of(error)
        situation = self._situation(cause, facts)
        steps, skipped = candidates(situation, self.catalog.rungs.values())
        if not steps and not skipped:
            self._told_in(error)
            raise error
        most = _MOST_STEPS_UNIFIED if situation.unified else MOST_STEPS
        for step in steps if len(self.taken) < most else ():
            found = self._try(step)
            if found is not None:
                skipped.append(found)
                continue
            self._say(step, cause, skipped, report)
            return
        if len(self.taken) >= most:
            skipped = [Skipped(step.rung, f"{most} rungs were taken, which is the limit here") for step in steps]
        raise self._exhausted(error, skipped)

    def _situation(self, cause: str, facts: Mapping[str, Any]) -> Situation:
        table = self.catalog.flags.deciding(self.inputs.image.vllm)[-1]
        return Situation(
            seat=self.plan.seat,
            cause=cause,
            facts=facts,
            options=Options(self.plan.options),
            pinned=pinned_paths(self.inputs.request.settings, table),
            unified=self.plan.unified or self.inputs.choice.seat.gpus == 0,
            taken=self.inputs.steps,
        )

    def _try(self, step: Step) -> Skipped | None:
        """Plan with one step more; Skipped when a rule undoes it, or it was tried, or it is refused."""
        inputs = replace(self.inputs, steps=(*self.inputs.steps, step))
        plan = make_plan(inputs, self.catalog)
        if plan.refusals:
            return Skipped(step.rung, plan.refusals[0].why)
        if plan.spec_hash in self.tried:
            undone = [decision.rule for decision in plan.decisions if decision.option.lstrip("-") in step.settings]
            rules = [rule for rule in undone if not rule.startswith("rung:")]
            return Skipped(step.rung, f"rule {rules[-1]} takes it back" if rules else "it changes nothing here")
        self.inputs, self.plan = inputs, plan
        self.taken.append(step)
        return None

    def _say(self, step: Step, cause: str, skipped: list[Skipped], report: Reporter) -> None:
        for rung in skipped:
            report.note(f"rung {rung.rung} is skipped: {rung.reason}")
        words = ", ".join(
            f"--{name} {value}" if value is not True else f"--{name}" for name, value in step.settings.items()
        )
        report.warn(f"the start failed ({cause}); taking rung {step.rung}: {words}")
        report.note(f"{step.why} ({step.source})")
        self.told.append(f"rung {step.rung} ({words})")

    def _told_in(self, error: EngineError) -> None:
        if self.told:
            error.causes = (*error.causes, f"before that: {'; '.join(self.told)}")
            error.facts["rungs_taken"] = [step.rung for step in self.taken]

    def _exhausted(self, error: EngineError, skipped: list[Skipped]) -> EngineError:
        tried = f"tried: the seat's own values{''.join(f'; {words}' for words in self.told)}"
        left = tuple(f"rung {rung.rung} is skipped: {rung.reason}" for rung in skipped)
        return EngineError(
            "ladder_exhausted",
            f"{error.message}, and no rung of the ladder is left",
            cause=(tried, *left, *error.causes),
            hint=error.hint,
            **{
                **error.facts,
                "rungs_taken": [step.rung for step in self.taken],
                "skipped": [{"rung": rung.rung, "reason": rung.reason} for rung in skipped],
            },
        )


def _cause_of(error: EngineError) -> tuple[str, Mapping[str, Any]]:
    """The signature that the failure was recognised by, and what it read from the log."""
    failure = error.facts.get("failure")
    data: Mapping[str, Any] = failure if isinstance(failure, dict) else {}
    facts = data.get("facts")
    return str(data.get("id", "")), facts if isinstance(facts, dict) else {}
