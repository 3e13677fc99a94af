from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.loglines import MAX_LINE_CHARS, LineSplitter, LogLine, parse_line
from tests.core.logdata import LOGS


def split(*chunks: bytes, max_chars: int = MAX_LINE_CHARS) -> list[str]:
    splitter = LineSplitter(max_chars)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.flush()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"0%\r50%\r100%\n", ["0%", "50%", "100%"]),
        (b"\n\n", ["", ""]),
        (b"\r\r\nx", ["", "", "x"]),
        (b"\x1b[1;36m(EngineCore pid=1)\x1b[0;0m \x1b[31mERROR\x1b[0m x\n", ["(EngineCore pid=1) ERROR x"]),
        (b"\x1b]0;title\x07a\x1b[Ab\x1bMc", ["abc"]),
        (b"\x1b[31mred\x1b[0m\nplain\n\x1b[Kx\n", ["red", "plain", "x"]),
        ("█▄ ready\n".encode(), ["█▄ ready"]),
        (b"bad \xff byte\n", ["bad � byte"]),
        (b"cut \xe2\x96", ["cut �"]),
        (b"vertical\x0btab\n", ["vertical\x0btab"]),
    ],
)
def test_a_stream_becomes_lines(data: bytes, lines: list[str]) -> None:
    assert split(data) == lines


def test_a_line_is_given_as_soon_as_its_return_has_come() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"50%\r") == ["50%"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"next\n") == ["next"]


def test_a_character_may_be_cut_by_a_chunk() -> None:
    block = "█".encode()
    assert split(block[:1], block[1:] + b"\n") == ["█"]


def test_a_line_without_end_is_given_once_and_takes_no_memory() -> None:
    splitter = LineSplitter(max_chars=10)
    given_lines = [line for _ in range(1000) for line in splitter.feed(b"abc")]
    assert given_lines == ["abcabcabca"]
    assert splitter.feed(b"end\nnext\n") == ["next"]


def test_a_line_of_just_the_bound_is_whole_and_a_longer_one_cut() -> None:
    assert split(b"0123456789\n0123456789+\nx\n", max_chars=10) == ["0123456789", "0123456789", "x"]
    assert split(b"0123456789+", max_chars=10) == ["0123456789"]


def test_a_splitter_can_be_used_again_after_its_flush() -> None:
    splitter = LineSplitter(max_chars=4)
    splitter.feed(b"too long\r")
    assert splitter.flush() == []
    assert splitter.feed(b"\nx") == [""]


pieces = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"a", "█".encode(), b"\xff", b"\x1b[31m", b"\x1b[", b"word ", b"0123456789"]
    ),
    max_size=40,
)


@given(pieces, st.data())
def test_chunks_do_not_change_the_lines(content: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(content)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert split(*chunks, max_chars=16) == split(whole, max_chars=16)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_real_log_is_the_same_in_chunks_of_any_size(size: int) -> None:
    data = (LOGS / "healthy" / "gemma3-1b-default.log").read_bytes()
    assert split(*[data[at : at + size] for at in range(0, len(data), size)]) == split(data)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", LogLine("")),
        ("Traceback (most recent call last):", LogLine("Traceback (most recent call last):")),
        (
            "(APIServer pid=2306) INFO 11-30 21:44:26 [model.py:623] Resolved architecture: X",
            LogLine("Resolved architecture: X", "APIServer", 2306, "INFO", "11-30 21:44:26", "model.py", 623),
        ),
        (
            "(EngineCore_DP0 pid=171) ERROR 09-12 10:15:16 [core.py:1055] EngineCore failed to start.",
            LogLine("EngineCore failed to start.", "EngineCore_DP0", 171, "ERROR", "09-12 10:15:16", "core.py", 1055),
        ),
        (
            "(Worker_TP0 pid=9) DEBUG 09-12 10:15:16 [v1/worker/gpu_worker.py:5] x",
            LogLine("x", "Worker_TP0", 9, "DEBUG", "09-12 10:15:16", "v1/worker/gpu_worker.py", 5),
        ),
        (
            "INFO 11-30 10:15:16 llm_engine.py:161] Initializing",
            LogLine("Initializing", None, None, "INFO", "11-30 10:15:16", "llm_engine.py", 161),
        ),
        (
            "(APIServer pid=2306) INFO 11-30 21:44:26 [api_utils.py:345]",
            LogLine("", "APIServer", 2306, "INFO", "11-30 21:44:26", "api_utils.py", 345),
        ),
        (
            "(APIServer pid=1) INFO:     Application startup complete.",
            LogLine("Application startup complete.", "APIServer", 1, "INFO"),
        ),
        (
            "(APIServer pid=1) ERROR:root:This model's maximum context length",
            LogLine("This model's maximum context length", "APIServer", 1, "ERROR", None, "root"),
        ),
        (
            "(EngineCore pid=2) 2026-09-12 10:16:45,319 - WARNING - autotuner.py:485 - flashinfer.jit: Skipping",
            LogLine(
                "flashinfer.jit: Skipping", "EngineCore", 2, "WARNING", "2026-09-12 10:16:45,319", "autotuner.py", 485
            ),
        ),
        (
            "[rank0]:[W1130 21:51:39.555986293 ProcessGroupNCCL.cpp:1575] Warning: x",
            LogLine("Warning: x", None, None, "WARNING", "1130 21:51:39.555986293", "ProcessGroupNCCL.cpp", 1575),
        ),
        (
            "W1130 20:49:27.945000 1 torch/_library/triton.py:53] Triton not available",
            LogLine(
                "Triton not available", None, None, "WARNING", "1130 20:49:27.945000", "torch/_library/triton.py", 53
            ),
        ),
        (
            "WARNING: The NVIDIA Driver was not detected.",
            LogLine("The NVIDIA Driver was not detected.", None, None, "WARNING"),
        ),
        ("INFORMATION is not a level", LogLine("INFORMATION is not a level")),
        ("(EngineCore pid=4)", LogLine("", "EngineCore", 4)),
        (
            "Loading safetensors checkpoint shards:  75% Completed | 3/4 [00:00<00:00, 23.14it/s]",
            LogLine("Loading safetensors checkpoint shards:  75% Completed | 3/4 [00:00<00:00, 23.14it/s]"),
        ),
    ],
)
def test_a_line_is_taken_apart(text: str, line: LogLine) -> None:
    assert parse_line(text) == line


PREFIXES = [
    "2026-11-30T20:49:28.377728275Z ",
    "2026-11-30T20:49:28+02:00 ",
    "20:37:33.221106 ",
    "aeon-seat  | ",
    "engine-1 | 2026-11-30T20:49:28.377728275Z ",
    "Nov 30 21:44:26 spark-01 aeon-seat[4711]: ",
    "Sep  2 01:02:03 host docker: ",
    "2026-11-30T20:49:28+0000 host vllm[12]: ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
@given(
    st.sampled_from(["", "(EngineCore pid=7) ", "(Worker_TP1 pid=8) "]),
    st.sampled_from(["", "INFO 11-30 21:44:26 [model.py:623] ", "ERROR:root:", "WARNING:  ", "  "]),
    st.text(st.characters(codec="ascii", exclude_characters="|:()[]"), max_size=30),
)
def test_what_carries_a_line_does_not_change_it(prefix: str, process: str, head: str, text: str) -> None:
    line = f"{process}{head}- {text}"
    assert parse_line(prefix + line) == parse_line(line)
