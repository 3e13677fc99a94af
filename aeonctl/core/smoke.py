"""The first question to a new engine, and what counts as an answer."""

from __future__ import annotations

from typing import Any, NamedTuple

SMOKE_TOKENS = 96
"""Room for an answer, and for a thought that is cut short: either proves that tokens come."""


class Answer(NamedTuple):
    """What came back: ``ok``, and the reason in words; ``text`` is the answer or the thought."""

    ok: bool
    words: str
    text: str = ""


def smoke_request(model: str) -> dict[str, Any]:
    """A chat completion whose true answer everybody knows."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}],
        "max_tokens": SMOKE_TOKENS,
    }


def judge_answer(status: int, body: Any) -> Answer:
    """Whether a chat completion is an answer.

    A thinking model may spend all its tokens on the thought: ``content`` is null, ``finish_reason`` is ``length``, and
    that is an answer too. Text of one repeated character, or of replacement characters, is none.
    """
    if status != 200:
        return Answer(ok=False, words=f"HTTP {status}: {error_text(body)}")
    choice = _first(body)
    message = choice.get("message") if choice else None
    if not isinstance(message, dict) or choice is None:
        return Answer(ok=False, words="the answer has no message in it")
    reason = choice.get("finish_reason")
    if reason not in ("stop", "length", "tool_calls"):
        return Answer(ok=False, words=f"the answer ended with finish_reason {reason!r}")
    content = message.get("content") or ""
    thought = message.get("reasoning") or message.get("reasoning_content") or ""
    if garbage := degenerate(content) or degenerate(thought):
        return Answer(ok=False, words=f"the answer is garbage: {garbage}", text=content or thought)
    if content:
        return Answer(ok=True, words="it answered", text=content)
    if thought:
        words = "it is still thinking" if reason == "length" else "it answered, all of it as reasoning"
        return Answer(ok=True, words=words, text=thought)
    used = (body.get("usage") or {}).get("completion_tokens") if isinstance(body, dict) else None
    if reason == "length" and used:
        return Answer(ok=True, words=f"it produced {used} tokens without visible text")
    return Answer(ok=False, words="the answer is empty")


_DEGENERATE_RUN = 40
"""Characters of which none differs before a text is called garbage; a model that stutters writes fewer."""


def degenerate(text: str) -> str | None:
    """Why a text is no language: one character over and over, or bytes that are no text; None when it may be.

    A broken kernel was seen to write token 0 (``!``) for as long as it is let.
    """
    solid = "".join(text.split())
    if len(solid) < _DEGENERATE_RUN:
        return None
    if len(set(solid)) == 1:
        return f"{solid[0]!r} repeated {len(solid)} times"
    return "mostly replacement characters" if solid.count("\ufffd") * 2 > len(solid) else None


def error_text(body: Any) -> str:
    """vLLM's own words for an error; ``error`` is an object, or a plain string for a wrong key."""
    error = body.get("error", body.get("detail")) if isinstance(body, dict) else body
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)[:500]


def _first(body: Any) -> dict[str, Any] | None:
    choices = body.get("choices") if isinstance(body, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None
