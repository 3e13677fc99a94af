"""The commands that tell what is known: of this machine, of the seats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.app import EVERYWHERE, app, session_of
from aeonctl.cli.session import Outcome


@app.command("doctor", epilog=EVERYWHERE)
def doctor(
    context: typer.Context,
    seat: opt.MaybeSeat = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write this host to a file for --as.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Print a text for a bug report, without names.")] = False,
    gpu_test: Annotated[bool, typer.Option("--gpu-test", help="Try a GPU in a container (pulls nothing).")] = False,
) -> Outcome:
    """Every check of this machine, to the end, and which seats it can serve; exit 4 when a check fails."""
    from aeonctl.cli import views_know
    from aeonctl.workflows.doctor import doctor as run

    session = session_of(context)
    found = run(seat, session.invocation.as_host, session.ports, try_gpu=gpu_test)
    return views_know.diagnosis(found, save, session, as_report=report)


@app.command("seats", epilog=EVERYWHERE)
def seats(context: typer.Context) -> Outcome:
    """Every seat, and whether it fits this machine."""
    from aeonctl.cli import views_know
    from aeonctl.workflows.seats import seats as run

    session = session_of(context)
    host, views = run(session.invocation.as_host, session.ports)
    return views_know.seats(host, views, session)


@app.command("show", epilog=EVERYWHERE)
def show_seat(
    context: typer.Context, seat: Annotated[str, typer.Argument(metavar="SEAT", help="NAME, or CARD/NAME.")]
) -> Outcome:
    """One seat whole: card, image, model, options, with the reason and the source of each."""
    from aeonctl.cli import views_know
    from aeonctl.workflows.seats import show as run

    session = session_of(context)
    return views_know.seat(run(seat, session.invocation.as_host, session.ports), session)
