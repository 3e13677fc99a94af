"""A container as a value. The ``docker run`` text and the Engine API request are both derived from it, so that what is
shown is what is run."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shlex
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.units import docker_bytes

LABEL = "io.aeonctl"
REVISION = "<revision>"
"""Stands in a path for the revision of a model that is not downloaded yet."""


class Mount(Value):
    """A folder or a named volume inside the container."""

    type: Literal["bind", "volume"] = "bind"
    source: str
    target: str
    read_only: bool = False


class Publish(Value):
    """A container port on an address of the host."""

    host_ip: str
    host_port: int
    container_port: int


class ContainerSpec(Value):
    """Everything that decides what a container is. ``env`` maps a name to its value, or to None when the value is
    handed on from the environment of whoever starts it (secrets). ``revisions`` maps a placeholder in any of the texts
    to the file that will hold what it stands for; such a spec can be printed, not started."""

    name: str
    image: str
    entrypoint: str
    command: tuple[str, ...]
    env: dict[str, str | None] = Field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    publish: tuple[Publish, ...] = ()
    network: Literal["bridge", "host"] = "bridge"
    ipc: str | None = None
    shm_size: str | None = None
    gpus: str | None = None
    runtime: str | None = None
    restart: str = "no"
    labels: dict[str, str] = Field(default_factory=dict)
    revisions: dict[str, str] = Field(default_factory=dict)
    oom_score_adj: int | None = None
    core_dumps: bool = True


def spec_hash(spec: ContainerSpec) -> str:
    """Twelve hexadecimal digits that change when anything but the labels and the restart policy does."""
    content = spec.model_dump(mode="json", exclude={"labels", "restart", "revisions"})
    for name in ("oom_score_adj", "core_dumps"):
        if content[name] == ContainerSpec.model_fields[name].default:
            del content[name]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def docker_run_lines(spec: ContainerSpec) -> list[str]:
    """The words of ``docker run`` quoted for bash, one string per line of the printed command."""
    lines = [f"docker run -d --name {shlex.quote(spec.name)}"]
    settings: list[str] = []
    if spec.gpus is not None:
        settings += ["--gpus", shlex.quote(spec.gpus if spec.gpus == "all" else f'"{spec.gpus}"')]
    if spec.runtime is not None:
        settings += ["--runtime", shlex.quote(spec.runtime)]
    if spec.ipc is not None:
        settings += [f"--ipc={shlex.quote(spec.ipc)}"]
    if spec.shm_size is not None:
        settings += [f"--shm-size={shlex.quote(spec.shm_size)}"]
    settings += [f"--network={shlex.quote(spec.network)}", f"--restart={shlex.quote(spec.restart)}"]
    lines.append(" ".join(settings))
    limits = [] if spec.oom_score_adj is None else [f"--oom-score-adj={spec.oom_score_adj}"]
    limits += [] if spec.core_dumps else ["--ulimit core=0"]
    lines += [" ".join(limits)] if limits else []
    lines += [f"-p {shlex.quote(publish_words(entry))}" for entry in spec.publish]
    for name, value in spec.env.items():
        lines.append(f"-e {shlex.quote(name if value is None else f'{name}={value}')}")
    lines += [f"--mount {quote_word(mount_text(mount), spec.revisions)}" for mount in spec.mounts]
    lines += [f"--label {shlex.quote(f'{name}={value}')}" for name, value in spec.labels.items()]
    lines.append(f"--entrypoint {shlex.quote(spec.entrypoint)} {shlex.quote(spec.image)}")
    lines += command_lines(spec.command, spec.revisions)
    return lines


def command_lines(command: tuple[str, ...], revisions: Mapping[str, str]) -> list[str]:
    """The engine's argv, quoted, with one option and its values per line."""
    lines: list[list[str]] = [[]]
    for word in command:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(quote_word(word, revisions))
    return [" ".join(words) for words in lines if words]


def publish_words(entry: Publish) -> str:
    """The value of ``-p``; an IPv6 address stands in brackets there."""
    address = f"[{entry.host_ip}]" if ":" in entry.host_ip else entry.host_ip
    return f"{address}:{entry.host_port}:{entry.container_port}"


def mount_text(mount: Mount) -> str:
    """The value of ``--mount``: fields with a comma are quoted as CSV, as Docker reads them."""
    fields = [f"type={mount.type}", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        fields.append("readonly")
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(fields)
    return row.getvalue()


def quote_word(word: str, revisions: Mapping[str, str]) -> str:
    """A word for bash; what is not known yet is read from its file when the command runs."""
    for placeholder, file in revisions.items():
        if placeholder in word:
            before, _, after = word.partition(placeholder)
            looked_up = f'"$(cat {shlex.quote(file)})"'
            return (shlex.quote(before) if before else "") + looked_up + (quote_word(after, revisions) if after else "")
    return shlex.quote(word)


_EMPTY_LISTS = (
    "BlkioDeviceReadBps",
    "BlkioDeviceReadIOps",
    "BlkioDeviceWriteBps",
    "BlkioDeviceWriteIOps",
    "BlkioWeightDevice",
    "Devices",
    "Dns",
    "DnsOptions",
    "DnsSearch",
    "Ulimits",
)
"""What ``docker run`` sends as an empty list where the API would otherwise keep null."""


def create_request(spec: ContainerSpec, environment: Mapping[str, str]) -> dict[str, Any]:
    """The body of the Engine API's POST /containers/create, equal to what ``docker run`` sends for the printed text.

    A variable that is handed on takes its value from ``environment``. When it is not set there its bare name is sent,
    as ``docker run -e NAME`` does, which unsets a variable of the image's own.
    """
    given = {name: environment.get(name) if value is None else value for name, value in spec.env.items()}
    env = [name if value is None else f"{name}={value}" for name, value in given.items()]
    policy, _, retries = spec.restart.partition(":")
    host: dict[str, Any] = {
        **{name: [] for name in _EMPTY_LISTS},
        "NetworkMode": spec.network,
        "RestartPolicy": {"Name": policy, "MaximumRetryCount": int(retries or 0)},
        "Mounts": [_api_mount(mount) for mount in spec.mounts],
        "PortBindings": {
            f"{p.container_port}/tcp": [{"HostIp": p.host_ip, "HostPort": str(p.host_port)}] for p in spec.publish
        },
    }
    if spec.ipc is not None:
        host["IpcMode"] = spec.ipc
    if spec.shm_size is not None:
        host["ShmSize"] = docker_bytes(spec.shm_size)
    if spec.runtime is not None:
        host["Runtime"] = spec.runtime
    if spec.oom_score_adj is not None:
        host["OomScoreAdj"] = spec.oom_score_adj
    if not spec.core_dumps:
        host["Ulimits"] = [{"Name": "core", "Soft": 0, "Hard": 0}]
    if spec.gpus is not None:
        host["DeviceRequests"] = [_device_request(spec.gpus)]
    return {
        "Image": spec.image,
        "Entrypoint": [spec.entrypoint],
        "Cmd": list(spec.command),
        "Env": env,
        "Labels": dict(spec.labels),
        "ExposedPorts": {f"{p.container_port}/tcp": {} for p in spec.publish},
        "HostConfig": host,
    }


def _api_mount(mount: Mount) -> dict[str, Any]:
    body: dict[str, Any] = {"Type": mount.type, "Source": mount.source, "Target": mount.target}
    return {**body, "ReadOnly": True} if mount.read_only else body


def _device_request(gpus: str) -> dict[str, Any]:
    request: dict[str, Any] = {"Driver": "", "Capabilities": [["gpu"]], "Options": {}}
    if gpus == "all":
        return {**request, "Count": -1, "DeviceIDs": None}
    return {**request, "Count": 0, "DeviceIDs": gpus.removeprefix("device=").split(",")}
