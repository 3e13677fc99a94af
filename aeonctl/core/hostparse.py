"""What the kernel's text files and Docker's answers say about a machine: parsed here, read elsewhere.

Every function takes what was read and never raises: what cannot be understood is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from aeonctl.core.host import Docker, DockerFlavor, DockerGpu, Memory, Platform
from aeonctl.core.units import KIB, version_key

Arch = Literal["amd64", "arm64"]

# Both words appear in released kernels, each alone in custom ones (6.1.38-microsoft-standard, xanmod builds with WSL2).
# Azure kernels end in "-azure", and WSL 1 says "4.4.0-19041-Microsoft": neither matches.
_WSL2 = re.compile(r"microsoft-standard|WSL2", re.IGNORECASE)
_WSL1 = re.compile(r"4\.4\.0-\d+-Microsoft")

_ARCHES: dict[str, Arch] = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class PlatformFacts(NamedTuple):
    """The platform, or why it is unknown."""

    platform: Platform | None
    reason: str | None = None


def platform_of(
    osrelease: str | None, *, run_wsl: bool, interop: bool, wslinfo: bool, wsl_library: bool
) -> PlatformFacts:
    """Which kernel this is, from /proc/sys/kernel/osrelease and what only a WSL2 distribution has.

    A container on a WSL2 kernel (Docker Desktop's, too) shares the kernel's name but has none of the other signs:
    ``run_wsl`` the folder /run/WSL, ``interop`` the binfmt entry WSLInterop, ``wslinfo`` /init with /bin/wslinfo,
    ``wsl_library`` the folder /usr/lib/wsl/lib. The signs without the name are a Hyper-V machine with a GPU partition.
    """
    if osrelease is None or not osrelease.strip():
        return PlatformFacts(None, "the kernel's release cannot be read")
    if _WSL1.match(osrelease.strip()):
        return PlatformFacts(None, "WSL 1, which runs neither Docker nor CUDA")
    if _WSL2.search(osrelease) and (run_wsl or interop or wslinfo or wsl_library):
        return PlatformFacts(Platform.WSL2)
    return PlatformFacts(Platform.LINUX)


def architecture(machine: str | None) -> Arch | None:
    """The CPU architecture as images name it (``amd64``), from the kernel's or Docker's word for it (``x86_64``)."""
    return _ARCHES.get((machine or "").strip().lower())


def memory_of(meminfo: str) -> Memory:
    """System memory from /proc/meminfo, in bytes; a line that is missing leaves its fact unknown."""
    found: dict[str, int] = {}
    for line in meminfo.splitlines():
        match = re.fullmatch(r"(\w+):\s+([0-9]{1,18}) kB\s*", line)
        if match:
            found.setdefault(match[1], int(match[2]) * KIB)
    return Memory(
        total_bytes=found.get("MemTotal"),
        available_bytes=found.get("MemAvailable"),
        swap_total_bytes=found.get("SwapTotal"),
        swap_free_bytes=found.get("SwapFree"),
    )


def cpu_count(online: str) -> int | None:
    """How many CPUs a list such as ``0-7,16`` (/sys/devices/system/cpu/online) names."""
    total = 0
    for part in online.strip().split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None:
            return None
        total += max(0, int(match[2] or match[1]) - int(match[1]) + 1)
    return total


class Listener(NamedTuple):
    """A TCP socket that listens: its port and the inode by which a process holds it."""

    port: int
    inode: int


_LISTEN = "0A"


def listeners(net_tcp: str) -> Iterator[Listener]:
    """The listening sockets of /proc/net/tcp or /proc/net/tcp6; connections and broken lines are passed over."""
    for line in net_tcp.splitlines():
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            continue
        port = re.fullmatch(r"[0-9A-Fa-f]+:([0-9A-Fa-f]{1,4})", fields[1])
        if port and int(port[1], 16) and re.fullmatch(r"[0-9]{1,20}", fields[9]):
            yield Listener(int(port[1], 16), int(fields[9]))


def socket_inode(link: str) -> int | None:
    """The inode in the target of a /proc/<pid>/fd link (``socket:[209]``); None for any other open file."""
    match = re.fullmatch(r"socket:\[([0-9]{1,20})\]", link)
    return int(match[1]) if match else None


class Mount(NamedTuple):
    """A mounted file system: where, and of which type (``ext4``, ``9p``)."""

    point: str
    filesystem: str


def mount_of(mounts: str, path: str) -> Mount | None:
    """The mount of /proc/self/mounts that an absolute, resolved ``path`` is on: the deepest, the last of equals."""
    best: Mount | None = None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = _unescape(fields[1])
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, fields[2])
    return best


def _unescape(field: str) -> str:
    """A mount point as it is: the kernel writes blanks and backslashes as octal (``\\040``)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


class KernelModule(NamedTuple):
    """The NVIDIA kernel module that is loaded: its version, and whether it is the open one."""

    version: str | None
    is_open: bool | None


def kernel_module(text: str) -> KernelModule:
    """The loaded module from /proc/driver/nvidia/version."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    version = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", line + " ")
    is_open = "Open Kernel Module" in line if "Kernel Module" in line else None
    return KernelModule(version[1] if version else None, is_open)


def mapped_library(maps: str, name: str) -> str | None:
    """The file from which this process loaded the library ``name`` (``libnvidia-ml``), by /proc/self/maps."""
    for line in maps.splitlines():
        path = line.partition("/")[2]
        if path.rpartition("/")[2].startswith(name):
            return f"/{path}"
    return None


def process_name(comm: str | None, cmdline: str | None) -> str | None:
    """A process's name: the kernel's ``comm``, made whole from the command line where the kernel cut it at 15."""
    name = (comm or "").strip()
    program = (cmdline or "").partition("\0")[0].split(" ")[0].rpartition("/")[2]
    if name and not (len(name) == 15 and program.startswith(name)):
        return name
    return program or None


# Docker's answers. An engine leaves out what it does not know (20.10 has no CDI, podman no containerd).

_CONTAINERD_STORE = "io.containerd.snapshotter.v1"
_SYSTEM_CONTAINERD = ("/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock")
_CDI_SINCE = (1, 50)
"""From this API version on, an engine lists its CDI devices and leaves the key out when it has none."""

_OTHER_VM = ("OrbStack", "Rancher Desktop", "colima")


def docker_facts(
    version: Mapping[str, Any],
    info: Mapping[str, Any],
    *,
    endpoint: str,
    context: str | None,
    hook_present: bool | None,
) -> Docker:
    """The engine behind ``endpoint``, from its own ``GET /version`` and ``GET /info``.

    ``context`` is the Docker context that led there. ``hook_present`` says whether nvidia-container-runtime-hook is on
    the PATH here (unknown for an engine elsewhere). Free space is the reader's part: only it may look at disks.
    """
    release = _text(version, "Version") or _text(info, "ServerVersion")
    if release is None:
        return Docker(reachable=False, problem="failed", detail=_no_engine(info), endpoint=endpoint, context=context)
    api_version = _text(version, "ApiVersion")
    return Docker(
        reachable=True,
        endpoint=endpoint,
        context=context,
        version=release,
        api_version=api_version,
        flavor=_flavor(version, info),
        arch=architecture(_text(info, "Architecture") or _text(version, "Arch")),
        kernel=_text(info, "KernelVersion") or _text(version, "KernelVersion"),
        storage_driver=_text(info, "Driver"),
        cgroup_driver=_text(info, "CgroupDriver"),
        data_root=_text(info, "DockerRootDir"),
        image_root=_image_root(info),
        gpu=DockerGpu(
            runtime=_nvidia_runtime(info),
            runtime_path=_runtime_path(info),
            hook=hook_present,
            cdi=_cdi(info, api_version),
        ),
    )


def _text(answer: Mapping[str, Any], key: str) -> str | None:
    value = answer.get(key)
    return value.strip() or None if isinstance(value, str) else None


def _words(answer: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = answer.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _no_engine(info: Mapping[str, Any]) -> str:
    """Docker Desktop answers on its old socket with an almost empty /info, whose label names the right one."""
    label = next((word for word in _words(info, "Labels") if word.startswith("com.docker.desktop.address=")), None)
    if label is None:
        return "the answer carries no engine version"
    return f"this is not the engine's endpoint; Docker Desktop says it is {label.partition('=')[2]}"


def _flavor(version: Mapping[str, Any], info: Mapping[str, Any]) -> DockerFlavor | None:
    """Which Docker this is. None for one that is none of ours, or that did not say enough."""
    components = version.get("Components")
    parts = [part for part in components if isinstance(part, dict)] if isinstance(components, list) else []
    if any(part.get("Name") == "Podman Engine" for part in parts):
        return DockerFlavor.PODMAN
    system, name, root = (_text(info, key) or "" for key in ("OperatingSystem", "Name", "DockerRootDir"))
    platform = version.get("Platform")
    product = (_text(platform, "Name") or "") if isinstance(platform, dict) else ""
    labelled = any(word.startswith("com.docker.desktop.") for word in _words(info, "Labels"))
    if system == "Docker Desktop" or name == "docker-desktop" or product.startswith("Docker Desktop") or labelled:
        return DockerFlavor.DESKTOP
    if any(word.partition(",")[0] == "name=rootless" for word in _words(info, "SecurityOptions")):
        return DockerFlavor.ROOTLESS
    if root.startswith("/var/snap/docker/"):
        return DockerFlavor.SNAP
    if not root or any(word in (system, name) or word in system for word in _OTHER_VM):
        return None
    return DockerFlavor.NATIVE


def _image_root(info: Mapping[str, Any]) -> str | None:
    """Where layers lie: the data-root, unless they are in containerd, whose root a moved data-root does not move."""
    data_root = _text(info, "DockerRootDir")
    status = info.get("DriverStatus")
    pairs = status if isinstance(status, list) else []
    if ["driver-type", _CONTAINERD_STORE] not in pairs:
        return data_root
    containerd = info.get("Containerd")
    address = _text(containerd, "Address") if isinstance(containerd, dict) else None
    if address in _SYSTEM_CONTAINERD:
        return "/var/lib/containerd"
    return None if address is None or data_root is None else f"{data_root.rstrip('/')}/containerd"


def _nvidia_runtime(info: Mapping[str, Any]) -> bool | None:
    runtimes = info.get("Runtimes")
    return "nvidia" in runtimes if isinstance(runtimes, dict) else None


def _runtime_path(info: Mapping[str, Any]) -> str | None:
    runtimes = info.get("Runtimes")
    entry = runtimes.get("nvidia") if isinstance(runtimes, dict) else None
    return _text(entry, "path") if isinstance(entry, dict) else None


def _cdi(info: Mapping[str, Any], api_version: str | None) -> tuple[str, ...] | None:
    devices = info.get("DiscoveredDevices")
    if isinstance(devices, list):
        found = (
            _text(device, "ID") for device in devices if isinstance(device, dict) and device.get("Source") == "cdi"
        )
        return tuple(ident for ident in found if ident)
    return () if version_key((api_version or "")[:16]) >= _CDI_SINCE else None
