"""The composition root: a command line and the outside in, an exit code out. The only place where errors become exit
codes, and the only one that knows the adapters."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from aeonctl.cli.invocation import Invocation, read_invocation
from aeonctl.cli.output import Output
from aeonctl.errors import AeonError, ExitCode, HostError, UsageError

if TYPE_CHECKING:
    from aeonctl.cli.session import Outcome
    from aeonctl.ports import Ports


def main(argv: Sequence[str], ports: Ports | None = None, output: Output | None = None) -> ExitCode:
    """Run one command line; ``ports`` stand in for the real outside in tests."""
    environment = os.environ if ports is None else ports.environment
    invocation = read_invocation(argv, environment)
    printer = output or Output(as_json=invocation.json, verbose=invocation.verbose)
    if "--version" in invocation.words[:1]:
        return _version(invocation, printer)
    outcome, error = _run(invocation, printer, ports)
    error = error or (outcome.error if outcome is not None else None)
    code = error.exit_code if error is not None else ExitCode.OK
    if isinstance(error, _InterruptedError):
        code = ExitCode.INTERRUPTED
    try:
        _tell(invocation, printer, outcome, error, code)
    except BrokenPipeError:
        _silence_stdout()
    except HostError as unwritten:
        with suppress(HostError):
            printer.error(unwritten)
        return code or unwritten.exit_code
    return code


def _tell(
    invocation: Invocation, printer: Output, outcome: Outcome | None, error: AeonError | None, code: ExitCode
) -> None:
    """The envelope, or the error as people read it; with ``-v`` where it comes from."""
    if printer.as_json and (outcome is not None or error is not None):
        printer.envelope(invocation.command, code, None if outcome is None else outcome.data, error)
    elif error is not None:
        printer.error(error)
    if error is not None and printer.verbose:
        printer.say(_chain(error))


class _InterruptedError(AeonError):
    """Ctrl-C, or a signal that means the same."""


def _run(invocation: Invocation, printer: Output, ports: Ports | None) -> tuple[Outcome | None, AeonError | None]:
    """One command: its outcome, or the error that it ended with. A bug ends here, and is called one."""
    try:
        return _dispatch(invocation, printer, ports), None
    except AeonError as error:
        return None, error
    except KeyboardInterrupt:
        return None, _InterruptedError("interrupted", "interrupted")
    except BrokenPipeError:
        _silence_stdout()
        return None, None
    except Exception as error:  # noqa: BLE001 - the one catch-all: a bug must be told as one
        return None, _bug(error, printer)


def _dispatch(invocation: Invocation, printer: Output, ports: Ports | None) -> Outcome | None:
    import typer

    from aeonctl.cli.commands import app
    from aeonctl.cli.session import Outcome, Session

    if invocation.missing_value is not None:
        raise UsageError("usage", f"{invocation.missing_value} needs a value", hint="aeonctl --help")
    _check_words(invocation)
    session = Session(invocation, printer, lambda asked: ports if ports is not None else real_ports(asked))
    command = typer.main.get_command(app)
    try:
        result = command.main(list(invocation.words), prog_name="aeonctl", standalone_mode=False, obj=session)
    except typer.TyperException as error:
        raise _usage(error) from error
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except SystemExit as error:  # how the parser's library takes a reader that has gone
        raise BrokenPipeError from error
    if result == ExitCode.INTERRUPTED:  # and what it makes of Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, Outcome) else None


def _check_words(invocation: Invocation) -> None:
    """Every word must be text that a file, a container and a terminal can take."""
    for word in (*invocation.words, invocation.as_host or "", invocation.docker_host or ""):
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            raise UsageError("not_text", "a word of the command line is not UTF-8 text", hint="aeonctl --help")


def _usage(error: Exception) -> UsageError:
    """The parser's complaint in our form."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "aeonctl"
    shown = getattr(error, "format_message", None)
    message = shown() if callable(shown) else str(error)
    return UsageError("usage", message.strip().rstrip(".") or "no command was given", hint=f"{path} --help")


def _version(invocation: Invocation, printer: Output) -> ExitCode:
    from aeonctl import __version__

    if printer.as_json:
        printer.envelope(invocation.command, ExitCode.OK, {"version": __version__}, None)
    printer.data(f"aeonctl {__version__}\n")
    return ExitCode.OK


def _chain(error: AeonError) -> str:
    """What ``-v`` adds to an error: the exceptions that it was made from."""
    import traceback

    return "".join(traceback.format_exception(error)).rstrip("\n")


class _BugError(AeonError):
    """Something that cannot have been the user's fault."""

    exit_code = ExitCode.BUG


def _bug(error: Exception, printer: Output) -> AeonError:
    import traceback

    printer.say("".join(traceback.format_exception(error)).rstrip("\n"))
    return _BugError(
        "internal_error",
        f"a bug in aeonctl: {type(error).__name__}: {error}",
        hint="please report it with the lines above (look them over for names and paths first)",
    )


def _silence_stdout() -> None:
    """Whoever read our output has gone; keep Python from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def real_ports(invocation: Invocation) -> Ports:
    """The real outside."""
    from aeonctl.adapters.real import build_ports

    return build_ports(invocation.docker_host, os.environ)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def run() -> None:
    """The console script."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.exit(main(sys.argv[1:]))
