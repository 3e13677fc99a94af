"""The options that every command has, taken from wherever they stand on the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VALUE_OPTIONS = frozenset(
    f"--{name}"
    for name in (
        *("seat", "set", "unset", "env", "model", "drafter", "image", "port", "name", "waive", "timeout", "rehearse"),
        *("save", "tail", "grace", "url", "key-env", "length", "guard-floor", "attempts", "interval", "host-facts"),
    )
)
"""Options of commands that take the next word as their value, so that this word is never taken for a global option."""

_FLAGS = {"--json": "json", "-v": "verbose", "--verbose": "verbose"}
_VALUES = {"--as": "as_host", "--host": "docker_host"}


@dataclass(frozen=True)
class Invocation:
    """One command line: the global options, and the rest for the command."""

    words: tuple[str, ...]
    json: bool = False
    verbose: bool = False
    as_host: str | None = None
    as_given: bool = False
    docker_host: str | None = None
    missing_value: str | None = None

    @property
    def command(self) -> str:
        """The command's name; ``aeonctl`` when none is given."""
        return next((word for word in self.words if not word.startswith("-")), "aeonctl")


def read_invocation(argv: Sequence[str], environment: Mapping[str, str]) -> Invocation:
    """Split a command line. ``AEONCTL_AS`` stands in for ``--as``; ``missing_value`` is an option without its value."""
    found: dict[str, object] = {"as_host": environment.get("AEONCTL_AS") or None, "as_given": False}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, sign, value = word.partition("=")
        if word == "--":
            words += [word, *rest]
            break
        if word in _FLAGS:
            found[_FLAGS[word]] = True
        elif name in _VALUES and sign:
            found |= {_VALUES[name]: value, "as_given": found["as_given"] or name == "--as"}
        elif word in _VALUES and rest:
            found |= {_VALUES[word]: rest.pop(0), "as_given": found["as_given"] or word == "--as"}
        elif word in _VALUES:
            found["missing_value"] = word
        else:
            words.append(word)
            if word in VALUE_OPTIONS and rest:
                words.append(rest.pop(0))
    return Invocation(words=tuple(words), **found)  # type: ignore[arg-type]
