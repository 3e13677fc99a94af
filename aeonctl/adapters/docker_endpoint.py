"""Which Docker engine is meant: the docker command line's own order, and its refusal of a missing context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aeonctl.errors import HostError

DEFAULT_URL = "unix:///var/run/docker.sock"
DEFAULT_CONTEXT = "default"


@dataclass(frozen=True)
class Tls:
    """The files of a TLS connection; ``verify`` is false only where the user's own configuration says so."""

    ca: Path | None
    cert: Path | None
    key: Path | None
    verify: bool


@dataclass(frozen=True)
class Endpoint:
    """Where an engine listens (``unix://``, ``tcp://`` or ``ssh://``) and the context that said so."""

    url: str
    context: str = DEFAULT_CONTEXT
    tls: Tls | None = None

    @property
    def is_ssh(self) -> bool:
        """True when the engine is reached through ssh."""
        return self.url.startswith("ssh://")

    @property
    def is_local(self) -> bool:
        """True for a socket of this machine (the engine behind it may still be a virtual machine's)."""
        return "://" not in self.url or self.url.startswith("unix://")


def resolve(argument: str | None, environment: Mapping[str, str], home: Path) -> Endpoint:
    """The endpoint: ``argument``, else DOCKER_HOST, DOCKER_CONTEXT, the configured context, the default socket.

    HostError context_not_found when a context is named that does not exist, as ``docker`` itself refuses then.
    """
    url = argument or environment.get("DOCKER_HOST")
    if url:
        return Endpoint(url, tls=_tls_of_environment(environment, home))
    folder = _folder(environment, home)
    name = environment.get("DOCKER_CONTEXT") or _configured_context(folder) or DEFAULT_CONTEXT
    if name == DEFAULT_CONTEXT:
        return Endpoint(DEFAULT_URL)
    return _context(folder, name)


def _folder(environment: Mapping[str, str], home: Path) -> Path:
    chosen = environment.get("DOCKER_CONFIG")
    return Path(chosen) if chosen else home / ".docker"


def _configured_context(folder: Path) -> str | None:
    """The current context; None when the file is missing or unreadable, which docker only warns of."""
    current = _json(folder / "config.json").get("currentContext")
    return current if isinstance(current, str) else None


def _context(folder: Path, name: str) -> Endpoint:
    identity = hashlib.sha256(name.encode()).hexdigest()
    path = folder / "contexts" / "meta" / identity / "meta.json"
    endpoints = _json(path).get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = docker.get("Host") if isinstance(docker, dict) else None
    if not isinstance(docker, dict) or not isinstance(host, str):
        raise HostError(
            "context_not_found",
            f"the Docker context {name!r} does not exist",
            cause=f"there is no usable {path}",
            hint="docker context ls, then docker context use NAME (or unset DOCKER_CONTEXT)",
            context=name,
            problem="context_not_found",
        )
    files = folder / "contexts" / "tls" / identity / "docker"
    tls = _tls_files(files, verify=not docker.get("SkipTLSVerify", False)) if files.is_dir() else None
    return Endpoint(host or DEFAULT_URL, context=name, tls=tls)


def _tls_of_environment(environment: Mapping[str, str], home: Path) -> Tls | None:
    """DOCKER_TLS_VERIFY (any text turns it on) and DOCKER_CERT_PATH."""
    verify = bool(environment.get("DOCKER_TLS_VERIFY"))
    if not verify and not environment.get("DOCKER_TLS"):
        return None
    return _tls_files(Path(environment.get("DOCKER_CERT_PATH") or _folder(environment, home)), verify=verify)


def _tls_files(folder: Path, *, verify: bool) -> Tls:
    files = [folder / name if (folder / name).is_file() else None for name in ("ca.pem", "cert.pem", "key.pem")]
    return Tls(files[0], files[1], files[2], verify)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
