"""What a request is answered with: thoughts, content or tool calls, cut to the tokens that were asked for."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from aeonctl.rehearsal_engine import answers, schema, tokens
from aeonctl.rehearsal_engine.engine import Engine
from aeonctl.rehearsal_engine.faults import Fault
from aeonctl.rehearsal_engine.requests import ApiError, Body

_GARBAGE_TOKENS = 256
_RELEVANT_LETTERS = 4


@dataclass
class Generation:
    """An answer as token pieces; ``tool_calls`` are complete, their tokens count as ``tool_pieces``."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    tool_calls: list[Body] = field(default_factory=list)
    tool_pieces: list[str] = field(default_factory=list)
    finish_reason: str = "stop"

    @property
    def tokens(self) -> int:
        """All generated tokens."""
        return len(self.reasoning) + len(self.content) + len(self.tool_pieces)

    def cut(self, limit: int) -> None:
        """Keep the first ``limit`` tokens, thoughts first; an answer that is cut ends with reason "length"."""
        if self.tokens <= limit:
            return
        self.finish_reason = "length"
        self.tool_calls, self.tool_pieces = [], []
        self.content = self.content[: max(0, limit - len(self.reasoning))]
        self.reasoning = self.reasoning[:limit]


def thinking_enabled(body: Body, engine: Engine) -> bool:
    """Tell whether the model thinks first: a reasoning parser is set and the template is not told otherwise."""
    defaults = engine.options.mapping("default-chat-template-kwargs")
    given = body.get("chat_template_kwargs")
    wanted = {**defaults, **(given if isinstance(given, dict) else {})}
    return (
        "reasoning-parser" in engine.options.given
        and wanted.get("enable_thinking", wanted.get("thinking", True)) is not False
    )


def tool_choice(body: Body, engine: Engine) -> str | None:
    """Return "auto", "required", a tool's name, or None for no tools.

    Raises ApiError 400 when the server has no tool parser, or the named tool is not among the tools.
    """
    tools = body.get("tools")
    choice = body.get("tool_choice", "auto" if tools else "none")
    if not tools or choice == "none":
        return None
    name = _function(choice).get("name") if isinstance(choice, dict) else str(choice or "auto")
    if not (engine.options.flag("enable-auto-tool-choice") and engine.options.text("tool-call-parser")):
        if name == "auto":
            raise ApiError(
                400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            )
        raise ApiError(400, f'tool_choice="{name}" requires --tool-call-parser to be set')
    named = {_function(tool).get("name") for tool in tools} - {None}
    if isinstance(choice, dict) and name not in named:
        raise ApiError(400, "The tool specified in `tool_choice` does not match any of the specified `tools`")
    return str(name)


def for_chat(messages: list[Body], body: Body, engine: Engine, prompt_tokens: int, limit: int) -> Generation:
    """Decide a chat's answer."""
    thinking = thinking_enabled(body, engine)
    if engine.settings.fault is Fault.GARBAGE:
        spoilt = answers.garbage(min(limit, _GARBAGE_TOKENS))
        made = (
            Generation(reasoning=spoilt, finish_reason="length")
            if thinking
            else Generation(content=spoilt, finish_reason="length")
        )
        made.cut(limit)
        return made
    question = next((tokens.message_text(m) for m in reversed(messages) if m.get("role") == "user"), "")
    made = Generation(reasoning=tokens.pieces(answers.thoughts(question)) if thinking else [])
    choice = tool_choice(body, engine)
    called = _called_tool(body, choice, question, answered=messages[-1].get("role") == "tool")
    if called is not None:
        made.tool_calls = [_tool_call(called, question)]
        made.tool_pieces = tokens.pieces(json.dumps(made.tool_calls[0]["function"]))
        made.finish_reason = "tool_calls" if choice in {"auto", "required"} else "stop"
    else:
        made.content = tokens.pieces(_content(messages, body, question, prompt_tokens))
    _finish(made, body, limit)
    return made


def for_completion(prompt: str, body: Body, engine: Engine, prompt_tokens: int, limit: int) -> Generation:
    """Decide a plain completion's answer."""
    if engine.settings.fault is Fault.GARBAGE:
        return Generation(content=answers.garbage(min(limit, _GARBAGE_TOKENS)), finish_reason="length")
    made = Generation(content=tokens.pieces(" " + answers.answer(prompt, prompt, prompt_tokens)))
    _finish(made, body, limit)
    return made


def _finish(made: Generation, body: Body, limit: int) -> None:
    _stop_at(made, body.get("stop"))
    least = limit if body.get("ignore_eos") else min(limit, int(body.get("min_tokens") or 0))
    if made.tokens < least and not made.tool_calls:
        filler = made.content or [" …"]
        missing = least - made.tokens
        made.content = made.content + (filler * (missing // len(filler) + 1))[:missing]
        made.finish_reason = "length" if made.tokens >= limit else made.finish_reason
    made.cut(limit)


def _stop_at(made: Generation, stop: Any) -> None:
    stops = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    text = "".join(made.content)
    cuts = [text.index(word) for word in stops if isinstance(word, str) and word and word in text]
    if cuts:
        made.content = tokens.pieces(text[: min(cuts)])


def _content(messages: list[Body], body: Body, question: str, prompt_tokens: int) -> str:
    wanted = body.get("response_format")
    wanted = wanted if isinstance(wanted, dict) else {}
    structured = body.get("structured_outputs")
    if isinstance(structured, dict) and "json" in structured:
        return schema.as_json(structured["json"], question)
    if wanted.get("type") == "json_schema":
        named = wanted.get("json_schema")
        return schema.as_json(named.get("schema", {}) if isinstance(named, dict) else {}, question)
    conversation = "\n".join(tokens.message_text(message) for message in messages)
    if messages[-1].get("role") == "tool":
        said = f"The tool answered: {tokens.message_text(messages[-1])}"
    else:
        said = answers.answer(conversation, question, prompt_tokens)
    return json.dumps({"answer": said}) if wanted.get("type") == "json_object" else said


def _function(tool: Any) -> Body:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function if isinstance(function, dict) else {}


def _called_tool(body: Body, choice: str | None, question: str, *, answered: bool) -> Body | None:
    functions = [_function(tool) for tool in body.get("tools") or []]
    if choice is None or not functions or (answered and choice == "auto"):
        return None
    if choice not in {"auto", "required"}:
        return next(function for function in functions if function.get("name") == choice)
    words = question.lower()
    scores = [_relevance(function, words) for function in functions]
    best = max(range(len(functions)), key=scores.__getitem__)
    return functions[best] if choice == "required" or scores[best] else None


def _relevance(function: Body, words: str) -> int:
    told = f"{function.get('name', '')} {function.get('description', '')}".lower().replace("_", " ").split()
    return sum(1 for word in {word.strip(".,") for word in told} if len(word) >= _RELEVANT_LETTERS and word in words)


def _tool_call(function: Body, question: str) -> Body:
    arguments = schema.as_json(function.get("parameters") or {"type": "object"}, question)
    call = {"name": function.get("name"), "arguments": arguments}
    return {"id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}", "type": "function", "function": call}
