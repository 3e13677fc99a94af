"""The long probes: a needle in a prompt of an exact length, chunk boundaries, a prompt too long, many at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aeonctl.core.probes import (
    NO_ANSWER,
    Body,
    Target,
    Verdict,
    chat_request,
    failed,
    passed,
    shown,
    understood,
    warned,
)
from aeonctl.core.smoke import error_text

DEFAULT_LENGTH = 24_000
"""Tokens of the first real conversation that killed an engine which had passed every short test."""

ANSWER_TOKENS = 64
_HEADROOM = 16
SOAK_SHARE = 0.92
_SOAK_STEPS = 4

_COLOURS = ("silver", "golden", "purple", "orange", "green", "yellow", "brown", "white")
_ANIMALS = ("falcon", "tiger", "rabbit", "horse", "dolphin", "spider", "turtle", "eagle")
_THINGS = ("garden", "window", "bridge", "candle", "mirror", "ladder", "basket", "hammer")

_SENTENCES = (
    "On day {n} the ferry left the harbour at {h} with {p} passengers and came back at dusk.",
    "The wind on day {n} blew from the west, and {p} boats stayed at the pier until {h}.",
    "A carpenter mended {p} chairs on day {n} and went home at {h}.",
    "On day {n} the baker sold {p} loaves before {h} and closed early.",
    "The children counted {p} gulls on the roof at {h} on day {n}.",
    "On day {n} it rained until {h}, and {p} visitors waited in the hall.",
)

Messages = list[Body]


class LongPrompt(NamedTuple):
    """A prompt with a needle in it. ``tokens`` is its length as counted; ``exact`` when that is what was asked for."""

    text: str
    needle: str
    tokens: int
    exact: bool


def default_length(context: int | None) -> int:
    """The larger of 24k and half the context, as far as an answer still fits behind it."""
    if context is None:
        return DEFAULT_LENGTH
    return min(max(DEFAULT_LENGTH, context // 2), longest(context))


def longest(context: int) -> int:
    """The longest prompt that leaves room for the answer."""
    return max(1, context - ANSWER_TOKENS - _HEADROOM)


def soak_lengths(context: int, after: int) -> list[int]:
    """Lengths from ``after`` up to 92 % of the context, in even steps."""
    end = min(int(context * SOAK_SHARE), longest(context))
    step = (end - after) / _SOAK_STEPS
    return [after + round(step * (index + 1)) for index in range(_SOAK_STEPS)] if step >= 1 else []


def needle_of(seed: int) -> str:
    """Three words that belong together in no text."""
    return f"{_COLOURS[seed % 8]} {_ANIMALS[seed // 8 % 8]} {_THINGS[seed // 64 % 8]}"


def haystack(seed: int, sentences: int, padding: int = 0, depth: float = 0.4) -> str:
    """The prompt's text: a diary that differs with ``seed`` from its first words on (so that no prefix cache knows it),
    the needle at ``depth`` of it, the question at its end. ``padding`` adds that many short words."""
    lines = [f"This is diary number {seed} of a harbour town."]
    lines += [_sentence(seed, index) for index in range(sentences)]
    lines.insert(1 + int(sentences * depth), f"The secret passphrase is {needle_of(seed)}.")
    question = "What is the secret passphrase in this diary? Answer with the three words of the passphrase."
    return "\n".join(lines) + " so" * padding + f"\n\n{question}"


def _sentence(seed: int, index: int) -> str:
    place = index + seed % 7
    return _SENTENCES[place % len(_SENTENCES)].format(
        n=index + 1, h=f"{place * 5 % 12 + 1}:{place * 7 % 50 + 10}", p=place * 13 % 89 + 3
    )


def fit_prompt(wanted: int, seed: int, depth: float, count: Callable[[str], int | None]) -> LongPrompt:
    """A prompt of exactly ``wanted`` tokens. ``count`` is the engine's own tokenizer applied to a text as it will be
    asked; where it knows no answer, four characters stand for a token and the length is about right."""
    bare, some = count(haystack(seed, 0)), count(haystack(seed, 40))
    if bare is None or some is None or some <= bare:
        sentences = max(0, wanted * 4 // 73)
        text = haystack(seed, sentences, depth=depth)
        return LongPrompt(text, needle_of(seed), len(text) // 4, exact=False)
    each = (some - bare) / 40
    sentences, padding = max(0, int((wanted - bare) / each)), 0
    for _ in range(12):
        text = haystack(seed, sentences, padding, depth)
        tokens = count(text)
        if tokens is None or tokens == wanted or (sentences == padding == 0 and tokens > wanted):
            break
        missing = wanted - tokens
        if padding + missing < 0:
            sentences, padding = max(0, sentences - math.ceil(-(padding + missing) / each)), 0
        elif padding + missing >= 2 * each + 8:
            sentences, padding = sentences + int((padding + missing) / each), 0
        else:
            padding += missing
    tokens = tokens if tokens is not None else wanted
    return LongPrompt(text, needle_of(seed), tokens, exact=tokens == wanted)


def count_request(target: Target, text: str) -> Body:
    """What /tokenize is asked, so that it counts the very prompt that a chat will send."""
    body = chat_request(target, text, ANSWER_TOKENS)
    return {name: body[name] for name in ("model", "messages", "chat_template_kwargs") if name in body}


def ask_needle(target: Target, prompt: LongPrompt) -> Body:
    """The long prompt, answered in a few tokens."""
    return chat_request(target, prompt.text, ANSWER_TOKENS)


def judge_needle(status: int | None, body: Any, prompt: LongPrompt) -> Verdict:
    """Whether the needle came back. Garbage, a coherent answer without it, and a part of it are three findings."""
    length = f"{prompt.tokens:,} tokens"
    if status is None:
        return failed("no_answer", f"{length}: {NO_ANSWER}")
    if status != 200:
        return failed("long_prompt_failed", f"{length}: HTTP {status}: {error_text(body)}")
    said = understood(status, body)
    if isinstance(said, Verdict):
        code = "garbage_at_long_context" if said.code == "garbage_output" else said.code
        return said._replace(code=code, summary=f"at {length} {said.summary}")
    answer = said.content or said.thought
    if not answer:
        return failed("garbage_at_long_context", f"at {length} the answer is empty")
    words, found = prompt.needle.split(), set(re.findall(r"[a-z]+", answer.lower()))
    hits = sum(word in found for word in words)
    if hits == len(words):
        exact = "" if prompt.exact else "about "
        return passed(f"the needle came back from {exact}{said.prompt_tokens or prompt.tokens:,} tokens")
    if hits:
        summary = f"at {length} only {hits} of the needle's {len(words)} words came back"
        return warned("needle_blurred", summary, detail=f"{shown(answer)} instead of {prompt.needle!r}")
    summary = f"at {length} the answer is coherent, but the needle is not in it"
    return failed("needle_lost", summary, detail=f"{shown(answer)} instead of {prompt.needle!r}")


def ask_chunk(target: Target, ids: Sequence[int]) -> Body:
    """A plain completion of a prompt given as token ids, so that its length is exact."""
    return {"model": target.model, "prompt": list(ids), "max_tokens": 16, "temperature": 0.0}


def judge_chunk(status: int | None, body: Any, length: int) -> Verdict | None:
    """None when a prompt of this length is read whole and answered in words."""
    said = understood(status, body)
    if isinstance(said, Verdict):
        code = "garbage_at_chunk_boundary" if said.code == "garbage_output" else "chunk_boundary_failed"
        return said._replace(code=code, summary=f"at {length:,} tokens {said.summary}")
    if said.prompt_tokens not in (None, length):
        return failed("chunk_boundary_failed", f"{length:,} tokens were sent, {said.prompt_tokens:,} were read")
    return None


_TOO_LONG = re.compile(
    r"maximum context length is (?P<limit>\d+)|max_tokens must be at least 1|context length", re.IGNORECASE
)


def judge_over_long(status: int | None, body: Any, context: int) -> Verdict:
    """A prompt above the context must be turned away with a 400 that says why; versions word it differently."""
    if status is None:
        return failed("over_long_prompt_not_refused", NO_ANSWER)
    words = error_text(body)
    if status == 200:
        return failed("over_long_prompt_accepted", f"a prompt above the context of {context:,} tokens was answered")
    if not 400 <= status < 500:
        return failed("over_long_prompt_not_refused", f"HTTP {status} instead of 400: {words}")
    if status == 400 and _TOO_LONG.search(words):
        return passed("a prompt above the context gets a clean 400")
    return warned("over_long_prompt_oddly_refused", f"HTTP {status} without the reason: {words[:200]}")


def ask_many(target: Target, index: int) -> Body:
    """One of many requests at the same time, each a little different."""
    text = f"This is request {index}. Name a city in Europe and say in one sentence what it is known for."
    return chat_request(target, text, ANSWER_TOKENS)


def judge_many(answers: Sequence[tuple[int | None, Any]]) -> Verdict:
    """All must be answered in words."""
    bad = [said for said in (understood(*answer) for answer in answers) if isinstance(said, Verdict)]
    if bad:
        first = bad[0]
        code = first.code if first.code == "garbage_output" else "concurrency_failed"
        return first._replace(code=code, summary=f"{len(bad)} of {len(answers)} at once failed: {first.summary}")
    return passed(f"{len(answers)} requests at once, all answered")


def ask_endless(target: Target) -> Body:
    """A stream that would go on for long, were nobody to hang up."""
    room = (target.max_model_len or 4096) // 2
    more: Body = {"ignore_eos": True} if target.vllm else {}
    text = "Write a long story about a lighthouse."
    return chat_request(target, text, min(4096, room), stream=True, **more)


def requests_at_work(metrics: str) -> float | None:
    """Requests that run or wait, by vLLM's /metrics; None when it does not say."""
    return _sum(metrics, r"vllm:num_requests_(?:running|waiting)")


def cache_in_use(metrics: str) -> float | None:
    """The share of the KV cache in use, 0 to 1, the fullest of several engines."""
    shares = _values(metrics, r"vllm:(?:gpu|kv)_cache_usage_perc")
    return max(shares) if shares else None


def _sum(metrics: str, name: str) -> float | None:
    values = _values(metrics, name)
    return sum(values) if values else None


def _values(metrics: str, name: str) -> list[float]:
    found = re.findall(rf"^{name}(?:\{{[^\n]*\}})? ([0-9.eE+-]+)$", metrics, re.MULTILINE)
    return [float(text) for text in found]
