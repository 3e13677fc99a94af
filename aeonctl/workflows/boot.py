"""From a started container to an engine that answers: follow the log, watch the process, poll health."""

from __future__ import annotations

from dataclasses import dataclass

from aeonctl.core.bootwatch import BootWatch, Quiet, Stalled, TimedOut
from aeonctl.core.failure import Failure, FailureScan
from aeonctl.core.knowledge import BootKnowledge
from aeonctl.core.loglines import LineSplitter
from aeonctl.core.phases import BootFacts, BootProgress, Phase, PhaseBegan
from aeonctl.core.plan import Plan
from aeonctl.core.units import human_seconds
from aeonctl.errors import EngineError
from aeonctl.ports import EngineRecord, Engines, EngineStatus, Ports, Reporter
from aeonctl.workflows.pump import LogPump

_READ_EVERY = 0.1
"""Seconds between two looks at the log."""
_LAST_WORDS = 20
"""How often half a second is waited for the rest of a dead engine's log."""
_LOOK_EVERY = 1.0
"""Seconds between two looks at the process, its CPU time and its health."""


@dataclass(frozen=True)
class Boot:
    """A boot that came to an answer on /health: seconds per phase, and what the log told."""

    phases: dict[str, float]
    facts: BootFacts
    seconds: float


class BootFollower:
    """One boot, followed to its end. ``follow`` returns when /health answers, and raises when it will not."""

    def __init__(
        self,
        plan: Plan,
        engines: Engines,
        ports: Ports,
        report: Reporter,
        knowledge: BootKnowledge,
        timeout: float | None,
    ) -> None:
        self._plan, self._engines, self._ports, self._report = plan, engines, ports, report
        self._name = plan.container.name
        self._began = ports.clock.now()
        self._progress = BootProgress(knowledge.phases, self._began)
        self._watch = BootWatch(knowledge.budgets_with(plan.boot_seconds), self._began, timeout)
        self._scan = FailureScan(knowledge.log)
        self._splitter = LineSplitter()
        self._told_quiet = False
        self._next_look = self._began

    def follow(self) -> Boot:
        """Until /health says 200. EngineError exited_at_start | start_timeout | not_running."""
        pump = LogPump(self._engines, self._name)
        try:
            while True:
                self._read(pump.take(wait=0))
                now = self._ports.clock.now()
                if now >= self._next_look or self._progress.ready or pump.ended:
                    self._next_look = now + _LOOK_EVERY
                    if self._healthy():
                        self._read(pump.take(wait=0))
                        return self._boot()
                    self._look(pump)
                self._ports.clock.sleep(_READ_EVERY)
        finally:
            pump.close()
            self._report.settle()

    def _read(self, data: bytes) -> None:
        now = self._ports.clock.now()
        self._scan.read(data)
        for line in self._splitter.feed(data):
            self._watch.observe_line(now)
            for event in self._progress.feed(line, now):
                if isinstance(event, PhaseBegan):
                    self._watch.observe_phase(event.phase, event.at)
        if data:
            self._told_quiet = False
        self._report.booting(self._progress.phase.value, self._detail(), now - self._began)

    def _detail(self) -> str:
        """How far the phase is, in words: bars while weights load or graphs are captured, then the memory found."""
        phase, facts = self._progress.phase, self._progress.facts
        share = self._progress.progress(phase)
        if share is not None and phase in (Phase.WEIGHTS, Phase.GRAPHS):
            return f"{share:.0%}"
        if facts.kv_tokens is not None:
            return f"{facts.kv_tokens:,} KV tokens"
        if facts.weights_gib is not None:
            return f"weights {facts.weights_gib:.1f} GiB"
        return ""

    def _healthy(self) -> bool:
        reply = self._ports.http.get(f"{self._plan.url}/health", timeout=2.0)
        return reply is not None and reply.status == 200

    def _look(self, pump: LogPump) -> None:
        """The process, its CPU, and the verdict on the silence."""
        self._ports.step("boot:look")
        record = self._engines.find(self._name)
        if record is None:  # its log may go on for ever, under the name that somebody gave it
            self._read(pump.take(wait=0))
            raise self._death(None)
        if record.status is EngineStatus.EXITED:
            for _ in range(_LAST_WORDS):
                if pump.ended or pump.error is not None:
                    break
                self._read(pump.take(wait=0.5))
            raise self._death(record)
        now = self._ports.clock.now()
        cpu = self._engines.cpu_seconds(self._name)
        if cpu is not None:
            self._watch.observe_cpu(cpu, now)
        verdict = self._watch.verdict(now)
        if isinstance(verdict, Stalled | TimedOut):
            raise self._timeout(verdict)
        if isinstance(verdict, Quiet) and not self._told_quiet:
            self._told_quiet = True
            moving = "its processes are computing" if verdict.cpu_moves else "and its processes are idle"
            self._report.warn(f"no log line for {human_seconds(verdict.silent_s)} in phase {verdict.phase}, {moving}")

    def _death(self, record: EngineRecord | None) -> EngineError:
        self._scan.finish()
        return death_error(self._name, record, self._scan.result(), f"in phase {self._progress.phase}")

    def _timeout(self, verdict: Stalled | TimedOut) -> EngineError:
        phase = verdict.phase.value
        if isinstance(verdict, TimedOut):
            cause = f"--timeout {verdict.limit_s:.0f} has passed in phase {phase}"
            hint = "give it longer: --timeout SECONDS (without it, aeonctl waits as long as something moves)"
        else:
            cause = (
                f"phase {phase} is over its budget of {human_seconds(verdict.budget_s)}, and neither the log nor the "
                f"engine's CPU time has moved for {human_seconds(verdict.silent_s)}"
            )
            hint = "read the kept log for the last thing it did; a second start is often faster (compiled kernels stay)"
        failure = self._scan.result()
        causes = (cause,) if failure is None else (cause, failure.cause)
        return EngineError(
            "start_timeout", f"engine {self._name} did not become ready", cause=causes, hint=hint, phase=phase
        )

    def _boot(self) -> Boot:
        now = self._ports.clock.now()
        self._progress.finish(now)
        phases = {name: round(seconds, 2) for name, seconds in self._progress.durations().items()}
        return Boot(phases, self._progress.facts, now - self._began)


def death_error(name: str, record: EngineRecord | None, failure: Failure | None, when: str) -> EngineError:
    """An engine that ended by itself, with the first cause that its log names."""
    if record is None:
        return EngineError(
            "not_running",
            f"engine {name} is gone",
            cause=f"somebody removed or renamed it {when}",
            hint="aeonctl up starts it again",
        )
    ended = f"it ended {when} with exit code {record.exit_code}"
    if record.oom_killed:
        ended += ", killed by the kernel for want of memory"
    causes = [ended]
    if record.error:
        causes.append(record.error)
    if failure is not None:
        causes.append(failure.cause)
        if failure.line and failure.line not in failure.cause:
            causes.append(f"log line {failure.line_no}: {failure.line}")
    hint = failure.remedy if failure is not None and failure.remedy else "read the kept log, named above"
    return EngineError(
        "exited_at_start",
        f"engine {name} died",
        cause=tuple(causes),
        hint=hint,
        exit_code=record.exit_code,
        diagnosis=None if failure is None else failure.id,
        failure=None if failure is None else failure.model_dump(mode="json"),
    )
