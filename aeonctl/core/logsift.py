"""Finding the few lines of a huge log that any row could recognise, on raw bytes, before a line is cut or decoded.

A log of half a gigabyte holds a handful of lines that matter. Splitting a block into words and asking a set costs the
same for any number of rows; only where a row's word occurs is the row's whole substring looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_LINE_BYTES = 64 * 1024
"""A line longer than this keeps its head only: a log that never ends a line must not fill the memory."""
BLOCK_BYTES = 256 * 1024
_ANCHOR = 5

_ANSI = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and hyperlinks
    rb"|[@-Z\\^_]"  # two-character escapes
    rb")"
)


@dataclass(frozen=True, slots=True)
class Block:
    r"""Whole lines of a log without terminal escapes. Lines end at ``\n``; a redrawn bar gives segments at ``\r``."""

    data: bytes
    first_no: int
    """The number of the first line, from 1, counted as ``grep -n`` counts."""

    def segment(self, start: int) -> tuple[str, int]:
        """The segment that begins at ``start``, cut at `MAX_LINE_BYTES`, and where the next one begins."""
        end = self.data.find(b"\n", start)
        end = len(self.data) if end < 0 else end
        cut = self.data.find(b"\r", start, end)
        end = end if cut < 0 else cut
        return self.data[start : min(end, start + MAX_LINE_BYTES)].decode("utf-8", "replace"), end + 1

    def start_of(self, position: int) -> int:
        """Where the segment begins that holds ``position``."""
        line = self.data.rfind(b"\n", 0, position) + 1
        return max(line, self.data.rfind(b"\r", line, position) + 1)


class BlockCutter:
    """Cuts a stream of bytes of any chunking into `Block` values. Memory is bounded whatever the log holds."""

    def __init__(self) -> None:
        self._rest = b""
        self._dropping = False
        self._no = 1

    def feed(self, data: bytes) -> Iterator[Block]:
        """The blocks that this chunk completed."""
        for at in range(0, len(data), BLOCK_BYTES):
            yield from self._cut(data[at : at + BLOCK_BYTES])

    def flush(self) -> Iterator[Block]:
        """The line that the log ended within."""
        if self._rest:
            yield self._block(self._rest)
        self._rest, self._dropping = b"", False

    def _cut(self, data: bytes) -> Iterator[Block]:
        if self._dropping:
            end = data.find(b"\n")
            if end < 0:
                return
            self._dropping, data = False, data[end:]
        end = max(data.rfind(b"\n"), data.rfind(b"\r", max(0, data.rfind(b"\n")))) + 1
        if end:
            yield self._block(self._rest + data[:end])
            self._rest = b""
        self._rest += data[end:]
        if len(self._rest) > MAX_LINE_BYTES:
            yield self._block(self._rest[:MAX_LINE_BYTES])
            self._rest, self._dropping = b"", True

    def _block(self, data: bytes) -> Block:
        block = Block(_ANSI.sub(b"", data) if b"\x1b" in data else data, self._no)
        self._no += data.count(b"\n")
        return block


class LogSift:
    """Says where in a block any of many substrings stands. ``needles`` keep their places as numbers."""

    def __init__(self, needles: Sequence[str]) -> None:
        self._by_word: dict[bytes, list[tuple[int, bytes]]] = {}
        others: list[tuple[int, bytes]] = []
        for number, needle in enumerate(needles):
            entry = (number, needle.encode())
            word = _inner_word(entry[1])
            if word:
                self._by_word.setdefault(word, []).append(entry)
            else:
                others.append(entry)
        self._words = frozenset(self._by_word)
        self._anchors = _anchors(others)

    def hits(self, block: Block) -> list[tuple[int, list[int]]]:
        """The segments that hold needles, in order: where each begins, and the numbers of its needles."""
        data = block.data
        found: dict[int, list[int]] = {}
        for word in self._words.intersection(data.split()):
            for number, needle in self._by_word[word]:
                _note(block, number, needle, found)
        for anchor, entries in self._anchors:
            if anchor in data:
                for number, needle in entries:
                    _note(block, number, needle, found)
        return [(start, sorted(found[start])) for start in sorted(found)]


def _note(block: Block, number: int, needle: bytes, found: dict[int, list[int]]) -> None:
    """Every segment that holds one needle."""
    data = block.data
    at = data.find(needle)
    while at >= 0:
        start = block.start_of(at)
        numbers = found.setdefault(start, [])
        numbers.append(number)
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        cut = data.find(b"\r", at, end)
        at = data.find(needle, end if cut < 0 else cut)


def _inner_word(needle: bytes) -> bytes:
    """The longest word that blanks bound on both sides inside the needle: it is a word of every line that holds it."""
    return max(needle.split(b" ")[1:-1], key=len, default=b"")


def _anchors(entries: Iterable[tuple[int, bytes]]) -> list[tuple[bytes, list[tuple[int, bytes]]]]:
    """Few short pieces such that every needle holds one: fewer passes over a block than one per needle."""
    left = list(entries)
    anchors: list[tuple[bytes, list[tuple[int, bytes]]]] = []
    while left:
        pieces: dict[bytes, int] = {}
        for _, needle in left:
            size = min(_ANCHOR, len(needle))
            for piece in {needle[i : i + size] for i in range(len(needle) - size + 1)}:
                pieces[piece] = pieces.get(piece, 0) + 1
        best = max(sorted(pieces), key=lambda piece: pieces[piece])
        anchors.append((best, [entry for entry in left if best in entry[1]]))
        left = [entry for entry in left if best not in entry[1]]
    return anchors
