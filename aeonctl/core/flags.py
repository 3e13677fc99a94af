"""The options that one vLLM release takes: vLLM's own parser, as a table.

vLLM reads a unique prefix of an option as that option, so a typo can pass silently or mean something else. aeonctl
accepts exact spellings only, and the canonical (first, long) one is what it shows and stores.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Literal

from pydantic import Field, model_validator

from aeonctl.core.base import Row, Value
from aeonctl.core.units import version_key


class Flag(Value):
    """One option: whether it takes a value, which, and its other spellings."""

    kind: Literal["flag", "value", "list", "json"] = "value"
    number: Literal["int", "float", "human"] | None = None
    choices: tuple[str, ...] | None = None
    negative: str | None = None
    aliases: tuple[str, ...] = ()


class FlagTable(Row):
    """What ``vllm serve`` of one version accepts."""

    version: str
    flags: dict[str, Flag]
    spellings: dict[str, str] = Field(default_factory=dict, exclude=True)

    @model_validator(mode="after")
    def _index(self) -> FlagTable:
        for name, flag in self.flags.items():
            for spelling in (name, *flag.aliases, *((flag.negative,) if flag.negative else ())):
                self.spellings.setdefault(spelling, name)
        return self

    def find(self, option: str) -> tuple[str, Flag] | None:
        """The canonical name and the flag for ``max_model_len``, ``--max-model-len`` or ``-tp``, if there is one."""
        bare = option.lstrip("-").replace("_", "-")
        for spelling in (f"--{bare}", f"-{bare}"):
            if name := self.spellings.get(spelling):
                return name.removeprefix("--"), self.flags[name]
        return None

    def nearest(self, option: str) -> str | None:
        """The known option that ``option`` is most likely a typo of."""
        bare = option.lstrip("-").replace("_", "-")
        close = difflib.get_close_matches(f"--{bare}", list(self.spellings), n=1, cutoff=0.6)
        return close[0] if close else None


class FlagTables:
    """The tables of every version that is known, and which of them decide for a given one."""

    def __init__(self, tables: dict[str, FlagTable]) -> None:
        self._tables = dict(sorted(tables.items(), key=lambda item: version_key(item[0])))

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions with a table, oldest first."""
        return tuple(self._tables)

    def deciding(self, version: str | None) -> tuple[FlagTable, ...]:
        """The table of ``version``; without one, its neighbours on both sides: what either takes may pass.

        An unknown version is judged by every table.
        """
        if version in self._tables:
            return (self._tables[version],)
        if version is None or not version_key(version):
            return tuple(self._tables.values())
        key = version_key(version)
        below = [t for v, t in self._tables.items() if version_key(v) < key]
        above = [t for v, t in self._tables.items() if version_key(v) > key]
        return (*below[-1:], *above[:1])


_NUMBERS = {
    "int": re.compile(r"[+-]?\d{1,18}"),
    "float": re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})([eE][+-]?\d{1,3})?"),
    "human": re.compile(r"-1|auto|\d{1,18}(\.\d{1,9})?[kKmMgGtT]?"),
}
_NUMBER_WORDS = {"int": "a whole number", "float": "a number", "human": "a whole number (32768, 32k, 32K)"}


def check_value(flag: Flag, value: object) -> str | None:
    """What is wrong with ``value`` for ``flag``, in one clause; None when vLLM's parser would take it."""
    if flag.kind == "flag":
        return None if isinstance(value, bool) else "it is a switch: true or false"
    if isinstance(value, bool):
        return "it needs a value"
    if flag.kind == "json":
        return None if isinstance(value, dict | list) or _is_json(str(value)) else "it needs JSON"
    if isinstance(value, dict) and flag.kind == "list":
        return "it takes plain values"
    if isinstance(value, dict | list) and flag.kind != "list":
        return None if flag.number is None and flag.choices is None else "it takes one plain value"
    values = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if flag.choices is not None:
        wrong = [item for item in values if item not in flag.choices]
        if wrong:
            return f"{wrong[0]!r} is not one of {', '.join(flag.choices)}"
    if flag.number is not None:
        wrong = [item for item in values if not _NUMBERS[flag.number].fullmatch(item)]
        if wrong:
            return f"{wrong[0]!r} is not {_NUMBER_WORDS[flag.number]}"
    dashed = [item for item in values if item.startswith("-") and not _NUMBERS["float"].fullmatch(item)]
    if dashed and flag.kind == "list":
        return f"{dashed[0]!r} would be read as an option of its own"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
