"""How far a boot has come, and what its log has said so far: a pure fold over log lines.

Which line begins which phase, and which line tells which fact, are rows (``profiles/phases``); this module knows only
what a phase is, that phases never go backwards, and how a progress bar is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field

from aeonctl.core.base import Value
from aeonctl.core.loglines import LogLine, parse_line
from aeonctl.core.logrows import LinePrefilter, LogRow
from aeonctl.errors import ConfigurationError


class Phase(StrEnum):
    """The steps of a boot, in order. A boot that ended is not in a phase: it stopped in one."""

    CREATED = "created"
    """The container or process exists and has written nothing."""
    IMPORTS = "imports"
    """It writes: an image's banner, Python's imports."""
    CONFIG = "config"
    """The API server reads the options and the model's configuration."""
    ENGINE = "engine"
    """The engine process starts and claims the device."""
    WEIGHTS = "weights"
    """The checkpoint goes to the device."""
    COMPILE = "compile"
    """torch.compile, begun by the profiling run; with --enforce-eager only that run."""
    MEMORY = "memory"
    """Kernels are warmed up, the rest of the memory is measured, the KV cache is sized."""
    WARMUP = "warmup"
    """The KV cache is allocated; kernels are autotuned."""
    GRAPHS = "graphs"
    """CUDA graphs are captured, and what remains is warmed up."""
    SERVER = "server"
    """The engine is up; the API server prepares its routes."""
    READY = "ready"
    """The log says that it serves. Whether it answers is for a request to find out."""

    @property
    def rank(self) -> int:
        """The place in the order of phases, from 0."""
        return _RANKS[self]


_RANKS = {phase: rank for rank, phase in enumerate(Phase)}


class BootFacts(BaseModel):
    """What a boot log tells about the engine; None where it has not said. A row's named groups are these fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vllm_version: str | None = None
    model: str | None = None
    architecture: str | None = None
    max_model_len: int | None = None
    attention_backend: str | None = None
    weights_seconds: float | None = None
    weights_gib: float | None = None
    compile_seconds: float | None = None
    block_size: int | None = None
    """Tokens per KV block, said only when vLLM changed it for a hybrid model."""
    kv_available_gib: float | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    """How many requests of the full context fit at once."""
    graph_seconds: float | None = None
    graph_gib: float | None = None
    init_engine_seconds: float | None = None
    server_url: str | None = None


_INTEGERS = frozenset({"max_model_len", "block_size", "kv_tokens"})
_TEXTS = frozenset({"vllm_version", "model", "architecture", "attention_backend", "server_url"})


class PhaseRow(LogRow):
    """A log line that begins a phase, or tells facts, or both."""

    phase: Phase | None = None
    """The phase that the line proves to have begun; None for a row that only tells facts."""
    why: str = Field(min_length=1)


class PhaseBudget(Value):
    """How long a phase may take before silence in it counts as a stall."""

    model_config = ConfigDict(strict=False)

    phase: Phase
    seconds: float = Field(gt=0)
    why: str = Field(min_length=1)
    source: str = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """A progress bar as it was last drawn."""

    name: str
    percent: int
    done: float
    total: float
    phase: Phase
    """The phase in which it moved last."""


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """The boot entered ``phase`` at ``at`` seconds."""

    phase: Phase
    at: float


@dataclass(frozen=True, slots=True)
class FactRead:
    """The log told a fact, or told it anew with another value."""

    name: str
    value: str | int | float


@dataclass(frozen=True, slots=True)
class BarMoved:
    """A progress bar was drawn."""

    bar: Bar


Event = PhaseBegan | FactRead | BarMoved

_BAR = re.compile(
    r"(?P<name>[^|]*?):?\s+(?P<percent>\d{1,3})%(?: Completed \||\|[^|]*\|) ?"
    r"(?P<done>[\d.]+[kMGT]?)/(?P<total>[\d.]+[kMGT]?)\b"
)
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_MAX_BARS = 64


class BootProgress:
    """Folds the lines of one boot into phase, facts and bars. Times are seconds on the caller's clock.

    After `Phase.READY` it listens no more: what a running engine writes (requests, prompts) is not about its boot.
    """

    def __init__(self, rows: Sequence[PhaseRow], started_at: float = 0.0) -> None:
        """Raise ConfigurationError when a row tells a fact that `BootFacts` does not have."""
        for row in rows:
            if unknown := sorted(set(row.pattern.groupindex) - set(BootFacts.model_fields)):
                raise ConfigurationError(
                    "profile_invalid",
                    f"phase row '{row.id}' tells facts that do not exist: {', '.join(unknown)}",
                    cause="the named groups of its pattern are not fields of a boot's facts",
                    hint=f"use only: {', '.join(BootFacts.model_fields)}",
                )
        self._rows = list(rows)
        self._prefilter = LinePrefilter(row.contains for row in rows)
        self._facts: dict[str, str | int | float] = {}
        self._began: dict[Phase, float] = {Phase.CREATED: started_at}
        self._last_at = started_at
        self.phase = Phase.CREATED
        self.bars: dict[str, Bar] = {}
        """Every bar by its name, as last drawn; the first 64 names are kept."""
        self.warnings = 0
        """Lines at WARNING level so far."""

    @property
    def facts(self) -> BootFacts:
        """What the log has told so far."""
        return BootFacts.model_validate(self._facts)

    @property
    def began(self) -> Mapping[Phase, float]:
        """When each phase that was entered began, in order."""
        return dict(self._began)

    @property
    def ready(self) -> bool:
        """Whether the log says that the engine serves."""
        return self.phase is Phase.READY

    def progress(self, phase: Phase) -> float | None:
        """The share (0 to 1) that the bars of a phase have done together; None when it drew none."""
        bars = [bar for bar in self.bars.values() if bar.phase is phase and bar.total]
        if not bars:
            return None
        return sum(bar.done for bar in bars) / sum(bar.total for bar in bars)

    def durations(self) -> dict[str, float]:
        """Seconds per phase entered, in order; the current one counts up to the last line. READY has no length."""
        ends = [*self._began.items(), (None, self._last_at)]
        spans = {str(phase): end - begin for (phase, begin), (_, end) in pairwise(ends) if phase is not None}
        spans.pop(Phase.READY, None)
        return spans

    def finish(self, at: float) -> None:
        """The engine answers, whether or not its log says so yet: the current phase lasted until ``at``."""
        if self.phase is not Phase.READY:
            self._last_at = max(self._last_at, at)

    def feed(self, line: str, at: float) -> list[Event]:
        """Take one line, written at ``at``; return what it changed."""
        if self.phase is Phase.READY:
            return []
        self._last_at = at
        events: list[Event] = []
        if self.phase is Phase.CREATED and line.strip():
            events += self._enter(Phase.IMPORTS, at)
        drawn = "%|" in line or "% Completed" in line
        if not drawn and "WARNING" not in line and not self._prefilter.may_hold(line):
            return events
        parsed = parse_line(line)
        self.warnings += parsed.level == "WARNING"
        for row in self._rows:
            if row.contains in line:
                events += self._recognise(row, parsed, at)
        if drawn:
            events += self._draw(parsed)
        return events

    def _recognise(self, row: PhaseRow, parsed: LogLine, at: float) -> list[Event]:
        found = row.pattern.search(parsed.message)
        if not found:
            return []
        events: list[Event] = []
        if row.phase is not None:
            events += self._enter(row.phase, at)
        for name, text in found.groupdict().items():
            if text is not None and self._facts.get(name) != (value := _value(name, text)):
                self._facts[name] = value
                events.append(FactRead(name, value))
        return events

    def _enter(self, phase: Phase, at: float) -> list[Event]:
        if phase.rank <= self.phase.rank:
            return []
        self.phase = phase
        self._began[phase] = at
        self._rows = [row for row in self._rows if row.pattern.groups or _rank(row.phase) > phase.rank]
        return [PhaseBegan(phase, at)]

    def _draw(self, parsed: LogLine) -> list[Event]:
        found = _BAR.match(parsed.message)
        if not found:
            return []
        name = found["name"].strip()
        bar = Bar(name, int(found["percent"]), _amount(found["done"]), _amount(found["total"]), self.phase)
        if name in self.bars or len(self.bars) < _MAX_BARS:
            self.bars[name] = bar
        return [BarMoved(bar)]


def _rank(phase: Phase | None) -> int:
    return -1 if phase is None else phase.rank


def _value(name: str, text: str) -> str | int | float:
    if name in _TEXTS:
        return text
    number = text.replace(",", "")
    return int(number) if name in _INTEGERS else float(number)


def _amount(text: str) -> float:
    """A tqdm amount, with its unit prefix if it has one."""
    scale = _SCALES.get(text[-1])
    return float(text) if scale is None else float(text[:-1]) * scale
