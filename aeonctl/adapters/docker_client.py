"""A connected Docker API client: through a socket, TCP, or ssh without any ssh library."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlsplit

import requests.adapters
import urllib3
import urllib3.connection
from docker import APIClient, auth
from docker.errors import DockerException
from docker.tls import TLSConfig
from docker.types import CancellableStream
from docker.utils import version_lt
from requests.exceptions import RequestException

from aeonctl.adapters.docker_endpoint import Endpoint, Tls

OLDEST_API = "1.24"
NEWEST_API = "1.51"
"""The newest API that the replies are read in; later ones leave fields out that are read here."""

_ANSWER_SECONDS = 10
_WORK_SECONDS = 120
_SSH_BASE = "http://docker-through-ssh:80"


class Client(APIClient):
    """The SDK's client, with a pull that another thread can end."""

    def pull_stream(self, repository: str, tag: str, login: Mapping[str, str]) -> CancellableStream[Any]:
        """The messages of a pull as they come; ``close`` on it makes the engine give the pull up. ``login`` is what the
        engine shows the registry (empty for anyone)."""
        response = self._post(  # type: ignore[attr-defined]
            self._url("/images/create"),  # type: ignore[attr-defined]
            params={"fromImage": repository, "tag": tag},
            headers={"X-Registry-Auth": auth.encode_header(dict(login))},
            stream=True,
            timeout=None,
        )
        self._raise_for_status(response)  # type: ignore[attr-defined]
        return CancellableStream(self._stream_helper(response, decode=True), response)  # type: ignore[attr-defined]


def connect(endpoint: Endpoint, through: SshAdapter | None) -> Client:
    """A client that speaks the newest API that both sides know. Raises what the SDK raises."""
    try:
        first = _client(endpoint, through, OLDEST_API, _ANSWER_SECONDS)
        offered = str(first.version(api_version=False)["ApiVersion"])
        version = offered if version_lt(offered, NEWEST_API) else NEWEST_API
        return _client(endpoint, through, version, _WORK_SECONDS)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, RequestException):
            raise
        message = f"invalid bind address, or no Docker engine there: {error}"
        raise DockerException(message) from error


def _client(endpoint: Endpoint, adapter: SshAdapter | None, version: str, timeout: int) -> Client:
    if adapter is None:
        return Client(endpoint.url, version=version, timeout=timeout, tls=_tls_config(endpoint.tls))
    client = Client(_SSH_BASE, version=version, timeout=timeout)
    client.mount(_SSH_BASE, adapter)
    return client


def _tls_config(tls: Tls | None) -> TLSConfig | bool:
    if tls is None:
        return False
    pair = (str(tls.cert), str(tls.key)) if tls.cert and tls.key else None
    return TLSConfig(client_cert=pair, ca_cert=str(tls.ca) if tls.ca else None, verify=tls.verify)


def ssh_command(url: str) -> list[str]:
    """The ssh command whose standard input and output are a connection to the engine at ``ssh://[user@]host[:port]``.

    A path in the URL is the engine's socket over there.
    """
    parts = urlsplit(url)
    words = ["ssh", "-T", "-o", "ConnectTimeout=30"]
    words += ["-l", parts.username] if parts.username else []
    words += ["-p", str(parts.port)] if parts.port else []
    path = parts.path.rstrip("/")
    remote = ["docker", *(["--host", f"unix://{path}"] if path else []), "system", "dial-stdio"]
    return [*words, "--", parts.hostname or "", shlex.join(remote)]


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class SshConnection(urllib3.connection.HTTPConnection):
    """One HTTP connection whose socket is the other end of an ssh process."""

    def __init__(self, command: list[str], environment: Mapping[str, str], complaints: IO[bytes], **more: Any) -> None:
        super().__init__("localhost", **more)
        self._command = command
        self._environment = environment
        self._complaints = complaints
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Start ssh. Ctrl-C does not reach it, so that what must be cleaned up still can be."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._complaints,
                env=dict(self._environment),
                preexec_fn=_ignore_interrupt,
            )
        if isinstance(self.timeout, int | float):
            ours.settimeout(self.timeout)
        self.sock = ours

    def close(self) -> None:
        """Close the socket and wait for ssh, which leaves with it."""
        super().close()
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()


class _SshPool(urllib3.HTTPConnectionPool):
    def __init__(self, url: str, environment: Mapping[str, str], complaints: IO[bytes]) -> None:
        super().__init__("localhost", maxsize=10)
        self._url = url
        self._environment = environment
        self._complaints = complaints

    def _new_conn(self) -> SshConnection:
        return SshConnection(ssh_command(self._url), self._environment, self._complaints)


class SshAdapter(requests.adapters.HTTPAdapter):
    """Sends requests through ssh processes."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        super().__init__()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the adapter
        self._pool = _SshPool(url, environment, self._complaints)

    def get_connection_with_tls_context(self, *_arguments: Any, **_options: Any) -> urllib3.HTTPConnectionPool:
        """Every request goes through the one pool."""
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:  # noqa: ARG002
        """The path alone; a proxy for the web has no part in this."""
        return str(request.path_url)

    def last_words(self) -> str:
        """What the ssh processes wrote to standard error (the last 4 kB)."""
        number = self._complaints.fileno()
        start = max(0, os.fstat(number).st_size - 4096)
        return os.pread(number, 4096, start).decode(errors="replace")
