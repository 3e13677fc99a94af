"""Whether a boot that says nothing is at work or has stalled.

No fixed readiness limit: a first start may take a quarter of an hour, and a healthy one can be silent for longer than a
minute. So each phase has a budget, and a phase beyond its budget has stalled only when neither the log nor the engine's
CPU time has moved for two minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aeonctl.core.phases import Phase, PhaseBudget
from aeonctl.errors import ConfigurationError

QUIET_SECONDS = 120.0
"""Silence shorter than this means nothing: a healthy boot was silent for 77.6 s."""

MIN_CPU_SHARE = 0.05
"""The engine's CPU time moves when it grows by at least this share of one core since the reading before."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """All is well: the phase is within its budget or something moves."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Worth telling, not yet alarming: the log has been silent for ``silent_s`` seconds."""

    phase: Phase
    silent_s: float
    cpu_moves: bool
    """Whether the engine computes meanwhile."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """The phase's budget is used up and neither log nor CPU moved for ``silent_s`` seconds."""

    phase: Phase
    silent_s: float
    budget_s: float


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The limit that the user set for the whole boot has passed, whatever moves."""

    phase: Phase
    limit_s: float


Verdict = Waiting | Quiet | Stalled | TimedOut


def phase_budgets(rows: Iterable[PhaseBudget], overrides: Mapping[Phase, float] | None = None) -> dict[Phase, float]:
    """Seconds per phase: the rows, then what a seat says instead.

    Raise ConfigurationError when a phase before READY has none.
    """
    budgets = {row.phase: row.seconds for row in rows} | dict(overrides or {})
    if missing := [str(phase) for phase in Phase if phase is not Phase.READY and phase not in budgets]:
        raise ConfigurationError(
            "profile_invalid",
            f"no time budget for the boot phases: {', '.join(missing)}",
            cause="the budgets of the phase profile do not name every phase",
            hint="add a budget row for each of them",
        )
    return budgets


class BootWatch:
    """Judges one boot by when its phase began, its log was written and its CPU time grew.

    All times are seconds on the caller's clock; observations may come in any mixture, each with its own time.
    """

    def __init__(self, budgets: Mapping[Phase, float], started_at: float = 0.0, timeout: float | None = None) -> None:
        """``budgets`` as from `phase_budgets`; ``timeout`` limits the whole boot, in seconds."""
        self._budgets = budgets
        self._timeout = timeout
        self._started_at = started_at
        self._phase = Phase.CREATED
        self._phase_began = started_at
        self._line_at = started_at
        self._cpu_at = started_at
        self._cpu: tuple[float, float] | None = None

    def observe_phase(self, phase: Phase, at: float) -> None:
        """The boot entered ``phase``: its budget begins."""
        self._phase, self._phase_began = phase, at
        self._line_at = max(self._line_at, at)

    def observe_line(self, at: float) -> None:
        """The log moved."""
        self._line_at = max(self._line_at, at)

    def observe_cpu(self, cpu_seconds_total: float, at: float) -> None:
        """A reading of the CPU seconds that the engine's processes have used since they began.

        A total that falls (a restart, a child that ended) is a new starting point.
        """
        if self._cpu is not None:
            before, before_at = self._cpu
            if cpu_seconds_total - before >= MIN_CPU_SHARE * (at - before_at) and cpu_seconds_total > before:
                self._cpu_at = max(self._cpu_at, at)
        self._cpu = (cpu_seconds_total, at)

    def verdict(self, at: float) -> Verdict:
        """How the boot looks at ``at``."""
        if self._phase is Phase.READY:
            return Waiting()
        if self._timeout is not None and at - self._started_at >= self._timeout:
            return TimedOut(self._phase, self._timeout)
        still_s = at - max(self._line_at, self._cpu_at)
        budget_s = self._budgets[self._phase]
        if still_s >= QUIET_SECONDS and at - self._phase_began >= budget_s:
            return Stalled(self._phase, still_s, budget_s)
        silent_s = at - self._line_at
        if silent_s >= QUIET_SECONDS:
            return Quiet(self._phase, silent_s, cpu_moves=at - self._cpu_at < QUIET_SECONDS)
        return Waiting()
