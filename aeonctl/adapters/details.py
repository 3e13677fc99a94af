"""What only doctor asks of this machine, beyond ``host``: files, groups, processes, a few programs of Windows."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from aeonctl.adapters.details_hub import hub_details
from aeonctl.adapters.details_own import OwnEngines, own_state
from aeonctl.adapters.details_wsl import wsl_details
from aeonctl.adapters.proc import ProcTree
from aeonctl.adapters.within import Pending
from aeonctl.core import detailparse
from aeonctl.core.host import Docker, Platform
from aeonctl.core.hostdetails import (
    DockerSetup,
    DriverFiles,
    HostDetails,
    HubDetails,
    KernelLog,
    OwnState,
    SystemDetails,
    WslDetails,
)
from aeonctl.core.hostparse import kernel_module
from aeonctl.core.secrets import is_secret

T = TypeVar("T")

SECONDS = 2.5
"""For each part that may hang: a stuck mount, a program of Windows, a daemon."""

_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
_KMSG_BYTES = 4 * 1024 * 1024
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class LocalDetails:
    """The details of the machine below ``root``. ``engines`` are our containers; ``hub`` the cache, ``state`` ours.

    ``which`` looks a program up on the PATH; ``seconds`` limits each part that may hang.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        home: Path,
        hub: Path,
        state: Path,
        engines: OwnEngines,
        root: Path = Path("/"),
        which: Callable[[str], str | None] = shutil.which,
        seconds: float = SECONDS,
    ) -> None:
        self._environment = environment
        self._home = home
        self._hub = hub
        self._state = state
        self._engines = engines
        self._tree = ProcTree(root)
        self._which = which
        self._seconds = seconds

    def private_words(self) -> tuple[str, ...]:
        """The names of machine, user and home, and the values of secret variables."""
        words = [socket.gethostname(), *(self._environment.get(name, "") for name in ("USER", "LOGNAME", "HOSTNAME"))]
        words += [str(self._home), self._home.name, socket.gethostname().partition(".")[0]]
        try:
            entry = pwd.getpwuid(os.getuid())
            words += [entry.pw_name, *entry.pw_gecos.split(",")[0].split()]
        except KeyError:
            pass
        words += [value for name, value in self._environment.items() if is_secret(name)]
        common = {"root", "user", "localhost", "home", "/", "/root"}
        return tuple(dict.fromkeys(word for word in words if len(word) > 2 and word not in common))

    def gather(self, platform: Platform | None, docker: Callable[[], Docker], unknown: dict[str, str]) -> HostDetails:
        """Every detail; why a part is not known is added to ``unknown``. ``docker`` is asked for after the slow parts
        have been started, since it waits for the engine. Raises nothing."""
        hub = Pending(lambda: hub_details(self._environment, self._home, self._hub, self._seconds * 0.8))
        wsl = Pending(lambda: self._wsl(platform, unknown))
        log = Pending(lambda: self._kernel_log(unknown))
        system = self._system(unknown)
        files = self._driver_files(platform)
        answer = docker()
        own = Pending(lambda: own_state(self._state, self._engines if answer.reachable else None, unknown))
        setup = self._docker_setup(answer, unknown)
        return HostDetails(
            driver=files,
            kernel_log=log.result(self._seconds),
            wsl=self._or(wsl, WslDetails(), "wsl", unknown),
            docker=setup,
            system=system,
            hub=self._or(hub, HubDetails(), "hub", unknown),
            own=self._or(own, OwnState(), "own.containers", unknown),
        )

    def _or(self, pending: Pending[T], otherwise: T, part: str, unknown: dict[str, str]) -> T:
        found = pending.result(self._seconds)
        if found is None:
            unknown[f"details.{part}"] = f"no answer within {self._seconds:g} s"
            return otherwise
        return found

    # The driver

    def _driver_files(self, platform: Platform | None) -> DriverFiles:
        loaded = kernel_module(self._tree.text("proc/driver/nvidia/version") or "").version
        modules = self._tree.text("proc/modules")
        nouveau = None if modules is None else any(line.startswith("nouveau ") for line in modules.splitlines())
        return DriverFiles(
            pci_cards=None if platform is Platform.WSL2 else self._tree.nvidia_cards(),
            module=loaded or (self._tree.text("sys/module/nvidia/version") or "").strip() or None,
            library=self._library(),
            nouveau=nouveau,
            secure_boot=self._secure_boot(),
        )

    def _library(self) -> str | None:
        for folder in _LIBRARIES:
            path = self._tree.path(folder, "libnvidia-ml.so.1")
            try:
                version = detailparse.library_version(os.path.basename(os.path.realpath(path)))  # noqa: PTH119
            except OSError:
                continue
            if version is not None:
                return version
        return None

    def _secure_boot(self) -> bool | None:
        try:
            content = self._tree.path(_SECURE_BOOT).read_bytes()
        except OSError:
            return None
        return content[-1] == 1 if len(content) == 5 else None

    def _kernel_log(self, unknown: dict[str, str]) -> KernelLog | None:
        text = read_kmsg(self._tree.path("dev/kmsg"))
        if text is None:
            unknown["details.kernel_log"] = "/dev/kmsg may not be read by this user"
            return None
        return detailparse.kernel_log(text)

    # The system

    def _system(self, unknown: dict[str, str]) -> SystemDetails:
        meminfo = self._tree.text("proc/meminfo") or ""
        dgx = self._tree.text("etc/dgx-release")
        if dgx is None:
            unknown["details.system.dgx"] = "/etc/dgx-release cannot be read"
        names = self._process_names()
        systemd = self._tree.exists("run/systemd/system")
        first = (self._tree.text("proc/1/comm") or "").strip()
        return SystemDetails(
            init="systemd" if systemd or first == "systemd" else "other" if first else None,
            free_bytes=detailparse.meminfo_bytes(meminfo, "MemFree"),
            cached_bytes=detailparse.meminfo_bytes(meminfo, "Cached"),
            earlyoom=None if names is None else "earlyoom" in names,
            dgx=None if dgx is None else detailparse.dgx_release(dgx),
            product=self._dmi("product_name"),
            firmware=self._dmi("bios_version"),
        )

    def _dmi(self, name: str) -> str | None:
        return (self._tree.text("sys/class/dmi/id", name) or "").strip() or None

    def _process_names(self) -> set[str] | None:
        try:
            pids = [entry.name for entry in self._tree.path("proc").iterdir() if entry.name.isdecimal()]
        except OSError:
            return None
        return {(self._tree.text("proc", pid, "comm") or "").strip() for pid in pids} if pids else None

    def _wsl(self, platform: Platform | None, unknown: dict[str, str]) -> WslDetails:
        if platform is not Platform.WSL2:
            return WslDetails()
        return wsl_details(self._tree, self._which, self._seconds * 0.8, unknown)

    # Docker

    def _docker_setup(self, docker: Docker, unknown: dict[str, str]) -> DockerSetup:
        in_group, listed = _docker_group(self._tree)
        path = docker.gpu.runtime_path
        found = None if path is None else self._tree.exists(path.lstrip("/")) if "/" in path else self._which(path)
        if docker.gpu.runtime is False:
            found = None
        return DockerSetup(
            in_group=in_group,
            listed_in_group=listed,
            file_runtimes=self._file_runtimes(unknown),
            runtime_found=None if found is None and (path is None or "/" in path) else bool(found),
            toolkit=self._toolkit(),
            cdi_driver=self._cdi_driver(unknown),
            engines=self._installed_engines(),
        )

    def _file_runtimes(self, unknown: dict[str, str]) -> dict[str, str] | None:
        if not self._tree.exists("etc/docker/daemon.json"):
            return {}
        text = self._tree.text("etc/docker/daemon.json")
        found = None if text is None else detailparse.daemon_runtimes(text)
        if found is None:
            unknown["details.docker.file_runtimes"] = "/etc/docker/daemon.json cannot be read"
        return found

    def _toolkit(self) -> bool | None:
        if any(self._which(name) for name in ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli")):
            return True
        status = self._tree.text("var/lib/dpkg/status")
        return None if status is None else detailparse.has_package(status, "nvidia-container-toolkit")

    def _cdi_driver(self, unknown: dict[str, str]) -> str | None:
        for folder in ("var/run/cdi", "run/cdi", "etc/cdi"):
            for name in ("nvidia.yaml", "nvidia.json"):
                text = self._tree.text(folder, name)
                if text is not None and (version := detailparse.cdi_driver(text)):
                    return version
        unknown["details.docker.cdi_driver"] = "there is no readable CDI specification of NVIDIA's"
        return None

    def _installed_engines(self) -> tuple[str, ...]:
        signs = {
            "Docker from a package": ("usr/bin/dockerd", "usr/sbin/dockerd", "usr/local/bin/dockerd"),
            "Docker from a snap": ("var/snap/docker/current", "snap/docker/current"),
            "Docker Desktop": ("mnt/wsl/docker-desktop", "opt/docker-desktop"),
        }
        return tuple(name for name, paths in signs.items() if any(self._tree.exists(path) for path in paths))


def read_kmsg(path: Path) -> str | None:
    """The kernel's log without waiting for more of it; None when it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    pieces: list[bytes] = []
    size = 0
    try:
        while size < _KMSG_BYTES:
            try:
                piece = os.read(descriptor, 65536)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            except OSError:
                return None if not pieces else _text(pieces)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
    finally:
        os.close(descriptor)
    return _text(pieces)


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


def _docker_group(tree: ProcTree) -> tuple[bool | None, bool | None]:
    """Whether this session is in the group docker, and whether /etc/group lists its user there."""
    text = tree.text("etc/group")
    line = next((line for line in (text or "").splitlines() if line.startswith("docker:")), None)
    if text is None:
        return None, None
    if line is None:
        return False, False
    match = re.fullmatch(r"docker:[^:]*:(\d+):(.*)", line)
    if match is None:
        return None, None
    number = int(match[1])
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return number in os.getgroups(), None
    return number in {*os.getgroups(), os.getgid()}, user.pw_name in match[2].split(",") or user.pw_gid == number
