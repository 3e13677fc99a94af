"""``main`` itself, the printer and the progress: exit codes, the envelope, and what a terminal gets."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import aeonctl.main
from aeonctl import __version__
from aeonctl.cli.commands import ORDER
from aeonctl.cli.invocation import read_invocation
from aeonctl.cli.output import Output
from aeonctl.cli.progress import LineReporter, TerminalReporter, reporter_for
from aeonctl.core.catalog import Document
from aeonctl.main import main, real_ports
from aeonctl.ports import FetchProgress, PullProgress
from tests.fakes.ports import World, run


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("CI", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def test_version(world: World) -> None:
    assert run(["--version"], world).out == f"aeonctl {__version__}\n"
    ran = run(["--version", "--json"], world)
    assert (ran.envelope["data"], ran.envelope["command"]) == ({"version": __version__}, "aeonctl")


def test_help(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"], world).code == 0
    text = capsys.readouterr().out
    places = [text.index(f"\n  {name} ") for name in ORDER]
    assert places == sorted(places)
    assert run(["plan", "--help"], world).code == 0
    assert "--as HOST" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words", "hint"),
    [
        (["nothing"], "No such command", "aeonctl --help"),
        (["plan"], "Missing option", "aeonctl plan --help"),
        (["plan", "--nothing"], "No such option", "aeonctl plan --help"),
        (["plan", "--seat", "quality", "--port", "0"], "Invalid value for '--port'", "aeonctl plan --help"),
        (["plan", "--seat", "quality", "--as"], "--as needs a value", "aeonctl --help"),
        (["plan", "--seat", "\udcff"], "a word of the command line is not UTF-8 text", "aeonctl --help"),
    ],
)
def test_usage(world: World, argv: list[str], words: str, hint: str) -> None:
    ran = run([*argv, "--json"], world) if argv[-1] != "--as" else run(["--json", *argv], world)
    assert (ran.code, ran.error["code"], ran.error["hint"]) == (2, "usage" if "UTF" not in words else "not_text", hint)
    assert words in ran.error["message"]


def test_no_command(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run([], world)
    assert ran.code == 2
    assert "doctor" in capsys.readouterr().out + ran.err


def test_global_options_stand_anywhere(world: World) -> None:
    for argv in (
        ["--as", "h200", "seats", "--json"],
        ["seats", "--json", "--as=h200"],
        ["--json", "--as", "h200", "seats"],
    ):
        assert run(argv, world).data["host"] == "h200"
    world.environment["AEONCTL_AS"] = "b200"
    assert run(["seats", "--json"], world).data["host"] == "b200"
    found = read_invocation(["plan", "--name", "--json", "-v", "--host", "ssh://a", "--", "--json"], {})
    assert (found.words, found.json, found.verbose) == (("plan", "--name", "--json", "--", "--json"), False, True)
    assert found.docker_host == "ssh://a"


def test_a_bug_is_called_one(world: World) -> None:
    def broken() -> None:
        raise ZeroDivisionError("hm")

    world.host.during = broken
    ran = run(["doctor", "--json"], world)
    assert (ran.code, ran.error["code"]) == (1, "internal_error")
    assert ran.error["message"] == "a bug in aeonctl: ZeroDivisionError: hm"
    assert "Traceback" in ran.err


def test_an_error_as_people_read_it(world: World) -> None:
    assert run(["plan", "--seat", "qualty"], world).err == (
        "error: there is no seat called 'qualty'\n"
        "  caused by: known: cpu/try, daily, dgx-spark/daily, dgx-spark/quality, judge, quality, rtx-5090-x2/stock, "
        "rtx-5090/judge, rtx-5090/quality, rtx-5090/speed, rtx-5090/stock, rtx-pro-6000/judge, rtx-pro-6000/quality, "
        "rtx-pro-6000/speed, speed, stock, try\n"
        "\nhint: did you mean quality?\n"
    )


def test_a_prompt_that_is_cut_off(world: World) -> None:
    def end() -> None:
        raise EOFError

    world.host.during = end
    assert run(["doctor"], world).code == 130


def test_the_console_script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    installed: list[int] = []
    monkeypatch.setattr("sys.argv", ["aeonctl", "--version"])
    monkeypatch.setattr("signal.signal", lambda number, _handler: installed.append(number))
    with pytest.raises(SystemExit) as caught:
        aeonctl.main.run()
    assert (caught.value.code, len(installed)) == (0, 2)
    assert capsys.readouterr().out == f"aeonctl {__version__}\n"
    with pytest.raises(KeyboardInterrupt):
        aeonctl.main._interrupt(15, None)


def test_the_real_outside_is_built_without_asking_anybody() -> None:
    assert real_ports(read_invocation(["status"], {})).docker is not None


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    monkeypatch.setattr("sys.argv", ["aeonctl", "--version"])
    monkeypatch.setattr("signal.getsignal", lambda _number: signal.SIG_IGN)
    monkeypatch.setattr("signal.signal", lambda *_: pytest.fail("a handler was installed"))
    with pytest.raises(SystemExit):
        aeonctl.main.run()


class Ascii(io.StringIO):
    encoding = "ascii"

    def write(self, text: str, /) -> int:
        text.encode("ascii")
        return super().write(text)


def test_a_terminal_that_knows_ascii_alone() -> None:
    err = Ascii()
    Output(out=err, err=err).say("é…")
    assert err.getvalue() == "\\xe9\\u2026\n"


def test_bytes_of_a_log_stay_bytes(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        Output(out=out, err=out).raw(b"\xff\x00\n")
    assert (tmp_path / "out").read_bytes() == b"\xff\x00\n"


def test_colours(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Output(out=terminal, err=terminal)
    assert output.style("x", "error") == "\x1b[31;1mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.style("x", "error") == "x"
    assert Output(as_json=True, err=terminal).is_terminal is False
    assert output.table([]) == ""


def test_who_reports(terminal: Terminal) -> None:
    assert type(reporter_for(Output(err=io.StringIO()))) is LineReporter
    assert type(reporter_for(Output(err=terminal))) is TerminalReporter


def test_lines() -> None:
    err = io.StringIO()
    reporter = LineReporter(Output(err=err))
    for done in (0, 5, 9, 10, 50, 100, 200):
        reporter.pulling("i", PullProgress("download", done, 100))
    reporter.pulling("i", PullProgress("download", 5, 0))
    reporter.settle()
    assert err.getvalue().splitlines() == [f"download i: {percent}% of 100 B" for percent in (0, 10, 50, 100)]


@pytest.mark.parametrize("rehearsal", [False, True])
def test_what_moves_on_a_terminal(terminal: Terminal, capsys: pytest.CaptureFixture[str], rehearsal: bool) -> None:
    output = Output(out=terminal, err=terminal)
    output.rehearsal = rehearsal
    reporter = TerminalReporter(output)
    long = "example.org/a-very-long-name/of-an-image-that-does-not-fit-into-a-line:latest"
    reporter.pulling(f"{long}@sha256:1", PullProgress("download", 1, 10))
    reporter.pulling(f"{long}@sha256:1", PullProgress("download", 2, 10))
    reporter.warn("mind this")
    reporter.fetching("a/b", FetchProgress(1, 3, 5, 0))
    reporter.fetching("a/b", FetchProgress(0, 0, 5, 0))
    reporter.settle()
    reporter.booting("created", "", 0.0)
    reporter.booting("weights", "50%", 5.0)
    reporter.note("by the way")
    reporter.booting("weights", "60%", 65.0)
    reporter.settle()
    reporter.settle()
    capsys.readouterr()
    said = terminal.getvalue()
    assert "done\x1b[0m  created    5.0 s\n" in said
    assert "weights    1 min 00 s\n" in said
    assert ("[rehearsal] by the way" in said) is rehearsal


def test_a_whole_up_on_a_terminal(world: World, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--seat", "quality"], world.ports, Output(out=io.StringIO(), err=terminal)) == 0
    capsys.readouterr()
    assert "ready\x1b[0m: rtx-5090/quality" in terminal.getvalue()


def test_the_envelope_is_one_document(world: World) -> None:
    ran = run(["plan", "--seat", "quality", "--json"], world)
    assert list(json.loads(ran.out)) == ["aeonctl", "command", "ok", "exit_code", "data", "errors"]
    assert ran.out.count("\n") == 1
    assert ran.err == ""


def test_a_user_s_profile_that_cannot_be_read(world: World) -> None:
    def read(kind: str) -> Iterable[Document]:
        return [Document("x.yaml", "x", {"id": 5})]

    world.profiles.read = read  # type: ignore[method-assign]
    ran = run(["seats", "--as", "x", "--json"], world)
    assert (ran.code, ran.error["code"]) == (3, "host_invalid")
