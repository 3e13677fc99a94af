"""The short probes: the endpoints, a chat, a thought, an image, structured output, a tool call, a stream."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from aeonctl.core.probes import (
    NO_ANSWER,
    THOUGHT_TOKENS,
    Body,
    Said,
    Target,
    Verdict,
    bad_text,
    chat_request,
    failed,
    passed,
    shown,
    skipped,
    understood,
    warned,
)
from aeonctl.core.smoke import error_text

CHAT_TOKENS = 96

_QUESTION = "What is the capital of France? Answer in one short sentence."


def judge_models(status: int | None, body: Any, wanted: Sequence[str]) -> Verdict:
    """Whether /v1/models lists every name that the engine was told to serve."""
    if status != 200:
        words = NO_ANSWER if status is None else f"HTTP {status}: {error_text(body)}"
        return failed("models_failed", f"/v1/models: {words}")
    cards = model_cards(body)
    if not cards:
        return failed("models_failed", "/v1/models lists no model")
    names = [str(card["id"]) for card in cards]
    missing = [name for name in wanted if name not in names]
    if missing:
        summary = f"/v1/models lacks {', '.join(missing)}; it has {', '.join(names)}"
        return failed("served_name_missing", summary, remedy="ask for a name that is listed: --model NAME")
    context = cards[0].get("max_model_len")
    return passed(f"serves {', '.join(names)}" + (f", context {context:,} tokens" if isinstance(context, int) else ""))


def model_cards(body: Any) -> list[Body]:
    """The entries of /v1/models that have a name."""
    data = body.get("data") if isinstance(body, dict) else None
    return [card for card in data if isinstance(card, dict) and card.get("id")] if isinstance(data, list) else []


def judge_keyless(status: int | None, *, keyed: bool | None) -> Verdict:
    """Whether a request without the key is turned away, where a key is asked for."""
    if status == 401:
        return passed("a request without the key gets 401")
    if status is None:
        return failed("no_answer", NO_ANSWER)
    if not keyed:
        return skipped("this engine asks for no key")
    return failed(
        "keyless_request_accepted",
        f"a request without the key gets {status} instead of 401: whoever reaches the port can use the engine",
        remedy="start it with --env VLLM_API_KEY, the key in your own environment",
    )


def ask_chat(target: Target) -> Body:
    """A question whose answer everybody knows, without thinking."""
    return chat_request(target, _QUESTION, CHAT_TOKENS)


def judge_chat(status: int | None, body: Any) -> Verdict:
    """A whole answer in words; a wrong one is told apart from none."""
    said = understood(status, body)
    if isinstance(said, Verdict):
        return said
    if not said.content:
        if said.thought:
            return warned("thinking_not_off", "it thinks first, though it was not to", detail=shown(said.thought))
        return failed("answer_empty", "the answer is empty")
    if "paris" not in said.content.lower():
        return warned("answer_wrong", "it answers in words, but not with Paris", detail=shown(said.content))
    return passed(f"it answers {shown(said.content, 60)}")


def ask_thinking(target: Target) -> Body:
    """The same question with room to think."""
    return chat_request(target, _QUESTION, THOUGHT_TOKENS, think=True)


def judge_thinking(status: int | None, body: Any, *, thinking: bool | None) -> Verdict:
    """A thought apart from the answer. ``content`` may be null when the thought takes all the room."""
    said = understood(status, body)
    if isinstance(said, Verdict):
        return said
    if "<think>" in said.content or "</think>" in said.content:
        summary = "the thought stands in the answer: no reasoning parser took it out"
        return warned("thought_in_answer", summary, remedy="start it with --set reasoning-parser=… of its model family")
    if said.thought and not said.content and said.finish == "length":
        return passed(f"it thinks; {THOUGHT_TOKENS:,} tokens were not enough to answer too, so give clients more")
    if said.thought and said.content:
        used = f" in {said.completion_tokens:,} tokens" if said.completion_tokens else ""
        return passed(f"it thinks and answers{used}")
    if said.content:
        if thinking:
            return warned("thought_missing", "it answers without a thought of its own", detail=shown(said.content))
        return passed("it answers; it does not think")
    return failed("answer_empty", "neither a thought nor an answer came")


def ask_name(target: Target, name: str) -> Body:
    """A few tokens under another of the served names."""
    return chat_request(target, "Say OK.", 16) | {"model": name}


def judge_name(status: int | None, body: Any, name: str) -> Verdict | None:
    """None when the name answers."""
    said = understood(status, body)
    return None if isinstance(said, Said) else said._replace(summary=f"{name}: {said.summary}")


STRUCTURE: Body = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "districts": {"type": "integer"}},
    "required": ["city", "districts"],
    "additionalProperties": False,
}


def ask_structured(target: Target) -> Body:
    """An answer that must be JSON of one shape."""
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": STRUCTURE, "strict": True}}
    text = "Paris has 20 districts. Give the city and the number of its districts as JSON."
    return chat_request(target, text, 200, response_format=wanted)


def judge_structured(status: int | None, body: Any) -> Verdict:
    """Whether the answer parses and has the shape."""
    if status == 400:
        return failed("structured_output_refused", f"HTTP 400: {error_text(body)}")
    said = understood(status, body)
    if isinstance(said, Verdict):
        return said
    try:
        value = json.loads(said.content)
    except ValueError as error:
        cut = " (it was cut off at the token limit)" if said.finish == "length" else ""
        summary = f"the answer is not JSON: {error}{cut}"
        return failed("structured_output_invalid", summary, detail=shown(said.content))
    problem = shape_problem(value)
    if problem:
        return failed("structured_output_invalid", f"the JSON has another shape: {problem}", detail=shown(said.content))
    return passed("the answer is JSON of the shape that was asked for")


def shape_problem(value: Any) -> str | None:
    """What is wrong with a value by STRUCTURE; None when nothing is."""
    if not isinstance(value, dict):
        return "it is not an object"
    if set(value) != {"city", "districts"}:
        return f"its keys are {', '.join(sorted(value)) or 'none'}"
    if value["city"] not in ("Paris", "Rome"):
        return f"city is {value['city']!r}"
    if not isinstance(value["districts"], int) or isinstance(value["districts"], bool):
        return f"districts is {value['districts']!r}"
    return None


def ask_tool(target: Target, choice: str = "auto") -> Body:
    """A question that calls for a tool."""
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Current weather of a city.", "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    text = "What is the weather in Paris now? Call the tool get_weather."
    return chat_request(target, text, 256, tools=tools, tool_choice=choice)


def judge_tool(status: int | None, body: Any, *, tools: bool | None) -> Verdict:
    """Whether a tool call came, apart from the text, with arguments that parse."""
    if status == 400 and not tools and "tool" in error_text(body).lower():
        return skipped(f"tool calls are off: {error_text(body)}")
    said = understood(status, body)
    if isinstance(said, Verdict):
        return said
    if not said.tool_calls:
        if "<tool_call" in said.content or '"get_weather"' in said.content:
            remedy = "start it with --set tool-call-parser=… of its model family"
            summary = "the call stands in the answer's text: the tool parser did not take it out"
            return failed("tool_call_unparsed", summary, detail=shown(said.content), remedy=remedy)
        return failed("tool_call_missing", "it did not call the tool", detail=shown(said.content or said.thought))
    function = said.tool_calls[0].get("function")
    function = function if isinstance(function, dict) else {}
    try:
        arguments = json.loads(function.get("arguments") or "")
    except (TypeError, ValueError) as error:
        summary = f"the call's arguments are not JSON: {error}"
        return failed("tool_arguments_invalid", summary, detail=shown(str(function.get("arguments"))))
    if function.get("name") != "get_weather" or not isinstance(arguments, dict):
        return failed("tool_arguments_invalid", "the call is not the one that was offered", detail=shown(str(function)))
    if "city" not in arguments:
        return warned("tool_arguments_incomplete", "the call lacks the required argument city")
    return passed(f"it calls get_weather with {json.dumps(arguments, ensure_ascii=False)[:80]}")


_COLOURS = {"red", "blue", "green", "yellow", "black", "white", "grey", "gray", "purple", "orange", "pink", "brown"}


def tiny_png(side: int = 64) -> bytes:
    """A red square as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def ask_image(target: Target) -> Body:
    """A question about an image that is sent along."""
    url = "data:image/png;base64," + base64.b64encode(tiny_png()).decode()
    parts: list[Body] = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "Which colour fills this image? Answer in one short sentence."},
    ]
    return chat_request(target, parts, CHAT_TOKENS)


def judge_image(status: int | None, body: Any, *, vision: bool | None) -> Verdict:
    """Whether an image is taken and answered; a model without eyes says so, which is no fault."""
    if status == 400 and not vision:
        return skipped(f"the model takes no images: {error_text(body)}")
    said = understood(status, body)
    if isinstance(said, Verdict):
        return said._replace(code="image_refused") if status == 400 else said
    answer = said.content or said.thought
    seen = {word for word in re.findall(r"[a-z]+", answer.lower()) if word in _COLOURS}
    if not seen or "red" in seen:
        return passed("it takes an image, and sees that it is red" if seen else "it takes an image and answers")
    return warned("answer_wrong", "it takes an image, but does not see that it is red", detail=shown(answer))


def ask_stream(target: Target) -> Body:
    """The first question again, answered piece by piece."""
    return ask_chat(target) | {"stream": True, "stream_options": {"include_usage": True}}


def judge_stream(status: int | None, content_type: str, lines: Sequence[str]) -> Verdict:
    """Server-sent events: pieces of text, a finish_reason, the usage, and [DONE] at the end."""
    if status is None:
        return failed("no_answer", NO_ANSWER)
    if status != 200:
        return failed("request_failed", f"HTTP {status}: {' '.join(lines)[:300]}")
    if content_type != "text/event-stream":
        return failed("stream_malformed", f"the stream is {content_type or 'of no type'}, not text/event-stream")
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    events = [event for event in map(_json, data) if event is not None]
    if len(events) + data.count("[DONE]") < len(data):
        return failed("stream_malformed", "an event of the stream is not JSON", detail=shown(" ".join(data)))
    error = next((event for event in events if "error" in event), None)
    if error is not None:
        return failed("stream_broke_off", f"an error came in the stream: {error_text(error)}")
    if not data or data[-1] != "[DONE]":
        return failed("stream_broke_off", f"the stream ended after {len(events)} events without [DONE]")
    said = _joined(events)
    if (bad := bad_text(said)) is not None:
        return bad
    if not (said.content or said.thought):
        return failed("answer_empty", "the stream has no text in it")
    if said.finish not in ("stop", "length"):
        return failed("answer_cut_off", f"the stream ended with finish_reason {said.finish!r}")
    if not said.completion_tokens:
        return warned("usage_missing", "the stream has no usage in it, though it was asked for")
    return passed(f"{len(events)} events, {said.completion_tokens} tokens, usage and [DONE]")


def _json(text: str) -> Body | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _joined(events: Sequence[Body]) -> Said:
    """The pieces of a stream as one answer."""
    content, thought, finish, tokens = "", "", None, None
    for event in events:
        choices = event.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        content += delta.get("content") or ""
        thought += delta.get("reasoning") or delta.get("reasoning_content") or ""
        finish = choices[0].get("finish_reason") or finish
        usage = event.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else tokens
    return Said(content, thought, finish, (), None, tokens)
