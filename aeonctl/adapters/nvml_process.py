"""NVML in a process of its own, with a time limit.

The driver's library is foreign code inside whoever loads it: under WSL, releases of it have crashed, and with a GPU in
trouble a call may never return. In a thread the first would end aeonctl and the second would keep it from exiting; a
forked copy would inherit locks. A fresh interpreter costs about 0.2 s of one CPU, spent while the other parts of the
host are probed, and neither the 0.3 MB binding nor the library stays in our memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from aeonctl.adapters.nvml import Nvml
from aeonctl.core.base import Value
from aeonctl.core.host import Driver, Gpu
from aeonctl.errors import ConfigurationError

GpuFacts = tuple[Driver, tuple[Gpu, ...] | None, dict[str, str]]

TIME_LIMIT = 10.0
"""Seconds. An answer takes some 0.3 s, but without the persistence daemon the driver first wakes every GPU, seconds
each; so the limit is only against never."""

_CHILD = (sys.executable, "-P", "-m", "aeonctl.adapters.nvml_process")


class _Report(Value):
    """What the child writes as one line of JSON."""

    driver: Driver
    gpus: tuple[Gpu, ...] | None
    unknown: dict[str, str]


class NvmlProcess:
    """A GpuProbe that a crash or a hang of the driver's library cannot take along.

    ``command`` writes the report; ``time_limit`` is in seconds.
    """

    def __init__(self, command: Sequence[str] = _CHILD, *, time_limit: float = TIME_LIMIT) -> None:
        self._command = command
        self._time_limit = time_limit

    def gpus(self) -> GpuFacts:
        """The driver, the GPUs and why facts are unknown; see ports.GpuProbe."""
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=child_environment(),
            )
        except OSError as error:
            return _silence(f"NVML could not be asked: {error}")
        try:
            output, errors = child.communicate(timeout=self._time_limit)
        except subprocess.TimeoutExpired:
            _end(child)
            return _silence(f"NVML gave no answer within {self._time_limit:g} s")
        if child.returncode != 0:
            return _silence(_exit_words(child.returncode, errors))
        return _report(output)


def child_environment() -> dict[str, str]:
    """Ours, with this package's folder in front: the child must find the code that its parent runs."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill, and wait only briefly: a process that hangs inside the driver does not die before its call returns."""
    child.kill()
    try:
        child.communicate(timeout=0.2)
    except subprocess.TimeoutExpired:
        return


def _exit_words(code: int, errors: bytes) -> str:
    if code < 0:
        names = {int(number): number.name for number in signal.Signals}
        return f"NVML's library ended its process with {names.get(-code, f'signal {-code}')}"
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"asking NVML ended with exit code {code}: {last}"


def _report(output: bytes) -> GpuFacts:
    """The last line counts: the library may write to standard output as well."""
    line = output.decode("utf-8", "replace").strip().rpartition("\n")[2]
    try:
        report = _Report.parse(json.loads(line), "NVML's report")
    except (ValueError, ConfigurationError) as error:
        return _silence(f"NVML's report cannot be read: {error}")
    return report.driver, report.gpus, report.unknown


def _silence(detail: str) -> GpuFacts:
    return Driver(problem="failed", detail=detail), None, {"gpus": detail}


def report() -> str:
    """What the child writes."""
    driver, gpus, unknown = Nvml().gpus()
    return _Report(driver=driver, gpus=gpus, unknown=unknown).model_dump_json()


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
