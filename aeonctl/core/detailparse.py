"""What doctor reads of files and answers: parsed here, read elsewhere. What cannot be understood is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from aeonctl.core.hostdetails import KernelLog

_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d{1,3})\b")
_OPEN_NEEDED = "requires use of the NVIDIA open kernel modules"
_DRIVER_PACKAGE = re.compile(r"(?:nvidia-driver|libnvidia-compute|nvidia-utils|libnvidia-gl|nvidia-dkms)-\d+\S*")
_DRIVER_META = ("cuda-drivers", "cuda", "nvidia-open")
_ENDPOINT = re.compile(r"(https?)://(?:[^@/?#]*@)?([A-Za-z0-9.\-]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?(?=[/?#]|$)")
DGX_KEYS = ("DGX_NAME", "DGX_PRETTY_NAME", "DGX_SWBUILD_VERSION", "DGX_OTA_VERSION")
"""The keys of /etc/dgx-release that may be read; the file holds the serial number too."""


def kernel_log(text: str) -> KernelLog:
    """The kernel's log as /dev/kmsg or dmesg writes it."""
    xids: dict[str, int] = {}
    no_memory = oom_kills = 0
    open_needed = False
    for line in text.splitlines():
        if match := _XID.search(line):
            xids[match[1]] = xids.get(match[1], 0) + 1
        no_memory += "NV_ERR_NO_MEMORY" in line
        oom_kills += "Out of memory: Killed process" in line
        open_needed |= _OPEN_NEEDED in line
    return KernelLog(xids=xids, no_memory=no_memory, oom_kills=oom_kills, open_module_needed=open_needed)


def driver_packages(dpkg_status: str) -> tuple[str, ...]:
    """The installed packages of a Linux NVIDIA driver in /var/lib/dpkg/status; the toolkit's are none."""
    found = []
    for package, installed in _dpkg(dpkg_status):
        driver = _DRIVER_PACKAGE.fullmatch(package) or package in _DRIVER_META or package.startswith("cuda-drivers-")
        if installed and driver:
            found.append(package)
    return tuple(sorted(found))


def has_package(dpkg_status: str, name: str) -> bool:
    """Whether a package is installed by /var/lib/dpkg/status."""
    return any(installed for package, installed in _dpkg(dpkg_status) if package == name)


def _dpkg(text: str) -> Iterable[tuple[str, bool]]:
    for block in text.split("\n\n"):
        name = re.search(r"^Package: (\S+)$", block, re.MULTILINE)
        if name:
            yield name[1], re.search(r"^Status: \S+ \S+ installed$", block, re.MULTILINE) is not None


def wslconfig(text: str) -> dict[str, str]:
    """.wslconfig by ``section.key`` in lower case; comments and what is no setting are left out."""
    found: dict[str, str] = {}
    section = ""
    for raw in text.lstrip("\ufeff").splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip().lower()
        elif "=" in line and not line.startswith(("#", ";")):
            key, _, value = line.partition("=")
            found[f"{section}.{key.strip().lower()}"] = value.strip()
    return found


def dgx_release(text: str) -> dict[str, str]:
    """The whitelisted keys of /etc/dgx-release."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if sign and key.strip() in DGX_KEYS:
            found[key.strip()] = value.strip().strip("\"'")
    return found


def daemon_runtimes(text: str) -> dict[str, str] | None:
    """The runtimes of daemon.json by name, with the path of each; None for a file that is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    runtimes = data.get("runtimes")
    if not isinstance(runtimes, dict):
        return {}
    return {
        str(name): str(entry.get("path", "")) if isinstance(entry, dict) else "" for name, entry in runtimes.items()
    }


def cdi_driver(text: str) -> str | None:
    """The driver version whose libraries a CDI specification mounts."""
    match = re.search(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)", text)
    return match[1] if match else None


def library_version(name: str) -> str | None:
    """The driver version in a library's file name (``libnvidia-ml.so.580.95.05``)."""
    match = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", name)
    return match[1] if match else None


def tdr_delay(output: str) -> int | None:
    """TdrDelay in seconds from the answer of ``reg.exe query``."""
    match = re.search(r"TdrDelay\s+REG_DWORD\s+0x([0-9a-fA-F]{1,8})", output)
    return int(match[1], 16) if match else None


def wsl_version(output: str) -> str | None:
    """The version in the answer of ``wslinfo --version`` (``2.6.1``, or ``WSL version: 2.6.1.0``)."""
    match = re.search(r"\d+\.\d+(?:\.\d+)?", output)
    return match[0] if match else None


def bare_endpoint(url: str) -> str:
    """Scheme and host of a URL, without a user, a password, a path or a query; ``invalid`` when it is none."""
    match = _ENDPOINT.match(url)
    return "invalid" if match is None else f"{match[1]}://{match[2]}{match[3] or ''}"


def meminfo_bytes(text: str, name: str) -> int | None:
    """One line of /proc/meminfo in bytes."""
    match = re.search(rf"^{name}:\s+(\d{{1,18}}) kB\s*$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
