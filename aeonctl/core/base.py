"""What every value of the pure ring has in common: immutable, closed, and strict about types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from aeonctl.errors import ConfigurationError


class Value(BaseModel):
    """An immutable record. A key that is not declared is an error, and ``12.0`` is not a string."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def parse(cls, data: object, origin: str, code: str = "profile_invalid") -> Self:
        """``data`` as YAML or JSON gave it, checked; ConfigurationError names ``origin`` and each bad key's path."""
        try:
            return cls.model_validate_json(json.dumps(data))
        except ValidationError as error:
            raise invalid(origin, key_problems(error), code) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise invalid(origin, [f"not plain data: {error}"], code) from error


class Row(Value):
    """A piece of knowledge under profiles/: it says why it holds and where that is from.

    ``source`` is a document, an issue or a log line that can be looked up; a guess says ``unverified``.
    """

    why: str
    source: str


def key_problems(error: ValidationError) -> list[str]:
    """One sentence per bad key: its dotted path and what is wrong with it."""
    return [
        f"{'.'.join(str(part) for part in problem['loc']) or 'the whole file'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]


_HINTS = {"host_invalid": "correct the keys named above; `aeonctl doctor --save host.yaml` writes a valid host"}


def invalid(origin: str, problems: Iterable[str], code: str = "profile_invalid") -> ConfigurationError:
    """The error for a file that is not what its folder holds."""
    return ConfigurationError(
        code,
        f"{origin} is not valid",
        cause=tuple(problems),
        hint=_HINTS.get(code, "correct the keys named above; `aeonctl show SEAT` prints a valid seat"),
        origin=origin,
    )
