"""A shell on another machine, through the ssh command: one connection and one remote command per call."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from urllib.parse import urlsplit

from aeonctl.errors import HostError
from aeonctl.ports import RemoteAnswer

_CONNECT_SECONDS = 5
_SESSION_SECONDS = 180
_NO_SESSION = 255
"""What ssh itself exits with when there was no session (or it broke)."""


class SshShell:
    """``ports.RemoteShell`` with the user's own ssh configuration and keys."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def run(self, url: str, script: str) -> RemoteAnswer:
        """See ``ports.RemoteShell``."""
        try:
            done = subprocess.run(
                ssh_words(url, script),
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SESSION_SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            raise HostError(
                "ssh_missing", "there is no ssh on this machine", cause=str(error), hint="apt install openssh-client"
            ) from error
        except subprocess.TimeoutExpired:
            words = f"the session did not end within {_SESSION_SECONDS} s"
            return RemoteAnswer(landed=False, code=_NO_SESSION, output="", words=words)
        words = done.stderr.decode(errors="replace").strip()
        output = done.stdout.decode(errors="replace")
        landed = done.returncode != _NO_SESSION
        return RemoteAnswer(landed=landed, code=done.returncode, output=output, words=words[-2000:])


def ssh_words(url: str, script: str) -> list[str]:
    """The ssh command for ``ssh://[user@]host[:port]``; it never asks, and gives up a connection after 5 s."""
    parts = urlsplit(url)
    words = ["ssh", "-T", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-o", "BatchMode=yes"]
    words += ["-o", "ConnectionAttempts=1", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    words += ["-l", parts.username] if parts.username else []
    words += ["-p", str(parts.port)] if parts.port else []
    return [*words, "--", parts.hostname or "", shlex.join(["sh", "-c", script])]
