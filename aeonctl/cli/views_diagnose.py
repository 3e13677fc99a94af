"""How a diagnosis and a page are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from aeonctl.cli.session import Outcome, Session
from aeonctl.core.diagnosis import Diagnosis, Finding, Verdict
from aeonctl.errors import ConfigurationError

if TYPE_CHECKING:
    from aeonctl.core.pages import Page
    from aeonctl.workflows.diagnose import LogInput

_CHUNK = 1 << 20
_KINDS = {Verdict.FAILED: "error", Verdict.HEALTHY: "good", Verdict.UNCLEAR: "warning"}


def diagnosis(target: str | None, host_facts: Path | None, session: Session) -> Outcome:
    """Read what is to be diagnosed, and show the answer."""
    from aeonctl.workflows.diagnose import diagnose_log, engine_log

    text = "" if host_facts is None else _text(host_facts)
    log = _input(target, text)
    if log is None:
        log = engine_log(target, text, session.ports, session.report)
    found = diagnose_log(log, session.invocation.as_host, session.ports)
    _say(found, log.name, session)
    return Outcome(found.model_dump(mode="json"))


def _input(target: str | None, host_text: str) -> LogInput | None:
    """A file or standard input as a log; None when the target must be an engine."""
    from aeonctl.workflows.diagnose import LogInput

    if target == "-":
        return LogInput("standard input", _chunks(sys.stdin.buffer), host_text)
    if target is None or not (Path(target).exists() or "/" in target):
        return None
    path = Path(target)
    beside = path.with_suffix(".host.txt")
    if not host_text and beside.is_file():
        host_text = _text(beside)
    return LogInput(target, _file(path), host_text)


def _file(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            yield from _chunks(stream)
    except OSError as error:
        raise _unreadable(path, error) from error


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        "file_not_readable", f"{path} cannot be read", cause=error.strerror or str(error), hint="check the path"
    )


def _say(found: Diagnosis, name: str, session: Session) -> None:
    output = session.output
    word = output.style(found.verdict.value, _KINDS[found.verdict])
    output.data(f"{name}: {word}: {found.summary}\n")
    others = []
    for finding in found.findings:
        if finding.severity == "fatal" or finding.id == _first_offer(found):
            _say_finding(finding, session)
        else:
            others.append(finding)
    if others:
        output.data("\nalso in this log:\n")
        rows = [(f"  {f.severity}", f"line {f.line_no}" if f.line_no else "-", f.id, _times(f)) for f in others]
        output.data(output.table(rows))
    if found.would_help:
        output.data("\nwhat would help:\n" + "".join(f"  {text}\n" for text in found.would_help))


def _first_offer(found: Diagnosis) -> str | None:
    return next((f.id for f in found.findings if f.severity == "info" and not f.line_no), None)


def _times(finding: Finding) -> str:
    return finding.cause + (f" ({finding.count} times)" if finding.count > 1 else "")


def _say_finding(finding: Finding, session: Session) -> None:
    output = session.output
    where = f"line {finding.line_no}: " if finding.line_no else ""
    output.data(f"\n{output.style(finding.id, 'bold')}\n")
    if finding.line:
        output.data(f"  {where}{finding.line[:300]}\n")
    output.data(f"  {finding.cause}\n")
    for reason in finding.because:
        output.data(f"  because  {reason}\n")
    if finding.remedy:
        output.data(f"  do       {finding.remedy}\n")
    output.data(f"  source   {finding.source}\n")


def pages(found: list[Page], session: Session) -> Outcome:
    """The pages of one id."""
    output = session.output
    for page in found:
        output.data(f"{output.style(page.id, 'bold')}  ({page.kind})\n")
        for name, text in page.lines():
            output.data(f"  {name:<8} {text}\n")
        output.data("\n")
    data: dict[str, Any] = {"pages": [page.model_dump(mode="json") for page in found]}
    return Outcome(data)
