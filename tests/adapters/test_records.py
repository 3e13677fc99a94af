"""Verifications as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from aeonctl.adapters.records import FileRecords
from aeonctl.errors import HostError
from aeonctl.ports import NoRecords


def test_a_record_is_kept_and_replaced(tmp_path: Path) -> None:
    records = FileRecords(tmp_path)
    assert records.load("0123456789ab") is None
    path = records.save("0123456789ab", {"passed": True, "n": "é"})
    assert path == tmp_path / "verifications" / "0123456789ab.json"
    assert records.load("0123456789ab") == {"passed": True, "n": "é"}
    records.save("0123456789ab", {"passed": False})
    assert records.load("0123456789ab") == {"passed": False}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_record_that_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "verifications"
    folder.mkdir()
    for content in ("{", "[]"):
        (folder / "0123456789ab.json").write_text(content)
        assert FileRecords(tmp_path).load("0123456789ab") is None
    assert FileRecords(tmp_path).load("../x") is None
    with pytest.raises(ValueError, match="not a spec hash"):
        FileRecords(tmp_path).save("../x", {})


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "verifications").write_text("a file")
    with pytest.raises(HostError) as refusal:
        FileRecords(tmp_path).save("0123456789ab", {})
    assert refusal.value.code == "state_unwritable"


def test_no_records_keep_nothing() -> None:
    NoRecords().save("0123456789ab", {"passed": True})
    assert NoRecords().load("0123456789ab") is None
