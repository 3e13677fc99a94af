"""``aeonctl`` in a process of its own, against a real Docker engine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
LONGEST = 240
"""Seconds for one command: a boot of vLLM on two cores takes about one minute."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class CommandLine:
    """One user: a home, a container name and a port of their own."""

    def __init__(self, docker_host: str, home: Path, name: str) -> None:
        self.name = name
        self.port = free_port()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("HF_", "AEONCTL_", "XDG_"))},
            "DOCKER_HOST": docker_host,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": str(REPOSITORY),
            "NO_COLOR": "1",
        }

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "aeonctl", *words]

    def here(self, *words: str) -> tuple[str, ...]:
        """``words`` with this user's container name and port."""
        return (*words, "--name", self.name, "--port", str(self.port))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words), env=self.environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )

    def succeed(self, *words: str) -> str:
        """What a command that must succeed printed to stdout."""
        done = self.run(*words)
        assert done.returncode == 0, f"{done.stderr}\n{done.stdout}\n{self.kept_logs()}"
        return done.stdout

    def data(self, *words: str) -> dict[str, Any]:
        """``data`` of a command with ``--json`` that must succeed."""
        envelope = json.loads(self.succeed(*words, "--json"))
        data: dict[str, Any] = envelope["data"]
        return data

    def docker(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *words], env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0 or not check, f"docker {' '.join(words)}: {done.stderr}"
        return done.stdout

    def inspect(self) -> dict[str, Any]:
        """``docker inspect`` of this user's container."""
        inspected: dict[str, Any] = json.loads(self.docker("inspect", self.name))[0]
        return inspected

    def container_exists(self) -> bool:
        return self.name in self.docker("ps", "--all", "--format", "{{.Names}}").split()

    def port_is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.port))
            except OSError:
                return False
        return True

    def kept_logs(self) -> str:
        """The ends of the logs that a failed ``up`` kept."""
        logs = sorted(Path(self.environment["XDG_STATE_HOME"]).glob("aeonctl/logs/*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in logs)
