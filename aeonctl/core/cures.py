"""What to try when a running engine fails: rows that map a finding to settings, and the command that applies them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from aeonctl.core.base import Row, invalid
from aeonctl.core.catalog import Read


class Cure(Row):
    """Settings that have helped against one finding: a probe's code, or the id of a diagnosis (or its beginning)."""

    against: str = Field(min_length=3)
    settings: dict[str, str] = Field(min_length=1)

    def meets(self, finding: str) -> bool:
        """Whether the row is about a finding; ``gpu-oom`` is about ``gpu-oom-at-load`` too."""
        return finding == self.against or finding.startswith(f"{self.against}-")


def read_cures(read: Read) -> list[Cure]:
    """Every row of profiles/cures; ConfigurationError profile_invalid names a bad one."""
    cures: list[Cure] = []
    for document in read("cures"):
        rows = document.data.get("rows") if isinstance(document.data, dict) else None
        if not isinstance(rows, list):
            raise invalid(document.origin, ["rows: a list of rows is needed"])
        cures += [Cure.parse(row, document.origin) for row in rows]
    return cures


def cure_for(findings: Iterable[str], cures: Sequence[Cure]) -> Cure | None:
    """The first row that is about any of the findings, the most telling finding first."""
    return next((cure for finding in findings for cure in cures if cure.meets(finding)), None)


def up_again(words: Sequence[str], settings: Mapping[str, str], facts: Mapping[str, Any]) -> str | None:
    """The ``aeonctl up`` that starts the same engine with ``settings`` changed; None when it runs with them already.

    ``words`` are those that started it, ``facts`` what its label says of its options.
    """
    in_force = (facts.get(name.replace("-", "_")) for name in settings)
    if all(str(now) == value for now, value in zip(in_force, settings.values(), strict=True)):
        return None
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--set" and rest and rest[0].partition("=")[0] in settings:
            rest.pop(0)
            continue
        kept.append(word)
    for name, value in settings.items():
        kept += ["--set", f"{name}={value}"]
    return "aeonctl up " + shlex.join(kept) + " --replace"
