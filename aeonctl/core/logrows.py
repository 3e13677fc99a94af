"""What every row that recognises a line of an engine's log has in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from aeonctl.core.base import Value
from aeonctl.core.loglines import parse_line


class LogForm(Value):
    """One recognisable line: a cheap substring, then a regular expression whose named groups are facts.

    A form proves itself: one whose ``sample`` does not hold ``contains`` or does not match ``pattern`` cannot exist.
    ``pattern`` is searched in the line's message, prefixes taken off.
    """

    model_config = ConfigDict(strict=False)

    contains: str = Field(min_length=4)
    """Must stand in a line before the pattern is tried; what makes reading 500 MB of log cheap."""
    pattern: re.Pattern[str]
    sample: str = Field(min_length=1)
    """A whole line, prefixes and all, as an engine wrote it."""

    @model_validator(mode="after")
    def _sample_is_recognised(self) -> Self:
        if self.contains not in self.sample:
            msg = f"the sample does not hold {self.contains!r}"
            raise ValueError(msg)
        if not self.pattern.search(parse_line(self.sample).message):
            msg = f"the sample does not match {self.pattern.pattern!r}"
            raise ValueError(msg)
        return self


class LogRow(LogForm):
    """A form with a name of its own, and where it was seen."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    source: str = Field(min_length=1)


class LinePrefilter:
    """Says of a line, fast, whether any of many substrings may stand in it; a no is certain, a yes is not.

    A substring of three words or more can stand in a line only if its inner words are words of the line, and looking
    up a line's words in a set costs the same for any number of substrings.
    """

    def __init__(self, needles: Iterable[str]) -> None:
        words: set[str] = set()
        others: list[str] = []
        for needle in dict.fromkeys(needles):
            inner = max(needle.split(" ")[1:-1], key=len, default="")
            if inner:
                words.add(inner)
            else:
                others.append(needle)
        self._words = frozenset(words)
        self._others = tuple(others)

    def may_hold(self, line: str) -> bool:
        """False when none of the substrings stands in the line."""
        if not self._words.isdisjoint(line.split(" ")):
            return True
        for other in self._others:  # noqa: SIM110 -- any() with a generator halves the speed
            if other in line:
                return True
        return False
