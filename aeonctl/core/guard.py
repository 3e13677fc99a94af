"""The memory guard as decisions: under which floor it acts, whether a start fits, what its record says afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from aeonctl.core.base import Row
from aeonctl.core.host import MemoryKind
from aeonctl.core.units import GIB
from aeonctl.errors import ConfigurationError, EngineError, HostError

OOM_SCORE_ADJ = 500
"""How much more readily the kernel takes a guarded engine than the rest of the machine; the scale ends at 1000."""

GUARDED = (
    ("oom-score-adj", None, OOM_SCORE_ADJ, "when memory runs out the kernel takes the engine first, not the host"),
    ("ulimit core", None, 0, "a crash would write tens of gigabytes of memory to the disk"),
)
"""What a guarded container is given: option, before, after, why."""

RESTARTS, MINUTES = 3, 10
"""A promoted engine that restarts so often in so long a time without becoming healthy loses its restart policy."""


class GuardRow(Row):
    """When the guard acts on machines with one kind of memory.

    The floor is ``floor_gib``, but never more than ``floor_share`` of the machine's memory. ``stall_share`` is the
    share of one second in which every process waited for memory (PSI full) that counts as crossing the floor while
    less than twice the floor is available.
    """

    id: str
    memory: MemoryKind
    floor_gib: Annotated[float, Field(gt=0)]
    floor_share: Annotated[float, Field(gt=0, lt=1)]
    reserve_gib: Annotated[float, Field(ge=0)]
    stall_share: Annotated[float, Field(gt=0, le=1)]


def guard_row(rows: Iterable[GuardRow], *, unified: bool) -> GuardRow:
    """The row for this kind of memory; ConfigurationError profile_invalid when there is none."""
    wanted = MemoryKind.UNIFIED if unified else MemoryKind.DEDICATED
    found = [row for row in rows if row.memory is wanted]
    if not found:
        raise ConfigurationError("profile_invalid", f"profiles/guard has no row for {wanted} memory")
    return found[-1]


def floor_bytes(row: GuardRow, total_bytes: int | None, wanted_gib: float | None) -> int:
    """Available memory in bytes under which the guard acts; ``wanted_gib`` is the user's own floor."""
    if wanted_gib is not None:
        return int(wanted_gib * GIB)
    share = row.floor_share * total_bytes if total_bytes else row.floor_gib * GIB
    return int(min(row.floor_gib * GIB, share))


def start_trouble(
    row: GuardRow, floor: int, available: int | None, need_gib: float | None, users: Iterable[str]
) -> HostError | str | None:
    """Whether a start fits beside everything else: an error to refuse with, words to warn with, or None.

    ``need_gib`` is what the engine takes of the machine's memory, ``users`` name who has the rest.
    """
    if available is None:
        return None
    left = available - int((need_gib or 0.0) * GIB)
    takes = f", and the engine takes {need_gib:.1f} GiB of them" if need_gib else ""
    words = f"{available / GIB:.1f} GiB are available{takes}"
    if left < floor:
        others = tuple(users)
        return HostError(
            "host_memory_low",
            "too little memory is available to start safely",
            cause=(f"{words}; at least {floor / GIB:.1f} GiB must stay", *others),
            hint="stop what is named above, or take less: --set gpu-memory-utilization=0.60"
            if need_gib
            else "stop what is named above; --guard-floor GIB changes the limit",
            available_bytes=available,
            floor_bytes=floor,
            need_gib=need_gib,
        )
    if left < row.reserve_gib * GIB:
        return f"{words}; {row.reserve_gib:.0f} GiB should stay for the rest of the machine [{row.source}]"
    return None


def guard_words(record: Mapping[str, Any] | None, ident: str | None = None) -> str | None:
    """What a guard did, in words; None when it did nothing, or did it to another container than ``ident``."""
    record = record or {}
    if ident and record.get("ident") not in (None, "", ident):
        return None
    acted = record.get("acted")
    if isinstance(acted, dict):
        reason = "memory pressure" if acted.get("reason") == "stalled" else "low memory"
        available, floor = acted.get("available_bytes"), record.get("floor_bytes")
        if isinstance(available, int) and isinstance(floor, int):
            return (
                f"the memory guard killed it for {reason}: {available / GIB:.2f} GiB were available, "
                f"the floor is {floor / GIB:.2f} GiB"
            )
        return f"the memory guard killed it for {reason}"
    cleared = record.get("cleared")
    if isinstance(cleared, dict):
        return (
            f"the guard took its restart policy away: {cleared.get('restarts')} restarts in "
            f"{cleared.get('minutes')} min without becoming healthy"
        )
    return None


def killed_by_guard(record: Mapping[str, Any] | None) -> bool:
    """Whether the record tells of a kill."""
    return isinstance((record or {}).get("acted"), dict)


def guard_error(name: str, words: str) -> EngineError:
    """The error for an engine that the guard killed."""
    return EngineError(
        "host_memory_guard",
        f"engine {name} was killed to keep this machine usable",
        cause=words,
        hint="take less memory: a lower --set gpu-memory-utilization, max-num-seqs or max-num-batched-tokens",
        name=name,
    )
