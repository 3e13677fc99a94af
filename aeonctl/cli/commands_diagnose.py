"""The commands that explain: what a log means, and what an id stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome

Target = Annotated[
    str | None, typer.Argument(metavar="[FILE|-|NAME]", help="A log, - for standard input, or an engine's name.")
]
HostFacts = Annotated[
    Path | None,
    typer.Option("--host-facts", help="Pasted output of the host (docker inspect, /proc/meminfo, journalctl -k …)."),
]


@app.command("diagnose", epilog=EVERYWHERE)
def diagnose(context: typer.Context, target: Target = None, host_facts: HostFacts = None) -> Outcome:
    """What a log means: the first cause, why it is believed, and what to do about it."""
    from aeonctl.cli import views_diagnose

    return views_diagnose.diagnosis(target, host_facts, session_of(context))


@app.command("explain", epilog=EVERYWHERE, context_settings={"ignore_unknown_options": True})
def explain(
    context: typer.Context,
    ident: Annotated[str, typer.Argument(metavar="ID", help="A finding, a rule, an option of vllm serve, a check.")],
) -> Outcome:
    """The page of an id: what it is, why, where that is from, and what to do."""
    from aeonctl.cli import views_diagnose
    from aeonctl.workflows.explain import explain as run

    session = session_of(context)
    return views_diagnose.pages(run(ident, session.ports), session)
