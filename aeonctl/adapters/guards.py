"""Starting memory guards: a process each, which outlives whoever started it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aeonctl.adapters import guard_process
from aeonctl.adapters.docker_endpoint import resolve
from aeonctl.errors import HostError
from aeonctl.ports import GuardTask

_READY_SECONDS = 10.0
_INTERVAL = 0.1
"""Seconds between two samples of the memory."""


class GuardProcesses:
    """``ports.Guards`` for containers in a Docker engine of this machine."""

    def __init__(self, host: str | None, environment: Mapping[str, str], home: Path) -> None:
        self._host = host
        self._environment = environment
        self._home = home

    def start(self, task: GuardTask) -> None:
        """See ``ports.Guards``."""
        command = self._command(task)
        reading, writing = os.pipe()
        try:
            subprocess.Popen(
                [*command, str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,
                env={**self._environment, "MALLOC_ARENA_MAX": "1"},
            )
            os.close(writing)
            heard = select.select([reading], [], [], _READY_SECONDS)[0] and os.read(reading, 16)
        finally:
            os.close(reading)
        if heard != b"ready":
            raise HostError("guard_failed", f"the memory guard for {task.name} did not start", hint="--no-guard")

    def become(self, task: GuardTask) -> None:
        """See ``ports.Guards``."""
        command = self._command(task)
        os.execve(command[0], command, {**self._environment, "MALLOC_ARENA_MAX": "1"})  # noqa: S606 - no shell wanted

    def _command(self, task: GuardTask) -> list[str]:
        url = resolve(self._host, self._environment, self._home).url
        if not url.startswith("unix://"):
            raise HostError(
                "guard_elsewhere",
                "a memory guard must run on the machine that it watches",
                cause=f"Docker is at {url}",
                hint="run aeonctl guard there, or start with --no-guard",
            )
        content: dict[str, Any] = {
            "name": task.name,
            "docker": url.removeprefix("unix://"),
            "floor_bytes": task.floor_bytes,
            "stall_share": task.stall_share,
            "health_port": task.health_port,
            "restarts": task.restarts,
            "minutes": task.minutes,
            "record": str(task.record),
            "wait_seconds": task.wait_seconds,
            "interval": _INTERVAL,
        }
        return [sys.executable, "-I", guard_process.__file__, json.dumps(content)]
