"""The commands. Each reads its parameters, calls one workflow, and shows one result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aeonctl.cli import options as opt
from aeonctl.cli.session import Outcome, Session, read_asked

EVERYWHERE = "Everywhere on the line: --json, --as HOST (a recorded host, or a file), --host URL (a Docker engine), -v."

app = typer.Typer(
    name="aeonctl",
    help="Serve a large model at home with vLLM in a container: the right image for the card, checked before a byte "
    "is pulled.",
    epilog=EVERYWHERE,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def session_of(context: typer.Context) -> Session:
    """What ``main`` handed to the command."""
    session: Session = context.obj
    return session


@app.callback()
def aeonctl(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Options that stand before every command."""
    if version:
        raise typer.Exit(0)


@app.command(epilog=EVERYWHERE)
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
    timeout: opt.Timeout = None,
    detach: opt.Detach = False,
    replace: opt.Replace = False,
    dry_run: opt.DryRun = False,
) -> Outcome:
    """Check, fetch, start, watch the boot, and wait until the engine has answered."""
    from aeonctl.cli import show
    from aeonctl.workflows.up import HowUp
    from aeonctl.workflows.up import up as run

    session = session_of(context)
    if dry_run:
        return show.planned(read_asked(context.params, session), session)
    asked = read_asked(context.params, session, must_know_image=True)
    done = run(asked, HowUp(detach=detach, replace=replace, timeout=timeout), session.ports, session.report)
    return show.started(done, session)


@app.command(epilog=EVERYWHERE)
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
    explain: Annotated[bool, typer.Option("--explain", help="Say why, and from where, for every value.")] = False,
) -> Outcome:
    """Print the docker run that starts the same container as up would; nothing is started or fetched."""
    from aeonctl.cli import show

    session = session_of(context)
    return show.planned(read_asked(context.params, session), session, explain=explain)


@app.command(epilog=EVERYWHERE)
def down(
    context: typer.Context, name: opt.EngineName = None, everything: opt.All = False, grace: opt.Grace = None
) -> Outcome:
    """Stop an engine of ours and remove its container; nothing to stop is fine."""
    from aeonctl.cli import show
    from aeonctl.workflows.down import down as run

    session = session_of(context)
    return show.stopped(run(name, everything, grace, session.ports, session.report), session)


@app.command(epilog=EVERYWHERE)
def status(context: typer.Context) -> Outcome:
    """Every engine of ours, and whether it lives; exit 7 when one has died."""
    from aeonctl.cli import show
    from aeonctl.workflows.status import status as run

    session = session_of(context)
    return show.engines(run(session.ports, session.report), session)


@app.command(epilog=EVERYWHERE)
def logs(
    context: typer.Context, name: opt.EngineName = None, follow: opt.Follow = False, tail: opt.Tail = None
) -> Outcome:
    """Print an engine's log."""
    from aeonctl.cli import show
    from aeonctl.workflows.status import logs as run

    session = session_of(context)
    return show.log(run(name, follow, tail, session.ports, session.report), session)


@app.command(epilog=EVERYWHERE)
def doctor(
    context: typer.Context,
    seat: opt.MaybeSeat = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write this host to a file for --as.")] = None,
) -> Outcome:
    """What this machine is, and which seats it can serve; exit 4 when a check fails."""
    from aeonctl.cli import show
    from aeonctl.workflows.doctor import doctor as run

    session = session_of(context)
    found = run(seat, session.invocation.as_host, session.ports)
    return show.diagnosis(found, save, session)


@app.command(epilog=EVERYWHERE)
def seats(context: typer.Context) -> Outcome:
    """Every seat, and whether it fits this machine."""
    from aeonctl.cli import show
    from aeonctl.workflows.seats import seats as run

    session = session_of(context)
    host, views = run(session.invocation.as_host, session.ports)
    return show.seats(host, views, session)


@app.command("show", epilog=EVERYWHERE)
def show_seat(
    context: typer.Context, seat: Annotated[str, typer.Argument(metavar="SEAT", help="NAME, or CARD/NAME.")]
) -> Outcome:
    """One seat whole: card, image, model, options, with the reason and the source of each."""
    from aeonctl.cli import show
    from aeonctl.workflows.seats import show as run

    session = session_of(context)
    return show.seat(run(seat, session.invocation.as_host, session.ports), session)


@app.command("pull-model", epilog=EVERYWHERE)
def pull_model(
    context: typer.Context,
    repo: Annotated[str | None, typer.Argument(metavar="[REPO[@REV]]", show_default=False)] = None,
    seat: opt.MaybeSeat = None,
    dry_run: opt.DryRun = False,
) -> Outcome:
    """Download a model's snapshot (and a seat's drafter) into the hub's cache; goes on where it stopped."""
    from aeonctl.cli import show
    from aeonctl.workflows.pull import pull_model as run

    session = session_of(context)
    pulled = run(repo, seat, session.invocation.as_host, dry_run, session.ports, session.report)
    return show.models(pulled, dry_run, session)


@app.command("pull-image", epilog=EVERYWHERE)
def pull_image(
    context: typer.Context,
    ref: Annotated[str | None, typer.Argument(metavar="[REF]", show_default=False)] = None,
    seat: opt.MaybeSeat = None,
) -> Outcome:
    """Judge an image against this host, then pull it, pinned by its digest."""
    from aeonctl.cli import show
    from aeonctl.workflows.pull import pull_image as run

    session = session_of(context)
    return show.image(run(ref, seat, session.invocation.as_host, session.ports, session.report), session)
