"""This machine, gathered from /proc, /sys, NVML and Docker. A part that cannot be read is unknown, with its reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from aeonctl.adapters.proc import ProcTree
from aeonctl.adapters.tcp_ports import Published, TcpPorts, is_taken, nothing_published
from aeonctl.adapters.within import Pending
from aeonctl.core.host import Disk, Docker, DockerFlavor, Host, Memory, Platform, Port
from aeonctl.core.hostdetails import HostDetails
from aeonctl.core.hostparse import Arch, architecture, cpu_count, mount_of
from aeonctl.ports import GpuProbe


class Describes(Protocol):
    """Something that says which Docker answers: the Docker engine's adapter."""

    def describe(self) -> Docker:
        """What answers. Raises nothing: silence is ``reachable=False`` with a problem."""


class Details(Protocol):
    """Something that knows more of the machine: adapters.details, for doctor."""

    def gather(self, platform: Platform | None, docker: Callable[[], Docker], unknown: dict[str, str]) -> HostDetails:
        """Every detail; why a part is not known is added to ``unknown``. Raises nothing."""

    def private_words(self) -> tuple[str, ...]:
        """What names this machine and its user. Raises nothing."""


class LocalHost:
    """A HostProbe of the machine below ``root``; with ``details``, an Inspection of it.

    ``gpus`` asks NVML and ``docker`` the Docker engine; ``published`` names the containers that publish ports *here*
    (leave it out for an engine elsewhere). ``disks`` maps a role to the folder whose file system matters; a folder
    need not exist yet. ``machine`` is the kernel's name of the CPU architecture; ``taken`` tries to bind a port.
    ``docker_seconds`` limits how long Docker may think about describing itself.
    """

    def __init__(
        self,
        *,
        gpus: GpuProbe,
        docker: Describes,
        published: Published = nothing_published,
        disks: Mapping[str, Path] | None = None,
        root: Path = Path("/"),
        machine: str | None = None,
        taken: Callable[[int], bool | None] = is_taken,
        details: Details | None = None,
        docker_seconds: float | None = None,
    ) -> None:
        self._gpus = gpus
        self._docker = docker
        self._disks = disks or {}
        self._tree = ProcTree(root)
        self._machine = machine or os.uname().machine
        self._details = details
        self._docker_seconds = docker_seconds
        self._answers = True
        self._ports = TcpPorts(
            self._tree, published=lambda: published() if self._answers else nothing_published(), taken=taken
        )

    def port_owner(self, port: int) -> str | None:
        """Who has a TCP port of this machine, in words (``process python3 (pid 12)``); None when nobody has."""
        return self._ports.owner(port)

    def private_words(self) -> tuple[str, ...]:
        """See ports.Inspection."""
        return () if self._details is None else self._details.private_words()

    def probe(self, *, ports: Iterable[int] = ()) -> Host:
        """The host. Every port in use is listed; those of ``ports`` are also tried. Raises nothing.

        NVML is asked while Docker and the files are: each takes some tenths of a second.
        """
        with ThreadPoolExecutor(max_workers=1) as executor:
            pending = executor.submit(self._gpus.gpus)
            host = self._without_gpus(ports)
            driver, gpus, unknown = pending.result()
        return host.model_copy(update={"driver": driver, "gpus": gpus, "unknown": host.unknown | unknown})

    def _without_gpus(self, ports: Iterable[int]) -> Host:
        unknown: dict[str, str] = {}
        platform, reason = self._tree.platform()
        if platform is None:
            unknown["platform"] = reason or "no sign of any"
        kernel = (self._tree.text("proc/sys/kernel/osrelease") or "").strip() or None
        if kernel is None:
            unknown["kernel"] = "/proc/sys/kernel/osrelease cannot be read"
        answer = self._docker_answer()
        details = HostDetails() if self._details is None else self._details.gather(platform, answer, unknown)
        docker, docker_disk = self._docker_here(answer(), kernel, unknown)
        self._answers = docker.reachable is not False
        in_use = self._ports.in_use(ports)
        if in_use is None:
            unknown["ports"] = "/proc/net/tcp cannot be read"
        own = (self._disk(role, path, unknown) for role, path in self._disks.items())
        return Host(
            platform=platform,
            kernel=kernel,
            arch=self._arch(unknown),
            cpus=self._cpus(unknown),
            memory=self._memory(unknown),
            docker=docker,
            disks=(*own, *docker_disk),
            ports=None if in_use is None else _ports(in_use),
            details=details,
            unknown=dict(unknown),
        )

    def _arch(self, unknown: dict[str, str]) -> Arch | None:
        arch = architecture(self._machine)
        if arch is None:
            unknown["arch"] = f"{self._machine} is neither amd64 nor arm64"
        return arch

    def _cpus(self, unknown: dict[str, str]) -> int | None:
        count = cpu_count(self._tree.text("sys/devices/system/cpu/online") or "")
        if count is None:
            unknown["cpus"] = "/sys/devices/system/cpu/online cannot be read"
        return count

    def _memory(self, unknown: dict[str, str]) -> Memory:
        memory = self._tree.memory()
        if memory is None:
            unknown["memory"] = "/proc/meminfo cannot be read"
            return Memory()
        missing = (name for name, value in memory if value is None)
        unknown |= {f"memory.{name}": "/proc/meminfo has no such line" for name in missing}
        return memory

    def _docker_answer(self) -> Callable[[], Docker]:
        """Docker's description of itself, asked for at once; a silent engine is one that does not answer."""
        seconds = self._docker_seconds
        if seconds is None:
            docker = self._docker.describe()
            return lambda: docker
        pending = Pending(self._docker.describe)
        silence = Docker(reachable=False, problem="failed", detail=f"no answer within {seconds:g} s")
        return lambda: pending.result(seconds) or silence

    def _docker_here(
        self, docker: Docker, kernel: str | None, unknown: dict[str, str]
    ) -> tuple[Docker, tuple[Disk, ...]]:
        """Docker as it describes itself, with the disks that it uses when those are of this machine."""
        reason = _not_on_this_disk(docker, kernel)
        if reason is not None or docker.image_root is None:
            unknown["docker.image_root_free_bytes"] = reason or "Docker does not tell where its images are"
            return docker, ()
        disk = self._disk("docker", Path(docker.image_root), unknown)
        disks: tuple[Disk, ...] = (disk,)
        if docker.data_root is not None and not docker.image_root.startswith(docker.data_root):
            disks += (self._disk("docker-data", Path(docker.data_root), unknown),)
        return docker.model_copy(update={"image_root_free_bytes": disk.free_bytes}), disks

    def _disk(self, role: str, path: Path, unknown: dict[str, str]) -> Disk:
        """The file system that ``path`` is on, or will be on once it is made."""
        inside = Path(str(path).lstrip("/"))
        place, space = _nearest(self._tree.root, inside)
        mounts = self._tree.text("proc/self/mounts") or ""
        wanted = mount_of(mounts, self._resolved(self._tree.root / inside))
        filesystem = wanted.filesystem if wanted else None
        if space is None or wanted != mount_of(mounts, self._resolved(place)):
            unknown[f"disks.{role}"] = f"{path} is on a file system that this user may not look at"
            return Disk(role=role, path=str(path), filesystem=filesystem)
        return Disk(
            role=role,
            path=str(path),
            filesystem=filesystem,
            total_bytes=space.f_blocks * space.f_frsize,
            free_bytes=space.f_bavail * space.f_frsize,
        )

    def _resolved(self, path: Path) -> str:
        """``path`` without links, as the mount table below the root would write it."""
        root, real = Path(os.path.realpath(self._tree.root)), Path(os.path.realpath(path))
        return str(Path("/") / real.relative_to(root)) if real.is_relative_to(root) else str(real)


def _nearest(root: Path, inside: Path) -> tuple[Path, os.statvfs_result | None]:
    """The deepest folder on the way to ``inside`` that exists and may be looked at, with its file system's size."""
    for candidate in (root / inside, *(root / parent for parent in inside.parents)):
        try:
            return candidate, os.statvfs(candidate)
        except OSError:
            continue
    return root, None


def _not_on_this_disk(docker: Docker, kernel: str | None) -> str | None:
    """Why Docker's folders are none of this machine, if so."""
    if not docker.reachable:
        return "Docker does not answer"
    if docker.endpoint is not None and not docker.endpoint.startswith("unix://"):
        return f"the Docker engine is elsewhere ({docker.endpoint})"
    if docker.flavor is DockerFlavor.DESKTOP:
        return "Docker Desktop keeps its images in a virtual disk"
    if None not in (docker.kernel, kernel) and docker.kernel != kernel:
        return f"the Docker engine runs on another kernel ({docker.kernel})"
    return None


def _ports(in_use: Mapping[int, str | None]) -> tuple[Port, ...]:
    return tuple(Port(port=port, owner=owner) for port, owner in sorted(in_use.items()) if 1 <= port <= 65535)
