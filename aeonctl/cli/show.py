"""How each result is shown: data to stdout, talk to stderr, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeonctl.cli.progress import say_plan, short_value
from aeonctl.cli.session import Outcome, Session
from aeonctl.core.checks import Status
from aeonctl.core.plan import Plan
from aeonctl.core.render import render_docker_run
from aeonctl.core.units import human_bytes, human_seconds
from aeonctl.errors import AeonError
from aeonctl.workflows.ask import refuse

if TYPE_CHECKING:
    from aeonctl.core.host import Host
    from aeonctl.core.image import ImageFacts
    from aeonctl.workflows.ask import Asked
    from aeonctl.workflows.doctor import Diagnosis
    from aeonctl.workflows.down import Stopped
    from aeonctl.workflows.pull import Pulled
    from aeonctl.workflows.seats import SeatView
    from aeonctl.workflows.status import EngineView
    from aeonctl.workflows.up import Up

REHEARSAL = "This is a rehearsal: a built-in engine answers, there is no GPU, no Docker and no model behind it."


def planned(asked: Asked, session: Session, *, explain: bool = False) -> Outcome:
    """A plan: the command on stdout, what was changed and why on stderr. A refused plan prints its reasons alone."""
    from aeonctl.workflows.plan import plan

    made = plan(asked, session.ports)
    text = render_docker_run(made, session.ports.profiles.template("docker-run.sh.j2"))
    refused = _refusal(made)
    if not session.output.as_json:
        if made.rehearsal:
            session.output.note(REHEARSAL)
        say_plan(made, session.output, explain=explain)
        if refused is None:
            session.output.data(text)
    return Outcome({"plan": made.as_json(), "text": text}, refused)


def _refusal(made: Plan) -> AeonError | None:
    try:
        refuse(made)
    except AeonError as error:
        return error
    return None


def started(done: Up, session: Session) -> Outcome:
    """An engine that runs: where, what it serves, how long it took, what to type next. The URL goes to stdout."""
    output, made = session.output, done.plan
    if output.as_json:
        return Outcome(done.as_json())
    name = made.container.name
    if done.phase != "ready":
        output.note(f"engine {name} is starting; aeonctl status and aeonctl logs -f {name} tell how far it is")
    else:
        _say_ready(done, session)
    output.data(f"{made.url}/v1\n")
    return Outcome()


def _say_ready(done: Up, session: Session) -> None:
    output, made = session.output, done.plan
    output.say()
    output.note(f"{output.style('ready', 'good')}: {made.seat} as {made.container.name}")
    rows = [("  endpoint", f"{made.url}/v1"), ("  model", ", ".join(made.served_names))]
    if made.max_model_len:
        rows.append(("  context", f"{made.max_model_len} tokens"))
    if done.kv_tokens:
        rows.append(("  KV cache", f"{done.kv_tokens:,} tokens"))
    if done.phases:
        longest = {name: took for name, took in done.phases.items() if took >= 0.05}
        rows.append(("  boot", ", ".join(f"{name} {human_seconds(took)}" for name, took in longest.items())))
    if done.answer is not None:
        rows.append(("  first answer", f"{done.answer.words}: {' '.join(done.answer.text.split())[:100]!r}"))
    if made.published_on != "127.0.0.1":
        rows.append(("  reachable", "from other machines too (--lan)"))
    output.say(output.table(rows).rstrip("\n"))
    if made.rehearsal:
        output.say(f"  {output.style(REHEARSAL, 'warning')}")
    output.say()
    output.say("next:")
    body = json.dumps({"model": made.served_names[0], "messages": [{"role": "user", "content": "Hello"}]})
    key = ' -H "Authorization: Bearer $VLLM_API_KEY"' if "VLLM_API_KEY" in made.container.env else ""
    output.say(f"  curl {made.url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d '{body}'")
    output.say(f"  aeonctl logs -f {made.container.name}")
    output.say(f"  aeonctl down {made.container.name}")


def stopped(engines: list[Stopped], session: Session) -> Outcome:
    """What was stopped, and how."""
    for engine in engines:
        how = "killed" if engine.killed else "stopped" if engine.was != "exited" else "had ended already"
        session.output.note(f"engine {engine.name} is gone ({how}, {human_seconds(engine.seconds)})")
    rows = [{"name": e.name, "seconds": e.seconds, "killed": e.killed, "was": e.was} for e in engines]
    return Outcome({"stopped": rows})


def engines(views: list[EngineView], session: Session) -> Outcome:
    """A line per engine; a dead one makes the command fail."""
    from aeonctl.workflows.status import dead_engines

    rows = [("NAME", "SEAT", "STATE", "ENDPOINT", "UP", "NOTE")]
    for view in views:
        entry = view.as_json()
        marks = ["rehearsal"] if view.record.rehearsal else []
        marks += [f"restart {view.record.restart_policy}"] if view.record.restart_policy != "no" else []
        marks += [f"waived {','.join(entry['waived'])}"] if entry["waived"] else []
        marks += [view.why] if view.why else []
        state = view.state if view.state != "starting" else f"starting ({view.phase})"
        uptime = human_seconds(view.uptime) if view.uptime is not None else "-"
        endpoint = f"{entry['url']}/v1" if entry["url"] else "-"
        rows.append((view.record.name, str(entry["seat"]), state, endpoint, uptime, "; ".join(marks)))
    if views:
        session.output.data(session.output.table(rows))
    else:
        session.output.note("no engine of aeonctl exists; aeonctl up --seat SEAT starts one")
    return Outcome({"engines": [view.as_json() for view in views]}, dead_engines(views))


def log(chunks: Iterator[bytes], session: Session) -> Outcome:
    """A log, as it is."""
    if session.output.as_json:
        text = b"".join(chunks).decode("utf-8", "replace")
        return Outcome({"log": text})
    for chunk in chunks:
        session.output.raw(chunk)
    return Outcome()


_MARKS = {Status.PASS: ("ok", "good"), Status.WARN: ("warn", "warning"), Status.FAIL: ("FAIL", "error")}


def diagnosis(found: Diagnosis, save: Path | None, session: Session) -> Outcome:
    """Every check with its remedy, then the seats."""
    output = session.output
    for check in found.checks:
        mark, kind = _MARKS.get(check.status, ("skip", "faint"))
        output.data(f"{output.style(f'{mark:>4}', kind)}  {check.id:<12} {check.summary}\n")
        if check.detail:
            output.data(f"{'':19}{check.detail}\n")
        if check.remedy and check.status is not Status.PASS:
            output.data(f"{'':19}-> {check.remedy}\n")
    if not output.as_json:
        _say_seats(found.seats, session)
    if save is not None:
        session.ports.profiles.save_host(found.host, save)
        output.note(f"this host is written to {save}; use it with --as {save}")
    return Outcome(found.as_json(), found.error())


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


def models(pulled: list[Pulled], dry_run: bool, session: Session) -> Outcome:
    """Where the snapshots are, or what a download would cost."""
    rows = []
    for one in pulled:
        facts = one.facts
        rows.append(
            {
                "repo": facts.repo,
                "revision": facts.revision,
                "path": facts.path,
                "bytes": facts.bytes,
                "files": facts.files,
                "reused_bytes": one.reused_bytes,
            }
        )
        size = human_bytes(facts.bytes or 0)
        if dry_run:
            to_fetch = human_bytes((facts.bytes or 0) - one.reused_bytes)
            session.output.data(f"{facts.repo}: {to_fetch} to download of {size}\n")
        else:
            session.output.note(f"{facts.repo} is complete: {size}, {human_bytes(one.reused_bytes)} of it were here")
            session.output.data(f"{facts.path}\n")
    data: dict[str, Any] = {"models": rows}
    return Outcome(data | ({"model": rows[0]} if rows else {}))


def image(facts: ImageFacts, session: Session) -> Outcome:
    """An image that is here."""
    size = f" ({human_bytes(facts.unpacked_bytes)})" if facts.unpacked_bytes else ""
    session.output.note(f"{facts.ref} is here{size}")
    session.output.data(f"{facts.ref}\n")
    return Outcome({"image": facts.model_dump(mode="json")})
