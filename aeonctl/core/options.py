"""The engine's options as a value: named, ordered, rendered to argv in one way.

An option maps its canonical name without dashes to ``True``/``False`` (a switch and its ``--no-`` form), a string, a
list of strings, or a JSON object. A dotted name reaches into a JSON object, as vLLM's own command line does:
``speculative-config.num_speculative_tokens``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from aeonctl.core.flags import FlagTable
from aeonctl.errors import UsageError

OptionValue: TypeAlias = bool | str | list[str] | dict[str, Any]

ABSENT: Any = object()
"""What ``Options.get`` answers for an option that is not set."""


class Options(Mapping[str, OptionValue]):
    """An immutable, ordered set of engine options; every change makes a new one."""

    def __init__(self, values: Mapping[str, OptionValue] | None = None) -> None:
        self._values: dict[str, OptionValue] = copy.deepcopy(dict(values or {}))

    def __getitem__(self, name: str) -> OptionValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def look(self, path: str) -> Any:
        """The value at a dotted path, or ``ABSENT``."""
        name, _, inner = path.partition(".")
        value: Any = self._values.get(name, ABSENT)
        for key in inner.split(".") if inner else ():
            value = value.get(key, ABSENT) if isinstance(value, dict) else ABSENT
        return value

    def with_value(self, path: str, value: Any) -> Options:
        """A copy in which the dotted path holds ``value``."""
        name, _, inner = path.partition(".")
        changed = copy.deepcopy(self._values)
        if not inner:
            changed[name] = value
            return Options(changed)
        node = changed.get(name)
        target: dict[str, Any] = dict(node) if isinstance(node, dict) else {}
        changed[name] = target
        *parents, last = inner.split(".")
        for key in parents:
            child = target.get(key)
            target[key] = dict(child) if isinstance(child, dict) else {}
            target = target[key]
        target[last] = value
        return Options(changed)

    def without(self, path: str) -> Options:
        """A copy in which the dotted path is not set."""
        name, _, inner = path.partition(".")
        changed = copy.deepcopy(self._values)
        if not inner:
            changed.pop(name, None)
            return Options(changed)
        *parents, last = inner.split(".")
        node: Any = changed.get(name)
        for key in parents:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(last, None)
        return Options(changed)

    def argv(self) -> tuple[str, ...]:
        """The options as ``vllm serve`` reads them. JSON is compact, so that one argument is one line."""
        words: list[str] = []
        for name, value in self._values.items():
            words.extend(render_option(name, value))
        return tuple(words)


def render_option(name: str, value: OptionValue) -> list[str]:
    """One option as argv words."""
    if value is True:
        return [f"--{name}"]
    if value is False:
        return [f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
    if isinstance(value, list):
        return [f"--{name}", *value]
    if value.startswith("-"):  # a word of its own would be read as the next option
        return [f"--{name}={value}"]
    return [f"--{name}", value]


ANOTHER_WAY = {
    "attention-config.backend": "attention-backend",
    "spec-method": "speculative-config.method",
    "spec-model": "speculative-config.model",
    "spec-tokens": "speculative-config.num_speculative_tokens",
}
"""Second spellings of one setting, as vLLM's own argument parser has them; rules know the first one only."""


def folded(options: Options) -> Options:
    """The same options with every second spelling turned into the first one."""
    for second, first in ANOTHER_WAY.items():
        value = options.look(second)
        if value is ABSENT:
            continue
        options = options.without(second).with_value(first, value)
        head = second.partition(".")[0]
        if options.look(head) == {}:
            options = options.without(head)
    return options


def show_value(value: Any) -> Any:
    """A value for a Decision: ``None`` where the option is not set."""
    return None if value is ABSENT else value


def canonical(values: Mapping[str, OptionValue], table: FlagTable) -> Options:
    """The same options under the names of ``table``: aliases resolved, ``no-x: true`` turned into ``x: false``.

    A name that the table does not have is kept as it is; the plan refuses it later, with the nearest one.
    """
    named: dict[str, OptionValue] = {}
    for option, value in values.items():
        name, meaning = canonical_item(option, value, table)
        named[name] = meaning
    return Options(named)


def canonical_item(option: str, value: OptionValue, table: FlagTable) -> tuple[str, OptionValue]:
    """One option under its canonical name (the path inside a JSON option stays)."""
    head, dot, inner = option.partition(".")
    bare = head.lstrip("-").replace("_", "-")
    found = table.find(bare)
    if found is None:
        return bare + dot + inner, value
    name, flag = found
    negated = flag.kind == "flag" and isinstance(value, bool) and bare != name and not inner
    if negated and (f"--{bare}" == flag.negative or bare.startswith("disable-")):
        return name, not value
    return name + dot + inner, value


def parse_setting(text: str, table: FlagTable) -> tuple[str, OptionValue | None]:
    """``--set OPT=VALUE`` as a canonical path and a value; ``OPT=`` (nothing after the sign) means "not set".

    ``OPT`` alone is ``OPT=true``. Where the option takes JSON, or the path reaches into it, the value is read as JSON
    when it is JSON and as text otherwise. UsageError when the text is no setting at all.
    """
    option, sign, raw = text.partition("=")
    option = option.strip()
    parts = option.lstrip("-").split(".")
    if not all(parts) or any(char.isspace() for char in option):
        raise UsageError(
            "setting_invalid",
            f"not a setting: {option[:200]!r}",
            cause="a setting is OPTION=VALUE, with an option of vllm serve",
            hint="--set max-num-seqs=2",
        )
    if sign and not raw:
        return canonical_item(option, "", table)[0], None
    found = table.find(option.partition(".")[0])
    kind = found[1].kind if found else "value"
    if not sign:
        return canonical_item(option, True, table)
    value: OptionValue = raw
    if kind == "flag" and raw.lower() in ("true", "false"):
        value = raw.lower() == "true"
    elif "." in option:
        value = _json_or_text(raw)
    elif kind == "json":
        read = _json_or_text(raw)
        value = read if isinstance(read, dict) else raw
    elif kind == "list":
        value = raw.split(",") if "," in raw else [raw]
    return canonical_item(option, value, table)


def _json_or_text(raw: str) -> Any:
    """``raw`` as JSON when it is plain JSON of bearable depth; otherwise as it is."""
    try:
        value = json.loads(raw, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return raw
    return value if _depth_is_bearable(value) else raw


def _no_json(name: str) -> None:
    raise ValueError(name)


_DEEPEST = 32


def _depth_is_bearable(value: Any) -> bool:
    layer = [value]
    for _ in range(_DEEPEST):
        layer = [
            child
            for node in layer
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not layer:
            return True
    return False
