"""Verdicts and root causes: the recorded logs, as they are and disguised."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aeonctl.core.catalog import Document
from aeonctl.core.diagnosis import Diagnosis, Verdict, diagnose
from aeonctl.core.evidence import facts_of_text
from aeonctl.core.failure import FailureScan
from aeonctl.core.knowledge import diagnosis_knowledge
from tests.core.logdata import LOGS, ROOT


def _read(kind: str) -> list[Document]:
    files = sorted((ROOT / "profiles" / kind).glob("*.yaml"))
    return [Document(str(path), path.stem, yaml.safe_load(path.read_text())) for path in files]


KNOWLEDGE = diagnosis_knowledge(_read)
CASES = LOGS / "cases"


def judged(data: bytes, host_text: str = "", chunk: int = 1 << 16, **facts: Any) -> Diagnosis:
    scan = FailureScan(KNOWLEDGE.log)
    for at in range(0, len(data), chunk):
        scan.read(data[at : at + chunk])
    scan.finish()
    return diagnose(scan, KNOWLEDGE, facts | facts_of_text(host_text, KNOWLEDGE.signs))


def answer(found: Diagnosis) -> str:
    return found.root.id if found.root is not None else "none" if found.verdict is Verdict.HEALTHY else "unclear"


def cases() -> list[tuple[str, str]]:
    with (CASES / "INDEX.tsv").open() as file:
        return [(row["file"], row["expected_diagnosis"]) for row in csv.DictReader(file, delimiter="\t")]


def host_text(name: str) -> str:
    path = (CASES / name).with_suffix(".host.txt")
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(("name", "expected"), cases())
def test_a_case_has_its_answer(name: str, expected: str) -> None:
    data = (CASES / name).read_bytes()
    found = judged(data, host_text(name))
    assert answer(found) == expected
    for finding in found.findings:
        assert finding.source
        assert finding.cause
        if finding.line_no and finding.line:
            assert finding.line.split("\ufffd")[0][:40] in data.split(b"\n")[finding.line_no - 1].decode()
    if found.root is not None:
        assert found.root.because
        assert found.root.remedy


def test_the_log_that_stops_is_unclear_without_the_hosts_facts_and_says_what_would_help() -> None:
    found = judged((CASES / "case055-uma-page-cache-oom-at-load.log").read_bytes())
    assert found.verdict is Verdict.UNCLEAR
    assert found.findings[0].id == "uma-host-oom-during-load"
    assert found.findings[0].severity == "info"
    assert any("ExitCode" in text for text in found.would_help)


HEALTHY = sorted((LOGS / "healthy").glob("*.log"))


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_log_is_healthy(path: Path) -> None:
    found = judged(path.read_bytes())
    assert found.verdict is Verdict.HEALTHY
    assert all(finding.severity != "fatal" for finding in found.findings)


PREFIXES = {
    "none": "",
    "docker": "2026-11-30T20:49:28.377728275Z ",
    "compose": "aeon-seat-1  | ",
    "journald": "Nov 30 21:44:26 host aeon-seat[812]: ",
    "journald-iso": "2026-11-30T21:44:26+0100 host docker[812]: ",
    "kubernetes": "2026-11-30T20:49:28.377728275Z stderr F ",
}
NOISE = [
    "(APIServer pid=1) INFO 09-12 10:15:05 [api_server.py:99] Available routes are:",
    "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
    "(APIServer pid=1) WARNING 11-30 20:45:57 [x.py:255] Found ulimit of 20000 (`OSError: [Errno 24] Too many open`).",
    "    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.",
    "(APIServer pid=1) DEBUG 09-12 10:15:05 [x.py:9] torch.OutOfMemoryError: CUDA out of memory (what a test says)",
]


def coloured(line: str) -> str:
    for word, colour in (("INFO", "32"), ("WARNING", "33"), ("ERROR", "31")):
        line = line.replace(f" {word} ", f" \x1b[{colour}m{word}\x1b[0m ", 1)
    return f"\x1b[1;36m{line}\x1b[0;0m"


@st.composite
def disguised(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """A case, disguised: what carries it, its colours and line ends, noise between, two processes changing places."""
    name, expected = draw(st.sampled_from(cases()))
    lines = (CASES / name).read_bytes().decode("utf-8", "replace").split("\n")
    marker = next((i for i, line in enumerate(lines) if "ERROR" in line or "Traceback" in line), 0)
    if draw(st.booleans()) and marker > 3:
        lines = lines[draw(st.integers(0, min(marker - 1, 3))) :]  # a truncated head
    for _ in range(draw(st.integers(0, 4))):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(NOISE)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(lines) - 2)))
        first, second = lines[at : at + 2] if len(lines) > 1 else ("", "")
        if "INFO" in first and "INFO" in second and first[:12] != second[:12]:
            lines[at : at + 2] = [second, first]
    prefix = PREFIXES[draw(st.sampled_from(sorted(PREFIXES)))]
    if draw(st.booleans()):
        lines = [coloured(line) if line.strip() else line for line in lines]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return name, expected, end.join(prefix + line for line in lines).encode()


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(disguised(), st.integers(7, 5000))
def test_a_disguise_does_not_change_the_answer(disguise: tuple[str, str, bytes], chunk: int) -> None:
    name, expected, data = disguise
    assert answer(judged(data, host_text(name), chunk)) == expected


@pytest.mark.parametrize("path", HEALTHY[:6], ids=lambda path: path.stem)
def test_dockers_own_files_are_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    wrapped = [json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-30T20:49:28Z"}) for line in lines]
    assert judged("\n".join(wrapped).encode()).verdict is Verdict.HEALTHY


def test_bytes_that_are_no_text_do_not_hide_a_cause() -> None:
    data = (LOGS / "failed" / "f-oom-at-load.log").read_bytes()
    assert answer(judged(b"\xff\xfe\x00\n" + data.replace(b"INFO", b"IN\xc3FO"))) == "gpu-oom-at-load"


def test_an_empty_log_is_unclear() -> None:
    found = judged(b"")
    assert (found.verdict, found.summary) == (Verdict.UNCLEAR, "The log is empty.")


ENGINE = "(EngineCore pid=168) ERROR 09-12 10:15:29 [core.py:1332] "
LOADING = "(EngineCore pid=168) INFO 09-12 10:15:29 [x.py:1] Starting to load model m..."
READY = "(APIServer pid=1) INFO:     Application startup complete."
DEAD = ENGINE + "EngineCore encountered a fatal error."
NOT_READY = ENGINE + "RuntimeError: CUDA driver error: device not ready"
LAST = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)
GATED = (
    "(APIServer pid=1) OSError: Cannot access gated repo for url https://huggingface.co/o/n/resolve/main/config.json."
)
SMALL = (
    ENGINE + "ValueError: To serve at least one request with the model's max seq len (131072), (4.00 GiB KV cache is "
    "needed, which is larger than the available KV cache memory (2.50 GiB)."
)


@pytest.mark.parametrize(
    ("lines", "host", "expected"),
    [
        ([READY, DEAD, NOT_READY], "", "wsl2-tdr-gpu-reset"),
        (
            [READY, DEAD, NOT_READY],
            "misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12",
            "wsl2-gpu-residency-enomem",
        ),
        ([GATED], "", "model-repo-gated"),
        ([GATED], "/home/u/.cache/huggingface/hub -> /root/.cache/huggingface", "hf-cache-mounted-at-wrong-level"),
        ([LOADING], "NVIDIA GB10\n$ docker inspect -f '{{.State.ExitCode}}' x\n137", "uma-host-oom-during-load"),
        ([LOADING], "6.6.87.2-microsoft-standard-WSL2\nExited (137) 2 minutes ago", "wsl2-memory-cap"),
        ([LOADING], "Exited (137) 2 minutes ago", "unclear"),
        ([LOADING, LAST], "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "gpu-fell-off-the-bus"),
        ([SMALL], "", "kv-cache-too-small-for-max-len"),
        (
            ["(EngineCore pid=1) Estimated CUDA graph memory: 2.10 GiB total", SMALL],
            "",
            "cudagraph-reservation-too-large",
        ),
        ([READY], '{"choices":[{"message":{"content":"!!!!!!!!!!!!!!!!"}}]}', "generation-corrupt"),
        ([READY], '{"choices":[{"message":{"content":"Hello! How can I help you today?"}}]}', "none"),
        ([READY], "$ docker inspect -f '{{.State.ExitCode}} {{.State.OOMKilled}}' x\n137 true", "host-oom-kill"),
    ],
)
def test_the_hosts_facts_tell_causes_apart(lines: list[str], host: str, expected: str) -> None:
    assert answer(judged("\n".join(lines).encode(), host)) == expected


def test_two_causes_of_one_text_are_both_offered_with_what_decides() -> None:
    found = judged(f"{READY}\n{DEAD}\n{NOT_READY}".encode())
    other = next(finding for finding in found.findings if finding.id == "wsl2-gpu-residency-enomem")
    assert "dmesg" in other.because[0]
    assert found.would_help


def test_a_command_line_holds_the_number_that_the_log_names() -> None:
    found = judged((LOGS / "failed" / "f-kv-too-small.log").read_bytes())
    assert found.root is not None
    assert found.root.command == "aeonctl up --seat SEAT --set max-model-len=36560"
    assert found.root.rung == "kv-too-small"


def test_every_judgement_can_be_met_and_asks_for_known_facts() -> None:
    told = {f"host.{sign.fact}" for sign in KNOWLEDGE.signs}
    told |= {f"host.{name}" for name in ("exit_code", "oom_killed", "run_seconds", "unified_memory", "wsl2")}
    told |= {"host.mem_available_gib", "host.container_running"}
    for judgement in KNOWLEDGE.judgements:
        for condition in judgement.when:
            asked = {name for name in condition if name.startswith("host.")}
            assert asked <= told, judgement.id
