"""The log rows of the profiles and the recorded logs, as the tests of core read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from aeonctl.core.death import LifeRow
from aeonctl.core.failure import LogKnowledge
from aeonctl.core.loglines import LineSplitter
from aeonctl.core.phases import PhaseBudget, PhaseRow
from aeonctl.core.signatures import Signature, every_form

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "data" / "logs"


def _profile(name: str) -> dict[str, list[dict[str, Any]]]:
    loaded: dict[str, list[dict[str, Any]]] = yaml.safe_load((ROOT / "profiles" / name).read_text())
    return loaded


PHASE_ROWS = [PhaseRow.model_validate(row) for row in _profile("phases/vllm.yaml")["rows"]]
PHASE_BUDGETS = [PhaseBudget.model_validate(row) for row in _profile("phases/vllm.yaml")["budgets"]]
LIFE_ROWS = [LifeRow.model_validate(row) for row in _profile("life/vllm.yaml")["rows"]]
_FILES = sorted(path.name for path in (ROOT / "profiles" / "signatures").glob("*.yaml"))
SIGNATURES = every_form(
    Signature.model_validate(row) for name in _FILES for row in _profile(f"signatures/{name}").get("rows", [])
)
KNOWLEDGE = LogKnowledge(SIGNATURES, PHASE_ROWS, LIFE_ROWS)


def lines_of(path: Path) -> list[str]:
    """A recorded log, cut into lines the way the program cuts one."""
    splitter = LineSplitter()
    return splitter.feed(path.read_bytes()) + splitter.flush()


_SECONDS = re.compile(r"\+ *(\d+\.\d+) (.*)")


def timed_lines_of(path: Path) -> list[tuple[float, str]]:
    """A log recorded with seconds since launch before each line; a redrawn bar has the time of its line."""
    timed: list[tuple[float, str]] = []
    at = 0.0
    for line in lines_of(path):
        if found := _SECONDS.fullmatch(line):
            at, line = float(found[1]), found[2]
        timed.append((at, line))
    return timed
