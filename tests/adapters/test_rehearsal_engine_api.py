"""The rehearsal engine's HTTP API, asked over a real socket."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.rehearsal_process import Rehearsal, rehearse

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
    },
}
PICTURE = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "text", "text": "What is it?"},
]
PLAIN = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A thinking, tool-calling, seeing engine of the 0.27.1 family."""
    flags = ["--served-model-name", "aeon", "second", "--max-model-len", "4096", "--reasoning-parser", "qwen3"]
    flags += ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--limit-mm-per-prompt", '{"image": 2}']
    flags += ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}', "--some-future-flag", "7"]
    with rehearse(tmp_path_factory.mktemp("full"), *flags) as engine:
        engine.wait_ready()
        yield engine


@pytest.fixture(scope="module")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A plain text engine of the 0.32 family."""
    folder = tmp_path_factory.mktemp("modern")
    with rehearse(folder, "--max-model-len", "128", AEONCTL_REHEARSE_VLLM_VERSION="0.32.0") as engine:
        engine.wait_ready()
        yield engine


def test_probes_and_version(full: Rehearsal) -> None:
    for path in ("/health", "/ping"):
        assert (full.request(path).status, full.request(path).text) == (200, "")
    assert full.request("/ping", b"").status == 200
    assert full.request("/version").json == {"version": "0.27.1"}
    assert full.request("/load").json == {"server_load": 0}


def test_unknown_paths_and_methods(full: Rehearsal) -> None:
    for path in ("/", "/nope", "/v1/embeddings", "/server_info"):
        assert (full.request(path).status, full.request(path).json) == (404, {"detail": "Not Found"})
    assert full.request("/v1/chat/completions").status == 405


def test_models(full: Rehearsal, modern: Rehearsal) -> None:
    cards = full.request("/v1/models").json["data"]
    assert [card["id"] for card in cards] == ["aeon", "second"]
    assert {card["max_model_len"] for card in cards} == {4096}
    unnamed = modern.request("/v1/models").json["data"][0]
    assert unnamed["id"] == unnamed["root"]


def test_tokenize(full: Rehearsal) -> None:
    counted = full.request("/tokenize", {"model": "aeon", "prompt": "hello hello"}).json
    assert counted["count"] == len(counted["tokens"]) == 2
    assert counted["max_model_len"] == 4096
    turns = full.request("/tokenize", {"messages": [{"role": "user", "content": "hello hello"}]}).json
    usage = full.chat("hello hello").json["usage"]
    assert turns["count"] == usage["prompt_tokens"] > counted["count"]


def test_metrics(full: Rehearsal) -> None:
    def value(name: str) -> float:
        lines = full.request("/metrics").text.splitlines()
        return float(next(line for line in lines if line.startswith(f"vllm:{name}{{")).rsplit(" ", 1)[1])

    before = value("prompt_tokens_total")
    used = full.chat("hello").json["usage"]
    assert value("prompt_tokens_total") - before == used["prompt_tokens"]
    assert value("generation_tokens_total") >= used["completion_tokens"]
    assert value("num_requests_running") == value("num_requests_waiting") == 0
    assert value("time_to_first_token_seconds_count") >= 1
    page = full.request("/metrics").text
    assert 'kv_cache_size_tokens="137240"' in page
    assert 'block_size="16"' in page
    assert 'num_gpu_blocks="8577"' in page
    assert "vllm:spec_decode_num_accepted_tokens_total" in page


def test_api_key_guards_v1_only(tmp_path: Path) -> None:
    with rehearse(tmp_path, VLLM_API_KEY="sesame") as engine:
        engine.wait_ready()
        for path in ("/health", "/version", "/metrics", "/ping"):
            assert engine.request(path).status == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            refused = engine.request("/v1/models", headers=headers)
            assert (refused.status, refused.json) == (401, {"error": "Unauthorized"})
        assert engine.request("/v1/models", headers={"Authorization": "Bearer sesame"}).status == 200
        assert "sesame" not in engine.log


def test_thinking_answer(full: Rehearsal) -> None:
    choice = full.chat("What is the capital of France?").json["choices"][0]
    assert choice["message"]["content"] == "The capital of France is Paris."
    assert "capital of France" in choice["message"]["reasoning"]
    assert choice["finish_reason"] == "stop"


def test_thinking_eats_a_small_budget(full: Rehearsal) -> None:
    answer = full.chat("What is the capital of France?", max_tokens=8).json
    choice = answer["choices"][0]
    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning"]
    assert (choice["finish_reason"], answer["usage"]["completion_tokens"]) == ("length", 8)
    hidden = full.chat("Hello", max_tokens=8, include_reasoning=False).json["choices"][0]["message"]
    assert (hidden["content"], hidden["reasoning"]) == (None, None)


def test_thinking_switched_off(full: Rehearsal) -> None:
    message = full.chat("Reply with exactly: PONG", **PLAIN).json["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ("PONG", None)


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("The secret passphrase is violet-otter. Rain fell.\nWhat is the secret passphrase?", "violet-otter"),
        ("The magic number is 4711. The magic word is hay. Which one is the magic number?", "4711"),
        ("Remember the code word TANGERINE. What is the code word?", "TANGERINE"),
        ("The number for fox is: 77. The number for hen is: 1.\nWhat is the number for fox?", "77"),
        ("What is 17 * 23?", "391"),
        ("Say OK.", "OK"),
    ],
)
def test_a_little_smart(full: Rehearsal, prompt: str, wanted: str) -> None:
    assert full.chat(prompt, **PLAIN).json["choices"][0]["message"]["content"] == wanted


def test_stream_carries_reasoning_then_content(full: Rehearsal) -> None:
    events = full.events("What is the capital of France?", stream_options={"include_usage": True})
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "The capital of France is Paris."
    assert "".join(delta.get("reasoning", "") for delta in deltas).startswith("The user wrote")
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["usage"]["total_tokens"] > 0


def test_tools(full: Rehearsal) -> None:
    for choice, finish in (("auto", "tool_calls"), ("required", "tool_calls"), (None, "tool_calls")):
        more = {} if choice is None else {"tool_choice": choice}
        answer = full.chat("What is the weather in Paris for 3 days?", tools=[WEATHER], **more).json["choices"][0]
        call = answer["message"]["tool_calls"][0]["function"]
        assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris", "days": 3})
        assert (answer["finish_reason"], answer["message"]["content"]) == (finish, None)
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert full.chat("Hi", tools=[WEATHER], tool_choice=named).json["choices"][0]["finish_reason"] == "stop"
    assert full.chat("Hi", tools=[WEATHER]).json["choices"][0]["message"].get("tool_calls") is None
    wrong = {"type": "function", "function": {"name": "other"}}
    assert full.chat("Hi", tools=[WEATHER], tool_choice=wrong).status == 400


def test_tool_result_is_used_and_tool_calls_stream(full: Rehearsal) -> None:
    turns = [{"role": "user", "content": "weather?"}, {"role": "tool", "tool_call_id": "x", "content": "12 degrees"}]
    answer = full.request("/v1/chat/completions", {"messages": turns, "tools": [WEATHER]}).json
    assert "12 degrees" in answer["choices"][0]["message"]["content"]
    events = full.events("The weather in Rome?", tools=[WEATHER], tool_choice="required")
    calls = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["id"].startswith("chatcmpl-tool-")
    assert json.loads("".join(call["function"]["arguments"] for call in calls))["city"] == "Rome"


def test_tools_without_a_parser(modern: Rehearsal) -> None:
    answer = modern.chat("Hi", tools=[WEATHER])
    wanted = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    assert (answer.status, answer.error) == (400, wanted)


def test_json_schema(full: Rehearsal) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["cat", "dog"]}, "ages": {"type": "array", "items": {"$ref": "#/$defs/age"}}},
        "$defs": {"age": {"type": "integer", "minimum": 5}},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}}
    content = full.chat("A dog of 3 years", response_format=wanted).json["choices"][0]["message"]["content"]
    assert json.loads(content) == {"kind": "dog", "ages": [5]}


def test_images(full: Rehearsal, modern: Rehearsal) -> None:
    seen = full.request("/v1/chat/completions", {"messages": [{"role": "user", "content": PICTURE}]})
    assert seen.status == 200
    assert seen.json["usage"]["prompt_tokens"] > 256
    refused = modern.request("/v1/chat/completions", {"messages": [{"role": "user", "content": PICTURE}]})
    assert (refused.status, refused.error) == (400, "<path> is not a multimodal model")
    assert full.request("/v1/chat/completions", {"messages": [{"role": "user", "content": PICTURE * 3}]}).status == 400


def test_completions(full: Rehearsal) -> None:
    answer = full.request(
        "/v1/completions", {"model": "aeon", "prompt": "What is the capital of Japan?", "max_tokens": 50}
    )
    assert answer.json["choices"][0]["text"] == " The capital of Japan is Tokyo."
    filled = full.request("/v1/completions", {"prompt": [7] * 40, "max_tokens": 30, "ignore_eos": True}).json
    assert filled["usage"] == {
        "prompt_tokens": 40,
        "completion_tokens": 30,
        "total_tokens": 70,
        "prompt_tokens_details": None,
    }
    assert filled["choices"][0]["finish_reason"] == "length"
    streamed = full.request("/v1/completions", {"prompt": "Say OK.", "stream": True}).text
    assert streamed.startswith("data: {")
    assert streamed.endswith("data: [DONE]\n\n")


def test_refusals_old_wording(full: Rehearsal) -> None:
    unknown = full.chat("Hi", model="nope")
    assert (unknown.status, unknown.error) == (404, "The model `nope` does not exist.")
    broken = full.request("/v1/chat/completions", b"{nope")
    assert (broken.status, broken.json["error"]["type"], broken.json["error"]["param"]) == (
        400,
        "Bad Request",
        "body.1",
    )
    cold = full.chat("Hi", temperature=-1)
    assert cold.error == "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)"
    much = full.chat("Hi", max_tokens=5000).error
    assert much.startswith("max_tokens=5000 cannot be greater than max_model_len=max_total_tokens=4096.")
    assert (
        full.chat("Hi", max_tokens=0).error == "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
    )
    empty = full.request("/v1/chat/completions", {"messages": []}).error
    assert empty == "Cannot apply chat template to an empty conversation. Provide at least one message."
    sums = full.request("/v1/completions", {"prompt": [7] * 4000, "max_tokens": 100})
    assert sums.error == (
        "This model's maximum context length is 4096 tokens. However, you requested 100 output tokens and your prompt "
        "contains 4000 input tokens, for a total of 4100 tokens. Please reduce the length of the input prompt or the "
        "number of requested output tokens. (parameter=input_tokens, value=4000)"
    )
    exact = full.request("/v1/completions", {"prompt": [7] * 4096, "max_tokens": 1}).error
    assert "your prompt contains at least 4096 input tokens, for a total of at least 4097 tokens" in exact


def test_refusals_new_wording(modern: Rehearsal) -> None:
    name = modern.request("/v1/models").json["data"][0]["id"]
    assert modern.chat("Hi", model="nope").error == f"The model `nope` does not exist. Valid aliases: {name}."
    much = modern.chat("Hi", max_tokens=500).error
    assert much.startswith("max_tokens=500 cannot be greater than max_model_len=128.")
    long = modern.chat("word " * 500, stream=True)
    assert long.status == 400
    assert long.error == (
        "This model's maximum context length is 128 tokens. However, your prompt contains at least 129 input tokens, "
        "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=129)"
    )


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "status", "generated"),
    [(100, 100, 200, 28), (127, 16, 200, 1), (128, 1, 400, 0), (129, 1, 400, 0)],
)
def test_length_boundary_new_wording(
    modern: Rehearsal, prompt_tokens: int, max_tokens: int, status: int, generated: int
) -> None:
    body = {"prompt": [7] * prompt_tokens, "max_tokens": max_tokens, "ignore_eos": True}
    answer = modern.request("/v1/completions", body)
    assert answer.status == status
    if status == 200:
        assert answer.json["usage"]["completion_tokens"] == generated
    elif prompt_tokens == 128:
        assert answer.error == "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
    else:
        assert "your prompt contains at least 129 input tokens" in answer.error


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", "many"),
        ("tools", "hammer"),
        ("messages", {}),
        ("messages", ["hi"]),
        ("temperature", []),
        ("tool_choice", 3),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(full: Rehearsal, field: str, value: object) -> None:
    answer = (
        full.chat("Hi", **{field: value})
        if field != "messages"
        else full.request("/v1/chat/completions", {field: value})
    )
    assert (answer.status, answer.json["error"]["type"], answer.json["error"]["param"]) == (
        400,
        "Bad Request",
        f"body.{field}",
    )


def test_odd_but_typed_requests_do_not_break_the_connection(full: Rehearsal) -> None:
    odd: list[dict[str, object]] = [
        {"tools": ["hammer"], "tool_choice": {"function": "x"}},
        {"tools": [{}], "tool_choice": "required"},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}},
        {"stop": [1, ""], "max_completion_tokens": None, "stream_options": None, "chat_template_kwargs": None},
    ]
    assert {full.chat("Hi", **more).status for more in odd} <= {200, 400}
