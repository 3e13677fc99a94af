"""The probes' judges on answers as engines gave them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from aeonctl.core import probes_long as long
from aeonctl.core import probes_short as short
from aeonctl.core.checks import Status
from aeonctl.core.probes import Target, Verdict, chat_request, understood

TARGET = Target(model="aeon", thinking=True, max_model_len=131072)


BAD_JSON = ("fail", "structured_output_invalid")


def completion(content: str | None = None, *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 8},
    }


def call(arguments: Any = '{"city": "Paris"}', name: str = "get_weather") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return completion(None, finish="tool_calls", tool_calls=[{"id": "x", "type": "function", "function": function}])


def error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequestError", "code": 400}}


def judged(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.status.value, verdict.code


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (None, None, "no_answer"),
        (500, error("EngineCore encountered an issue."), "request_failed"),
        (200, {"object": "list"}, "answer_malformed"),
        (200, "<html>", "answer_malformed"),
        (200, {"choices": [{"message": "x"}]}, "answer_malformed"),
        (200, completion("Par", finish="abort"), "answer_cut_off"),
        (200, completion("!" * 96, finish="length"), "garbage_output"),
        (200, completion(None, reasoning="!" * 96, finish="length"), "garbage_output"),
    ],
)
def test_what_is_no_completion(status: int | None, body: Any, expected: str) -> None:
    verdict = understood(status, body)
    assert isinstance(verdict, Verdict)
    assert judged(verdict) == ("fail", expected)
    assert judged(short.judge_chat(status, body)) == ("fail", expected)
    assert judged(short.judge_thinking(status, body, thinking=True)) == ("fail", expected)


@pytest.mark.parametrize(
    ("judge", "body", "expected"),
    [
        (short.judge_chat, completion("The capital of France is Paris."), ("pass", None)),
        (short.judge_chat, completion("It is London."), ("warn", "answer_wrong")),
        (short.judge_chat, completion(""), ("fail", "answer_empty")),
        (short.judge_chat, completion(None, reasoning="The user asks", finish="length"), ("warn", "thinking_not_off")),
        (short.judge_structured, completion('{"city": "Paris", "districts": 20}'), ("pass", None)),
        (short.judge_structured, completion('{"city": "Paris"'), BAD_JSON),
        (short.judge_structured, completion('{"city": "Oslo", "districts": 1}'), BAD_JSON),
        (short.judge_structured, completion('{"city": "Rome", "districts": "3"}'), BAD_JSON),
        (short.judge_structured, completion('{"city": "Rome"}'), BAD_JSON),
        (short.judge_structured, completion("[1]"), BAD_JSON),
    ],
)  # fmt: skip
def test_chat_and_structure(
    judge: Callable[[int, Any], Verdict], body: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    assert judged(judge(200, body)) == expected


def test_structured_output_that_is_refused() -> None:
    assert judged(short.judge_structured(400, error("no grammar"))) == ("fail", "structured_output_refused")


@pytest.mark.parametrize(
    ("body", "thinking", "expected"),
    [
        (completion(None, reasoning="I look for", finish="length"), True, ("pass", None)),
        (completion("Paris.", reasoning="I look for"), True, ("pass", None)),
        (completion("Paris.", reasoning_content="I look for"), None, ("pass", None)),
        (completion("Paris."), None, ("pass", None)),
        (completion("Paris."), True, ("warn", "thought_missing")),
        (completion("<think>Let me</think> Paris."), True, ("warn", "thought_in_answer")),
        (completion(None), True, ("fail", "answer_empty")),
    ],
)
def test_thinking(body: dict[str, Any], thinking: bool | None, expected: tuple[str, str | None]) -> None:
    assert judged(short.judge_thinking(200, body, thinking=thinking)) == expected


@pytest.mark.parametrize(
    ("status", "body", "tools", "expected"),
    [
        (200, call(), True, ("pass", None)),
        (200, call("{}"), True, ("warn", "tool_arguments_incomplete")),
        (200, call('{"city": '), True, ("fail", "tool_arguments_invalid")),
        (200, call(None), True, ("fail", "tool_arguments_invalid")),
        (200, call("[]"), True, ("fail", "tool_arguments_invalid")),
        (200, call(name="other"), True, ("fail", "tool_arguments_invalid")),
        (200, completion("It is sunny."), True, ("fail", "tool_call_missing")),
        (200, completion("<tool_call>\n<function=get_weather>"), True, ("fail", "tool_call_unparsed")),
        (400, error('"auto" tool choice requires --enable-auto-tool-choice'), None, ("skip", None)),
        (400, error('"auto" tool choice requires --enable-auto-tool-choice'), True, ("fail", "request_failed")),
    ],
)
def test_tools(status: int, body: Any, tools: bool | None, expected: tuple[str, str | None]) -> None:
    assert judged(short.judge_tool(status, body, tools=tools)) == expected


@pytest.mark.parametrize(
    ("status", "body", "vision", "expected"),
    [
        (200, completion("The image is red."), True, ("pass", None)),
        (200, completion("A plain picture."), True, ("pass", None)),
        (200, completion("It is blue."), True, ("warn", "answer_wrong")),
        (400, error("aeon is not a multimodal model"), None, ("skip", None)),
        (400, error("aeon is not a multimodal model"), True, ("fail", "image_refused")),
        (500, error("boom"), None, ("fail", "request_failed")),
    ],
)
def test_image(status: int, body: Any, vision: bool | None, expected: tuple[str, str | None]) -> None:
    assert judged(short.judge_image(status, body, vision=vision)) == expected


def test_the_image_is_a_png() -> None:
    png = short.tiny_png(2)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    start = png.index(b"IDAT") + 4
    assert zlib.decompressobj().decompress(png[start:]) == (b"\0" + b"\xff\0\0" * 2) * 2


def test_models_and_key() -> None:
    listed = {"data": [{"id": "aeon", "max_model_len": 131072}, {"id": "aeon-fast"}]}
    assert short.judge_models(200, listed, ["aeon"]).summary == "serves aeon, aeon-fast, context 131,072 tokens"
    assert judged(short.judge_models(200, listed, ["aeon", "x"])) == ("fail", "served_name_missing")
    assert judged(short.judge_models(200, {"data": []}, [])) == ("fail", "models_failed")
    assert judged(short.judge_models(404, {"detail": "Not Found"}, [])) == ("fail", "models_failed")
    assert judged(short.judge_models(None, None, [])) == ("fail", "models_failed")
    assert judged(short.judge_keyless(401, keyed=None)) == ("pass", None)
    assert judged(short.judge_keyless(200, keyed=False)) == ("skip", None)
    assert judged(short.judge_keyless(200, keyed=True)) == ("fail", "keyless_request_accepted")
    assert judged(short.judge_keyless(None, keyed=True)) == ("fail", "no_answer")


def test_a_served_name() -> None:
    assert short.judge_name(200, completion("OK"), "fast") is None
    verdict = short.judge_name(404, error("The model `fast` does not exist."), "fast")
    assert verdict is not None
    assert verdict.summary == "fast: HTTP 404: The model `fast` does not exist."


def events(*more: str, text: str = "Paris") -> list[str]:
    pieces: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": text}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 4}},
    ]
    return [f"data: {json.dumps(piece)}" for piece in pieces] + list(more)


@pytest.mark.parametrize(
    ("status", "kind", "lines", "expected"),
    [
        (200, "text/event-stream", events("data: [DONE]"), ("pass", None)),
        (200, "text/event-stream", events(": comment", "data: [DONE]"), ("pass", None)),
        (200, "text/event-stream", events(), ("fail", "stream_broke_off")),
        (200, "text/event-stream", [], ("fail", "stream_broke_off")),
        (200, "text/event-stream", events("data: {", "data: [DONE]"), ("fail", "stream_malformed")),
        (200, "application/json", events("data: [DONE]"), ("fail", "stream_malformed")),
        (200, "text/event-stream", events('data: {"error": {"message": "dead"}}'), ("fail", "stream_broke_off")),
        (200, "text/event-stream", events("data: [DONE]", text="!" * 50), ("fail", "garbage_output")),
        (200, "text/event-stream", events("data: [DONE]", text=""), ("fail", "answer_empty")),
        (200, "text/event-stream", [*events()[:2], "data: [DONE]"], ("fail", "answer_cut_off")),
        (200, "text/event-stream", [*events()[:3], "data: [DONE]"], ("warn", "usage_missing")),
        (500, "application/json", ['{"error": 1}'], ("fail", "request_failed")),
        (None, "", [], ("fail", "no_answer")),
    ],
)
def test_stream(status: int | None, kind: str, lines: list[str], expected: tuple[str, str | None]) -> None:
    assert judged(short.judge_stream(status, kind, lines)) == expected


PROMPT = long.LongPrompt("…", "silver falcon garden", 24000, exact=True)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, completion("The passphrase is Silver Falcon Garden."), ("pass", None)),
        (200, completion("silver falcon"), ("warn", "needle_blurred")),
        (200, completion("I could not find a passphrase in the diary."), ("fail", "needle_lost")),
        (200, completion("!!!!!!!!!!!!!!!!!!!!!!!!", finish="length"), ("fail", "garbage_at_long_context")),
        (200, completion("capital 首都 столица عاصمة of"), ("fail", "garbage_at_long_context")),
        (200, completion(""), ("fail", "garbage_at_long_context")),
        (500, error("EngineCore encountered an issue."), ("fail", "long_prompt_failed")),
        (None, None, ("fail", "no_answer")),
    ],
)
def test_needle(status: int | None, body: Any, expected: tuple[str, str | None]) -> None:
    assert judged(long.judge_needle(status, body, PROMPT)) == expected


@pytest.mark.parametrize("each", [3, 4, 7])
@pytest.mark.parametrize("wanted", [137, 1000, 24_000, 65_536])
def test_a_prompt_has_exactly_the_wanted_length(wanted: int, each: int) -> None:
    def count(text: str) -> int:
        return 11 + sum(max(1, len(word) // each) for word in text.split())

    prompt = long.fit_prompt(wanted, 77, 0.4, count)
    assert (prompt.tokens, prompt.exact, count(prompt.text)) == (wanted, True, wanted)
    assert prompt.text.count(prompt.needle) == 1


def test_lengths() -> None:
    assert long.default_length(None) == 24_000
    assert long.default_length(131_072) == 65_536
    assert long.default_length(32_768) == 24_000
    assert long.default_length(8_192) == 8_112
    assert long.soak_lengths(131_072, 65_536) == [79_298, 93_061, 106_824, 120_586]
    assert long.soak_lengths(8_192, 8_112) == []
    unknown = long.fit_prompt(24_000, 1, 0.4, lambda _text: None)
    assert not unknown.exact
    assert 20_000 < unknown.tokens < 28_000
    assert long.fit_prompt(10, 1, 0.4, len).exact is False


def test_two_prompts_share_no_beginning_and_no_needle() -> None:
    first, second = long.haystack(1, 50), long.haystack(2, 50)
    assert first[:30] != second[:30]
    assert long.needle_of(1) != long.needle_of(2)
    assert len({long.needle_of(seed) for seed in range(512)}) == 512


OLD = (
    "This model's maximum context length is 131072 tokens. However, you requested 64 output tokens and your prompt "
    "contains at least 131009 input tokens, for a total of at least 131073 tokens. Please reduce the length of the "
    "input prompt or the number of requested output tokens. (parameter=input_tokens, value=131009)"
)
NEW = (
    "This model's maximum context length is 131072 tokens. However, your prompt contains at least 131073 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
    "(parameter=input_tokens, value=131073)"
)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error(OLD), ("pass", None)),
        (400, error(NEW), ("pass", None)),
        (400, error("max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"), ("pass", None)),
        (413, {"detail": "too large"}, ("warn", "over_long_prompt_oddly_refused")),
        (200, completion("Paris"), ("fail", "over_long_prompt_accepted")),
        (500, error("boom"), ("fail", "over_long_prompt_not_refused")),
        (None, None, ("fail", "over_long_prompt_not_refused")),
    ],
)
def test_over_long(status: int | None, body: Any, expected: tuple[str, str | None]) -> None:
    assert judged(long.judge_over_long(status, body, 131_072)) == expected


def test_chunks_and_many() -> None:
    text = {"choices": [{"text": "and so on", "finish_reason": "length"}], "usage": {"prompt_tokens": 8191}}
    assert long.judge_chunk(200, text, 8191) is None
    cut, bad = long.judge_chunk(200, text, 8192), long.judge_chunk(500, error("boom"), 8192)
    assert cut is not None
    assert bad is not None
    assert cut.summary == "8,192 tokens were sent, 8,191 were read"
    assert judged(bad) == ("fail", "chunk_boundary_failed")
    garbled = long.judge_chunk(200, completion("!" * 50), 20)
    assert garbled is not None
    assert judged(garbled) == ("fail", "garbage_at_chunk_boundary")
    good = (200, completion("Rome is known for its ruins."))
    assert long.judge_many([good] * 4).status is Status.PASS
    assert judged(long.judge_many([good, (None, None)])) == ("fail", "concurrency_failed")
    assert judged(long.judge_many([good, (200, completion("!" * 50))])) == ("fail", "garbage_output")


METRICS = """# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="a"} 2.0
vllm:num_requests_waiting{engine="0",model_name="a"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="a",reason="x"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.25
"""


def test_metrics() -> None:
    assert (long.requests_at_work(METRICS), long.cache_in_use(METRICS)) == (3.0, 0.25)
    assert (long.requests_at_work(""), long.cache_in_use("")) == (None, None)


def test_requests() -> None:
    plain = Target(model="gpt", vllm=False)
    assert "chat_template_kwargs" not in chat_request(plain, "Hi", 8)
    assert chat_request(TARGET, "Hi", 8)["chat_template_kwargs"] == {"enable_thinking": False}
    assert short.ask_thinking(TARGET)["chat_template_kwargs"] == {"enable_thinking": True}
    assert chat_request(TARGET.model_copy(update={"always_thinks": True}), "Hi", 8)["max_tokens"] == 1032
    assert long.count_request(TARGET, "Hi").keys() == {"model", "messages", "chat_template_kwargs"}
    assert long.ask_endless(plain).get("ignore_eos") is None
    assert long.ask_endless(TARGET)["max_tokens"] == 4096
