"""What the Docker SDK raises, in our own words. Everything foreign is translated here and nowhere else."""

from __future__ import annotations

import errno
import grp
import os
import platform
import pwd
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from docker.errors import APIError, DockerException, ImageNotFound, StreamParseError
from requests.exceptions import RequestException, Timeout
from urllib3.exceptions import HTTPError as Urllib3Error

from aeonctl.adapters.docker_endpoint import Endpoint
from aeonctl.errors import AeonError, EngineError, HostError

FOREIGN = (DockerException, StreamParseError, RequestException, Urllib3Error, OSError, struct.error)
"""Every class that the SDK and what lies under it can raise at us; ``translate`` knows them all."""

_NAME = re.compile(r"name .*is already in use", re.IGNORECASE | re.DOTALL)
_IMAGE = re.compile(r"no such image|image not known", re.IGNORECASE)
_PORT = re.compile(r"port is already allocated|address already in use|ports are not available", re.IGNORECASE)
_GPU = re.compile(
    r"could not select device driver|unknown or invalid runtime name|unknown runtime specified"
    r"|nvidia-container-cli|nvidia-container-runtime|CDI device injection|unresolvable CDI|CDI.*device",
    re.IGNORECASE,
)
_BAD_ADDRESS = re.compile(
    r"bind address needs a port|invalid bind (?:address|port)|invalid bind protocol", re.IGNORECASE
)


@dataclass(frozen=True)
class Surroundings:
    """What decides which remedy is right: WSL2, systemd, and what the docker group says of this user."""

    wsl: bool = False
    systemd: bool = True
    user: str = "$USER"
    group_exists: bool = True
    member: bool = False
    session_has_group: bool = False


def surroundings() -> Surroundings:
    """Look at this process and this machine."""
    try:
        group = grp.getgrnam("docker")
    except KeyError:
        group = None
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return Surroundings(
        wsl="microsoft" in platform.release().lower(),
        systemd=Path("/run/systemd/system").is_dir(),
        user=user,
        group_exists=group is not None,
        member=group is not None and user in group.gr_mem,
        session_has_group=group is not None and group.gr_gid in os.getgroups(),
    )


def translate(
    error: BaseException,
    doing: str,
    endpoint: Endpoint,
    around: Surroundings,
    *,
    last_words: str = "",
) -> AeonError:
    """One of our errors for whatever was raised while ``doing`` (``start aeon-quality``).

    ``last_words`` is what ssh said before it left, when the engine is reached through it.
    """
    if isinstance(error, APIError) and error.response is not None:
        return _refused(error, doing)
    number = _errno(error)
    words = tuple(text for text in (last_words.strip(), _words(error)) if text)
    if number in {errno.EACCES, errno.EPERM}:
        return _no_permission(endpoint, around, words)
    if number == errno.ENOENT and endpoint.is_ssh:
        hint = "install ssh (Debian, Ubuntu: sudo apt install openssh-client)"
        return _silence("failed", endpoint, "there is no ssh command here", hint, words)
    if number == errno.ENOENT:
        return _silence("no_socket", endpoint, f"{endpoint.url} does not exist", _start_hint(around), words)
    if number == errno.ECONNREFUSED:
        return _silence("not_running", endpoint, "nobody listens there", _start_hint(around), words)
    if endpoint.is_ssh and last_words.strip():
        hint = f"try it by hand: ssh {endpoint.url.removeprefix('ssh://')} docker version"
        return _silence("failed", endpoint, "the connection through ssh failed", hint, words)
    if _BAD_ADDRESS.search(_words(error)):
        hint = "write it like unix:///var/run/docker.sock, tcp://10.0.0.7:2375 or ssh://user@host"
        return _silence("failed", endpoint, "that is not an address of a Docker engine", hint, words)
    if isinstance(error, Timeout):
        return _silence("failed", endpoint, f"no answer in time while trying to {doing}", "docker info", words)
    return _silence("failed", endpoint, f"could not {doing}", "docker info", words)


def _refused(error: APIError, doing: str) -> AeonError:
    """The engine answered, and said no."""
    words = str(error.explanation or error)
    if isinstance(error, ImageNotFound) or _IMAGE.search(words):
        return HostError(
            "image_missing", f"could not {doing}: no such image here", cause=words, hint="aeonctl pull-image"
        )
    if error.status_code == 409 and _NAME.search(words):
        hint = "choose another --name, or remove that container: docker rm NAME"
        return HostError("name_in_use", f"could not {doing}: the name is taken", cause=words, hint=hint)
    if _PORT.search(words):
        hint = "choose another --port, or stop whoever listens there (ss -ltnp)"
        return HostError("port_in_use", f"could not {doing}: the port is taken", cause=words, hint=hint)
    if _GPU.search(words):
        return HostError(
            "nvidia_runtime_missing",
            f"could not {doing}: Docker could not give the container a GPU",
            cause=words,
            hint="install nvidia-container-toolkit and restart Docker, then: aeonctl doctor",
        )
    if error.status_code == 404:
        return EngineError(
            "not_running", f"could not {doing}: there is no such container", cause=words, hint="aeonctl status"
        )
    return EngineError("start_failed", f"could not {doing}: the engine refused", cause=words, hint="aeonctl doctor")


def _no_permission(endpoint: Endpoint, around: Surroundings, words: tuple[str, ...]) -> HostError:
    if around.member and not around.session_has_group:
        cause = f"{around.user} is in the group docker, but this session began before that"
        hint = "log out and in again (or: newgrp docker)"
    elif around.group_exists and not around.session_has_group:
        cause = f"{around.user} is not in the group docker"
        hint = f"sudo usermod -aG docker {around.user}, then log out and in again"
    else:
        cause = "its socket is not readable and writable for this user"
        hint = f"ls -l {endpoint.url.removeprefix('unix://')}"
    return HostError(
        "docker_permission",
        f"no permission to talk to Docker at {endpoint.url}",
        cause=(cause, *words),
        hint=hint,
        endpoint=endpoint.url,
        context=endpoint.context,
        problem="permission",
    )


def _silence(problem: str, endpoint: Endpoint, cause: str, hint: str, words: tuple[str, ...]) -> HostError:
    return HostError(
        "docker_unreachable",
        f"Docker does not answer at {endpoint.url}",
        cause=(cause, *words),
        hint=hint,
        endpoint=endpoint.url,
        context=endpoint.context,
        problem=problem,
    )


def _start_hint(around: Surroundings) -> str:
    start = "sudo systemctl start docker" if around.systemd else "sudo service docker start"
    if around.wsl:
        return (
            f"Docker Desktop: start it, Settings > Resources > WSL integration, turn this distro on; otherwise: {start}"
        )
    return f"{start} (not installed: https://docs.docker.com/engine/install/)"


def _errno(error: BaseException) -> int | None:
    """The system's own number, from wherever in the chain it hides: causes, contexts, and exceptions as arguments."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, OSError) and current.errno is not None:
            return current.errno
        reason = getattr(current, "reason", None)
        waiting += [current.__context__, current.__cause__, reason, *current.args]
    return None


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
