"""The commands that fetch images and models."""

from __future__ import annotations

from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome


@app.command("pull-model", epilog=EVERYWHERE)
def pull_model(
    context: typer.Context,
    repo: Annotated[str | None, typer.Argument(metavar="[REPO[@REV]]", show_default=False)] = None,
    seat: opt.MaybeSeat = None,
    dry_run: opt.DryRun = False,
) -> Outcome:
    """Download a model's snapshot (and a seat's drafter) into the hub's cache; goes on where it stopped."""
    from aeonctl.cli import views_fetch
    from aeonctl.workflows.pull import pull_model as run

    session = session_of(context)
    pulled = run(repo, seat, session.invocation.as_host, dry_run, session.ports, session.report)
    return views_fetch.models(pulled, dry_run, session)


@app.command("pull-image", epilog=EVERYWHERE)
def pull_image(
    context: typer.Context,
    ref: Annotated[str | None, typer.Argument(metavar="[REF]", show_default=False)] = None,
    seat: opt.MaybeSeat = None,
    timeout: opt.PullTimeout = None,
) -> Outcome:
    """Judge an image against this host, then pull it, pinned by its digest."""
    from aeonctl.cli import views_fetch
    from aeonctl.workflows.image_pull import pull_image as run

    session = session_of(context)
    pulled = run(ref, seat, session.invocation.as_host, session.ports, session.report, timeout)
    return views_fetch.image(pulled, session)
