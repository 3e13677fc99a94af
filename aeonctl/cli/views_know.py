"""How checks and seats are shown."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeonctl.cli.output import Output
from aeonctl.cli.progress import short_value
from aeonctl.cli.session import Outcome, Session
from aeonctl.core.checks import Check, Status

if TYPE_CHECKING:
    from aeonctl.core.host import Host
    from aeonctl.workflows.doctor import Diagnosis
    from aeonctl.workflows.seats import SeatView

_MARKS = {Status.PASS: ("ok", "good"), Status.WARN: ("warn", "warning"), Status.FAIL: ("FAIL", "error")}


def diagnosis(found: Diagnosis, save: Path | None, session: Session, *, as_report: bool) -> Outcome:
    """Every check with its remedy, then the seats; or the text for a bug report."""
    output = session.output
    if as_report:
        output.data(found.report)
    else:
        output.data(checks_text(found.checks, output))
        if not output.as_json and found.seats:
            _say_seats(found.seats, session)
    if save is not None:
        session.ports.profiles.save_host(found.host, save)
        output.note(f"this host is written to {save}; use it with --as {save}")
    data = found.as_json() | ({"report": found.report} if as_report else {})
    return Outcome(data, found.error())


def checks_text(checks: list[Check], output: Output) -> str:
    """One line per check, what failed with its way out; what nobody could tell is named in one line unless -v."""
    lines: list[str] = []
    silent = [] if output.verbose else [check for check in checks if check.status is Status.SKIP and not check.remedy]
    for check in (check for check in checks if check not in silent):
        mark, kind = _MARKS.get(check.status, ("skip", "faint"))
        lines.append(f"{output.style(f'{mark:>4}', kind)}  {check.id:<16} {check.summary}")
        if check.detail:
            lines.append(f"{'':23}{check.detail}")
        if check.remedy and check.status is not Status.PASS:
            lines.append(f"{'':23}-> {check.remedy}")
    untold = [check.id for check in silent if check.applies]
    if untold:
        words = f"skip  could not be told here (-v says why): {', '.join(untold)}"
        lines += textwrap.wrap(words, 110, subsequent_indent=" " * 6, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def seats(host: Host, views: list[SeatView], session: Session) -> Outcome:
    """Every seat for this host."""
    _say_seats(views, session)
    return Outcome({"host": host.name, "seats": [view.as_json() for view in views]})


def _say_seats(views: list[SeatView], session: Session) -> None:
    output = session.output
    fitting = [view for view in views if view.fits]
    output.data("\nseats that fit this machine:\n" if fitting else "\nno seat fits this machine\n")
    rows = [(f"  {view.seat.id}", view.seat.title, view.seat.source) for view in fitting]
    output.data(output.table(rows))
    others = [view for view in views if not view.fits]
    if others:
        output.data("\nseats that would be refused here:\n")
    for view in others:
        reasons = [refusal.why for refusal in view.refusals] or [view.unfit or ""]
        output.data(f"  {view.seat.id}\n" + "".join(f"      {reason}\n" for reason in reasons))


def seat(rows: dict[str, Any], session: Session) -> Outcome:
    """A seat's rows, as YAML would read."""
    for kind, row in rows.items():
        if row is not None:
            session.output.data(f"{kind}:\n{_indented(row, 1)}")
    return Outcome(rows)


def _indented(value: Any, depth: int) -> str:
    pad = "  " * depth
    text = ""
    for name, item in value.items():
        if item in (None, [], {}, ()):
            continue
        if isinstance(item, dict) and name != "options":
            text += f"{pad}{name}:\n{_indented(item, depth + 1)}"
        elif isinstance(item, dict):
            text += f"{pad}{name}:\n" + "".join(f"{pad}  --{k} {short_value(v)}\n" for k, v in item.items())
        else:
            text += f"{pad}{name}: {short_value(item)}\n"
    return text
