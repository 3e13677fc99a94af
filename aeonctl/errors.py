"""Errors that a user can act on, and the exit code each kind ends with.

An error names the thing, the cause and the next thing to type. Only ``main`` turns one into an exit code.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What the process says to the shell; part of the command line's contract."""

    OK = 0
    BUG = 1
    USAGE = 2
    CONFIGURATION = 3
    HOST = 4
    REFUSED = 5
    DOWNLOAD = 6
    ENGINE = 7
    VERIFICATION = 8
    INTERRUPTED = 130


class AeonError(Exception):
    """A failure that is not a bug in aeonctl.

    ``code`` is the stable name a script can match; ``cause`` is one reason or several, outermost first; ``hint`` is the
    next thing to type; ``facts`` are the values the message speaks of, for ``--json``.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.CONFIGURATION

    def __init__(
        self,
        code: str,
        message: str,
        *,
        cause: str | tuple[str, ...] = (),
        hint: str | None = None,
        **facts: object,
    ) -> None:
        """``cause`` may be one sentence or several; a plain string is one."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.causes: tuple[str, ...] = (cause,) if isinstance(cause, str) else tuple(cause)
        self.hint = hint
        self.facts = facts


class UsageError(AeonError):
    """The command line asks for something that it cannot mean."""

    exit_code = ExitCode.USAGE


class ConfigurationError(AeonError):
    """A profile, a host file, a seat name or a template is wrong."""

    exit_code = ExitCode.CONFIGURATION


class HostError(AeonError):
    """This machine lacks something: a driver, Docker, a free port, room on a disk."""

    exit_code = ExitCode.HOST


class RefusedError(AeonError):
    """The plan has refusals; they are all in ``facts['refusals']``."""

    exit_code = ExitCode.REFUSED


class DownloadError(AeonError):
    """An image or a model could not be fetched whole."""

    exit_code = ExitCode.DOWNLOAD


class EngineError(AeonError):
    """The engine did not start, did not become ready, or died."""

    exit_code = ExitCode.ENGINE


class VerificationError(AeonError):
    """A probe of the running engine failed."""

    exit_code = ExitCode.VERIFICATION
