"""Python's tracebacks in the mixed output of several processes: where each ends, and with which exception."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aeonctl.core.loglines import LogLine
from aeonctl.core.signatures import CALM

MAX_LINE_SHOWN = 2000
MAX_DETAILS = 4
MAX_LENGTH = 2000
"""Lines after which an open traceback is given up: its end is not in this log."""
_MAX_OPEN = 32
_MOST_CALM = 16
"""Calm lines of the same process that may stand between an exception and its details."""

TRACEBACK = "Traceback (most recent call last)"
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_FIELD = re.compile(r"\w+(?:\.\w+)*")
"""The name of an option on a line of its own, as pydantic writes it below a validation error."""


@dataclass(slots=True)
class Traceback:
    """One process's traceback; a chain of exceptions is one."""

    first_no: int
    last_no: int
    ended: bool = False
    """Its exception line has come; details or a chain marker may follow."""
    chained: bool = False
    exception: str = ""
    exception_no: int = 0
    details: tuple[str, ...] = ()
    calm: int = 0


_Key = tuple[str | None, int | None]


class Tracebacks:
    """Follows every process's open traceback; at most 32 at a time."""

    def __init__(self) -> None:
        self.open: dict[_Key, Traceback] = {}

    def is_source(self, parsed: LogLine) -> bool:
        """Whether the line is a frame of an open traceback: code may quote any error text."""
        trace = self.open.get((parsed.process, parsed.pid))
        return trace is not None and not trace.ended and parsed.message[:1].isspace()

    def feed(self, parsed: LogLine, number: int, *, is_cause: bool) -> Traceback | None:
        """Take a line; return the traceback that it ends, when its exception may be a cause."""
        key, message = (parsed.process, parsed.pid), parsed.message
        trace = self.open.get(key)
        self._give_up(number)
        if parsed.level in CALM:
            if trace is not None and trace.ended:
                trace.calm += 1
                if trace.calm > _MOST_CALM:
                    self.open.pop(key, None)
            return None
        if message.startswith(TRACEBACK):
            self._begin(key, trace, number)
        elif trace is None or not message.strip():
            return None
        elif not trace.ended:
            return self._end(trace, message, number, is_cause=is_cause)
        elif message.startswith(_CHAIN):
            trace.chained = True
        elif message[0].isspace() or _FIELD.fullmatch(message):
            trace.last_no = number
            if len(trace.details) < MAX_DETAILS:
                trace.details += (message.strip()[:MAX_LINE_SHOWN],)
        else:
            self.open.pop(key, None)
        return None

    def _begin(self, key: _Key, trace: Traceback | None, number: int) -> None:
        if trace is not None and trace.chained:
            trace.ended = trace.chained = False
            return
        if key not in self.open and len(self.open) >= _MAX_OPEN:
            del self.open[next(iter(self.open))]
        self.open[key] = Traceback(number, number)

    @staticmethod
    def _end(trace: Traceback, message: str, number: int, *, is_cause: bool) -> Traceback | None:
        trace.ended = True
        if not is_cause:
            return None
        trace.last_no = trace.exception_no = number
        trace.exception, trace.details = message[:MAX_LINE_SHOWN], ()
        return trace

    def _give_up(self, number: int) -> None:
        """Leave what has been open for too long; a log goes on for ever after a traceback that nobody ended."""
        for key, trace in list(self.open.items()):
            if number - max(trace.last_no, trace.first_no) > MAX_LENGTH:
                del self.open[key]
