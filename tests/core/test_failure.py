from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.death import DeathScan, LifeRow, death_in
from aeonctl.core.failure import Failure, FailureScan, root_cause
from aeonctl.core.signatures import Severity, Signature
from tests.core.logdata import KNOWLEDGE, LIFE_ROWS, LOGS, SIGNATURES, lines_of


def cause(lines: Iterable[str]) -> Failure | None:
    return root_cause(lines, KNOWLEDGE)


def found(lines: Iterable[str]) -> Failure:
    failure = cause(lines)
    assert failure is not None
    return failure


def index() -> list[tuple[str, str]]:
    with (LOGS / "cases" / "INDEX.tsv").open() as file:
        return [(row["file"], row["expected_diagnosis"]) for row in csv.DictReader(file, delimiter="\t")]


# Its log simply ends: what killed the engine stands in the host's kernel log.
NOT_IN_THE_LOG = {"case055-uma-page-cache-oom-at-load.log"}


@pytest.mark.parametrize(("name", "expected"), index())
def test_a_case_has_its_cause_and_a_benign_one_none(name: str, expected: str) -> None:
    failure = cause(lines_of(LOGS / "cases" / name))
    if expected == "none" or name in NOT_IN_THE_LOG:
        assert failure is None
    else:
        assert failure is not None
        assert failure.id == expected


FAILED: dict[str, tuple[str, dict[str, str | int | float]]] = {
    "f-backend-flashinfer-absent": (
        "forced-backend-incompatible",
        {"backend": "FLASHINFER", "reason": "['ImportError']"},
    ),
    "f-backend-nope": ("attention-backend-unknown", {"backend": "NOPE"}),
    "f-bad-gpu-index": ("gpu-index-invalid", {}),
    "f-kv-too-small": (
        "kv-cache-too-small-for-max-len",
        {"max_model_len": 40960, "needed_gib": 4.38, "available_gib": 3.91, "estimated_max_len": 36560},
    ),
    "f-kvdtype-nope": ("option-value-invalid", {"option": "--kv-cache-dtype"}),
    "f-len-over-model": ("max-len-over-model", {"asked": 1000000, "allowed": 40960}),
    "f-missing-path": ("model-path-missing", {"path": "/models/does-not-exist"}),
    "f-missing-repo-offline": ("hf-cache-miss-offline", {}),
    "f-no-kv-room": ("no-memory-for-kv-cache", {}),
    "f-oom-at-load": ("gpu-oom-at-load", {}),
    "f-port-in-use": ("port-in-use", {}),
    "f-reasoning-parser-nope": ("reasoning-parser-unknown", {"parser": "nope"}),
    "f-tool-parser-nope": ("tool-parser-unknown", {"parser": "nope"}),
    "f-tp4-few-gpus": ("not-enough-gpus", {"asked": 4, "present": 1}),
    "f-unknown-flag": ("flag-not-in-this-version", {"arguments": "--no-such-flag"}),
    "f-util-over-1": ("option-out-of-range", {"reason": "less than or equal to 1", "value": 1.5}),
    "llama8b-default-noflashinfer-crash": ("python-module-missing", {"module": "flashinfer"}),
    "qwen06-default-noflashinfer-crash": ("python-module-missing", {"module": "flashinfer"}),
}


def test_every_failed_boot_is_in_the_table() -> None:
    assert {path.stem for path in (LOGS / "failed").glob("*.log")} == set(FAILED)


@pytest.mark.parametrize("name", FAILED)
def test_a_real_failed_boot_has_its_cause_and_facts(name: str) -> None:
    lines = lines_of(LOGS / "failed" / f"{name}.log")
    failure = found(lines)
    expected, facts = FAILED[name]
    assert failure.id == expected
    assert {key: failure.facts.get(key) for key in facts} == facts
    assert failure.line in lines[failure.line_no - 1]
    assert "Engine core initialization failed" not in failure.line


@pytest.mark.parametrize("name", FAILED)
def test_without_signatures_the_first_exception_stands_for_the_cause(name: str) -> None:
    bare = KNOWLEDGE.__class__(
        [row for row in SIGNATURES if row.severity is not Severity.FATAL], KNOWLEDGE.phases, KNOWLEDGE.life
    )
    lines = lines_of(LOGS / "failed" / f"{name}.log")
    failure = root_cause(lines, bare)
    if name in {"f-unknown-flag", "f-kvdtype-nope"}:  # argparse writes no traceback
        assert failure is None
        return
    assert failure is not None
    assert failure.id == "unrecognised-exception"
    known = found(lines)
    assert known.line in {failure.line, *(f"  {detail}" for detail in failure.details)}


@pytest.mark.parametrize(
    "path", sorted([*(LOGS / "healthy").glob("*.log"), *(LOGS / "cut").glob("*.log")]), ids=lambda path: path.stem
)
def test_a_boot_that_is_healthy_or_was_cut_off_has_no_failure_and_no_death(path: Path) -> None:
    lines = lines_of(path)
    assert cause(lines) is None
    assert death_in(lines, LIFE_ROWS) is None


@pytest.mark.parametrize(
    "prefix", ["", "2026-11-30T20:49:28.377728275Z ", "aeon-seat  | ", "Nov 30 21:44:26 h aeon[1]: "]
)
@pytest.mark.parametrize("name", ["f-oom-at-load", "f-kv-too-small", "f-util-over-1", "f-unknown-flag"])
def test_what_carries_the_log_does_not_change_its_cause(name: str, prefix: str) -> None:
    lines = lines_of(LOGS / "failed" / f"{name}.log")
    assert cause(prefix + line for line in lines) == cause(lines)


def test_a_killed_engine_has_died_at_runtime() -> None:
    lines = lines_of(LOGS / "died" / "qwen06-default.log")
    failure = found(lines)
    assert failure.id == "engine-died-at-runtime"
    assert failure.line == "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup"
    assert lines[failure.line_no - 1] == death_in(lines, LIFE_ROWS)


def test_an_engine_that_died_of_a_request_has_that_cause() -> None:
    lines = lines_of(LOGS / "died" / "q35-2b-default.log")
    failure = found(lines)
    assert (failure.id, failure.facts) == ("python-module-missing", {"module": "flashinfer"})
    assert death_in(lines, LIFE_ROWS) == lines[471]


READY = "(APIServer pid=1) INFO:     Application startup complete."
ANSWERED = '(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK'
STARTING = "(APIServer pid=1) INFO 11-30 21:44:26 [api_utils.py:273] non-default args: {}"
LOADING = "(EngineCore pid=2) INFO 11-30 21:44:26 [x.py:1] Starting to load model m..."
CAPTURING = "Capturing CUDA graphs (FULL):   8%|▊         | 4/51 [00:00<00:01, 38.45it/s]"
COMPILING = "(EngineCore pid=2) INFO 11-30 21:44:26 [x.py:1] torch.compile took 3.0 s in total"
OOM = "(EngineCore pid=2) ERROR 11-30 21:44:26 [core.py:1330] torch.OutOfMemoryError: CUDA out of memory. Tried"
LAST = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)
TRACEBACK = "Traceback (most recent call last):"
DEAD = (
    "(APIServer pid=1) ERROR 11-30 21:44:27 [a.py:7] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered"
)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([LOADING], "gpu-oom-at-load"),
        ([LOADING, COMPILING], "gpu-oom-at-profiling"),
        ([LOADING, COMPILING, CAPTURING], "cudagraph-capture-oom"),
        ([READY, DEAD], "gpu-oom-at-runtime"),
    ],
)
def test_running_out_of_memory_is_named_by_its_phase(before: list[str], expected: str) -> None:
    assert found([*before, OOM, LAST]).id == expected


def test_the_wsl2_reset_is_named() -> None:
    error = "(EngineCore pid=2) ERROR 11-30 21:44:26 [core.py:1332] RuntimeError: CUDA driver error: device not ready"
    assert cause([READY, error, ANSWERED]) is None
    assert found([READY, error, DEAD]).id == "wsl2-tdr-gpu-reset"


def test_a_failure_without_a_word_is_said_to_have_none() -> None:
    failure = found([STARTING, LOADING, LAST])
    assert failure.id == "engine-exited-without-cause"
    assert failure.cause.endswith("killed or crashed outside Python.") is True
    assert failure.line_no == 3
    killed = LAST.replace("{}", "{'EngineCore': -9}")
    assert found([STARTING, LOADING, killed]).id == "engine-core-killed"
    assert found([LOADING, DEAD]).id == "engine-exited-without-cause"


def test_the_root_cause_is_the_first_of_a_restart_loop_and_gone_when_it_became_ready() -> None:
    loop = [STARTING, LOADING, OOM, LAST, STARTING, LOADING, OOM, LAST]
    assert found(loop).line_no == 3
    assert cause([*loop, STARTING, LOADING, READY]) is None
    assert cause([STARTING, READY, OOM, DEAD, STARTING, LOADING]) is None


def test_a_chain_of_exceptions_is_told_by_its_last() -> None:
    lines = [
        TRACEBACK,
        '  File "x.py", line 1, in f',
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        TRACEBACK,
        '  File "x.py", line 2, in g',
        "ValueError: no such x",
        "  with a detail",
        "and an end",
        TRACEBACK,
        "OtherError: later",
    ]
    failure = found(lines)
    assert (failure.line, failure.line_no, failure.details) == ("ValueError: no such x", 9, ("with a detail",))


def test_a_consequence_at_the_end_of_a_chain_leaves_the_cause() -> None:
    lines = [TRACEBACK, "MyError: first", "The above exception was the direct cause of the following exception:"]
    assert found([*lines, TRACEBACK, "RuntimeError: Engine core initialization failed."]).line == "MyError: first"


def test_a_signature_below_an_unknown_first_traceback_is_not_the_cause() -> None:
    lines = ["(Worker pid=3) " + line for line in (TRACEBACK, "  frame", "StrangeError: first", "done")]
    failure = found([*lines, LOADING, OOM, LAST])
    assert failure.line == "StrangeError: first"
    assert found([LOADING, OOM, *lines]).id == "gpu-oom-at-load"


@pytest.mark.parametrize("head", ["WARNING 11-30 21:44:26 [x.py:1] ", "INFO 11-30 21:44:26 [x.py:1] "])
def test_a_traceback_that_was_only_logged_is_no_failure(head: str) -> None:
    assert cause([f"(EngineCore pid=2) {head}{line}" for line in (TRACEBACK, "  frame", "ValueError: x")]) is None


def test_the_errors_of_requests_are_not_the_engines() -> None:
    server = "(APIServer pid=1) ERROR 11-30 21:44:26 [x.py:1] "
    lines = [READY, server + TRACEBACK, server + "ValueError: bad request"]
    assert cause(lines) is None
    assert found([*lines, DEAD]).id == "engine-died-at-runtime"


def test_the_code_that_a_traceback_shows_is_not_what_happened() -> None:
    frame = '    raise OSError("[Errno 98] Address already in use")'
    assert found([TRACEBACK, '  File "x.py", line 1, in f', frame, "", "ValueError: x"]).line == "ValueError: x"


def test_a_quoted_error_of_a_worker_stands_in_for_its_lost_traceback() -> None:
    quote = "RuntimeError: Worker failed with error 'no AVX-512', please check the stack trace above"
    assert found([LOADING, quote, LAST]).facts == {"error": "no AVX-512"}
    assert found([LOADING, TRACEBACK, "StrangeError: no AVX-512", quote, LAST]).line == "StrangeError: no AVX-512"


def test_an_interrupt_is_no_failure() -> None:
    assert cause([TRACEBACK, "  frame", "KeyboardInterrupt"]) is None


def test_more_details_than_shown_are_left_out_and_long_lines_cut() -> None:
    failure = found([TRACEBACK, "ValueError: " + "x" * 5000, *[f"  detail {n}" for n in range(9)]])
    assert failure.details == tuple(f"detail {n}" for n in range(4))
    assert len(failure.line) == 2000


def test_open_tracebacks_are_bounded() -> None:
    scan = FailureScan(KNOWLEDGE)
    for pid in range(1000):
        scan.feed(f"(Worker pid={pid}) {TRACEBACK}")
    assert len(scan._traces.open) == 32
    scan.feed("(Worker pid=999) ValueError: x")
    failure = scan.result()
    assert failure is not None
    assert failure.line == "ValueError: x"


PROMPT_PIECES = [
    "torch.OutOfMemoryError: CUDA out of memory. ",
    "EngineDeadError: EngineCore encountered an issue. ",
    "Worker proc VllmWorker-0 died unexpectedly ",
    "MPClient: engine core exited unexpectedly ",
    "Traceback (most recent call last): ",
    "vllm: error: unrecognized arguments: --x ",
    "non-default args: {} ",
]


@given(st.lists(st.sampled_from(PROMPT_PIECES), max_size=5).map("".join))
def test_what_a_prompt_quotes_is_no_failure(prompt: str) -> None:
    request = f"(APIServer pid=1) INFO 11-30 21:44:27 [logger.py:39] Received request chatcmpl-0: prompt: '{prompt}'"
    lines = [STARTING, LOADING, READY, request]
    assert cause(lines) is None
    assert death_in(lines, LIFE_ROWS) is None


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.id)
def test_a_sample_is_known_by_no_row_that_outranks_it(row: Signature) -> None:
    others = [
        other.id
        for other in SIGNATURES[: SIGNATURES.index(row)]
        if other.severity is row.severity
        and other.id != row.id
        and other.last_resort is row.last_resort
        and not (other.phases and row.phases)
        and other.contains in row.sample
        and other.pattern.search(row.sample)
    ]
    assert others == []


@pytest.mark.parametrize("row", [row for row in SIGNATURES if row.severity is Severity.FATAL], ids=lambda row: row.id)
def test_a_fatal_row_has_a_remedy_and_is_found_by_its_sample(row: Signature) -> None:
    assert row.remedy
    reach = {"compile": [COMPILING], "graphs": [CAPTURING], "server": [READY, DEAD]}
    before = reach[row.phases[0]] if row.phases and row.phases[0] in reach else []
    lines = [*before, row.sample, *([LAST] if row.last_resort else [])]
    assert found(lines).id == row.id


@pytest.mark.parametrize("row", LIFE_ROWS, ids=lambda row: row.id)
def test_a_life_row_reads_its_sample_from_the_message_on(row: LifeRow) -> None:
    assert DeathScan(LIFE_ROWS).feed(row.sample) is row.sign
    assert DeathScan(LIFE_ROWS).feed(f"INFO:     prompt: {row.sample}") is None


def test_death_is_told_from_a_requested_stop_and_forgotten_at_a_new_start() -> None:
    stop = "(APIServer pid=1) INFO 11-30 21:46:44 [launcher.py:100] [shutdown] API server: shutdown triggered"
    assert death_in([READY, stop, DEAD], LIFE_ROWS) is None
    assert death_in([READY, DEAD, stop, DEAD + " again"], LIFE_ROWS) == DEAD
    assert death_in([READY, DEAD, STARTING], LIFE_ROWS) is None
    assert death_in([stop, STARTING, READY, DEAD], LIFE_ROWS) == DEAD
    # stdout and stderr are two streams: the server's farewell can stand above the death that it followed
    assert death_in([READY, "(APIServer pid=1) INFO:     Shutting down", DEAD], LIFE_ROWS) == DEAD


def test_a_death_below_a_stop_is_kept_apart() -> None:
    """Seen in a real crash: the process manager's line of an orderly stop stood above the death of the engine."""
    scan = DeathScan(LIFE_ROWS)
    stop = "(APIServer pid=1) INFO 12-01 01:04:52 [utils.py:628] [shutdown] Process manager: send sigterm to process"
    for line in (READY, stop, DEAD, DEAD + " again"):
        scan.feed(line)
    assert (scan.line, scan.after_stop) == (None, DEAD)
    scan.feed(STARTING)
    assert scan.after_stop is None


def test_a_long_log_takes_no_memory() -> None:
    scan = FailureScan(KNOWLEDGE)
    noise = [*lines_of(LOGS / "healthy" / "q35-2b-util0.5.log")[:300], "(EngineCore pid=2) " + TRACEBACK]
    for _ in range(30):
        for line in noise:
            scan.feed(line)
    assert len(scan._traces.open) <= 2
    assert len(scan._start.circumstances) <= len(SIGNATURES)
