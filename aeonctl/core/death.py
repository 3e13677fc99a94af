"""Whether the log of a running engine says that the engine died, as opposed to having been told to stop.

vLLM can exit 0 after a crash and /health can lag, so the log is a witness of its own. But a requested stop writes the
same words ("engine core exited unexpectedly", EngineDeadError) after its own first line, and a user's prompt may quote
them; so the order of lines, their level and the beginning of the message decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import Field

from aeonctl.core.loglines import parse_line
from aeonctl.core.logrows import LinePrefilter, LogRow


class LifeSign(StrEnum):
    """What a line says about the engine's life."""

    STARTING = "starting"
    STOPPING = "stopping"
    """Somebody asked it to stop: what follows is its orderly end."""
    DIED = "died"
    SERVING = "serving"
    """Only an engine at work writes this: an answered request, its throughput."""


class LifeRow(LogRow):
    """A line that says that the engine starts, was told to stop, or died; matched from the message's beginning."""

    sign: LifeSign
    why: str = Field(min_length=1)


class DeathScan:
    """Folds the lines of an engine's log; `line` is the one that shows its death, in its latest start."""

    def __init__(self, rows: Sequence[LifeRow]) -> None:
        self._rows = rows
        self._prefilter = LinePrefilter(row.contains for row in rows)
        self._stopping = False
        self.line: str | None = None
        self.after_stop: str | None = None
        """A line of death below a line of stopping: an orderly stop writes it too, so only a container that nobody
        stopped makes it a death."""

    @property
    def stopping(self) -> bool:
        """Whether the latest start was asked to stop."""
        return self._stopping

    def feed(self, line: str) -> LifeSign | None:
        """Take one line; return what it says about the engine's life, if anything."""
        if not self._prefilter.may_hold(line):
            return None
        for row in self._rows:
            if row.contains in line and row.pattern.match(parse_line(line).message):
                return self._note(row.sign, line)
        return None

    def _note(self, sign: LifeSign, line: str) -> LifeSign:
        if sign is LifeSign.STARTING:
            self._stopping, self.line, self.after_stop = False, None, None
        elif sign is LifeSign.STOPPING:
            self._stopping = True
        elif sign is LifeSign.DIED and self._stopping:
            self.after_stop = self.after_stop or line
        elif sign is LifeSign.DIED and self.line is None:
            self.line = line
        return sign


def death_in(lines: Iterable[str], rows: Sequence[LifeRow]) -> str | None:
    """The line that shows that the engine died by itself; None when it lives or was told to stop."""
    scan = DeathScan(rows)
    for line in lines:
        scan.feed(line)
    return scan.line
