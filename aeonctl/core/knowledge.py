"""What is needed to read an engine's log: phases, their budgets, and the signatures of failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aeonctl.core.base import Value, invalid
from aeonctl.core.bootwatch import phase_budgets
from aeonctl.core.catalog import Read
from aeonctl.core.death import LifeRow
from aeonctl.core.evidence import HostSign
from aeonctl.core.failure import LogKnowledge
from aeonctl.core.judgements import Judgement
from aeonctl.core.phases import Phase, PhaseBudget, PhaseRow
from aeonctl.core.signatures import Signature, every_form

_Row = TypeVar("_Row", bound=Value)


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


@dataclass(frozen=True)
class DiagnosisKnowledge:
    """What telling the cause of a failure needs: the rows of the log, of the host's output, and what decides."""

    log: LogKnowledge
    signs: Sequence[HostSign]
    judgements: Sequence[Judgement]


def diagnosis_knowledge(read: Read) -> DiagnosisKnowledge:
    """Read and check the rows; ConfigurationError profile_invalid names a bad one."""
    return DiagnosisKnowledge(
        boot_knowledge(read).log,
        _rows(read, "signatures", "facts", HostSign),
        _rows(read, "signatures", "judgements", Judgement),
    )


def boot_knowledge(read: Read) -> BootKnowledge:
    """Read and check the rows; ConfigurationError profile_invalid names a bad one."""
    phases = _rows(read, "phases", "rows", PhaseRow)
    budgets = phase_budgets(_rows(read, "phases", "budgets", PhaseBudget))
    log = LogKnowledge(
        every_form(_rows(read, "signatures", "rows", Signature)), phases, _rows(read, "life", "rows", LifeRow)
    )
    return BootKnowledge(phases, budgets, log)


def _rows(read: Read, kind: str, part: str, row_class: type[_Row]) -> list[_Row]:
    """The rows of one part of every file of a kind."""
    rows: list[_Row] = []
    for document in read(kind):
        data = document.data if isinstance(document.data, dict) else {part: None}
        listed = data.get(part, [])
        if not isinstance(listed, list):
            raise invalid(document.origin, [f"{part}: a list of rows is needed"])
        rows += [row_class.parse(row, document.origin) for row in listed]
    return rows
