"""The engine's log: vLLM's prefixes and streams. Its own lines go to stdout; uvicorn, bars and tracebacks to stderr."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence

_BAR_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR_CELLS = 10


class Log:
    """Writes lines as vLLM does; ``modern`` (0.32 and later) leaves bars, uvicorn and tracebacks without a prefix."""

    def __init__(self, *, speed: float, modern: bool) -> None:
        self._speed = speed
        self._modern = modern
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def api(self, where: str, message: str, level: str = "INFO") -> None:
        """Write a line of the API server; ``where`` is vLLM's ``file.py:line``."""
        self._line("APIServer", where, message, level)

    def core(self, where: str, message: str, level: str = "INFO") -> None:
        """Write a line of the engine core."""
        self._line("EngineCore", where, message, level)

    def uvicorn(self, message: str) -> None:
        """Write one of uvicorn's own lines."""
        self.raw("APIServer", [f"INFO:     {message}"])

    def raw(self, process: str, lines: Iterable[str]) -> None:
        """Write lines to stderr as a process's stderr shows up in vLLM's log."""
        prefix = "" if self._modern else f"{self._prefix(process)} "
        self._write(sys.stderr, "".join(f"{prefix}{line}\n" for line in lines))

    def bar(self, title: str, total: int, *, seconds: float, unit_style: str) -> None:
        """Draw a tqdm bar over ``seconds``: style ``weights`` ends every state with a newline, ``graphs`` only "
        "the last."""
        steps = sorted({0, *(round(total * part / 8) for part in range(1, 9))})
        weights = unit_style == "weights"
        for done in steps:
            drawn = _bar_text(title, done, total, seconds, weights=weights)
            lead = "" if self._modern or (not weights and done) else f"{self._prefix('EngineCore')} "
            self._write(sys.stderr, f"{lead}\r{drawn}" + ("\n" if weights or done == total else ""))
            if done < total:
                self.wait(seconds / (len(steps) - 1))
        if weights:
            self.raw("EngineCore", [""])

    def wait(self, seconds: float) -> None:
        """Let time pass: ``seconds`` at speed 1.0, nothing at speed 0."""
        if self._speed > 0:
            time.sleep(seconds * self._speed)

    def _line(self, process: str, where: str, message: str, level: str) -> None:
        stamp = time.strftime("%m-%d %H:%M:%S")
        head = f"{self._prefix(process)} {level} {stamp} [{where}] "
        self._write(sys.stdout, "".join(f"{head}{part}\n" for part in message.split("\n")))

    def _prefix(self, process: str) -> str:
        return f"({process} pid={self._pid})"

    def _write(self, stream: object, text: str) -> None:
        descriptor = 1 if stream is sys.stdout else 2
        with self._lock:
            os.write(descriptor, text.encode())


def _bar_text(title: str, done: int, total: int, seconds: float, *, weights: bool) -> str:
    elapsed = seconds * done / total
    rate = f"{done / elapsed:5.2f}it/s" if elapsed > 0 else "?it/s"
    left = f"00:{int(seconds - elapsed):02d}" if done else "?"
    times = f"{done}/{total} [00:{int(elapsed):02d}<{left}, {rate}]"
    if weights:
        return f"{title}: {100 * done // total:3d}% Completed | {times}"
    eighths = _BAR_CELLS * 8 * done // total
    cells = "█" * (eighths // 8) + (_BAR_EIGHTHS[eighths % 8].strip() if eighths % 8 else "")
    return f"{title}: {100 * done // total:3d}%|{cells:<{_BAR_CELLS}}| {times}"


def traceback_lines(frames: Sequence[tuple[str, int, str, str]], error: str) -> list[str]:
    """Render a Python traceback: frames as (file, line, function, code), then the error, which may span lines."""
    lines = ["Traceback (most recent call last):"]
    for file, number, function, code in frames:
        lines += [
            f'  File "/usr/local/lib/python3.12/dist-packages/{file}", line {number}, in {function}',
            f"    {code}",
        ]
    return [*lines, *error.split("\n")]
