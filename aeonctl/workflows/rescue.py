"""``aeonctl rescue``: no restart policy, then SIGKILL, for every engine of ours; here, or through the first ssh session
that a wedged machine lets in."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aeonctl.core.container import LABEL
from aeonctl.errors import AeonError, EngineError, HostError
from aeonctl.ports import Engines, Ports, RemoteAnswer, Reporter

_KILL_SECONDS = 10.0
_NEVER_LANDS = ("host key verification failed", "remote host identification has changed")


@dataclass(frozen=True)
class Rescued:
    """What was found and done. ``attempt`` is the try that landed, from 1; None for this machine."""

    policies_cleared: tuple[str, ...]
    killed: tuple[str, ...]
    host: str | None = None
    attempt: int | None = None
    seconds: float = 0.0
    problems: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """``data`` of ``rescue --json``."""
        return {
            "host": self.host,
            "attempt": self.attempt,
            "policies_cleared": list(self.policies_cleared),
            "killed": list(self.killed),
            "seconds": self.seconds,
            "problems": list(self.problems),
        }


def rescue_here(everything: bool, ports: Ports, report: Reporter) -> Rescued:
    """Clear every policy first, so that nothing comes back, then kill. EngineError rescue_incomplete when something
    still lives after 10 s; HostError docker_* when Docker does not answer."""
    began = ports.clock.now()
    done = [_rescue(ports.docker, everything, ports), _rescue(ports.rehearsal, False, ports)]
    rescued = Rescued(
        policies_cleared=tuple(name for one in done for name in one.policies_cleared),
        killed=tuple(name for one in done for name in one.killed),
        seconds=round(ports.clock.now() - began, 2),
        problems=tuple(words for one in done for words in one.problems),
    )
    for words in rescued.problems:
        report.warn(words)
    return rescued


def _rescue(engines: Engines, everything: bool, ports: Ports) -> Rescued:
    found = engines.listed(foreign=everything)
    problems: list[str] = []
    for one in found:
        _tried(lambda name=one.name: engines.set_restart(name, "no"), problems)
    ports.step("rescue:policies")
    killed: dict[str, None] = {}
    deadline = ports.clock.now() + _KILL_SECONDS
    while alive := [one.name for one in engines.listed(foreign=everything) if one.alive]:
        if ports.clock.now() >= deadline:
            raise EngineError(
                "rescue_incomplete",
                f"{len(alive)} containers still run",
                cause=(", ".join(alive), *problems),
                hint="the Docker daemon needs a look: aeonctl doctor; a reset ends them, and none comes back by itself",
            )
        for name in alive:
            killed[name] = None
            _tried(lambda name=name: engines.signal(name, "SIGKILL"), problems)
        ports.clock.sleep(0.1)
    return Rescued(tuple(one.name for one in found), tuple(killed), problems=tuple(problems))


def _tried(act: Any, problems: list[str]) -> None:
    """One container's trouble must not save the next."""
    try:
        act()
    except AeonError as error:
        if error.code != "not_running":
            problems.append("; ".join((error.message, *error.causes)))


def rescue_there(
    url: str, everything: bool, attempts: int | None, interval: float, ports: Ports, report: Reporter
) -> Rescued:
    """Try again and again until one ssh session lands, which does everything by one command.

    ``attempts`` None means without end, ``interval`` are seconds between two tries. HostError ssh_unreachable when no
    try landed or none can; EngineError rescue_incomplete when the session could not do it.
    """
    script, began, attempt = remote_script(url, everything), ports.clock.now(), 0
    while True:
        attempt += 1
        answer = ports.remote.run(url, script)
        if answer.landed:
            break
        hopeless = any(words in answer.words.lower() for words in _NEVER_LANDS)
        if hopeless or (attempts is not None and attempt >= attempts):
            raise _unreachable(url, attempt, answer)
        if attempt in (1, 10) or attempt % 60 == 0:
            report.note(f"try {attempt}: {_last(answer.words)}; trying on (Ctrl-C stops)")
        ports.clock.sleep(interval)
    report.note(f"try {attempt} landed on {url}")
    return _read(answer, url, attempt, round(ports.clock.now() - began, 2))


def remote_script(url: str, everything: bool) -> str:
    """What the session runs: wait for Docker, clear every policy at once, kill until nothing lives, tell."""
    path = urlsplit(url).path.rstrip("/")
    mine = "" if everything else f"--filter label={LABEL}.seat"
    lines = [
        'PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/snap/bin"',
        f"export DOCKER_HOST={shlex.quote(f'unix://{path}')}" if path else ":",
        "command -v docker >/dev/null || { echo 'no docker command there' >&2; exit 69; }",
        "n=0",
        f"until all=$(docker ps -aq {mine} 2>/dev/null); do",
        "  n=$((n+1)); [ $n -lt 600 ] || { echo 'Docker does not answer there' >&2; exit 75; }; sleep 0.1",
        "done",
        '[ -n "$all" ] || { echo done; exit 0; }',
        "n=0",
        "until docker update --restart=no $all >/dev/null; do",
        "  n=$((n+1)); [ $n -lt 20 ] || break; sleep 0.05",
        "done",
        "n=0",
        f'while live=$(docker ps -q {mine}) && [ -n "$live" ]; do',
        f"  docker ps {mine} --format 'killed {{{{.Names}}}}'",
        "  docker kill $live >/dev/null",
        "  n=$((n+1)); [ $n -lt 50 ] || { echo 'containers still run' >&2; exit 70; }; sleep 0.1",
        "done",
        f"docker ps -a {mine} --format 'cleared {{{{.Names}}}}'",
        "echo done",
    ]
    return "\n".join(lines)


def _read(answer: RemoteAnswer, url: str, attempt: int, seconds: float) -> Rescued:
    lines = answer.output.splitlines()
    named = {word: tuple(dict.fromkeys(line.split(" ", 1)[1] for line in lines if line.startswith(f"{word} ")))
             for word in ("cleared", "killed")}  # fmt: skip
    if answer.code != 0 or "done" not in lines:
        raise EngineError(
            "rescue_incomplete",
            f"the session on {url} landed, but could not finish",
            cause=(
                _last(answer.words) or f"exit code {answer.code}",
                f"killed: {', '.join(named['killed']) or 'none'}",
            ),
            hint="run it again; docker must be usable by that account there",
            attempt=attempt,
        )
    return Rescued(named["cleared"], named["killed"], url, attempt, seconds)


def _unreachable(url: str, attempt: int, answer: RemoteAnswer) -> HostError:
    return HostError(
        "ssh_unreachable",
        f"no ssh session landed on {url}",
        cause=(f"try {attempt}: {_last(answer.words)}",),
        hint="check that ssh works without a password there; without --attempts it tries until you stop it",
        attempts=attempt,
    )


def _last(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
