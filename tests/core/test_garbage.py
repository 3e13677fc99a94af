"""What is language, and what a broken engine writes."""

from __future__ import annotations

import pytest

from aeonctl.core.garbage import garbage


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "!",
        "Paris.",
        "The capital of France is **Paris**.",
        "silver falcon garden",
        "Die Hauptstadt von Frankreich ist Paris; der Fluß heißt Seine.",
        "パリはフランスの首都です。漢字とカタカナとひらがな。",
        "Москва — столица России, the capital of Russia.",
        '{"city": "Paris", "districts": 20}',
        "1. Paris\n2. London\n3. Rome\n4. Madrid\n5. Berlin",
        "No, no, no, no! I do not know the passphrase.",
        "Sure! Here is a table:\n\n| a | b |\n|---|---|\n| one | two |\n| three | four |",
        "This is a rehearsal: no model was run. Your prompt has 282 tokens.",
        "It reads 😀 and then 😀, but the answer is Paris.",
    ],
)
def test_language(text: str) -> None:
    assert garbage(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("!" * 64, "repeated"),
        ("the the the the the the the the the the the the", "repeated"),
        ("Paris is " + "ha " * 40, "repeated"),
        ("abc def. " * 15, "repeated"),
        ("\x00" * 20, "control characters"),
        ("\ufffd", "replacement characters"),
        ("The capital \ufffd\ufffd of \ufffd France", "replacement characters"),
        ("capital 首都 столица عاصمة of", "mixes the writing"),
        ("ex7/ torchvis.Py npmes;crecrede, versionf_regist@ 11inf\" co;ject7f s'", "pieces are words"),
    ],
)
def test_garbage(text: str, why: str) -> None:
    assert why in (garbage(text) or "")
