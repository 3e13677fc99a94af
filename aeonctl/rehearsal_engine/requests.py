"""Checks on a request, and the errors vLLM answers them with, word for word per version."""

import json
from dataclasses import dataclass
from typing import Any

from aeonctl.rehearsal_engine.engine import Engine
from aeonctl.rehearsal_engine.settings import Settings

Body = dict[str, Any]
_COMPLETION_DEFAULT_TOKENS = 16
_FIELD_TYPES: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "model": ("string", str),
    "messages": ("list", list),
    "max_tokens": ("integer", int),
    "max_completion_tokens": ("integer", int),
    "min_tokens": ("integer", int),
    "truncate_prompt_tokens": ("integer", int),
    "temperature": ("number", (int, float)),
    "tools": ("list", list),
    "tool_choice": ("string or object", (str, dict)),
    "response_format": ("dictionary", dict),
    "chat_template_kwargs": ("dictionary", dict),
}


@dataclass
class ApiError(Exception):
    """An error answer: HTTP status, message, vLLM's type name, and the parameter it is about."""

    status: int
    message: str
    kind: str = "BadRequestError"
    param: str | None = None

    def body(self) -> Body:
        """Return the JSON body."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}


def parse_body(raw: bytes, settings: Settings) -> Body:
    """Read a JSON object; raises ApiError 400 of type "Bad Request" (two words, as FastAPI's handler says)."""
    try:
        body = json.loads(raw)
    except (ValueError, UnicodeDecodeError) as error:
        position = getattr(error, "pos", 0)
        reason = getattr(error, "msg", str(error))
        place = f"'body.{position}'" if settings.modern else f"('body', {position})"
        given = "'<dict of 0 items>'" if settings.modern else "{}"
        detail = (
            f"{{'type': 'json_invalid', 'loc': {place}, 'msg': 'JSON decode error', 'input': {given}, "
            f"'ctx': {{'error': '{reason}'}}}}"
        )
        raise ApiError(400, f"1 validation error:\n  {detail}", "Bad Request", f"body.{position}") from None
    if not isinstance(body, dict):
        detail = "{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid dictionary'}"
        message = f"1 validation error:\n  {detail}"
        raise ApiError(400, message, "Bad Request", "body")
    for name, (wanted, kind) in _FIELD_TYPES.items():
        if body.get(name) is not None and not isinstance(body[name], kind):
            detail = f"{{'type': 'type_error', 'loc': ('body', '{name}'), 'msg': 'Input should be a valid {wanted}'}}"
            raise ApiError(400, f"1 validation error:\n  {detail}", "Bad Request", f"body.{name}")
    return body


def check_model(body: Body, engine: Engine) -> str:
    """Return the model name to answer with; a request without one is accepted, an unknown one is 404."""
    names = engine.options.served_names
    model = body.get("model")
    if not model or model in names:
        return str(model or names[0])
    message = f"The model `{model}` does not exist."
    if engine.settings.modern:
        message += f" Valid aliases: {', '.join(names)}."
    raise ApiError(404, message, "NotFoundError", "model")


def check_sampling(body: Body) -> None:
    """Refuse a negative temperature."""
    temperature = body.get("temperature")
    if isinstance(temperature, (int, float)) and temperature < 0:
        message = f"temperature must be non-negative, got {float(temperature)}."
        raise ApiError(400, f"{message} (parameter=temperature, value={float(temperature)})", param="temperature")


def chat_messages(body: Body) -> list[Body]:
    """Return the conversation; an empty or malformed one is 400."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        message = "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}"
        raise ApiError(400, message, "Bad Request", "body.messages")
    if not messages:
        raise ApiError(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
    return messages


def check_images(images: int, model: str, engine: Engine) -> None:
    """Refuse images unless --limit-mm-per-prompt makes this a multimodal model."""
    limits = engine.options.mapping("limit-mm-per-prompt")
    if not images:
        return
    if not limits or engine.options.flag("language-model-only"):
        raise ApiError(400, f"{'<path>' if model.startswith('/') else model} is not a multimodal model")
    allowed = sum(limit if isinstance(limit, int) else 1 for limit in limits.values())
    if images > allowed:
        raise ApiError(400, f"At most {allowed} image(s) may be provided in one prompt.")


def output_limit(body: Body, engine: Engine, prompt_tokens: int, *, from_ids: bool, chat: bool) -> int:
    """Return how many tokens may be generated.

    Raises ApiError 400 where vLLM refuses: zero or too many output tokens, a prompt that does not fit. A prompt given
    as text is cut by the tokenizer just above the limit, so its true length is not told ("at least").
    """
    context, modern = engine.max_model_len, engine.settings.modern
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    asked = body.get("max_tokens") if asked is None else asked
    if asked is None and not chat:
        asked = _COMPLETION_DEFAULT_TOKENS
    if isinstance(asked, int) and asked < 1:
        _refuse_max_tokens(asked)
    if asked is not None and asked > context:
        limit = "max_model_len" if modern else "max_model_len=max_total_tokens"
        message = f"max_tokens={asked} cannot be greater than {limit}={context}. Please request fewer output tokens."
        raise ApiError(400, f"{message} (parameter=max_tokens, value={asked})", param="max_tokens")
    reserved = 0 if modern else (asked or 0)
    cut = context - reserved + 1
    counted = prompt_tokens if from_ids else min(prompt_tokens, cut)
    if counted + reserved > context:
        raise _too_long(context, counted, reserved, at_least=counted == cut)
    if counted == context:
        _refuse_max_tokens(0)
    room = context - counted
    return room if asked is None else min(int(asked), room)


def _refuse_max_tokens(asked: int) -> None:
    message = f"max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"
    raise ApiError(400, message, param="max_tokens")


def _too_long(context: int, counted: int, reserved: int, *, at_least: bool) -> ApiError:
    some = "at least " if at_least else ""
    head = f"This model's maximum context length is {context} tokens. However,"
    tail = f"(parameter=input_tokens, value={counted})"
    if reserved:
        middle = (
            f"you requested {reserved} output tokens and your prompt contains {some}{counted} input tokens, for a "
            "total of "
            f"{some}{counted + reserved} tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens."
        )
    else:
        middle = (
            f"your prompt contains {some}{counted} input tokens, which exceeds this limit even without any output "
            "tokens. "
            "Please reduce the length of the input prompt."
        )
    return ApiError(400, f"{head} {middle} {tail}", param="input_tokens")
