"""Every command, by importing the modules that define them; each is light until it runs."""

from aeonctl.cli import (
    commands_diagnose,
    commands_fetch,
    commands_guard,
    commands_know,
    commands_lock,
    commands_run,
    commands_verify,
)
from aeonctl.cli.app import app

__all__ = [
    "ORDER",
    "app",
    "commands_diagnose",
    "commands_fetch",
    "commands_guard",
    "commands_know",
    "commands_lock",
    "commands_run",
    "commands_verify",
]

ORDER = (
    "doctor",
    "seats",
    "show",
    "pull-model",
    "pull-image",
    "plan",
    "up",
    "verify",
    "status",
    "logs",
    "down",
    "diagnose",
    "explain",
    "lock",
    "rollback",
    "promote",
    "demote",
    "guard",
    "rescue",
)
"""The order in the help: what a new user types first stands first."""

app.registered_commands.sort(key=lambda command: ORDER.index(str(command.name)))
