"""Checks of memory, of what a DGX Spark needs, of the hub's cache and of ports."""

from __future__ import annotations

from collections.abc import Mapping

from aeonctl.core.checks import Finding, not_here, unknown
from aeonctl.core.host import Host, MemoryKind, Platform
from aeonctl.core.units import GIB, human_bytes

_WINDOWS_MOUNTS = ("9p", "drvfs", "virtiofs")
_MODEL_BYTES = 40 * 10**9
_SPARK_ROOM = 0.85
"""The share of a Spark's memory that must be available for utilization 0.80 and what the system needs besides."""


def is_unified(host: Host) -> bool:
    """True when a GPU computes in the system's memory."""
    return any(gpu.memory is MemoryKind.UNIFIED for gpu in host.gpus or ())


def memory(host: Host) -> Finding:
    """How much of the system's memory is available."""
    total, available = host.memory.total_bytes, host.memory.available_bytes
    if total is None or available is None:
        return unknown("memory", host.unknown.get("memory") or host.unknown.get("memory.available_bytes"))
    facts = {"available": f"{available / GIB:.1f}", "total": f"{total / GIB:.1f}"}
    return Finding("memory", "little" if available < 8 * GIB else "enough", facts)


def spark_memory(host: Host) -> Finding:
    """How much of the shared memory can really be used."""
    total, available = host.memory.total_bytes, host.memory.available_bytes
    if not is_unified(host):
        return not_here("spark-memory")
    if not total or available is None:
        return unknown("spark-memory", host.unknown.get("memory"))
    share = available / total
    facts = {
        "total": f"{total / GIB:.1f}",
        "available": f"{available / GIB:.1f}",
        "share": f"{max(0.05, int((share - 0.08) * 20) / 20):.2f}",
    }
    return Finding("spark-memory", "enough" if share >= _SPARK_ROOM else "little", facts)


def spark_page_cache(host: Host) -> Finding:
    """Whether the page cache hides memory from CUDA, which counts only what is free."""
    if not is_unified(host):
        return not_here("spark-page-cache")
    system, total = host.details.system, host.memory.total_bytes
    if system.free_bytes is None or system.cached_bytes is None or total is None:
        return unknown("spark-page-cache", host.unknown.get("details.system.cached_bytes"))
    facts = {"cached": human_bytes(system.cached_bytes), "free": human_bytes(system.free_bytes)}
    large = system.cached_bytes > total // 10 and system.free_bytes < total * _SPARK_ROOM
    return Finding("spark-page-cache", "large" if large else "small", facts)


def spark_swap(host: Host) -> Finding:
    """Whether the machine can swap, which on shared memory turns an early kill into a stall."""
    if not is_unified(host):
        return not_here("spark-swap")
    swap = host.memory.swap_total_bytes
    if swap is None:
        return unknown("spark-swap", host.unknown.get("memory.swap_total_bytes"))
    return Finding("spark-swap", "on" if swap else "off", {"swap": human_bytes(swap)})


def spark_earlyoom(host: Host) -> Finding:
    """Whether something ends a process before the machine freezes."""
    if not is_unified(host):
        return not_here("spark-earlyoom")
    running = host.details.system.earlyoom
    if running is None:
        return unknown("spark-earlyoom", host.unknown.get("details.system.earlyoom"))
    return Finding("spark-earlyoom", "running" if running else "absent")


def spark_os(host: Host) -> Finding:
    """Which DGX OS and which firmware."""
    if not is_unified(host):
        return not_here("spark-os")
    system = host.details.system
    if system.dgx is None and system.firmware is None:
        return unknown("spark-os", host.unknown.get("details.system.dgx"))
    dgx = system.dgx or {}
    release = dgx.get("DGX_OTA_VERSION") or dgx.get("DGX_SWBUILD_VERSION")
    facts = {"release": release or "not DGX OS", "firmware": system.firmware or "unknown"}
    return Finding("spark-os", "known", facts, system.product)


def hub_token(host: Host) -> Finding:
    """Whether a token for the hub is at hand. The token itself is nowhere in here."""
    hub = host.details.hub
    if hub.token is None:
        return unknown("hub-token")
    if hub.token == "file" and hub.token_exposed:  # noqa: S105 - where a token is from, not one
        return Finding("hub-token", "exposed")
    return Finding("hub-token", hub.token)


def hub_endpoint(host: Host) -> Finding:
    """Which hub is asked, and whether asking it is allowed."""
    hub = host.details.hub
    if hub.endpoint is None:
        return unknown("hub-endpoint")
    facts = {"endpoint": hub.endpoint}
    if hub.offline:
        return Finding("hub-endpoint", "offline", facts)
    if not hub.endpoint.startswith(("https://", "http://")):
        return Finding("hub-endpoint", "invalid", facts)
    if hub.endpoint == "https://huggingface.co":
        return Finding("hub-endpoint", "usual", facts)
    return Finding("hub-endpoint", "other" if hub.endpoint.startswith("https://") else "plain-http", facts)


def hub_cache(host: Host) -> Finding:
    """Whether there is room for models, on a disk that is not Windows'."""
    disk = host.disk("hub-cache")
    if disk is None or disk.free_bytes is None:
        return unknown("hub-cache", host.unknown.get("disks.hub-cache"))
    facts = {"free": human_bytes(disk.free_bytes), "path": disk.path}
    if disk.filesystem in _WINDOWS_MOUNTS and host.platform is Platform.WSL2:
        return Finding("hub-cache", "windows", facts)
    return Finding("hub-cache", "little" if disk.free_bytes < _MODEL_BYTES else "enough", facts)


def hub_owner(host: Host) -> Finding:
    """Whether the cache can be written by whoever runs this."""
    hub, disk = host.details.hub, host.disk("hub-cache")
    if hub.writable is None:
        return unknown("hub-owner", host.unknown.get("details.hub.writable"))
    facts = {"path": disk.path if disk else "the cache", "count": hub.foreign_files}
    if not hub.writable:
        return Finding("hub-owner", "read-only", facts)
    return Finding("hub-owner", "foreign" if hub.foreign_files else "own", facts)


def hub_links(host: Host) -> Finding:
    """Whether snapshots have links that lead nowhere."""
    dangling = host.details.hub.dangling
    if dangling:
        return Finding("hub-links", "dangling", {"repos": ", ".join(dangling), "first": dangling[0]})
    if dangling is None or not host.details.hub.scanned:
        return unknown("hub-links", host.unknown.get("details.hub.scanned"))
    return Finding("hub-links", "whole")


def hub_leftovers(host: Host) -> Finding:
    """Whether broken downloads left something behind."""
    hub, disk = host.details.hub, host.disk("hub-cache")
    if hub.leftovers:
        path = disk.path if disk else "."
        facts = {"count": hub.leftovers, "size": human_bytes(hub.leftover_bytes or 0), "path": path}
        return Finding("hub-leftovers", "some", facts)
    if hub.leftovers is None or not hub.scanned:
        return unknown("hub-leftovers", host.unknown.get("details.hub.scanned"))
    return Finding("hub-leftovers", "none")


def ports(host: Host, wanted: Mapping[int, str], ours: frozenset[int]) -> Finding:
    """Whether the ports that seats publish are free. ``wanted`` maps a port to a seat, ``ours`` are our engines'."""
    if host.ports is None:
        return unknown("ports", host.unknown.get("ports"))
    taken = {entry.port for entry in host.ports}
    facts = {"ports": ", ".join(str(port) for port in sorted(wanted))}
    others = sorted(port for port in wanted if port in taken and port not in ours)
    if others:
        free = next((port for port in range(others[0] + 1, 65536) if port not in taken), others[0])
        facts |= {"port": str(others[0]), "owner": host.port_owner(others[0]) or "", "free": str(free)}
        return Finding("ports", "taken", facts)
    return Finding("ports", "ours" if taken & wanted.keys() else "free", facts)


def all_spark(host: Host) -> list[Finding]:
    """Every check that is about shared memory."""
    return [part(host) for part in (spark_memory, spark_page_cache, spark_swap, spark_earlyoom, spark_os)]


def all_hub(host: Host) -> list[Finding]:
    """Every check that is about the hub."""
    parts = (hub_token, hub_endpoint, hub_cache, hub_owner, hub_links, hub_leftovers)
    return [part(host) for part in parts]
