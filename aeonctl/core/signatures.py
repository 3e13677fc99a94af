"""What a line of an engine's log means: known causes of failure, their consequences, and lines that only look bad."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from aeonctl.core.logrows import LogForm, LogRow
from aeonctl.core.phases import Phase


class Severity(StrEnum):
    """What a recognised line means for the engine."""

    FATAL = "fatal"
    CONSEQUENCE = "consequence"
    """Says that the engine failed, never why."""
    BENIGN = "benign"
    """Looks like an error in healthy logs too."""
    INFO = "info"
    """Harmless, and worth knowing."""
    FACT = "fact"
    """Tells what judgements ask for; no finding."""


class Rung(StrEnum):
    """Which kind of rung of a seat's ladder addresses a cause."""

    NONE = "none"
    """No smaller setting helps."""
    KV_TOO_SMALL = "kv-too-small"
    """A shorter context, a smaller KV type, or more memory for the KV cache."""
    OOM_LOAD = "oom-load"
    """Smaller or more quantised weights."""
    OOM_PROFILING = "oom-profiling"
    """Fewer sequences or tokens per step."""
    OOM_GRAPHS = "oom-graphs"
    """Fewer CUDA graphs, or a slightly lower utilization."""
    FREE_MEMORY = "free-memory"
    """A share of the memory that is really free."""
    HOST_MEMORY = "host-memory"
    """Less of the host's memory: unified memory, or a container's limit."""
    CHUNK = "chunk"
    """Fewer tokens per prefill step."""


class Form(LogForm):
    """Another line that means the same as its signature."""

    warning: bool | None = None
    phases: tuple[Phase, ...] | None = None
    last_resort: bool | None = None


class Signature(LogRow):
    """A line that names a known cause of failure, or that must not be taken for one."""

    severity: Severity
    cause: str = Field(min_length=1)
    remedy: str = ""
    command: str = ""
    """The aeonctl command line that addresses the cause; ``{fact}`` is filled in, SEAT stands for the seat."""
    rung: Rung = Rung.NONE
    warning: bool = False
    """Whether the line counts at WARNING level too, not only at ERROR and without a level."""
    phases: tuple[Phase, ...] = ()
    """The boot phases in which the line means this; empty for any."""
    last_resort: bool = False
    """A circumstance, at whatever level: the cause only when the engine failed and nothing else says why."""
    also: tuple[Form, ...] = ()
    """Other lines with the same meaning."""

    def heard_at(self, level: str | None) -> bool:
        """Whether a line of this level may be what the row describes."""
        if self.last_resort or self.severity in (Severity.BENIGN, Severity.INFO, Severity.FACT):
            return True
        return level not in CALM or (self.warning and level == "WARNING")

    def forms(self) -> list[Signature]:
        """The signature once for each of its lines."""
        own = self.model_copy(update={"also": ()})
        return [own, *(own.model_copy(update=_given(form)) for form in self.also)]


CALM = frozenset({"DEBUG", "INFO", "WARNING"})
"""Levels at which an error text is talk about an error: a healthy log has tracebacks at WARNING, prompts at INFO."""


def _given(form: Form) -> dict[str, object]:
    return {name: getattr(form, name) for name in form.model_fields_set}


def every_form(signatures: Iterable[Signature]) -> list[Signature]:
    """Each line of each signature as a signature of its own; ids repeat."""
    return [form for signature in signatures for form in signature.forms()]
