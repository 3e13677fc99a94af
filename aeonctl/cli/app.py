"""The application that the command modules hang their commands on."""

from __future__ import annotations

from typing import Annotated

import typer

from aeonctl.cli.session import Session

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
