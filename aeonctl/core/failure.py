"""Why an engine did not start, or died: the first cause in its log, in bounded memory.

vLLM ends every failed start with the same words ("Engine core initialization failed"), prints the real cause twice
above them (with the logger's head and bare), and fills healthy logs with tracebacks at WARNING. So: rows
(``profiles/signatures``) name known causes, consequences and benign lines; where no row knows the cause, the last
exception of the first traceback that was not a warning stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from aeonctl.core.death import DeathScan, LifeRow, LifeSign
from aeonctl.core.loglines import LogLine, parse_line
from aeonctl.core.logrows import LinePrefilter, LogRow
from aeonctl.core.phases import BootProgress, Phase, PhaseRow

MAX_LINE_SHOWN = 2000
MAX_DETAILS = 4
_MAX_TRACEBACKS = 32

_TRACEBACK = "Traceback (most recent call last)"
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_CALM = frozenset({"DEBUG", "INFO", "WARNING"})
"""Levels at which an error text is talk about an error: a healthy log has tracebacks at WARNING, prompts at INFO."""
_FIELD = re.compile(r"\w+(?:\.\w+)*")
"""The name of an option on a line of its own, as pydantic writes it below a validation error."""


class Severity(StrEnum):
    """What a recognised line means for the engine."""

    FATAL = "fatal"
    CONSEQUENCE = "consequence"
    """Says that the engine failed, never why."""
    BENIGN = "benign"
    """Looks like an error in healthy logs too."""


class Signature(LogRow):
    """A line that names a known cause of failure, or that must not be taken for one."""

    severity: Severity
    cause: str
    remedy: str = ""
    warning: bool = False
    """Whether the line counts at WARNING level too, not only at ERROR and without a level."""
    phases: tuple[Phase, ...] = ()
    """The boot phases in which the line means this; empty for any."""
    last_resort: bool = False
    """A circumstance, at whatever level: the cause only when the engine failed and nothing else says why."""

    def heard_at(self, level: str | None) -> bool:
        """Whether a line of this level may be what the row describes."""
        return self.last_resort or level not in _CALM or (self.warning and level == "WARNING")


@dataclass(frozen=True, slots=True)
class LogKnowledge:
    """The rows that reading a failed log needs."""

    signatures: Sequence[Signature]
    phases: Sequence[PhaseRow]
    life: Sequence[LifeRow]


class Failure(BaseModel):
    """The first cause of a failure, as far as the log tells."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    cause: str
    remedy: str
    line_no: int
    """From 1, in the lines that were read."""
    line: str
    """The message of the line that names the cause, cut at `MAX_LINE_SHOWN`."""
    details: tuple[str, ...] = ()
    """The exception's text around the line, where it has more than that line."""
    facts: dict[str, str | int | float] = {}
    """What the signature's named groups read from the line."""
    source: str


@dataclass(slots=True)
class _Traceback:
    """One process's open traceback; a chain of exceptions is one."""

    first_no: int
    last_no: int
    ended: bool = False
    """Its exception line has come; details or a chain marker may follow."""
    chained: bool = False
    exception: str = ""
    exception_no: int = 0
    details: tuple[str, ...] = ()


class FailureScan:
    """Folds the lines of an engine's log into the first cause of its failure.

    A log that becomes ready has no failure until the engine dies; then only what its own processes wrote since counts,
    because the API server's errors are those of single requests. A log of several starts is judged by its last ones
    since the engine was ready.
    """

    def __init__(self, knowledge: LogKnowledge) -> None:
        self._knowledge = knowledge
        rows: tuple[LogRow, ...] = (*knowledge.signatures, *knowledge.phases, *knowledge.life)
        self._prefilter = LinePrefilter([_TRACEBACK, *(row.contains for row in rows)])
        self._causes = LinePrefilter([_TRACEBACK, *(row.contains for row in knowledge.signatures)])
        self._boot = BootProgress(knowledge.phases)
        self._life = DeathScan(knowledge.life)
        self._number = 0
        self._died_no = 0
        self._forget()

    def _forget(self) -> None:
        self._open: dict[tuple[str | None, int | None], _Traceback] = {}
        self._hit: Failure | None = None
        self._circumstances: dict[str, Failure] = {}
        self._exception: _Traceback | None = None
        self._consequence: tuple[int, str] | None = None

    def feed(self, line: str) -> None:
        """Take the next line of the log."""
        self._number += 1
        if not self._open and not self._prefilter.may_hold(line):
            return
        death = self._life.line
        sign = self._life.feed(line)
        if self._life.line is not death:
            self._died_no = self._number
        if sign is LifeSign.STARTING:
            if self._boot.ready:
                self._forget()
            self._boot = BootProgress(self._knowledge.phases)
        was_ready = self._boot.ready
        self._boot.feed(line, 0.0)
        if self._boot.ready and not was_ready:
            self._forget()
        elif self._open or self._causes.may_hold(line):
            self._read(line, parse_line(line))

    def _read(self, line: str, parsed: LogLine) -> None:
        if (self._boot.ready and not _of_engine(parsed)) or self._is_source(parsed):
            return
        matches = [
            (row, found)
            for row in self._knowledge.signatures
            if row.contains in line
            and row.heard_at(parsed.level)
            and (not row.phases or self._boot.phase in row.phases)
            and (found := row.pattern.search(parsed.message))
        ]
        severities = {row.severity for row, _ in matches}
        if Severity.CONSEQUENCE in severities:
            self._consequence = (self._number, parsed.message)
        if Severity.BENIGN not in severities:
            for row, found in matches:
                self._note(row, found, parsed.message)
        if parsed.level not in _CALM:
            self._trace(parsed, is_cause=not severities & {Severity.BENIGN, Severity.CONSEQUENCE})

    def _is_source(self, parsed: LogLine) -> bool:
        """Whether the line is a frame of an open traceback: code may quote any error text."""
        trace = self._open.get((parsed.process, parsed.pid))
        return trace is not None and not trace.ended and parsed.message[:1].isspace()

    def _note(self, row: Signature, found: re.Match[str], message: str) -> None:
        if row.severity is not Severity.FATAL:
            return
        failure = Failure(
            id=row.id,
            cause=row.cause,
            remedy=row.remedy,
            line_no=self._number,
            line=message[:MAX_LINE_SHOWN],
            facts={name: _fact(text) for name, text in found.groupdict().items() if text is not None},
            source=row.source,
        )
        if row.last_resort:
            self._circumstances.setdefault(row.id, failure)
        elif self._hit is None:
            self._hit = failure

    def _trace(self, parsed: LogLine, *, is_cause: bool) -> None:
        """Follow tracebacks, each process its own, to the exception that ends them."""
        key, message = (parsed.process, parsed.pid), parsed.message
        trace = self._open.get(key)
        if message.startswith(_TRACEBACK):
            self._begin(key, trace)
        elif trace is None or not message.strip():
            return
        elif not trace.ended:
            self._end(trace, message, is_cause=is_cause)
        elif message.startswith(_CHAIN):
            trace.chained = True
        elif message[0].isspace() or _FIELD.fullmatch(message):
            trace.last_no = self._number
            if len(trace.details) < MAX_DETAILS:
                trace.details += (message.strip()[:MAX_LINE_SHOWN],)
        else:
            del self._open[key]

    def _begin(self, key: tuple[str | None, int | None], trace: _Traceback | None) -> None:
        if trace is not None and trace.chained:
            trace.ended = trace.chained = False
            return
        if key not in self._open and len(self._open) >= _MAX_TRACEBACKS:
            del self._open[next(iter(self._open))]
        self._open[key] = _Traceback(self._number, self._number)

    def _end(self, trace: _Traceback, message: str, *, is_cause: bool) -> None:
        trace.ended = True
        if not is_cause:
            return
        trace.last_no = trace.exception_no = self._number
        trace.exception, trace.details = message[:MAX_LINE_SHOWN], ()
        if self._exception is None:
            self._exception = trace

    def result(self) -> Failure | None:
        """The first cause so far; None when the log shows no failure."""
        died = self._life.line is not None
        if self._boot.ready and not died:
            return None
        trace = self._exception
        if self._hit is not None and (trace is None or self._hit.line_no <= trace.last_no):
            return self._in_context(self._hit, trace)
        if trace is not None:
            return Failure(
                id="unrecognised-exception",
                cause=trace.exception,
                remedy="",
                line_no=trace.exception_no,
                line=trace.exception,
                details=trace.details,
                source="the log itself",
            )
        return self._without_cause() if died or self._consequence is not None else None

    @staticmethod
    def _in_context(hit: Failure, trace: _Traceback | None) -> Failure:
        """A cause named inside an exception's text is shown with the rest of that text."""
        if trace is None or not trace.exception_no <= hit.line_no <= trace.last_no:
            return hit
        return hit.model_copy(update={"details": (trace.exception, *trace.details)})

    def _without_cause(self) -> Failure:
        """It failed and no line says why: a circumstance that the log tells, or the plain statement."""
        for row in self._knowledge.signatures:
            if row.id in self._circumstances:
                return self._circumstances[row.id]
        line_no, line = self._consequence or (0, "")
        if self._life.line is not None:
            line_no, line = self._died_no, parse_line(self._life.line).message
        ready = self._boot.ready
        when = "while it served" if ready else "during its start"
        return Failure(
            id="engine-died-at-runtime" if ready else "engine-exited-without-cause",
            cause=f"The engine process ended {when} and wrote no reason; it was killed or crashed outside Python.",
            remedy="Look at the kernel's log for an out-of-memory kill or a GPU error (Xid).",
            line_no=line_no,
            line=line[:MAX_LINE_SHOWN],
            source="the log itself",
        )


def root_cause(lines: Iterable[str], knowledge: LogKnowledge) -> Failure | None:
    """The first cause of the failure that a whole log shows; None for a healthy one."""
    scan = FailureScan(knowledge)
    for line in lines:
        scan.feed(line)
    return scan.result()


def _of_engine(parsed: LogLine) -> bool:
    return parsed.process is not None and parsed.process.startswith(("EngineCore", "Worker", "VllmWorker"))


def _fact(text: str) -> str | int | float:
    """A number where the text is one, thousands separators allowed."""
    bare = text.replace(",", "")
    if re.fullmatch(r"\d+", bare):
        return int(bare)
    return float(bare) if re.fullmatch(r"\d+\.\d+", bare) else text
