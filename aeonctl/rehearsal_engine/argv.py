"""vLLM's serve command line, read the way vLLM's parser reads it; flags it does not know are kept, not refused."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-sc": "speculative-config",
    "-q": "quantization",
    "-cc": "compilation-config",
    "-n": "nnodes",
    "-r": "node-rank",
}
_INTEGERS = frozenset(
    {
        "port",
        "max-num-seqs",
        "max-num-batched-tokens",
        "tensor-parallel-size",
        "block-size",
        "max-cudagraph-capture-size",
        "pipeline-parallel-size",
        "nnodes",
        "node-rank",
        "master-port",
        "seed",
    }
)
_FLOATS = frozenset({"gpu-memory-utilization"})
_JSON = frozenset(
    {
        "speculative-config",
        "limit-mm-per-prompt",
        "override-generation-config",
        "hf-overrides",
        "compilation-config",
        "default-chat-template-kwargs",
    }
)
_LISTS = frozenset({"served-model-name", "api-key", "cudagraph-capture-sizes", "middleware"})
_BARE = frozenset({"trust-remote-code", "language-model-only", "headless", "async-scheduling", "calculate-kv-scales"})
_BARE_PREFIXES = ("no-", "enable-", "disable-", "enforce-")
_SUFFIXES = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}


class UsageError(Exception):
    """A command line that vLLM's own parser would refuse (exit code 2); the text is vLLM's message."""


@dataclass(frozen=True)
class ServeOptions:
    """A parsed command line: the model as it was named, and every option under its long name without dashes."""

    model: str
    given: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Return an option's value as text, or None when it was not given."""
        value = self.given.get(name)
        return None if value is None else str(value)

    def integer(self, name: str, default: int) -> int:
        """Return an integer option, or the default."""
        return int(self.given.get(name, default))

    def flag(self, name: str) -> bool:
        """Tell whether a bare flag was given (and not switched off again)."""
        return bool(self.given.get(name, False))

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a JSON option as a mapping; empty when it was not given or is no object."""
        value = self.given.get(name)
        return value if isinstance(value, dict) else {}

    def listed(self, name: str) -> list[str]:
        """Return an option that takes several values."""
        value = self.given.get(name, [])
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]

    @property
    def served_names(self) -> list[str]:
        """The names the API answers to; without --served-model-name, the model as it was named."""
        return self.listed("served-model-name") or [self.model]

    @property
    def host(self) -> str:
        """The address to listen on; vLLM listens on all of them unless told otherwise."""
        return self.text("host") or "0.0.0.0"  # noqa: S104  vLLM's own default

    @property
    def port(self) -> int:
        """The TCP port (vLLM's default is 8000)."""
        return self.integer("port", 8000)

    @property
    def max_num_batched_tokens(self) -> int:
        """Tokens per prefill chunk (8192 is what vLLM takes on a large card)."""
        return self.integer("max-num-batched-tokens", 8192)

    @property
    def prefix_caching(self) -> bool:
        """Whether prefix caching is on (vLLM's default)."""
        return not self.flag("no-enable-prefix-caching")

    def non_default_args(self) -> dict[str, Any]:
        """Return what vLLM prints as ``non-default args``: typed values, API keys redacted."""
        shown: dict[str, Any] = {"model_tag": self.model, "model": self.model}
        for name, value in self.given.items():
            shown[name.replace("-", "_")] = "***" if name == "api-key" else value
        return shown


def parse_length(value: str) -> int:
    """Read vLLM's human-readable token counts: 32k is 32000, 32K is 32768; auto is -1."""
    if value == "auto":
        return -1
    scale = _SUFFIXES.get(value[-1:], 1)
    digits = value[:-1] if scale > 1 else value
    try:
        return int(float(digits) * scale)
    except ValueError:
        raise UsageError(
            _serve_error("max-model-len", f"invalid human_readable_int_or_auto value: {value!r}")
        ) from None


def parse_argv(argv: Sequence[str]) -> ServeOptions:
    """Parse the arguments after ``vllm``.

    Raises UsageError where vLLM's parser would exit with 2: no ``serve``, a value of the wrong type, broken JSON.
    """
    words = list(argv)
    if not words or words[0] != "serve":
        command = words[0] if words else ""
        message = f"vllm: error: argument subparser: invalid choice: {command!r} (choose from 'serve')"
        raise UsageError(message)
    given: dict[str, Any] = {}
    positionals: list[str] = []
    position = 1
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_flag(word):
            positionals.append(word)
            continue
        name, inline = _split_flag(word)
        values = [inline] if inline is not None else _take_values(words[position:], name)
        position += 0 if inline is not None else len(values)
        _store(given, name, values)
    model = given.pop("model", None) or (positionals[0] if positionals else "Qwen/Qwen3-0.6B")
    return ServeOptions(model=str(model), given=given)


def _is_flag(word: str) -> bool:
    return word.startswith("--") or word.split(".")[0].split("=")[0] in _SHORT


def _split_flag(word: str) -> tuple[str, str | None]:
    name, equals, inline = word.partition("=")
    head, dot, tail = name.partition(".")
    head = _SHORT.get(head, head.removeprefix("--").replace("_", "-"))
    return head + dot + tail, inline if equals else None


def _take_values(rest: Sequence[str], name: str) -> list[str]:
    if name in _BARE or name.startswith(_BARE_PREFIXES):
        return []
    values: list[str] = []
    for word in rest:
        if _is_flag(word) or (values and name not in _LISTS):
            break
        values.append(word)
    return values


def _store(given: dict[str, Any], name: str, values: list[str]) -> None:
    head, dot, tail = name.partition(".")
    if dot:
        inner = given.setdefault(head, {})
        if isinstance(inner, dict):
            inner[tail] = _json_or_text(values[0]) if values else True
        return
    if name in _LISTS:
        given[name] = list(values)
    elif not values:
        given[name] = True
    else:
        given[name] = _typed(name, values[0])


def _typed(name: str, value: str) -> Any:
    if name == "max-model-len":
        return parse_length(value)
    if name in _INTEGERS:
        return _number(name, value, int)
    if name in _FLOATS:
        return _number(name, value, float)
    if name in _JSON:
        try:
            return json.loads(value)
        except ValueError:
            raise UsageError(_serve_error(name, f"Value {value} cannot be converted to <function loads>.")) from None
    return value


def _number(name: str, value: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(_serve_error(name, f"invalid {kind.__name__} value: {value!r}")) from None


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _serve_error(name: str, problem: str) -> str:
    return f"usage: vllm serve [model_tag] [options]\nvllm serve: error: argument --{name}: {problem}"
