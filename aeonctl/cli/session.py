"""What every command is given: the outside, the printer, and what stood on the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aeonctl.cli.invocation import Invocation
from aeonctl.cli.output import Output
from aeonctl.errors import AeonError, UsageError

if TYPE_CHECKING:
    from aeonctl.cli.progress import LineReporter
    from aeonctl.ports import Ports
    from aeonctl.workflows.ask import Asked


@dataclass(frozen=True)
class Outcome:
    """What a command came to: ``data`` for ``--json``, and the error that it ends with although it has data."""

    data: Any = None
    error: AeonError | None = None


@dataclass
class Session:
    """One run of the program."""

    invocation: Invocation
    output: Output
    build_ports: Callable[[Invocation], Ports]

    @cached_property
    def ports(self) -> Ports:
        """Everything outside; built when first needed, so that ``--help`` pays nothing."""
        return self.build_ports(self.invocation)

    @cached_property
    def report(self) -> LineReporter:
        """Whoever shows long work."""
        from aeonctl.cli.progress import reporter_for

        return reporter_for(self.output)


def read_asked(params: Mapping[str, Any], session: Session, *, must_know_image: bool = False) -> Asked:
    """A command's parameters as a question to the planner; secrets' values are taken apart from it."""
    from aeonctl.core.plan import Request
    from aeonctl.core.secrets import is_secret
    from aeonctl.workflows.ask import Asked

    rehearse = params.get("rehearse")
    session.output.rehearsal = bool(rehearse)
    if rehearse and session.invocation.as_given:
        raise UsageError(
            "rehearse_and_as", "--rehearse names the host already", cause="--as was given too", hint="leave --as out"
        )
    env: dict[str, str | None] = {}
    secrets: dict[str, str] = {}
    for word in params.get("env") or ():
        name, sign, value = read_env(word)
        secret = is_secret(name, value)
        env[name] = value if sign and not secret else None
        if sign and secret:
            secrets[name] = value
    settings = [*(params.get("settings") or ()), *(f"{option}=" for option in params.get("unset") or ())]
    request = Request(
        seat=str(params["seat"]),
        settings=tuple(settings),
        env=env,
        model=params.get("model"),
        drafter=params.get("drafter"),
        image=params.get("image"),
        port=params.get("port"),
        lan=bool(params.get("lan")),
        name=read_name(params.get("name")),
        waive=tuple(params.get("waive") or ()),
        rehearsal=bool(rehearse),
        guard=params.get("guard"),
    )
    as_host = rehearse or session.invocation.as_host
    return Asked(
        request,
        as_host,
        offline=bool(params.get("offline")),
        secrets=secrets,
        must_know_image=must_know_image,
        check_image=bool(params.get("check")),
        frozen=bool(params.get("frozen")),
    )


_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]{1,127}")


def read_name(name: str | None) -> str | None:
    """A container's name as Docker takes one; UsageError name_invalid for anything else."""
    if name is None or _NAME.fullmatch(name):
        return name
    raise UsageError(
        "name_invalid",
        f"not a name for a container: {name[:80]!r}",
        cause="letters, digits, and _ . - after the first; two characters at least",
        hint="--name aeon-2",
    )


def read_env(word: str) -> tuple[str, str, str]:
    """``NAME=VALUE`` or ``NAME`` in its parts; UsageError env_invalid for anything else."""
    name, sign, value = word.partition("=")
    if not name or not name.isidentifier() or not name.isascii() or "\0" in value:
        raise UsageError(
            "env_invalid",
            f"not an environment variable: {name[:80]!r}",
            cause="it is NAME=VALUE, or NAME alone to hand on the value from your own environment",
            hint="--env VLLM_LOGGING_LEVEL=DEBUG",
        )
    return name, sign, value
