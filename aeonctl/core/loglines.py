"""Engine logs as lines: cutting a byte stream into lines, and reading what stands before a line's message.

A line reaches us through layers that each add a prefix (compose, the Docker log's timestamp, journald, vLLM's process
tag, the logger's own head), and progress bars redraw themselves with a carriage return. Both are settled here, so that
every other reader of a log sees lines and messages.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

MAX_LINE_CHARS = 64 * 1024
"""A line longer than this keeps its head only: a log that never ends a line must not fill the memory."""

_ANSI = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and hyperlinks
    r"|[@-Z\\^_]"  # two-character escapes
    r")"
)


class LineSplitter:
    r"""Cuts a stream of bytes into lines at ``\n``, ``\r`` or ``\r\n``, whatever the size of the chunks.

    A progress bar redrawn with ``\r`` gives one line per redraw. Terminal escapes are taken out, bytes that are not
    UTF-8 become U+FFFD, and a line without end is given once, cut at `MAX_LINE_CHARS`; its rest is dropped.
    """

    def __init__(self, max_chars: int = MAX_LINE_CHARS) -> None:
        self._max_chars = max_chars
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._dropping = False
        self._after_return = False

    def feed(self, data: bytes) -> list[str]:
        """Take the next chunk; return the lines it completed, without their ends."""
        return self._split(self._decoder.decode(data))

    def flush(self) -> list[str]:
        """End the stream: the open line, when it holds anything, is complete now."""
        lines = self._split(self._decoder.decode(b"", final=True))
        if self._open:
            lines.append(_without_escapes(self._open))
        self._open, self._dropping, self._after_return = "", False, False
        return lines

    def _split(self, text: str) -> list[str]:
        if self._after_return and text:
            text = text.removeprefix("\n")
            self._after_return = False
        if "\r" in text:
            self._after_return = text.endswith("\r")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        pieces = text.split("\n")
        first, rest = pieces[0], pieces[1:]
        if not rest:
            return self._extend(first)
        lines = self._extend(first)
        if not self._dropping:
            lines.append(self._open)
        self._dropping = False
        self._open = ""
        lines += [line[: self._max_chars] for line in rest[:-1]]
        if "\x1b" in text or (lines and "\x1b" in lines[0]):
            lines = [_without_escapes(line) for line in lines]
        return lines + self._extend(rest[-1])

    def _extend(self, text: str) -> list[str]:
        """Add to the open line; give its head once when it has grown beyond the bound."""
        if self._dropping:
            return []
        self._open += text
        if len(self._open) <= self._max_chars:
            return []
        head, self._open, self._dropping = self._open[: self._max_chars], "", True
        return [_without_escapes(head)]


def _without_escapes(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of an engine's log, taken apart. What a line does not say is None."""

    message: str
    process: str | None = None
    """vLLM's own name of the process: APIServer, EngineCore, Worker_TP0 …"""
    pid: int | None = None
    level: str | None = None
    """DEBUG INFO WARNING ERROR or CRITICAL; None for a bare line (a traceback on stderr, a banner, a progress bar)."""
    time: str | None = None
    """The logger's own time as it was written; its form differs between loggers."""
    module: str | None = None
    lineno: int | None = None


_NAMES = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEVELS = "|".join(_NAMES)
_DIGITS = tuple("0123456789")
_COMPOSE = re.compile(r"(?:[A-Za-z0-9][\w.@-]*|\[[\w.-]+\])\s+\| ?")
_TIMESTAMP = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)|\d\d:\d\d:\d\d\.\d+)"
    r"(?: (?:stdout|stderr) [FP])?(?: |$)"
)
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) )"
    r"[\w.-]+ [\w./@-]+(?:\[\d+\])?:(?: |$)"
)
_PROCESS = re.compile(r"\((?P<process>[A-Za-z][\w.-]*) pid=(?P<pid>\d+)(?:, ip=[^)]*)?\)(?: |$)")
_HEADS = (
    # vLLM: INFO 11-30 21:44:26 [model.py:623] text; older releases leave out the opening bracket
    (
        _NAMES,
        re.compile(
            rf"(?P<level>{_LEVELS}) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) "
            r"\[?(?P<module>[\w./<>-]+):(?P<lineno>\d+)\](?: |$)"
        ),
    ),
    # FlashInfer: 2026-09-12 10:16:45,319 - WARNING - autotuner.py:485 - flashinfer.jit: text
    (
        _DIGITS,
        re.compile(
            rf"(?P<time>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+) - (?P<level>{_LEVELS}) - "
            r"(?P<module>[\w./<>-]+):(?P<lineno>\d+) - "
        ),
    ),
    # Python's logging without a set-up: ERROR:root:text
    (_NAMES, re.compile(rf"(?P<level>{_LEVELS}):(?P<module>[\w.]+):")),
    # uvicorn: INFO:     text
    (_NAMES, re.compile(rf"(?P<level>{_LEVELS}):\s+")),
    # PyTorch: W1130 20:49:27.945000 1 torch/_library/triton.py:53] text, also in brackets and with a rank
    (
        ("[", "I", "W", "E", "F"),
        re.compile(
            r"(?:\[rank\d+\]:)?\[?(?P<letter>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)(?: \d+)? "
            r"(?P<module>[\w./-]+):(?P<lineno>\d+)\] ?"
        ),
    ),
)
_LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}


def parse_line(text: str) -> LogLine:
    """Take one line apart: transport prefixes are dropped, process and logger's head are read, the rest is the message.

    Never fails: a line of no known form is a bare message.
    """
    at = _after_transport(text)
    process, pid = None, None
    if tag := _PROCESS.match(text, at):
        process, pid, at = tag["process"], int(tag["pid"]), tag.end()
    for starts, form in _HEADS:
        if text.startswith(starts, at) and (head := form.match(text, at)):
            found = head.groupdict()
            level = found["level"] if "level" in found else _LETTERS[head["letter"]]
            number = found.get("lineno")
            return LogLine(
                text[head.end() :],
                process,
                pid,
                level,
                found.get("time"),
                found.get("module"),
                None if number is None else int(number),
            )
    return LogLine(text[at:], process, pid)


def _after_transport(text: str) -> int:
    """Where the engine's own text begins, after compose's name, journald's head or the Docker log's timestamp."""
    at = 0
    if found := _JOURNAL.match(text):
        at = found.end()
    if "|" in text[at : at + 80] and (found := _COMPOSE.match(text, at)):
        at = found.end()
    if stamp := _TIMESTAMP.match(text, at):
        at = stamp.end()
    return at
