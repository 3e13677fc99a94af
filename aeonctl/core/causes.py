"""A cause of failure as the log tells it, and what one start of the engine has said so far."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from aeonctl.core.loglines import LogLine
from aeonctl.core.logsift import MAX_LINE_BYTES
from aeonctl.core.signatures import Rung, Signature
from aeonctl.core.tracebacks import Traceback


class Failure(BaseModel):
    """The first cause of a failure, as far as the log tells."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    cause: str
    remedy: str
    command: str = ""
    rung: Rung = Rung.NONE
    line_no: int
    """From 1, counted as ``grep -n`` counts; 0 when no line says it."""
    line: str
    """The message of the line that names the cause, cut at `MAX_LINE_SHOWN`."""
    details: tuple[str, ...] = ()
    """The exception's text around the line, where it has more than that line."""
    facts: dict[str, str | int | float] = {}
    """What the signature's named groups read from the line."""
    source: str


@dataclass(slots=True)
class Remark:
    """A line that looks bad and is not, or that only follows from a failure: where first, and how often."""

    row: Signature
    line_no: int
    line: str
    count: int = 1


@dataclass(slots=True)
class Start:
    """What one start of the engine has said so far."""

    causes: dict[str, Failure] = field(default_factory=dict)
    circumstances: dict[str, Failure] = field(default_factory=dict)
    exception: Traceback | None = None
    orphan: tuple[int, str] | None = None
    consequence: tuple[int, str] | None = None
    outside: Failure | None = None
    """A cause on a line of no known process, written while the engine served: only a death makes it one."""


def unrecognised(line_no: int, exception: str, details: tuple[str, ...] = ()) -> Failure:
    """The failure that an exception stands for which no row knows."""
    return Failure(
        id="unrecognised-exception",
        cause=exception,
        remedy="",
        line_no=line_no,
        line=exception,
        details=details,
        source="the log itself",
    )


def in_context(hit: Failure, trace: Traceback | None) -> Failure:
    """A cause named inside an exception's text is shown with the rest of that text."""
    if trace is None or not trace.exception_no <= hit.line_no <= trace.last_no:
        return hit
    return hit.model_copy(update={"details": (trace.exception, *trace.details)})


def of_engine(parsed: LogLine) -> bool:
    """Whether a process of the engine itself wrote the line, not the API server."""
    return parsed.process is not None and parsed.process.startswith(("EngineCore", "Worker", "VllmWorker", "RayWorker"))


def text_of(data: bytes) -> str:
    """A line as text, taken out of Docker's own json-file log where it stands in one."""
    line = data[:MAX_LINE_BYTES].decode("utf-8", "replace")
    if not line.startswith('{"log":'):
        return line
    try:
        text = json.loads(line)["log"]
    except (ValueError, KeyError, TypeError):
        return line
    return str(text).rstrip("\r\n")


def fact_of(text: str) -> str | int | float:
    """A number where the text is one, thousands separators allowed."""
    bare = text.replace(",", "")
    if re.fullmatch(r"\d+", bare):
        return int(bare)
    return float(bare) if re.fullmatch(r"-?\d+\.\d+", bare) else text
