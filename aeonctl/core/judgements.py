"""Telling causes apart that write the same text, or none: by phase, by time, and by the host's facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from aeonctl.core.base import Value
from aeonctl.core.rules import holds
from aeonctl.core.signatures import Rung


class Judgement(Value):
    """A cause that is known by facts rather than by a line. ``when`` maps facts to what they must be, or lists such
    maps; facts are ``log.*`` (how the log ends) and ``host.*`` (what is known beside it)."""

    model_config = ConfigDict(strict=False)

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    when: list[dict[str, Any]]
    offer: bool = False
    """Whether to offer the cause as another possibility while facts that would decide are unknown."""
    decides: str = ""
    """What decides, in words: what to look at."""
    cause: str = Field(min_length=1)
    remedy: str = Field(min_length=1)
    command: str = ""
    rung: Rung = Rung.NONE
    source: str = Field(min_length=1)

    @field_validator("when", mode="before")
    @classmethod
    def _alternatives(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value

    def judge(self, facts: Mapping[str, Any]) -> bool | None:
        """True when the facts make it so, None when unknown facts might, False when they do not."""
        answers = [_all(condition, facts) for condition in self.when]
        if True in answers:
            return True
        return None if None in answers else False

    def reasons(self, facts: Mapping[str, Any]) -> tuple[str, ...]:
        """The facts that made it so, in words."""
        met = next((condition for condition in self.when if _all(condition, facts) is True), {})
        return tuple(f"{name} is {facts[name]}" for name in met)


def _all(condition: Mapping[str, Any], facts: Mapping[str, Any]) -> bool | None:
    unknown = False
    for name, test in condition.items():
        if facts.get(name) is None:
            unknown = True
        elif not holds(test, facts[name]):
            return False
    return None if unknown else True


def first_true(judgements: Iterable[Judgement], facts: Mapping[str, Any]) -> Judgement | None:
    """The first judgement that the facts make so."""
    return next((judgement for judgement in judgements if judgement.judge(facts)), None)
