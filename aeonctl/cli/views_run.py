"""How plans and engines are shown: data to stdout, talk to stderr, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aeonctl.cli.progress import say_plan, short_value
from aeonctl.cli.session import Outcome, Session
from aeonctl.core.explained import Explained, explained
from aeonctl.core.images import facts_line
from aeonctl.core.plan import Plan
from aeonctl.core.render import render_docker_run
from aeonctl.core.units import human_seconds
from aeonctl.errors import AeonError
from aeonctl.workflows.ask import refuse
from aeonctl.workflows.hosts import catalog_of

if TYPE_CHECKING:
    from aeonctl.workflows.ask import Asked
    from aeonctl.workflows.down import Stopped
    from aeonctl.workflows.status import EngineView
    from aeonctl.workflows.up import Up

REHEARSAL = "This is a rehearsal: a built-in engine answers, there is no GPU, no Docker and no model behind it."


def planned(asked: Asked, session: Session, *, explain: bool = False) -> Outcome:
    """A plan: the command on stdout, what was changed and why on stderr. A refused plan prints its reasons alone."""
    from aeonctl.workflows.plan import plan

    made = plan(asked, session.ports)
    text = render_docker_run(made, session.ports.profiles.template("docker-run.sh.j2"))
    refused = _refusal(made)
    rows = explained(made, catalog_of(session.ports).seat(made.seat)) if explain else []
    if not session.output.as_json:
        if made.rehearsal:
            session.output.note(REHEARSAL)
        session.output.note(f"image {made.image_ref}: {facts_line(made.image)}")
        say_plan(made, session.output, explain=explain)
        if explain:
            _say_options(rows, session)
        if refused is None:
            session.output.data(text)
    data: dict[str, object] = {"plan": made.as_json(), "text": text}
    if explain:
        data["explained"] = [row.model_dump(mode="json") for row in rows]
    return Outcome(data, refused)


def _say_options(rows: list[Explained], session: Session) -> None:
    """Every option with its reason and source. What the seat set stands together, under the seat's own reason."""
    output = session.output
    output.say("every option:")
    reasons: dict[tuple[str, str, str], list[Explained]] = {}
    for row in rows:
        reasons.setdefault((row.by, row.why, row.source), []).append(row)
    for (by, why, source), group in reasons.items():
        output.say(f"  {output.style(by, 'bold')}: {why} ({source})")
        for row in group:
            output.say(f"    {row.option} {short_value(row.value)}".rstrip())


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
        mark = "rehearsal " if engine.rehearsal else ""
        session.output.note(f"{mark}engine {engine.name} is gone ({how}, {human_seconds(engine.seconds)})")
    rows = [
        {"name": e.name, "seconds": e.seconds, "killed": e.killed, "was": e.was, "rehearsal": e.rehearsal}
        for e in engines
    ]
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
        marks += [] if view.verified is None else ["verified" if view.verified else "failed verify"]
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
