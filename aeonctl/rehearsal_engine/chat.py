"""The bodies of /v1/chat/completions and /v1/completions: whole, or as server-sent events."""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aeonctl.rehearsal_engine import generation, requests, tokens
from aeonctl.rehearsal_engine.engine import Engine
from aeonctl.rehearsal_engine.generation import Generation
from aeonctl.rehearsal_engine.requests import Body

_NOTHING_MORE = {"service_tier": None}


@dataclass
class Exchange:
    """One accepted request with its answer, ready to be sent whole or in pieces."""

    engine: Engine
    body: Body
    model: str
    prompt: list[int]
    made: Generation
    chat: bool

    def __post_init__(self) -> None:
        self.id = f"{'chatcmpl' if self.chat else 'cmpl'}-{uuid.uuid4().hex[:16]}"
        self.created = int(time.time())
        self._began = time.monotonic()
        self.engine.begin(self.prompt)
        self.engine.step(1)
        self._first = time.monotonic()

    @property
    def streams(self) -> bool:
        """Whether the client asked for server-sent events."""
        return bool(self.body.get("stream"))

    def whole(self) -> Body:
        """Return the answer as one JSON body."""
        if not self.engine.step(self.made.tokens):
            self.made.cut(max(1, self.made.tokens // 2))
            self.made.finish_reason = "abort"
        self._end()
        choice = self._whole_chat() if self.chat else {"index": 0, "text": "".join(self.made.content)}
        tail = {"logprobs": None, "finish_reason": self.made.finish_reason, "stop_reason": None, "token_ids": None}
        return {
            "id": self.id,
            "object": "chat.completion" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [{**choice, **tail}],
            **_NOTHING_MORE,
            "system_fingerprint": self._fingerprint,
            "usage": self._usage(),
            "prompt_logprobs": None,
            "kv_transfer_params": None,
        }

    def events(self) -> Iterator[str]:
        """Yield the answer as server-sent events, ending with [DONE]; a client that hangs up ends the request."""
        finish, self.made.finish_reason = self.made.finish_reason, "abort"
        try:
            yield from self._pieces(finish)
        finally:
            self._end()
        options = self.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            yield self._event(None, usage=self._usage())
        yield "data: [DONE]\n\n"

    def _pieces(self, finish: str) -> Iterator[str]:
        if self.chat:
            yield self._event({"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None})
        for delta in self._deltas():
            if not self.engine.step(1):
                finish = "abort"
                break
            yield self._event({**delta, "logprobs": None, "finish_reason": None})
        last: Body = {"delta": {}} if self.chat else {"text": ""}
        yield self._event({**last, "logprobs": None, "finish_reason": finish, "stop_reason": None})
        self.made.finish_reason = finish

    def _deltas(self) -> Iterator[Body]:
        if not self.chat:
            yield from ({"text": piece} for piece in self.made.content)
            return
        if self.body.get("include_reasoning", True):
            yield from ({"delta": {"reasoning": piece}} for piece in self.made.reasoning)
        yield from ({"delta": {"content": piece}} for piece in self.made.content)
        for index, call in enumerate(self.made.tool_calls):
            function = call["function"]
            opening = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield {"delta": {"tool_calls": [opening]}}
            for piece in tokens.pieces(function["arguments"]):
                yield {"delta": {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}}

    def _whole_chat(self) -> Body:
        made = self.made
        shown = "".join(made.reasoning) if made.reasoning and self.body.get("include_reasoning", True) else None
        message: Body = {
            "role": "assistant",
            "content": "".join(made.content) or None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": shown,
        }
        if made.tool_calls:
            message["tool_calls"] = made.tool_calls
        return {"index": 0, "message": message}

    def _event(self, choice: Body | None, usage: Body | None = None) -> str:
        event: Body = {
            "id": self.id,
            "object": "chat.completion.chunk" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [] if choice is None else [{"index": 0, **choice}],
        }
        if usage is not None:
            event |= {"usage": usage, "system_fingerprint": self._fingerprint}
        return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"

    def _usage(self) -> Body:
        made, prompt = self.made.tokens, len(self.prompt)
        usage: Body = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + made,
            "completion_tokens": made,
            "prompt_tokens_details": None,
        }
        if self.engine.settings.modern:
            usage["completion_tokens_details"] = {"reasoning_tokens": len(self.made.reasoning)} if self.chat else None
        return usage

    def _end(self) -> None:
        self.engine.end(self.made.finish_reason, self.made.tokens, self._began, self._first)

    @property
    def _fingerprint(self) -> str:
        return f"vllm-{self.engine.settings.version}-rehearsal"


def chat_exchange(body: Body, engine: Engine) -> Exchange:
    """Check a chat request and take it in; raises ApiError or EngineDeadError."""
    model = requests.check_model(body, engine)
    messages = requests.chat_messages(body)
    requests.check_sampling(body)
    requests.check_images(tokens.image_parts(messages), model, engine)
    generation.tool_choice(body, engine)
    prompt = chat_prompt(body, messages, engine)
    limit = requests.output_limit(body, engine, len(prompt), from_ids=False, chat=True)
    made = generation.for_chat(messages, body, engine, len(prompt), limit)
    return Exchange(engine, body, model, prompt, made, chat=True)


def chat_prompt(body: Body, messages: list[Body], engine: Engine) -> list[int]:
    """Return the prompt's token ids under the chat template, tools included, cut where truncate_prompt_tokens says."""
    tools = body.get("tools")
    extra = json.dumps(tools) if tools and body.get("tool_choice") != "none" else ""
    return _truncated(body, tokens.chat_ids(messages, thinking=generation.thinking_enabled(body, engine), extra=extra))


def completion_exchange(body: Body, engine: Engine) -> Exchange:
    """Check a completion request (text or token ids) and take it in; raises ApiError or EngineDeadError."""
    model = requests.check_model(body, engine)
    requests.check_sampling(body)
    text, ids, from_ids = _completion_prompt(body.get("prompt"))
    prompt = _truncated(body, ids)
    limit = requests.output_limit(body, engine, len(prompt), from_ids=from_ids, chat=False)
    made = generation.for_completion(text, body, engine, len(prompt), limit)
    return Exchange(engine, body, model, prompt, made, chat=False)


def _completion_prompt(prompt: Any) -> tuple[str, list[int], bool]:
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return "", list(prompt), True
    if not isinstance(prompt, str) or not prompt:
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise requests.ApiError(400, message)
    return prompt, tokens.token_ids(prompt), False


def _truncated(body: Body, prompt: list[int]) -> list[int]:
    keep = body.get("truncate_prompt_tokens")
    return prompt[-keep:] if isinstance(keep, int) and keep > 0 else prompt
