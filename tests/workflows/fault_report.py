"""docs/faults-images.md: what a user sees for each fault. The tests that inject the faults write and check it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.workflows.image_desk import Said

REPORT = Path(__file__).resolve().parents[2] / "docs" / "faults-images.md"
WRITE = "AEONCTL_WRITE_REPORTS"


class Row(NamedTuple):
    """One fault, the error that came of it, and what it left behind."""

    fault: str
    code: str
    says: str
    hint: str
    left: str


def row(fault: str, said: Said, left: str, *causes: int) -> Row:
    """A row from what was said. ``causes`` are the causes to quote; others are an engine's own words, which differ."""
    error = said.error
    reason = f" ({error['reason']})" if error.get("reason") else ""
    quoted = [error["causes"][index] for index in causes if index < len(error["causes"])]
    says = ": ".join((error["message"], *quoted))
    return Row(fault, f"{said.code} {error['code']}{reason}", _plain(says), _plain(error["hint"] or ""), left)


def _plain(text: str) -> str:
    text = re.sub(r"127\.0\.0\.1:\d+", "REGISTRY", text)
    text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:…", text)
    text = re.sub(r"\b\d+(\.\d+)? k?B\b", "N bytes", text)
    text = re.sub(r"\b\d+ (bytes read|more expected)", r"N \1", text)
    text = re.sub(r"for \d+(\.\d+)? s", "for N s", text)
    return text.replace("|", "\\|").replace("\n", " ")


def assert_reported(title: str, rows: Sequence[Row]) -> None:
    """The report's table under ``title`` is exactly these rows. AEONCTL_WRITE_REPORTS=1 writes it first."""
    lines = ["| fault | exit and code | what the user reads | hint | what is left |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(one)} |" for one in rows]
    table = "\n".join(lines) + "\n"
    text = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
    section = re.compile(rf"(## {re.escape(title)}\n)\n*(?:\|.*\n)*\n?")
    assert section.search(text), f"{REPORT} has no section {title!r}"
    written = section.sub(lambda match: f"{match[1]}\n{table}\n", text).rstrip("\n") + "\n"
    if os.environ.get(WRITE) == "1":
        REPORT.write_text(written, encoding="utf-8")
        text = written
    assert written == text, f"docs/faults-images.md is not current: run this test with {WRITE}=1"
