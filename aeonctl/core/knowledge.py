"""What is needed to read an engine's log: phases, their budgets, and the signatures of failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aeonctl.core.base import invalid
from aeonctl.core.bootwatch import phase_budgets
from aeonctl.core.catalog import Read
from aeonctl.core.death import LifeRow
from aeonctl.core.failure import LogKnowledge, Signature
from aeonctl.core.phases import Phase, PhaseBudget, PhaseRow


@dataclass(frozen=True)
class BootKnowledge:
    """The rows of profiles/phases, profiles/signatures and profiles/life."""

    phases: Sequence[PhaseRow]
    budgets: Mapping[Phase, float]
    log: LogKnowledge

    def budgets_with(self, seat: Mapping[str, float]) -> dict[Phase, float]:
        """Seconds per phase, a seat's own where it has any; ConfigurationError for a phase that does not exist."""
        known = {phase.value: phase for phase in Phase}
        unknown = [name for name in seat if name not in known]
        if unknown:
            raise invalid("the seat's boot_seconds", [f"{name}: there is no such phase" for name in unknown])
        return {**self.budgets, **{known[name]: seconds for name, seconds in seat.items()}}


def boot_knowledge(read: Read) -> BootKnowledge:
    """Read and check the rows; ConfigurationError profile_invalid names a bad one."""
    phases = [row for origin, data in _rows(read, "phases", "rows") for row in (PhaseRow.parse(data, origin),)]
    budgets = [row for origin, data in _rows(read, "phases", "budgets") for row in (PhaseBudget.parse(data, origin),)]
    signatures = [row for origin, data in _rows(read, "signatures", "rows") for row in (Signature.parse(data, origin),)]
    life = [row for origin, data in _rows(read, "life", "rows") for row in (LifeRow.parse(data, origin),)]
    return BootKnowledge(phases, phase_budgets(budgets), LogKnowledge(signatures, phases, life))


def _rows(read: Read, kind: str, part: str) -> Iterable[tuple[str, Any]]:
    for document in read(kind):
        data = document.data
        if not isinstance(data, dict) or not isinstance(data.get(part, []), list):
            raise invalid(document.origin, [f"{part}: a list of rows is needed"])
        for row in data.get(part, []):
            yield document.origin, row
