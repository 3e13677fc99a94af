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
def show(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="SEAT|MODEL_DIR", help="NAME, CARD/NAME, or a folder: ./like/this.")],
) -> Outcome:
    """One seat whole, with the reason and the source of each part; or what the model in a folder is."""
    from aeonctl.cli import views_know, views_model
    from aeonctl.workflows.seats import show as show_seat
    from aeonctl.workflows.show_model import is_folder_name, show_model

    session = session_of(context)
    as_host = session.invocation.as_host
    if is_folder_name(what):
        return views_model.model(show_model(what, as_host, session.ports), session)
    return views_know.seat(show_seat(what, as_host, session.ports), session)
