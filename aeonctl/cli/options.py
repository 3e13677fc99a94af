"""The options of commands, each written once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class PlanFormat(StrEnum):
    """The forms in which a plan can be printed."""

    DOCKER = "docker"


Seat = Annotated[str, typer.Option("--seat", help="A seat: quality, speed … for the card present, or CARD/NAME.")]
MaybeSeat = Annotated[str | None, typer.Option("--seat", help="A seat, by name or as CARD/NAME.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of vllm serve: OPT=VALUE, or OPT.KEY=VALUE inside JSON. Repeatable."),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", help="Leave an option of the seat out. Repeatable.")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", help="NAME=VALUE, or NAME to hand on your own value (secrets). Repeatable."),
]
Model = Annotated[str | None, typer.Option("--model", help="Another model: ORG/NAME[@REVISION], or a folder (./…).")]
Drafter = Annotated[str | None, typer.Option("--drafter", help="Another drafter for the seat, as for --model.")]
Image = Annotated[str | None, typer.Option("--image", help="Another image; judged by what its own manifest says.")]
Port = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="The port on this machine.")]
Lan = Annotated[bool, typer.Option("--lan", help="Let other machines reach the engine (default: this one alone).")]
Name = Annotated[str | None, typer.Option("--name", help="The container's name.")]
Waive = Annotated[list[str] | None, typer.Option("--waive", help="Let one rule not apply, by its id. Repeatable.")]
Rehearse = Annotated[
    str | None, typer.Option("--rehearse", help="Play it through for a recorded host: no GPU, no Docker, no network.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Never open a connection to another machine.")]
Timeout = Annotated[float | None, typer.Option("--timeout", min=1, help="Seconds for the whole boot; default: none.")]
PullTimeout = Annotated[
    float | None, typer.Option("--timeout", min=1, help="Seconds without a byte until a pull is given up; default 600.")
]
Check = Annotated[bool, typer.Option("--check", help="Ask the registry about the seat's image, too.")]
Frozen = Annotated[bool, typer.Option("--frozen", help="Exactly the image and the models of the seat's lock.")]
Detach = Annotated[bool, typer.Option("--detach", help="Return as soon as the container has started.")]
Replace = Annotated[bool, typer.Option("--replace", help="Stop and replace an engine of ours with the same name.")]
Format = Annotated[PlanFormat, typer.Option("--format", help="The form of the printed command.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on until the engine ends.")]
Tail = Annotated[int | None, typer.Option("--tail", min=0, help="Only the last lines.")]
Grace = Annotated[float | None, typer.Option("--grace", min=0, help="Seconds between SIGTERM and SIGKILL.")]
All = Annotated[bool, typer.Option("--all", help="Every engine of aeonctl.")]
EngineName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="An engine's name.", show_default=False)]
NoLadder = Annotated[bool, typer.Option("--no-ladder", help="Stop at the first failure; take no rung of the ladder.")]
FromTop = Annotated[bool, typer.Option("--from-top", help="Forget the rung that worked here; begin with the seat.")]
Guard = Annotated[
    bool | None,
    typer.Option("--guard/--no-guard", help="Watch this machine's memory (default: where the GPU shares it)."),
]
Floor = Annotated[
    float | None, typer.Option("--guard-floor", min=0.01, help="GiB of available memory under which to act.")
]
