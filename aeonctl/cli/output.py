"""The only printer. Data goes to stdout, talk to stderr; colours and bars only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from aeonctl.errors import AeonError, ExitCode, HostError

_STYLES = {"error": "31;1", "warning": "33", "hint": "36", "good": "32", "faint": "2", "bold": "1"}


class Output:
    """Where a command's words and data go."""

    def __init__(
        self, *, as_json: bool = False, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self.verbose = verbose
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.rehearsal = False

    @property
    def is_terminal(self) -> bool:
        """True when a person looks at stderr and wants bars: a terminal, and not CI."""
        return (
            self._err is not None
            and self._err.isatty()
            and not self.as_json
            and not os.environ.get("CI")
            and os.environ.get("TERM") != "dumb"
        )

    def style(self, text: str, kind: str) -> str:
        """``text`` in a colour where colours are shown."""
        if os.environ.get("NO_COLOR") or not self.is_terminal:
            return text
        return f"\x1b[{_STYLES[kind]}m{text}\x1b[0m"

    def say(self, text: str = "") -> None:
        """A line of talk."""
        self._write(self._err, text + "\n")

    def note(self, text: str) -> None:
        """A line of talk, marked in a rehearsal."""
        self.say(self._marked(text))

    def warn(self, text: str) -> None:
        """A warning."""
        self.say(f"{self.style('warning', 'warning')}: {self._marked(text)}")

    def data(self, text: str) -> None:
        """Data for a person or a pipe; with ``--json`` the envelope is the data, and this is silent."""
        if not self.as_json:
            self._write(self._out, text)

    def raw(self, chunk: bytes) -> None:
        """Bytes of a log, as they are."""
        self._out.flush()
        buffer = getattr(self._out, "buffer", None)
        if buffer is None:
            self._write(self._out, chunk.decode("utf-8", "replace"))
        else:
            buffer.write(chunk)
            buffer.flush()

    def table(self, rows: Iterable[tuple[str, ...]]) -> str:
        """Columns, aligned by their widest cell."""
        lines = [tuple(str(cell) for cell in row) for row in rows]
        if not lines:
            return ""
        widths = [max(len(row[i]) for row in lines if i < len(row)) for i in range(max(map(len, lines)))]
        padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in lines)
        return "".join("  ".join(row).rstrip() + "\n" for row in padded)

    def envelope(self, command: str, code: ExitCode, data: Any, error: AeonError | None) -> None:
        """The one JSON document of ``--json``."""
        errors = [] if error is None else [error_json(error)]
        envelope = {
            "aeonctl": 1,
            "command": command,
            "ok": code == ExitCode.OK,
            "exit_code": int(code),
            "data": data,
            "errors": errors,
        }
        if self.rehearsal:
            envelope["rehearsal"] = True
        self._write(self._out, json.dumps(envelope, ensure_ascii=False) + "\n")

    def error(self, error: AeonError) -> None:
        """An error as people read it: message, causes, an empty line, the next thing to type."""
        self.say(f"{self.style('error', 'error')}: {self._marked(error.message)}")
        for cause in error.causes:
            self.say(f"  caused by: {cause}")
        if error.hint:
            self.say()
            self.say(f"{self.style('hint', 'hint')}: {error.hint}")

    def _marked(self, text: str) -> str:
        return f"[rehearsal] {text}" if self.rehearsal else text

    def _write(self, stream: TextIO | None, text: str) -> None:
        """Write; a stream that was closed before we began is silence. HostError output_not_written for a full disk."""
        if stream is None or stream.closed:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = stream.encoding or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise HostError(
                "output_not_written",
                "the output could not be written",
                cause=error.strerror or str(error),
                hint="send it somewhere with room; what was done stays done",
            ) from error


def error_json(error: AeonError) -> dict[str, Any]:
    """An error in the envelope: its stable code, its words, and the facts it speaks of."""
    return {
        "code": error.code,
        "message": error.message,
        "causes": list(error.causes),
        "hint": error.hint,
        **{name: value for name, value in error.facts.items() if value is not None},
    }
