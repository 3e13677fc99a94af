"""A process that starts an engine, outlives whoever asked for it, and writes down how the engine ended.

Run as a file (``python supervise.py FOLDER REPORT_FD -- COMMAND…``) with the standard library alone, so that it is
small and starts fast. It goes into the background at once. Through REPORT_FD it says either where the engine runs (what
it also writes to ``process.json``) or why it could not be started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROCESS, ENDED = "process.json", "ended.json"


def write_whole(path: Path, data: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: with the pid it names a process once. None when it is gone
    (or only waits to be reaped)."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in {"Z", "X"} else int(fields[19])


def stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat from the third field on (the state); None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def main(folder: Path, report: int, command: list[str]) -> None:
    """Start ``command``, wait for it, and write its exit code as a container would have it (128 + signal)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(report, "w", encoding="utf-8") as pipe:
        try:
            engine = subprocess.Popen(command, start_new_session=True, preexec_fn=_default_signals)
        except OSError as error:
            json.dump({"error": f"{command[0]}: {error.strerror or error}"}, pipe)
            return
        process = {
            "pid": engine.pid,
            "ticks": start_ticks(engine.pid) or 0,
            "supervisor": os.getpid(),
            "supervisor_ticks": start_ticks(os.getpid()),
            "started_at": time.time(),
        }
        try:
            write_whole(folder / PROCESS, process)
        except OSError as error:  # the start was given up, and the folder with it: nobody would find this engine
            os.killpg(engine.pid, signal.SIGKILL)
            json.dump({"error": str(error)}, pipe)
        else:
            json.dump(process, pipe)
    code = engine.wait()
    with contextlib.suppress(OSError):  # removed meanwhile
        write_whole(folder / ENDED, {"exit_code": 128 - code if code < 0 else code, "ended_at": time.time()})


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])
    os._exit(0)
