"""How a verification is shown: a line per probe as it is done, then what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aeonctl.cli.session import Outcome, Session
from aeonctl.core.checks import Status
from aeonctl.core.units import human_seconds
from aeonctl.errors import UsageError

if TYPE_CHECKING:
    from aeonctl.core.probes import Probed
    from aeonctl.workflows.verify import Verified

_MARKS = {
    Status.PASS: ("ok", "good"),
    Status.WARN: ("warn", "warning"),
    Status.FAIL: ("FAIL", "error"),
    Status.SKIP: ("skip", "faint"),
}


def one_target(name: str | None, url: str | None) -> None:
    """UsageError when both an engine and a URL are named, or the URL is none."""
    if name is not None and url is not None:
        raise UsageError("usage", "verify takes an engine's name or --url, not both", hint="leave one of them out")
    if url is not None and not url.startswith(("http://", "https://")):
        raise UsageError("url_invalid", f"not a URL: {url}", hint=f"--url http://{url}")


def check(probed: Probed, session: Session) -> None:
    """One probe's line."""
    output = session.output
    mark, kind = _MARKS[probed.status]
    took = "" if probed.status is Status.SKIP else human_seconds(probed.seconds)
    output.data(f"{output.style(f'{mark:>4}', kind)}  {probed.id:<12} {took:>8}  {probed.summary}\n")
    for text in (probed.detail, f"-> {probed.remedy}" if probed.remedy else None):
        if text:
            output.data(f"{'':29}{text}\n")


def verified(done: Verified, session: Session) -> Outcome:
    """What it came to."""
    output = session.output
    output.rehearsal = done.rehearsal
    if done.passed:
        warnings = sum(probed.status is Status.WARN for probed in done.checks)
        more = f", {warnings} warnings" if warnings else ""
        output.note(f"{output.style('verified', 'good')}: {done.engine}{more}")
    elif done.try_line is not None:
        output.note(f"what to try: {done.try_why}")
    if done.record is not None:
        output.note(f"kept in {done.record}")
    return Outcome(done.as_json(), done.error())
