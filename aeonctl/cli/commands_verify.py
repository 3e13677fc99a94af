"""The command that proves an engine."""

from __future__ import annotations

from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome

Url = Annotated[str | None, typer.Option("--url", help="Any OpenAI-compatible server, started by whomever.")]
ModelName = Annotated[str | None, typer.Option("--model", help="The served name to ask for; default: the first.")]
KeyEnv = Annotated[
    str | None, typer.Option("--key-env", help="The variable that holds the API key. [default: VLLM_API_KEY]")
]
Length = Annotated[
    int | None,
    typer.Option("--length", min=64, help="Tokens of the long prompt; default: 24000, or half the context if more."),
]
Soak = Annotated[bool, typer.Option("--soak", help="Then walk up to 92 % of the context in steps.")]


@app.command("verify", epilog=EVERYWHERE)
def verify(
    context: typer.Context,
    name: opt.EngineName = None,
    url: Url = None,
    model: ModelName = None,
    key_env: KeyEnv = None,
    length: Length = None,
    soak: Soak = False,
) -> Outcome:
    """Prove a running engine by a real conversation, long prompt and all; exit 8 when a probe fails."""
    from aeonctl.cli import views_verify
    from aeonctl.workflows.verify import HowVerify
    from aeonctl.workflows.verify import verify as run

    session = session_of(context)
    views_verify.one_target(name, url)
    how = HowVerify(url, model, key_env, length, soak)
    done = run(name, how, session.ports, session.report, lambda check: views_verify.check(check, session))
    return views_verify.verified(done, session)
