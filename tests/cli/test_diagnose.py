"""``diagnose``, ``explain`` and ``plan --explain`` as they are typed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aeonctl.cli.output import Output
from aeonctl.core.pages import finding_pages
from aeonctl.main import main
from tests.core.logdata import LOGS, SIGNATURES

CASES = LOGS / "cases"


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main(argv, output=Output(as_json="--json" in argv, out=out, err=err))
    return int(code), out.getvalue(), err.getvalue()


def data(*argv: str) -> Any:
    code, out, _ = run("--json", *argv)
    assert code == 0
    return json.loads(out)["data"]


def test_a_failed_log_tells_its_cause_its_line_and_what_to_type() -> None:
    code, out, _ = run("diagnose", str(LOGS / "failed" / "f-kv-too-small.log"))
    assert code == 0
    assert "failed: One request of the full context does not fit" in out
    assert "line 57: ValueError: To serve at least one request" in out
    assert "aeonctl up --seat SEAT --set max-model-len=36560" in out
    assert "benign  line 8    ulimit-warning" in out


def test_every_finding_has_the_fields_of_the_contract() -> None:
    found = data("diagnose", str(LOGS / "failed" / "f-oom-at-load.log"))
    assert found["verdict"] == "failed"
    for finding in found["findings"]:
        assert {"id", "severity", "line_no", "line", "cause", "remedy", "source"} <= set(finding)
        assert finding["severity"] in {"fatal", "benign", "info"}
    assert found["findings"][0]["id"] == "gpu-oom-at-load"


def test_standard_input_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_in = io.BytesIO((LOGS / "failed" / "f-port-in-use.log").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(bytes_in))
    assert data("diagnose", "-")["findings"][0]["id"] == "port-in-use"


def test_host_facts_decide_from_a_file_beside_the_log_or_from_one_that_is_named(tmp_path: Path) -> None:
    log = CASES / "case055-uma-page-cache-oom-at-load.log"
    assert data("diagnose", str(log))["findings"][0]["id"] == "uma-host-oom-during-load"
    alone = tmp_path / "alone.log"
    alone.write_bytes(log.read_bytes())
    assert data("diagnose", str(alone))["verdict"] == "unclear"
    facts = str(log.with_suffix(".host.txt"))
    assert data("diagnose", str(alone), "--host-facts", facts)["findings"][0]["id"] == "uma-host-oom-during-load"


def test_a_recorded_host_gives_facts(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    log.write_text("(EngineCore pid=1) INFO 09-12 10:15:29 [x.py:1] Starting to load model m...\n")
    facts = tmp_path / "facts.txt"
    facts.write_text("aeon-seat  Exited (137) 2 minutes ago\n")
    found = data("--as", "dgx-spark", "diagnose", str(log), "--host-facts", str(facts))
    assert found["findings"][0]["id"] == "uma-host-oom-during-load"


def test_an_unclear_log_says_what_would_help(tmp_path: Path) -> None:
    log = tmp_path / "empty.log"
    log.touch()
    code, out, _ = run("diagnose", str(log))
    assert code == 0
    assert "unclear: The log is empty." in out
    assert "what would help:" in out


def test_a_file_that_is_not_there_is_an_error() -> None:
    code, _, err = run("diagnose", "./no-such.log")
    assert code == 3
    assert "no-such.log cannot be read" in err


def test_every_signature_has_a_page() -> None:
    for ident in {row.id for row in SIGNATURES}:
        pages = finding_pages(ident, SIGNATURES, ())
        assert pages
        assert all(page.what and page.source for page in pages)
    assert data("explain", "shm-too-small")["pages"][0]["kind"] == "finding"


@pytest.mark.parametrize(
    ("ident", "kind"),
    [("wsl2-chunk-cap", "rule"), ("max-num-seqs", "option"), ("--kv-cache-dtype", "option"), ("docker", "check")],
)
def test_rules_options_and_checks_have_pages(ident: str, kind: str) -> None:
    page = data("explain", ident)["pages"][0]
    assert page["kind"] == kind
    assert page["what"]
    assert page["source"]


def test_an_id_that_does_not_exist_names_the_nearest() -> None:
    code, _, err = run("explain", "shm-to-small")
    assert code == 3
    assert "did you mean shm-too-small?" in err


def test_every_option_of_a_plan_has_its_why() -> None:
    _, out, _ = run(
        "--json", "--as", "rtx-5090-wsl2", "plan", "--seat", "quality", "--set", "max-num-seqs=2", "--explain"
    )
    answer = json.loads(out)["data"]
    rows = {row["option"]: row for row in answer["explained"]}
    words = [word for word in answer["plan"]["command"] if word.startswith("--")]
    assert set(words) <= set(rows)
    assert set(answer["plan"]["container"]["env"]) <= set(rows)
    assert all(row["why"] and row["source"] for row in rows.values())
    assert rows["--max-num-seqs"]["by"] == "--set"
    assert rows["--max-num-batched-tokens"]["by"] == "wsl2-chunk-cap"
    assert rows["--kv-cache-dtype"]["by"] == "seat"
