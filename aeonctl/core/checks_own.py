"""Checks of aeonctl's own things, and the list of all checks of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aeonctl.core import checks_gpu as gpu
from aeonctl.core import checks_system as system
from aeonctl.core.catalog import CardMatch
from aeonctl.core.checks import CheckRow, Finding, unknown
from aeonctl.core.checks_docker import all_docker
from aeonctl.core.checks_wsl import all_wsl
from aeonctl.core.host import Host


@dataclass(frozen=True)
class Surroundings:
    """What the checks need besides the host: the cards by GPU index (empty when the catalogue is broken), the seats'
    ports, and the user's own profiles: ids that replace a bundled row, and the error of a profile that is broken."""

    cards: Mapping[int, CardMatch | None] = field(default_factory=dict)
    seat_ports: Mapping[int, str] = field(default_factory=dict)
    our_ports: frozenset[int] = frozenset()
    overrides: tuple[str, ...] | None = ()
    broken: tuple[str, ...] = ()


def own_state(host: Host) -> Finding:
    """Whether aeonctl can keep its locks and records."""
    writable = host.details.own.writable
    if writable is None:
        return unknown("own-state", host.unknown.get("details.own.writable"))
    return Finding("own-state", "writable" if writable else "read-only")


def own_locks(host: Host) -> Finding:
    """Whether another aeonctl holds a lock, or died with one."""
    own = host.details.own
    if own.held is None or own.stale is None:
        return unknown("own-locks", host.unknown.get("details.own.locks"))
    if own.held:
        return Finding("own-locks", "held", {"holders": "; ".join(own.held)})
    return Finding("own-locks", "stale" if own.stale else "free", {"holders": "; ".join(own.stale)})


def own_restart(host: Host) -> Finding:
    """Whether a container of ours comes back by itself although nobody verified it."""
    containers = host.details.own.containers
    if containers is None:
        return unknown("own-restart", host.unknown.get("details.own.containers"))
    unproven = [c for c in containers if c.restart not in ("no", "") and not c.verified]
    if not unproven:
        return Finding("own-restart", "fine")
    looping = [c for c in unproven if c.status == "restarting"]
    shown = looping or unproven
    facts = {"names": ", ".join(c.name for c in shown), "first": shown[0].name}
    return Finding("own-restart", "looping" if looping else "unproven", facts)


def own_profiles(around: Surroundings) -> Finding:
    """Whether the user's profiles can be read, and which bundled ones they replace."""
    if around.broken:
        return Finding("own-profiles", "broken", {"file": around.broken[0]}, "; ".join(around.broken[1:]) or None)
    if around.overrides is None:
        return unknown("own-profiles")
    return Finding("own-profiles", "overrides" if around.overrides else "plain", {"ids": ", ".join(around.overrides)})


def host_findings(host: Host, around: Surroundings, rows: Mapping[str, CheckRow]) -> list[Finding]:
    """Every check of one host, to the end."""

    def table(check: str) -> Mapping[str, str]:
        return rows[check].table if check in rows else {}

    return [
        gpu.platform(host),
        gpu.kernel(host, table("kernel")),
        gpu.driver(host),
        *gpu.gpus(host, around.cards),
        gpu.gpu_users(host),
        gpu.gpu_mig(host),
        gpu.gpu_ecc(host),
        gpu.kernel_log(host, table("kernel-log")),
        system.memory(host),
        *all_wsl(host),
        *system.all_spark(host),
        *all_docker(host),
        *system.all_hub(host),
        system.ports(host, around.seat_ports, around.our_ports),
        own_state(host),
        own_locks(host),
        own_restart(host),
        own_profiles(around),
    ]
