"""Where a test may kill this process: the steps whose order must hold when a run is cut short."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

AT = "AEONCTL_CRASH_AT"


def crash_points(environment: Mapping[str, str]) -> Callable[[str], None]:
    """A ``ports.Ports.step`` that kills the process with SIGKILL at the step that AEONCTL_CRASH_AT names.

    ``NAME#2`` means the second time; without the variable nothing ever happens.
    """
    name, _, times = environment.get(AT, "").partition("#")
    left = int(times) if times.isdigit() else 1

    def step(reached: str) -> None:
        nonlocal left
        if reached != name:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return step
