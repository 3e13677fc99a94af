"""What every probe of a running engine has in common: what is known of the engine, and how a verdict looks.

A probe is a request, which is a value, and a judge, which is a pure function from the answer to a verdict. Who sends
the one and hands the answer to the other is ``workflows.verify``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aeonctl.core.base import Value
from aeonctl.core.checks import Status
from aeonctl.core.garbage import garbage
from aeonctl.core.smoke import error_text

Body = dict[str, Any]


class Target(Value):
    """The engine that is probed. None means that nobody knows, and that the probe finds out by asking."""

    model: str = ""
    served_names: tuple[str, ...] = ()
    max_model_len: int | None = None
    vllm: bool = True
    """Whether it takes vLLM's own fields in a request, beside the OpenAI API's."""
    thinking: bool | None = None
    always_thinks: bool = False
    """Whether it thinks also when it is asked not to, so that an answer needs more room."""
    tools: bool | None = None
    vision: bool | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    keyed: bool | None = None


class Probed(Value):
    """One line of ``verify``: ``code`` is the stable name of what failed."""

    id: str
    status: Status
    summary: str
    seconds: float = 0.0
    code: str | None = None
    detail: str | None = None
    remedy: str | None = None


class Verdict(NamedTuple):
    """What a judge says of an answer."""

    status: Status
    summary: str
    code: str | None = None
    detail: str | None = None
    remedy: str | None = None


def passed(summary: str) -> Verdict:
    """As it should be."""
    return Verdict(Status.PASS, summary)


def warned(code: str, summary: str, *, detail: str | None = None, remedy: str | None = None) -> Verdict:
    """It works, but somebody should look."""
    return Verdict(Status.WARN, summary, code, detail, remedy)


def failed(code: str, summary: str, *, detail: str | None = None, remedy: str | None = None) -> Verdict:
    """It does not work."""
    return Verdict(Status.FAIL, summary, code, detail, remedy)


def skipped(summary: str) -> Verdict:
    """It does not apply, or cannot be told."""
    return Verdict(Status.SKIP, summary)


class Said(NamedTuple):
    """What a completion holds."""

    content: str
    thought: str
    finish: str | None
    tool_calls: tuple[Body, ...]
    prompt_tokens: int | None
    completion_tokens: int | None


THOUGHT_TOKENS = 1024
"""Room for a thought. One that fills it is no fault; clients just need more."""

NO_ANSWER = "nothing answered (refused, reset, or no word within the time limit)"


def chat_request(
    target: Target, content: str | list[Body], max_tokens: int, *, think: bool = False, **more: Any
) -> Body:
    """A chat completion with one user message, as predictable as sampling allows."""
    body: Body = {
        "model": target.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": max_tokens + (THOUGHT_TOKENS if target.always_thinks else 0),
        "temperature": 0.0,
        **template_words(target, think=think),
    }
    return body | more


def template_words(target: Target, *, think: bool) -> Body:
    """The field that turns thinking on or off, for engines that know it and models that may think."""
    if not target.vllm or target.thinking is False:
        return {}
    return {"chat_template_kwargs": {"enable_thinking": think}}


def read_completion(body: Any) -> Said | None:
    """The first choice of a chat or plain completion; None for a body that is neither."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None
    message = choice.get("message", {"content": choice.get("text")})
    if not isinstance(message, dict):
        return None
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    calls = message.get("tool_calls")
    return Said(
        content=_text(message.get("content")),
        thought=_text(message.get("reasoning")) or _text(message.get("reasoning_content")),
        finish=choice.get("finish_reason"),
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def understood(status: int | None, body: Any) -> Said | Verdict:
    """A completion that came back whole and is language; otherwise the verdict that says what it is instead."""
    if status is None:
        return failed("no_answer", NO_ANSWER)
    if status != 200:
        return failed("request_failed", f"HTTP {status}: {error_text(body)}")
    said = read_completion(body)
    if said is None:
        return failed("answer_malformed", "the answer has no message in it", detail=repr(body)[:300])
    if said.finish not in ("stop", "length", "tool_calls"):
        return failed("answer_cut_off", f"the answer ended with finish_reason {said.finish!r}")
    return bad_text(said) or said


def bad_text(said: Said) -> Verdict | None:
    """The verdict on an answer or a thought that is no language; None when it may be."""
    why = garbage(said.content) or garbage(said.thought)
    if why is None:
        return None
    return failed("garbage_output", f"the answer is garbage: {why}", detail=shown(said.content or said.thought))


def shown(text: str, limit: int = 160) -> str:
    """A text in one line of a report."""
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else f"{line[:limit]}…")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
