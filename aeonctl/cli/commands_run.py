"""The commands that start, look at and stop engines."""

from __future__ import annotations

from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome, read_asked


@app.command("up", epilog=EVERYWHERE)
def up(
    context: typer.Context,
    seat: opt.Seat,
    settings: opt.Settings = None,
    unset: opt.Unset = None,
    env: opt.Env = None,
    model: opt.Model = None,
    drafter: opt.Drafter = None,
    image: opt.Image = None,
    port: opt.Port = None,
    lan: opt.Lan = False,
    name: opt.Name = None,
    waive: opt.Waive = None,
    rehearse: opt.Rehearse = None,
    offline: opt.Offline = False,
    check: opt.Check = False,
    frozen: opt.Frozen = False,
    timeout: opt.Timeout = None,
    detach: opt.Detach = False,
    replace: opt.Replace = False,
    no_ladder: opt.NoLadder = False,
    from_top: opt.FromTop = False,
    guard: opt.Guard = None,
    guard_floor: opt.Floor = None,
    dry_run: opt.DryRun = False,
) -> Outcome:
    """Check, fetch, start, watch the boot, and wait until the engine has answered."""
    from aeonctl.cli import views_run
    from aeonctl.workflows.up import HowUp
    from aeonctl.workflows.up import up as run

    session = session_of(context)
    if dry_run:
        return views_run.planned(read_asked(context.params, session), session)
    asked = read_asked(context.params, session, must_know_image=True)
    how = HowUp(detach, replace, timeout, ladder=not no_ladder, from_top=from_top, floor_gib=guard_floor)
    done = run(asked, how, session.ports, session.report)
    return views_run.started(done, session)


@app.command("plan", epilog=EVERYWHERE)
def plan(
    context: typer.Context,
    seat: opt.Seat,
    settings: opt.Settings = None,
    unset: opt.Unset = None,
    env: opt.Env = None,
    model: opt.Model = None,
    drafter: opt.Drafter = None,
    image: opt.Image = None,
    port: opt.Port = None,
    lan: opt.Lan = False,
    name: opt.Name = None,
    waive: opt.Waive = None,
    rehearse: opt.Rehearse = None,
    offline: opt.Offline = False,
    guard: opt.Guard = None,
    check: opt.Check = False,
    frozen: opt.Frozen = False,
    form: opt.Format = opt.PlanFormat.DOCKER,
    explain: Annotated[bool, typer.Option("--explain", help="Say why, and from where, for every value.")] = False,
) -> Outcome:
    """Print the docker run that starts the same container as up would; nothing is started or fetched."""
    from aeonctl.cli import views_run

    session = session_of(context)
    return views_run.planned(read_asked(context.params, session), session, explain=explain)


@app.command("down", epilog=EVERYWHERE)
def down(
    context: typer.Context, name: opt.EngineName = None, everything: opt.All = False, grace: opt.Grace = None
) -> Outcome:
    """Stop an engine of ours and remove its container; nothing to stop is fine."""
    from aeonctl.cli import views_run
    from aeonctl.workflows.down import down as run

    session = session_of(context)
    return views_run.stopped(run(name, everything, grace, session.ports, session.report), session)


@app.command("status", epilog=EVERYWHERE)
def status(context: typer.Context) -> Outcome:
    """Every engine of ours, and whether it lives; exit 7 when one has died."""
    from aeonctl.cli import views_run
    from aeonctl.workflows.status import status as run

    session = session_of(context)
    return views_run.engines(run(session.ports, session.report), session)


@app.command("logs", epilog=EVERYWHERE)
def logs(
    context: typer.Context, name: opt.EngineName = None, follow: opt.Follow = False, tail: opt.Tail = None
) -> Outcome:
    """Print an engine's log."""
    from aeonctl.cli import views_run
    from aeonctl.workflows.status import logs as run

    session = session_of(context)
    return views_run.log(run(name, follow, tail, session.ports, session.report), session)
