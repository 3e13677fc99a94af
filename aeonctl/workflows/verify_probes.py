"""The probes in their order, each with what it sends and who judges the answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aeonctl.core import probes_long as long
from aeonctl.core import probes_short as short
from aeonctl.core.checks import Status
from aeonctl.core.probes import NO_ANSWER, Target, Verdict, failed, passed, skipped
from aeonctl.ports import Ports, Reply
from aeonctl.workflows.verify_watch import at_rest

_QUICK, _CHAT, _LONG = 15.0, 300.0, 3600.0
"""Seconds without a word after which an answer is given up: an endpoint, a chat, a long prompt on a slow machine."""

_MOST_AT_ONCE = 128
_UNKNOWN_SEQS = 8
"""Requests at once where nobody knows how many the engine takes."""


@dataclass
class Conversation:
    """The engine as the probes talk to it, and what they have learned of it on the way."""

    target: Target
    url: str
    key: str | None
    ports: Ports
    length: int | None
    seed: int
    asked_length: int | None = None
    _more: list[Probe] = field(default_factory=list)

    def get(self, path: str, *, key: bool = True) -> Reply | None:
        """GET below the engine's URL."""
        return self.ports.http.get(f"{self.url}{path}", timeout=_QUICK, key=self.key if key else None)

    def post(self, path: str, body: dict[str, Any], timeout: float = _CHAT) -> tuple[int | None, Any]:
        """POST below the engine's URL: status and body, (None, None) when nothing answers."""
        reply = self.ports.http.post(f"{self.url}{path}", body, timeout=timeout, key=self.key)
        return (None, None) if reply is None else (reply.status, _body(reply))

    def chat(self, body: dict[str, Any], timeout: float = _CHAT) -> tuple[int | None, Any]:
        """One chat completion."""
        return self.post("/v1/chat/completions", body, timeout)

    def count(self, text: str) -> int | None:
        """Tokens of a text as a chat's prompt, by the engine's own tokenizer."""
        status, body = self.post("/tokenize", long.count_request(self.target, text))
        found = body.get("count") if status == 200 and isinstance(body, dict) else None
        return found if isinstance(found, int) else None

    def learn(self, **facts: Any) -> None:
        """Remember something about the engine."""
        self.target = self.target.model_copy(update=facts)

    def take_more(self) -> list[Probe]:
        """Probes that a probe has asked for, to be run next."""
        more, self._more = self._more, []
        return more

    def ask_more(self, wanted: Iterable[Probe]) -> None:
        """Ask for probes to be run next."""
        self._more += wanted


def _body(reply: Reply) -> Any:
    """What an answer holds: JSON, or else its text without the line ends."""
    return reply.json if reply.json is not None else " ".join(reply.text.split())


@dataclass(frozen=True)
class Probe:
    """One line of ``verify``. ``needs`` are probes without which this one tells nothing; ``expects_refusal`` when the
    server may log the refusal that is asked for."""

    id: str
    ask: Callable[[Conversation], Verdict]
    needs: tuple[str, ...] = ("models", "chat")
    expects_refusal: bool = False


def probes(*, soak: bool) -> list[Probe]:
    """All of them, what everything else depends on first, what may kill the engine last."""
    return [
        Probe("health", _health, ()),
        Probe("models", _models, ()),
        Probe("key", _keyless, ()),
        Probe("chat", _chat, ("models",)),
        Probe("served-names", _served_names),
        Probe("thinking", _thinking),
        Probe("stream", _stream),
        Probe("structured", _structured),
        Probe("tools", _tools, expects_refusal=True),
        Probe("image", _image, expects_refusal=True),
        Probe("chunks", _chunks),
        Probe("long-prompt", _soaked if soak else _long_prompt),
        Probe("over-long", _over_long, expects_refusal=True),
        Probe("concurrency", _concurrency),
        Probe("abort", _abort),
    ]


def _health(talk: Conversation) -> Verdict:
    reply = talk.get("/health", key=False)
    if reply is None:
        summary = f"/health: {NO_ANSWER}"
        return failed("engine_not_ready", summary, remedy="aeonctl status tells whether it starts, runs or has died")
    if reply.status == 404:
        return passed("it answers (it has no /health)")
    if reply.status != 200:
        return failed("engine_unhealthy", f"/health says {reply.status}")
    return passed("/health says 200")


def _models(talk: Conversation) -> Verdict:
    reply = talk.get("/v1/models")
    if reply is not None and reply.status == 401:
        remedy = "set VLLM_API_KEY, or name the variable that holds the key: --key-env NAME"
        return failed("api_key_rejected", "it asks for a key, and not for this one", remedy=remedy)
    status, body = (None, None) if reply is None else (reply.status, _body(reply))
    target = talk.target
    wanted = target.served_names or ((target.model,) if target.model else ())
    verdict = short.judge_models(status, body, wanted)
    if verdict.status is Status.PASS:
        cards = short.model_cards(body)
        named = next((card for card in cards if card["id"] == target.model), cards[0])
        context = named.get("max_model_len")
        talk.learn(
            model=str(named["id"]),
            served_names=target.served_names or tuple(str(card["id"]) for card in cards),
            max_model_len=context if isinstance(context, int) else target.max_model_len,
            vllm=named.get("owned_by") == "vllm",
        )
    return verdict


def _keyless(talk: Conversation) -> Verdict:
    reply = talk.get("/v1/models", key=False)
    return short.judge_keyless(None if reply is None else reply.status, keyed=talk.target.keyed)


def _chat(talk: Conversation) -> Verdict:
    verdict = short.judge_chat(*talk.chat(short.ask_chat(talk.target)))
    if verdict.code == "thinking_not_off":
        talk.learn(always_thinks=True)
    return verdict


def _served_names(talk: Conversation) -> Verdict:
    names = talk.target.served_names
    for name in names:
        verdict = short.judge_name(*talk.chat(short.ask_name(talk.target, name)), name)
        if verdict is not None:
            return verdict
    return passed(f"answers as {', '.join(names)}")


def _thinking(talk: Conversation) -> Verdict:
    if talk.target.thinking is False:
        return skipped("the engine has no reasoning parser, so nothing is known to think")
    return short.judge_thinking(*talk.chat(short.ask_thinking(talk.target)), thinking=talk.target.thinking)


def _stream(talk: Conversation) -> Verdict:
    body = short.ask_stream(talk.target)
    stream = talk.ports.http.stream(f"{talk.url}/v1/chat/completions", body, timeout=_CHAT, key=talk.key)
    if stream is None:
        return short.judge_stream(None, "", ())
    try:
        return short.judge_stream(stream.status, stream.content_type, list(stream.lines()))
    finally:
        stream.close()


def _structured(talk: Conversation) -> Verdict:
    return short.judge_structured(*talk.chat(short.ask_structured(talk.target)))


def _tools(talk: Conversation) -> Verdict:
    tools = talk.target.tools
    if tools is False:
        return skipped("tool calls are off (they need enable-auto-tool-choice and a tool-call-parser)")
    verdict = short.judge_tool(*talk.chat(short.ask_tool(talk.target)), tools=tools)
    if verdict.code == "tool_call_missing":
        verdict = short.judge_tool(*talk.chat(short.ask_tool(talk.target, "required")), tools=tools)
    return verdict


def _image(talk: Conversation) -> Verdict:
    if talk.target.vision is False:
        return skipped("images are switched off (language-model-only)")
    return short.judge_image(*talk.chat(short.ask_image(talk.target)), vision=talk.target.vision)


def _chunks(talk: Conversation) -> Verdict:
    """Prompts of one token less than a prefill chunk, exactly one, and one more."""
    size, context = talk.target.max_num_batched_tokens, talk.target.max_model_len
    if size is None:
        return skipped("nobody knows the size of a prefill chunk (max-num-batched-tokens)")
    if context is not None and size + 1 > long.longest(context):
        return skipped(f"a prompt of more than one chunk of {size:,} tokens does not fit into the context")
    status, body = talk.post("/tokenize", {"model": talk.target.model, "prompt": long.haystack(talk.seed, size // 8)})
    ids = body.get("tokens") if status == 200 and isinstance(body, dict) else None
    if not isinstance(ids, list) or len(ids) < size + 3:
        return skipped("the server has no /tokenize, so no length is exact")
    for start, length in enumerate((size - 1, size, size + 1)):
        prompt = ids[start : start + length]  # each begins anew, so that no prefix cache answers for the next
        verdict = long.judge_chunk(*talk.post("/v1/completions", long.ask_chunk(talk.target, prompt), _LONG), length)
        if verdict is not None:
            return verdict
    return passed(f"prompts of {size - 1:,}, {size:,} and {size + 1:,} tokens are read whole")


def _long_prompt(talk: Conversation) -> Verdict:
    context = talk.target.max_model_len
    length = talk.length or long.default_length(context)
    if context is not None and length > long.longest(context):
        summary = f"--length {length:,} does not fit into the context of {context:,} tokens with an answer behind it"
        return failed("length_too_large", summary, remedy=f"--length {long.longest(context)} at most")
    talk.asked_length = length
    return _needle(talk, length, 0.4)


def _needle(talk: Conversation, length: int, depth: float) -> Verdict:
    prompt = long.fit_prompt(length, talk.seed + length, depth, talk.count)
    return long.judge_needle(*talk.chat(long.ask_needle(talk.target, prompt), _LONG), prompt)


def _soaked(talk: Conversation) -> Verdict:
    """The long prompt, and then longer ones up to 92 % of the context."""
    verdict = _long_prompt(talk)
    context = talk.target.max_model_len
    if context is None or talk.asked_length is None:
        return verdict
    lengths = long.soak_lengths(context, talk.asked_length)
    depths = (0.15, 0.85, 0.5, 0.3)
    talk.ask_more(
        Probe(
            f"soak-{round(100 * length / context)}",
            lambda talk, length=length, depth=depth: _needle(talk, length, depth),  # type: ignore[misc]
            ("models", "chat", "long-prompt"),
        )
        for length, depth in zip(lengths, depths, strict=False)
    )
    return verdict


def _over_long(talk: Conversation) -> Verdict:
    context = talk.target.max_model_len
    if context is None:
        return skipped("nobody knows how long a prompt may be")
    prompt = long.LongPrompt(long.haystack(talk.seed, context // 12), "", 0, exact=False)
    return long.judge_over_long(*talk.chat(long.ask_needle(talk.target, prompt)), context)


def _concurrency(talk: Conversation) -> Verdict:
    count = min(talk.target.max_num_seqs or _UNKNOWN_SEQS, _MOST_AT_ONCE)
    answers: list[tuple[int | None, Any]] = [(None, None)] * count

    def ask(index: int) -> None:
        answers[index] = talk.chat(long.ask_many(talk.target, index))

    threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return long.judge_many(answers)


def _abort(talk: Conversation) -> Verdict:
    """Hang up on a stream: the engine must stop writing for nobody."""
    body = long.ask_endless(talk.target)
    stream = talk.ports.http.stream(f"{talk.url}/v1/chat/completions", body, timeout=_CHAT, key=talk.key)
    if stream is None:
        return failed("no_answer", NO_ANSWER)
    try:
        begun = any(re.match(r"data: *\{", line) for line in stream.lines())
    finally:
        stream.close()
    if stream.status != 200 or not begun:
        return failed("request_failed", f"HTTP {stream.status}: the stream did not begin")
    left = at_rest(talk.url, talk.ports)
    if left is not None:
        return failed("abort_not_noticed", f"the client hung up, but {left}")
    return passed("the client hung up in mid-stream, and the engine is idle again")
