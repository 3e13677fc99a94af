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

from aeonctl.core.causes import Failure, Remark, Start, fact_of, in_context, of_engine, text_of, unrecognised
from aeonctl.core.death import DeathScan, LifeRow, LifeSign
from aeonctl.core.loglines import LogLine, parse_line
from aeonctl.core.logrows import LogForm
from aeonctl.core.logsift import DIGITS, Block, BlockCutter, LogSift
from aeonctl.core.phases import Phase, PhaseRow
from aeonctl.core.signatures import CALM, Severity, Signature
from aeonctl.core.tracebacks import MAX_LINE_SHOWN, TRACEBACK, Tracebacks

MAX_CAUSES = 16
"""Causes that are kept beside the first one."""
_ORPHAN = "Error: "
_ORPHAN_ROW = 1
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
"""An exception's own line, whose traceback may stand above the log's first line."""
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)")
_DAY = 24 * 3600
_ANY = len(Phase)


@dataclass(frozen=True, slots=True)
class LogKnowledge:
    """The rows that reading a log needs; ``signatures`` holds each form of a signature on its own."""

    signatures: Sequence[Signature]
    phases: Sequence[PhaseRow]
    life: Sequence[LifeRow]


class FailureScan:
    """Folds an engine's log into the first cause of its failure.

    A log that becomes ready has no failure until the engine dies; then only what its own processes wrote since counts,
    because the API server's errors are those of single requests. A log of several starts is judged by its last ones
    since the engine was ready.
    """

    def __init__(self, knowledge: LogKnowledge) -> None:
        self._knowledge = knowledge
        phases = [row for row in knowledge.phases if row.phase is not None]
        self._rows: tuple[LogForm | None, ...] = (None, None, *knowledge.signatures, *phases, *knowledge.life)
        needles = [TRACEBACK, _ORPHAN, *(row.contains for row in self._rows if row is not None)]
        self._sift, self._needles = LogSift(needles), needles
        self._cutter = BlockCutter()
        self._ranks = [_rank_of(row) for row in self._rows]
        self.phase = Phase.CREATED
        """How far the latest start came."""
        self._life = DeathScan(knowledge.life)
        self._traces = Tracebacks()
        self._start = Start()
        self._number = 0
        self._tail = b""
        self._died_no = 0
        self._served_no = 0
        self._clock: tuple[int, int] | None = None
        self.facts: dict[str, str | int | float] = {}
        """What the rows of facts read, the latest of each."""
        self.remarks: dict[str, Remark] = {}
        """Benign and informative lines and consequences, by id."""

    @property
    def ready(self) -> bool:
        """Whether the latest start came to serve."""
        return self.phase is Phase.READY

    @property
    def died(self) -> bool:
        """Whether the log shows that the engine ended by itself."""
        return self._life.line is not None

    @property
    def stopping(self) -> bool:
        """Whether somebody asked the engine to stop."""
        return self._life.stopping

    @property
    def seconds(self) -> int | None:
        """From the first to the last time that the latest start's lines tell; None without times."""
        return None if self._clock is None else (self._clock[1] - self._clock[0]) % _DAY

    @property
    def lines(self) -> int:
        """Lines read so far."""
        return self._number

    @property
    def last_line(self) -> str:
        """The message of the last line that holds text, cut at `MAX_LINE_SHOWN`."""
        return parse_line(text_of(self._tail.rstrip().rpartition(b"\r")[2])).message[:MAX_LINE_SHOWN]

    @property
    def causes(self) -> tuple[Failure, ...]:
        """Every cause that the latest start's lines name, in order."""
        return tuple(self._start.causes.values())

    def read(self, data: bytes) -> None:
        """Take the next bytes of the log, in chunks of any size."""
        for block in self._cutter.feed(data):
            self._read_block(block)

    def finish(self) -> None:
        """The log has ended; its open line is whole now."""
        for block in self._cutter.flush():
            self._read_block(block)

    def feed(self, line: str) -> None:
        """Take the next line of the log, when the log comes in lines."""
        self.read((line + "\n").encode("utf-8", "surrogateescape"))

    def _read_block(self, block: Block) -> None:
        known = self._sift.numbers(block.shapes)
        for index, shape in enumerate(block.shapes):
            numbers = known[shape]
            if self._traces.open or (numbers and self._matters(numbers)):
                self._number = block.first_no + index
                self._read_line(block.lines[index], numbers)
        if block.lines:
            self._number = block.first_no + len(block.lines) - 1
            self._tail = next((line for line in reversed(block.lines) if line.strip()), self._tail)

    def _read_line(self, line: bytes, numbers: Sequence[int]) -> None:
        """A physical line: a redrawn bar holds several."""
        if b"\r" not in line:
            self._take(text_of(line), numbers)
            return
        for segment in line.split(b"\r"):
            shape = segment.translate(None, DIGITS)
            found = self._sift.numbers([shape])[shape]
            if segment and (self._traces.open or (found and self._matters(found))):
                self._take(text_of(segment), found)

    def _matters(self, numbers: Sequence[int]) -> bool:
        """False when all that a line could do is to show a phase that has begun, or an engine that serves."""
        reached = self.phase.rank
        if self._start.causes and self.ready:
            reached -= 1
        ranks = self._ranks
        for number in numbers:  # noqa: SIM110 - any() with a generator halves the speed
            if ranks[number] > reached:
                return True
        return False

    def _settle(self) -> None:
        """What was said so far led to nothing: the engine is ready, or starts anew after it had been."""
        self._start = Start()
        self._traces = Tracebacks()

    def _take(self, line: str, numbers: Sequence[int]) -> None:
        rows = [self._rows[number] for number in numbers]
        if any(isinstance(row, LifeRow) for row in rows):
            self._live(line)
        parsed = parse_line(line)
        if found := _CLOCK.search(parsed.time or ""):
            now = 3600 * int(found[1]) + 60 * int(found[2]) + int(found[3])
            self._clock = (now, now) if self._clock is None else (self._clock[0], now)
        if any(isinstance(row, PhaseRow) for row in rows) and self._advance(parsed.message, rows):
            self._settle()
            return
        signatures = [row for row in rows if isinstance(row, Signature)]
        self._judge(parsed, signatures, orphan=_ORPHAN_ROW in numbers)

    def _advance(self, message: str, rows: Iterable[LogForm | None]) -> bool:
        """Enter the phases that the line begins; whether the start became ready by it."""
        was_ready = self.ready
        for row in rows:
            if not isinstance(row, PhaseRow) or row.phase is None or row.phase.rank <= self.phase.rank:
                continue
            if row.pattern.search(message):
                self.phase = row.phase
        return self.ready and not was_ready

    def _live(self, line: str) -> None:
        death = self._life.line
        sign = self._life.feed(line)
        if self._life.line is not death:
            self._died_no = self._number
        if sign is LifeSign.SERVING:
            self._served_no = self._number
            if not self.ready:
                self.phase = Phase.READY
                self._settle()
        if sign is LifeSign.STARTING:
            if self.ready:
                self._settle()
            self.phase, self._clock = Phase.CREATED, None

    def _judge(self, parsed: LogLine, rows: Sequence[Signature], *, orphan: bool) -> None:
        if self._traces.is_source(parsed):
            return
        matches = [
            (row, found)
            for row in rows
            if row.heard_at(parsed.level)
            and (not row.phases or self.phase in row.phases)
            and (found := row.pattern.search(parsed.message))
        ]
        severities = {row.severity for row, _ in matches}
        for row, found in matches:
            if row.severity is Severity.FACT:
                self.facts |= {name: fact_of(text) for name, text in found.groupdict().items()}
            elif row.severity is not Severity.FATAL:
                self._remark(row, parsed.message)
        severities.discard(Severity.FACT)
        if self.ready and not of_engine(parsed):
            self._hear_outside(parsed, matches, severities)
            return
        if Severity.CONSEQUENCE in severities and self._start.consequence is None:
            self._start.consequence = (self._number, parsed.message)
        if not severities & {Severity.BENIGN, Severity.INFO}:
            for row, found in matches:
                self._note(row, found, parsed.message)
        self._trace(parsed, is_cause=not severities - {Severity.FATAL}, orphan=orphan and not severities)

    def _hear_outside(
        self, parsed: LogLine, matches: Sequence[tuple[Signature, re.Match[str]]], severities: set[Severity]
    ) -> None:
        """An older engine names no process: its errors count when it dies of them."""
        heard = parsed.process is None and parsed.level in ("ERROR", "CRITICAL") and severities == {Severity.FATAL}
        if heard and self._start.outside is None:
            row, found = matches[0]
            self._start.outside = self._failure(row, found, parsed.message)

    def _remark(self, row: Signature, message: str) -> None:
        if row.id in self.remarks:
            self.remarks[row.id].count += 1
        else:
            self.remarks[row.id] = Remark(row, self._number, message[:MAX_LINE_SHOWN])

    def _failure(self, row: Signature, found: re.Match[str], message: str) -> Failure:
        return Failure(
            id=row.id,
            cause=row.cause,
            remedy=row.remedy,
            command=row.command,
            rung=row.rung,
            line_no=self._number,
            line=message[:MAX_LINE_SHOWN],
            facts={name: fact_of(text) for name, text in found.groupdict().items() if text is not None},
            source=row.source,
        )

    def _note(self, row: Signature, found: re.Match[str], message: str) -> None:
        if row.severity is not Severity.FATAL:
            return
        kept = self._start.circumstances if row.last_resort else self._start.causes
        if row.id not in kept and len(kept) < MAX_CAUSES:
            kept[row.id] = self._failure(row, found, message)

    def _trace(self, parsed: LogLine, *, is_cause: bool, orphan: bool) -> None:
        trace = self._traces.feed(parsed, self._number, is_cause=is_cause)
        if trace is not None and self._start.exception is None:
            self._start.exception = trace
        heard = orphan and trace is None and parsed.level not in CALM and self._start.orphan is None
        if heard and _EXCEPTION.match(parsed.message):
            self._start.orphan = (self._number, parsed.message[:MAX_LINE_SHOWN])

    def result(self) -> Failure | None:
        """The first cause so far; None when the log shows no failure."""
        start, trace = self._start, self._start.exception
        hit = next(iter(start.causes.values()), None)
        if self.ready and not self.died and (hit is None or hit.line_no <= self._served_no or self.stopping):
            return None
        if hit is not None and (trace is None or hit.line_no <= trace.last_no):
            return in_context(hit, trace)
        if trace is not None:
            return unrecognised(trace.exception_no, trace.exception, trace.details)
        if hit is not None:
            return hit
        if self.died and start.outside is not None:
            return start.outside
        failed = self.died or start.consequence is not None
        return self._without_cause() if failed else None

    def _without_cause(self) -> Failure:
        """It failed and no line says why: a circumstance that the log tells, or the plain statement."""
        for row in self._knowledge.signatures:
            if row.id in self._start.circumstances:
                return self._start.circumstances[row.id]
        if self._start.orphan is not None:
            return unrecognised(*self._start.orphan)
        line_no, line = self._start.consequence or (0, "")
        if self._life.line is not None:
            line_no, line = self._died_no, parse_line(self._life.line).message
        when = "while it served" if self.ready else "during its start"
        return Failure(
            id="engine-died-at-runtime" if self.ready else "engine-exited-without-cause",
            cause=f"The engine process ended {when} and wrote no reason; it was killed or crashed outside Python.",
            remedy="Look at the kernel's log for an out-of-memory kill or a GPU error (Xid).",
            line_no=line_no,
            line=line[:MAX_LINE_SHOWN],
            source="the log itself",
        )

    def leftover(self) -> Failure | None:
        """What an engine that is known to have failed may have failed of, where `result` finds nothing."""
        if self.ready and not self.died:
            return None
        start = self._start
        if start.circumstances or start.orphan is not None:
            return self._without_cause()
        return None


def root_cause(lines: Iterable[str], knowledge: LogKnowledge) -> Failure | None:
    """The first cause of the failure that a whole log shows; None for a healthy one."""
    scan = FailureScan(knowledge)
    for line in lines:
        scan.feed(line)
    return scan.result()


def _rank_of(row: LogForm | None) -> int:
    """The phase at which a row has nothing more to say; beyond all phases for one that always matters."""
    if isinstance(row, PhaseRow) and row.phase is not None:
        return row.phase.rank
    return Phase.READY.rank if isinstance(row, LifeRow) and row.sign is LifeSign.SERVING else _ANY


__all__ = ["Failure", "FailureScan", "LogKnowledge", "root_cause"]
