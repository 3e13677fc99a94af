"""The engine behind the answers: after each probe, whether it is the same process, alive, quiet and idle again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from aeonctl.core.checks import Status
from aeonctl.core.death import DeathScan
from aeonctl.core.failure import Failure, FailureScan
from aeonctl.core.knowledge import BootKnowledge
from aeonctl.core.loglines import LineSplitter, parse_line
from aeonctl.core.probes import Verdict, failed, warned
from aeonctl.core.probes_long import cache_in_use, requests_at_work
from aeonctl.ports import EngineRecord, Engines, EngineStatus, Ports
from aeonctl.workflows.pump import LogPump

_SETTLE = 0.25
"""Seconds between an answer and the look at the engine that gave it: one that dies of a request answers it first."""

_LEAVING = 6.0
"""Seconds that a dying engine may need to be gone; up to 4.2 were measured."""

_LATE_NEWS = 2.0
"""Seconds in which the log of an engine whose /health says 200 may still tell of its death, or its process end."""

_IDLE_WITHIN = 15.0
"""Seconds in which an engine that was left alone must be idle again."""

_CACHE_LEFT = 0.01
"""The share of the KV cache that may stay in use by an idle engine."""


class Watch(Protocol):
    """Looks at the engine after a probe."""

    died: bool

    def look(self, probe: str, verdict: Verdict, *, expects_refusal: bool) -> Verdict:
        """The probe's own verdict, or a worse one for what became of the engine."""

    def diagnosis(self) -> Failure | None:
        """The first cause in the engine's log; None when there is none or no log."""

    def close(self) -> None:
        """Stop looking."""


def at_rest(url: str, ports: Ports) -> str | None:
    """Wait until the engine has no request and an empty cache; what is left when it takes too long, else None.

    An engine without vLLM's /metrics is taken to be at rest.
    """
    deadline = ports.clock.now() + _IDLE_WITHIN
    while True:
        reply = ports.http.get(f"{url}/metrics", timeout=10.0)
        text = reply.text if reply is not None and reply.status == 200 else ""
        busy, used = requests_at_work(text) or 0.0, cache_in_use(text) or 0.0
        if busy == 0 and used <= _CACHE_LEFT:
            return None
        if ports.clock.now() >= deadline:
            return f"{busy:.0f} requests are at work" if busy else f"{used:.0%} of the KV cache is in use"
        ports.clock.sleep(0.25)


def _busy(left: str) -> Verdict:
    if "requests" in left:
        return warned(
            "engine_busy", f"{left} {_IDLE_WITHIN:.0f} s later", remedy="verify an engine that nobody else uses"
        )
    return failed("memory_not_released", f"{left} with no request at work")


@dataclass
class UrlWatch:
    """A server that aeonctl did not start: only its HTTP can be looked at."""

    url: str
    ports: Ports
    died: bool = False
    _probed: bool = False

    def look(self, probe: str, verdict: Verdict, *, expects_refusal: bool) -> Verdict:  # noqa: ARG002
        """See Watch."""
        self.ports.clock.sleep(_SETTLE)
        if probe == "health":
            self._probed = verdict.status is Status.PASS
            self.died = not self._probed
            return verdict
        reply = self.ports.http.get(f"{self.url}/v1/models", timeout=10.0)
        if reply is None:
            self.died = True
            return failed(died_code(probe), f"it does not answer any more ({verdict.summary})")
        left = at_rest(self.url, self.ports)
        return verdict if left is None or verdict.status is Status.FAIL else _busy(left)

    def diagnosis(self) -> Failure | None:
        """There is no log to read."""
        return None

    def close(self) -> None:
        """Nothing to stop."""


def died_code(probe: str) -> str:
    """The stable name of a death: ``engine_died_on_long_prompt``."""
    return f"engine_died_on_{probe.replace('-', '_')}"


@dataclass
class EngineWatch:
    """An engine of ours: its process, its log and its HTTP."""

    before: EngineRecord
    url: str
    engines: Engines
    ports: Ports
    knowledge: BootKnowledge
    died: bool = False
    _pump: LogPump = field(init=False)
    _splitter: LineSplitter = field(default_factory=LineSplitter)
    _errors: list[str] = field(default_factory=list)
    _engine_errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scan = DeathScan(self.knowledge.log.life)
        self._pump = LogPump(self.engines, self.before.name, tail=0)

    def look(self, probe: str, verdict: Verdict, *, expects_refusal: bool) -> Verdict:
        """See Watch."""
        self.ports.clock.sleep(_SETTLE)
        self._read()
        if probe == "health":
            ended = self._replaced() or self._ended()
            self.died = verdict.status is Status.FAIL or ended is not None
            return verdict if ended is None else failed("engine_died", ended)
        how = self._replaced() or self._dead(patient=verdict.status is Status.FAIL)
        if how is not None:
            self.died = True
            return failed(died_code(probe), how, detail=None if verdict.status is Status.PASS else verdict.summary)
        if verdict.status is Status.FAIL:
            return verdict
        if self._engine_errors:
            line = self._engine_errors[0]
            return failed("engine_error_logged", "the engine logged an error during this probe", detail=line[:300])
        if self._errors and not expects_refusal:
            line = self._errors[0]
            return warned("error_logged", "the server logged an error during this probe", detail=line[:300])
        left = at_rest(self.url, self.ports)
        return verdict if left is None else _busy(left)

    def _read(self) -> None:
        """What the log has gained since the last look."""
        self._errors, self._engine_errors = [], []
        for line in self._splitter.feed(self._pump.take(wait=0)):
            self._scan.feed(line)
            parsed = parse_line(line)
            if parsed.level in ("ERROR", "CRITICAL") and not self._benign(line):
                from_engine = parsed.process is not None and not parsed.process.startswith("APIServer")
                (self._engine_errors if from_engine else self._errors).append(line)

    def _benign(self, line: str) -> bool:
        return any(
            row.severity == "benign" and row.contains in line and row.pattern.search(parse_line(line).message)
            for row in self.knowledge.log.signatures
        )

    def _record(self) -> EngineRecord | None:
        return self.engines.find(self.before.name)

    def _replaced(self) -> str | None:
        """How it is known that another process answers now; None when it is the same."""
        now = self._record()
        if now is None:
            return "the engine is gone: somebody removed it"
        if now.restart_count != self.before.restart_count or now.status is EngineStatus.RESTARTING:
            return f"the engine died and was started again ({now.restart_count} restarts)"
        if now.ident != self.before.ident:
            return "another engine runs under its name now"
        if now.started_at != self.before.started_at and now.status is EngineStatus.RUNNING:
            return "the engine was started again"
        return None

    def _dead(self, *, patient: bool) -> str | None:
        """How it is known that the engine is dead; None when it lives. ``patient`` waits for one that is dying."""
        began = self.ports.clock.now()
        while True:
            waited = self.ports.clock.now() - began
            reply = self.ports.http.get(f"{self.url}/health", timeout=10.0)
            healthy = reply is not None and reply.status == 200
            self._read_more()
            if (ended := self._ended()) is not None:
                return ended
            said = self._scan.line
            if said is None and healthy and (not patient or waited >= _LATE_NEWS):
                return None
            if said is not None and waited >= (_LATE_NEWS if healthy else _LEAVING):
                lies = " (and /health still says 200)" if healthy else ""
                return f"the engine is dead, as its log says{lies}: {parse_line(said).message[:200]}"
            if waited >= _LEAVING and not healthy:
                return "it does not answer /health any more" if reply is None else f"/health says {reply.status}"
            self.ports.clock.sleep(0.25)

    def _ended(self) -> str | None:
        record = self._record()
        if record is not None and record.status is EngineStatus.RUNNING:
            return None
        code = "" if record is None else f" with exit code {record.exit_code}"
        killed = ", killed by the kernel for want of memory" if record is not None and record.oom_killed else ""
        return f"the engine ended{code}{killed}"

    def _read_more(self) -> None:
        for line in self._splitter.feed(self._pump.take(wait=0)):
            self._scan.feed(line)

    def diagnosis(self) -> Failure | None:
        """The first cause of failure in the whole log."""
        scan, splitter = FailureScan(self.knowledge.log), LineSplitter()
        for chunk in self.engines.log(self.before.name, follow=False):
            for line in splitter.feed(chunk):
                scan.feed(line)
        for line in splitter.flush():
            scan.feed(line)
        return scan.result()

    def close(self) -> None:
        """Stop reading the log."""
        self._pump.close()
