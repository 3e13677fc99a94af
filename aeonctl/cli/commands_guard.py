"""The commands that keep a machine usable: restart policies, the memory guard, the way out."""

from __future__ import annotations

from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome


@app.command("promote", epilog=EVERYWHERE)
def promote(context: typer.Context, name: opt.EngineName = None) -> Outcome:
    """Let Docker start a verified engine again whenever it ends."""
    from aeonctl.cli import views_guard
    from aeonctl.workflows.promote import promote as run

    session = session_of(context)
    return views_guard.promoted(run(name, session.ports, session.report), session)


@app.command("demote", epilog=EVERYWHERE)
def demote(context: typer.Context, name: opt.EngineName = None) -> Outcome:
    """Take a promoted engine's restart policy away; it runs on."""
    from aeonctl.cli import views_guard
    from aeonctl.workflows.promote import demote as run

    session = session_of(context)
    return views_guard.promoted(run(name, session.ports, session.report), session)


@app.command("guard", epilog=EVERYWHERE)
def guard(
    context: typer.Context,
    name: opt.EngineName = None,
    guard_floor: opt.Floor = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the engine to come.")] = False,
    install: Annotated[bool, typer.Option("--install", help="Write a systemd user unit that does this.")] = False,
) -> Outcome:
    """Watch this machine's memory as long as an engine lives, and kill the engine before the machine stalls."""
    from aeonctl.cli import views_guard
    from aeonctl.workflows import guard as flow
    from aeonctl.workflows.hosts import catalog_of

    session = session_of(context)
    if install:
        return views_guard.install(name, guard_floor, session)
    flow.guard(name, guard_floor, wait, session.ports, catalog_of(session.ports), session.report)
    return Outcome()


@app.command("rescue", epilog=EVERYWHERE)
def rescue(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all-containers", help="Every container there is, not aeonctl's alone.")
    ] = False,
    attempts: Annotated[int | None, typer.Option("--attempts", min=1, help="Tries over ssh; default: no end.")] = None,
    interval: Annotated[float, typer.Option("--interval", min=0, help="Seconds between two tries.")] = 0.5,
) -> Outcome:
    """Clear every restart policy, then kill every engine; with --host ssh://… as soon as a session lands."""
    from aeonctl.cli import views_guard
    from aeonctl.workflows.rescue import rescue_here, rescue_there

    session = session_of(context)
    url = session.invocation.docker_host or ""
    if url.startswith("ssh://"):
        done = rescue_there(url, everything, attempts, interval, session.ports, session.report)
    else:
        done = rescue_here(everything, session.ports, session.report)
    return views_guard.rescued(done, session)
