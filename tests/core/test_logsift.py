from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.logsift import DIGITS, MAX_LINE_BYTES, BlockCutter, LogSift
from tests.core.logdata import LOGS, SIGNATURES

ROUGH = st.lists(st.sampled_from([b"a", b"bc 1", b"\n", b"\r\n", b"\r", b"\x1b[31m", b"\xff"]), max_size=40).map(
    b"".join
)


def lines_in(data: bytes, chunk: int) -> list[tuple[int, bytes]]:
    cutter, found = BlockCutter(), []
    for at in range(0, len(data), chunk):
        found += list(cutter.feed(data[at : at + chunk]))
    found += list(cutter.flush())
    return [(block.first_no + i, line) for block in found for i, line in enumerate(block.lines)]


@given(ROUGH, st.integers(1, 9))
def test_lines_keep_their_text_and_the_numbers_of_grep(data: bytes, chunk: int) -> None:
    numbered: dict[int, bytes] = {}
    for number, line in lines_in(data, chunk):
        numbered[number] = numbered.get(number, b"") + line
    wanted = [line.replace(b"\x1b[31m", b"") for line in data.split(b"\n")]
    assert {n: line for n, line in numbered.items() if line} == {n: line for n, line in enumerate(wanted, 1) if line}


def test_a_line_without_end_keeps_its_head_and_little_memory() -> None:
    cutter = BlockCutter()
    for _ in range(100):
        for block in cutter.feed(b"x" * 100_000):
            assert len(block.lines[0]) == MAX_LINE_BYTES
    assert len(cutter._rest) <= MAX_LINE_BYTES
    assert [block.lines for block in cutter.feed(b"\nnext\n")] == [[b"", b"next"]]


def test_no_needle_in_a_recorded_log_is_lost() -> None:
    needles = [row.contains for row in SIGNATURES]
    sift = LogSift(needles)
    for path in sorted(LOGS.rglob("*.log")):
        for line in path.read_bytes().split(b"\n"):
            shape = line.translate(None, DIGITS)
            held = {number for number, needle in enumerate(needles) if needle.encode() in line}
            assert held <= set(sift.numbers([shape])[shape])


def test_only_the_head_of_a_long_line_at_info_is_read() -> None:
    sift = LogSift(["CUDA out of memory"])
    for level, held in (("INFO", ()), ("ERROR", (0,))):
        shape = f"(EngineCore pid=) {level} -  :: [x.py:] {'prompt ' * 60}CUDA out of memory".encode()
        assert sift.numbers([shape])[shape] == held


def test_shapes_that_are_remembered_are_bounded() -> None:
    sift = LogSift(["a needle here"])
    for n in range(300):
        sift.numbers([bytes([65 + n % 26]) * 60_000 + str(n).encode()])
    assert sift._held <= 5_000_000
    assert len(sift._known) < 100
