"""Whether a model's answer is language at all.

A broken kernel or a broken cache does not stop an engine: it goes on to write, one token over and over, token 0, bytes
that are no text, or words from everywhere. The answer's truth is judged elsewhere; here only whether anybody could have
meant it. Questions are asked in English, so an answer is expected in letters that go together.
"""

from __future__ import annotations

import re
import unicodedata

_LEAST_CHARACTERS = 12
"""A shorter text is judged by its bytes alone: "42" and "!" may be answers."""

_REPEATS = 10
"""So many copies of one piece in a row, filling most of the text, are no style any more."""

_LONGEST_PIECE = 48
_MOST_OF_IT = 0.8
_STRANGE_SHARE = 0.03
_WORD_SHARE = 0.5
_SCRIPTS = 3
"""Writing systems in one answer from which on it is a mixture; a foreign name adds one."""

_WORDLIKE = re.compile(
    r"[\"'(\[*_`]*(?:[A-Za-z]?[a-z]+(?:['’-][A-Za-z]?[a-z]+)*|[A-Z]+|\d[\d.,:%/-]*)[\"')\].,:;!?*_`…-]*"
)


def garbage(text: str) -> str | None:
    """Why a text is no language, in words; None when it may be."""
    solid = "".join(text.split())
    if not solid:
        return None
    return (
        _strange(solid)
        or (None if len(solid) < _LEAST_CHARACTERS else _repeated(text) or _mixed(solid))
        or _no_words(text)
    )


def _strange(solid: str) -> str | None:
    replaced = solid.count("\ufffd")
    if replaced and replaced > _STRANGE_SHARE * len(solid):
        return f"{replaced} of {len(solid)} characters are replacement characters"
    controls = sum(1 for character in solid if unicodedata.category(character) in {"Cc", "Cn", "Co", "Cs"})
    if controls and controls > _STRANGE_SHARE * len(solid):
        return f"{controls} of {len(solid)} characters are control characters"
    return None


def _repeated(text: str) -> str | None:
    """One piece over and over, up to the end of the text."""
    body = text.strip()
    for size in range(1, min(_LONGEST_PIECE, len(body) // _REPEATS) + 1):
        piece, same = body[-size:], 0
        while body.endswith(piece, 0, len(body) - same * size):
            same += 1
        if same >= _REPEATS and same * size >= _MOST_OF_IT * len(body):
            return f"{piece.strip()[:20]!r} is repeated {same} times"
    return None


def _mixed(solid: str) -> str | None:
    scripts = {unicodedata.name(character, "?").split()[0] for character in solid if character.isalpha()}
    scripts -= {"MODIFIER", "FEMININE", "MASCULINE", "MICRO"}
    if {"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"} & scripts:
        scripts -= {"KATAKANA", "CJK", "KATAKANA-HIRAGANA"}
    if len(scripts) >= _SCRIPTS:
        return f"it mixes the writing of {', '.join(sorted(name.capitalize() for name in scripts))}"
    return None


def _no_words(text: str) -> str | None:
    """Too few of the blank-separated pieces are words or numbers, in a text that is mostly ASCII."""
    pieces = text.split()
    if len(pieces) < 4 or sum(character.isascii() for character in text) < _MOST_OF_IT * len(text):
        return None
    words = sum(1 for piece in pieces if _WORDLIKE.fullmatch(piece))
    return f"only {words} of {len(pieces)} pieces are words" if words < _WORD_SHARE * len(pieces) else None
