"""The commands that pin what a seat runs with."""

from __future__ import annotations

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome, read_asked


@app.command("lock", epilog=EVERYWHERE)
def lock(context: typer.Context, seat: opt.MaybeSeat = None, offline: opt.Offline = False) -> Outcome:
    """Pin a seat's image digest and model revisions for up --frozen; without --seat, show what is pinned."""
    from aeonctl.cli import views_lock
    from aeonctl.workflows.lock import lock as run
    from aeonctl.workflows.lock import locks

    session = session_of(context)
    if seat is None:
        return views_lock.listed(locks(session.ports), session)
    return views_lock.locked(run(read_asked(context.params, session), session.ports), session)


@app.command("rollback", epilog=EVERYWHERE)
def rollback(context: typer.Context, seat: opt.Seat) -> Outcome:
    """Pin the image and models that last passed a verification; up --frozen then starts them."""
    from aeonctl.cli import views_lock
    from aeonctl.workflows.lock import rollback as run

    session = session_of(context)
    return views_lock.locked(run(seat, session.invocation.as_host, session.ports), session)
