"""Everything that one plan depends on, and how a change leaves its reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from aeonctl.core.compat import is_unified
from aeonctl.core.host import Host
from aeonctl.core.image import ImageFacts
from aeonctl.core.ladder import Step
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Decision, Request
from aeonctl.core.rules import Draft
from aeonctl.core.select import Choice

YOU = "you asked for it"
COMMAND_LINE = "the command line"


@dataclass(frozen=True)
class Inputs:
    """Everything that one plan depends on."""

    request: Request
    choice: Choice
    host: Host
    image: ImageFacts
    model: ModelFacts
    drafter: ModelFacts | None
    steps: tuple[Step, ...] = ()
    """Rungs of the fallback ladder that were taken so far, or that worked here before."""

    @property
    def unified(self) -> bool:
        """Whether the GPUs compute in the operating system's memory."""
        return is_unified(self.choice.gpus)

    @property
    def guarded(self) -> bool:
        """Whether a memory guard is to watch the engine."""
        return self.unified if self.request.guard is None else self.request.guard


def decide(draft: Draft, option: str, before: Any, after: Any, rule: str, why: str) -> Draft:
    """The draft with one more Decision: what was changed, by what, and why."""
    source = COMMAND_LINE if rule.startswith("--") else "aeonctl"
    decision = Decision(option=option, before=before, after=after, rule=rule, why=why, source=source)
    return replace(draft, decisions=(*draft.decisions, decision))
