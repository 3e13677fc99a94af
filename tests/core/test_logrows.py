from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from aeonctl.core.logrows import LinePrefilter, LogRow
from tests.core.logdata import LIFE_ROWS, LOGS, PHASE_ROWS, SIGNATURES, lines_of

ROW = {
    "id": "a-row",
    "contains": "model took",
    "pattern": r"took (?P<seconds>\d+)",
    "source": "a test",
    "sample": "INFO 11-30 21:44:26 [model.py:623] model took 3",
}


def test_a_row_that_recognises_its_sample_is_valid() -> None:
    assert LogRow.model_validate(ROW).pattern.groupindex == {"seconds": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"contains": "nowhere"}, "does not hold 'nowhere'"),
        ({"pattern": "^INFO"}, r"does not match '\^INFO'"),
        ({"pattern": "("}, "regular expression"),
        ({"id": "Not A Slug"}, "pattern"),
        ({"more": 1}, "Extra inputs"),
    ],
)
def test_an_invalid_row_cannot_exist(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        LogRow.model_validate(ROW | change)


@pytest.mark.parametrize("rows", [PHASE_ROWS, LIFE_ROWS], ids=["phases", "life"])
def test_ids_are_unique(rows: list[LogRow]) -> None:
    ids = [row.id for row in rows]
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.log")), ids=lambda path: path.stem)
def test_the_prefilter_never_loses_a_line(path: Path) -> None:
    needles = [row.contains for row in (*PHASE_ROWS, *LIFE_ROWS, *SIGNATURES)]
    prefilter = LinePrefilter(needles)
    lost = [line for line in lines_of(path) if any(n in line for n in needles) and not prefilter.may_hold(line)]
    assert lost == []


def test_the_prefilter_passes_over_what_holds_none() -> None:
    prefilter = LinePrefilter(["a longer phrase here", "short"])
    assert not prefilter.may_hold("nothing of it")
    assert prefilter.may_hold("a longer phrase here")
    assert prefilter.may_hold("too shortened")
