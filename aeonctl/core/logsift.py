"""Finding the few lines of a huge log that any row could recognise, on raw bytes, before a line is cut or decoded.

A log of half a gigabyte holds a handful of lines that matter. Splitting a block into words and asking a set costs the
same for any number of rows; only where a row's word occurs is the row's whole substring looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_LINE_BYTES = 64 * 1024
"""A line longer than this keeps its head only: a log that never ends a line must not fill the memory."""
BLOCK_BYTES = 256 * 1024
DIGITS = b"0123456789"
_ANCHOR = 5
_HEAD_BYTES = 256
_MOST_HELD = 4 * 1024 * 1024
"""Bytes of shapes that are remembered at most."""

_ANSI = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and hyperlinks
    rb"|[@-Z\\^_]"  # two-character escapes
    rb")"
)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a log without terminal escapes."""

    lines: list[bytes]
    shapes: list[bytes]
    """The same lines without their digits: lines that differ in a time or a number have one shape."""
    first_no: int
    """The number of the first line, from 1, counted as ``grep -n`` counts."""


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
        if b"\x1b" in data:
            data = _ANSI.sub(b"", data)
        lines, first_no = data.split(b"\n"), self._no
        self._no += len(lines) - 1
        if not lines[-1]:
            lines.pop()
        shapes = data.translate(None, DIGITS).split(b"\n")[: len(lines)]
        return Block(lines, shapes, first_no)


class LogSift:
    """Says which of many substrings a line may hold. ``needles`` keep their places as numbers.

    Digits are left out of lines and needles alike, so a needle that is found may still not be there; one that is not
    found is not there. What was found is remembered by the line's shape, because logs repeat themselves.
    """

    def __init__(self, needles: Sequence[str]) -> None:
        self._by_word: dict[bytes, list[tuple[int, bytes]]] = {}
        others: list[tuple[int, bytes]] = []
        for number, needle in enumerate(needles):
            entry = (number, needle.encode().translate(None, DIGITS))
            word = _inner_word(entry[1])
            if word:
                self._by_word.setdefault(word, []).append(entry)
            else:
                others.append(entry)
        self._words = frozenset(self._by_word)
        self._anchors = _anchors(others)
        self._known: dict[bytes, tuple[int, ...]] = {}
        self._held = 0

    def numbers(self, shapes: Sequence[bytes]) -> Mapping[bytes, tuple[int, ...]]:
        """For each of the shapes, the numbers of the needles that it holds, in order; others may be in the mapping."""
        known = self._known
        fresh = {shape for shape in shapes if shape not in known}
        if not fresh:
            return known
        if self._held > _MOST_HELD:
            fresh, self._held = set(shapes), 0
            known.clear()
        heads = [_worth_reading(shape) for shape in fresh]
        text = b"\n".join(heads)
        self._held += sum(map(len, fresh))
        present = self._present(text)
        for shape, head in zip(fresh, heads, strict=True):
            known[shape] = tuple([number for number, needle in present if needle in head]) if present else ()
        return known

    def _present(self, text: bytes) -> list[tuple[int, bytes]]:
        """The needles that stand anywhere in the text."""
        entries = [entry for word in self._words.intersection(text.split()) for entry in self._by_word[word]]
        for anchor, anchored in self._anchors:
            if anchor in text:
                entries += anchored
        return sorted(entry for entry in entries if entry[1] in text)


def _worth_reading(shape: bytes) -> bytes:
    """The head of a line at INFO, the whole of any other: what vLLM says there it says first, and prompts are long."""
    if len(shape) > _HEAD_BYTES and b"INFO " in (head := shape[:_HEAD_BYTES]) and b"ERROR" not in head:
        return head
    return shape


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
