"""Engines in memory: what they print and how they end is a script, and time is the test's clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aeonctl.adapters.docker_read import SEAT_LABEL
from aeonctl.core.container import ContainerSpec
from aeonctl.core.host import Docker
from aeonctl.core.image import ImageFacts
from aeonctl.errors import AeonError, EngineError, HostError
from aeonctl.ports import EngineRecord, EngineStatus, Listed, LogStream, PullProgress
from tests.fakes.clock import FakeClock


@dataclass(frozen=True)
class Script:
    """The life of one engine, in seconds since its start.

    ``lines`` are pieces of log by the time they appear; ``exit_at`` None lives on; ``on_term`` is the exit code that
    SIGTERM leads to after ``term_seconds``, None ignores it; ``cpu_per_second`` is the CPU time it uses.
    """

    lines: Sequence[tuple[float, bytes]] = ()
    exit_at: float | None = None
    exit_code: int = 0
    oom_killed: bool = False
    error: str | None = None
    healthy_at: float | None = None
    on_term: int | None = 0
    term_seconds: float = 0.0
    term_lines: Sequence[bytes] = ()
    cpu_per_second: float = 1.0


@dataclass
class _Engine:
    spec: ContainerSpec
    script: Script
    started: float
    started_at: float
    ident: str
    restart: str
    term_at: float | None = None
    killed_at: float | None = None

    def end(self) -> tuple[float, int] | None:
        """When it ends by what is known so far, and its exit code."""
        ends: list[tuple[float, int]] = []
        if self.script.exit_at is not None:
            ends.append((self.started + self.script.exit_at, self.script.exit_code))
        if self.term_at is not None and self.script.on_term is not None:
            ends.append((self.term_at + self.script.term_seconds, self.script.on_term))
        if self.killed_at is not None:
            ends.append((self.killed_at, 137))
        return min(ends) if ends else None

    def ended(self, now: float) -> bool:
        end = self.end()
        return end is not None and end[0] <= now

    def log(self) -> list[tuple[float, bytes]]:
        """Every piece that will appear, in order of time."""
        end = self.end()
        pieces = [(self.started + at, text) for at, text in self.script.lines]
        if self.term_at is not None:
            pieces += [(self.term_at, text) for text in self.script.term_lines]
        pieces.sort(key=lambda piece: piece[0])
        return [piece for piece in pieces if end is None or piece[0] <= end[0]]


@dataclass
class FakeEngines:
    """``ports.Engines``. ``script`` says what a spec will do; ``refuse`` makes starts fail, one entry per start (None
    lets one through); ``silence`` is raised by everything while it is set. Images are here when they are in ``images``,
    to which a pull adds; with ``rehearsal`` none is needed."""

    clock: FakeClock
    script: Callable[[ContainerSpec, Mapping[str, str]], Script] = lambda _spec, _environment: Script()
    docker: Docker = field(default_factory=lambda: Docker(reachable=True, version="29.0.0"))
    images: dict[str, ImageFacts] = field(default_factory=dict)
    pulls: dict[str, tuple[Sequence[PullProgress], ImageFacts | AeonError]] = field(default_factory=dict)
    refuse: list[AeonError | None] = field(default_factory=list)
    taken_ports: set[int] = field(default_factory=set)
    silence: HostError | None = None
    rehearsal: bool = False
    started: list[tuple[ContainerSpec, dict[str, str]]] = field(default_factory=list)
    signals: list[tuple[str, str]] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)
    chains: tuple[tuple[str, ...], ...] = ()
    _engines: dict[str, _Engine] = field(default_factory=dict)

    def describe(self) -> Docker:
        return self.docker

    def find(self, name: str) -> EngineRecord | None:
        self._speak()
        engine = self._engines.get(name)
        return None if engine is None else self._record(engine)

    def ours(self) -> tuple[EngineRecord, ...]:
        self._speak()
        records = [self._record(engine) for _, engine in sorted(self._engines.items())]
        return tuple(record for record in records if record.ours)

    def listed(self, *, foreign: bool) -> tuple[Listed, ...]:
        self._speak()
        records = [self._record(engine) for _, engine in sorted(self._engines.items())]
        return tuple(
            Listed(record.name, record.status is EngineStatus.RUNNING) for record in records if record.ours or foreign
        )

    def image(self, ref: str) -> ImageFacts | None:
        self._speak()
        return self.images.get(ref)

    def layers(self) -> tuple[tuple[str, ...], ...]:
        self._speak()
        return self.chains

    def pull(self, ref: str, progress: Callable[[PullProgress], None]) -> None:
        self._speak()
        self.pulled.append(ref)
        steps, outcome = self.pulls[ref]
        for step in steps:
            progress(step)
        if isinstance(outcome, AeonError):
            raise outcome
        self.images[ref] = outcome

    def start(self, spec: ContainerSpec, environment: Mapping[str, str]) -> EngineRecord:
        self._speak()
        if spec.name in self._engines:
            raise HostError("name_in_use", f"could not create {spec.name}: the name is taken")
        if not self.rehearsal and spec.image not in self.images:
            raise HostError("image_missing", f"could not create {spec.name}: no such image here")
        missing = [mount.source for mount in spec.mounts if mount.source.startswith("/nowhere")]
        if missing:
            raise EngineError("start_failed", f"could not create {spec.name}", cause=missing[0])
        if spec.network == "bridge" and self.taken_ports & {entry.host_port for entry in spec.publish}:
            raise HostError("port_in_use", f"could not start {spec.name}: the port is taken")
        refusal = self.refuse.pop(0) if self.refuse else None
        if refusal is not None:
            raise refusal
        self.started.append((spec, dict(environment)))
        engine = _Engine(
            spec,
            self.script(spec, environment),
            self.clock.now(),
            self.clock.timestamp(),
            f"{len(self.started):064x}",
            spec.restart,
        )
        self._engines[spec.name] = engine
        return self._record(engine)

    def log(self, name: str, *, follow: bool, tail: int | None = None) -> LogStream:
        self._speak()
        if name not in self._engines:
            raise EngineError("not_running", f"there is no engine {name}")
        stream = _FakeLog(self.clock, self._engines[name], follow=follow, tail=tail)
        self.clock.add(stream)
        return stream

    def cpu_seconds(self, name: str) -> float | None:
        engine = self._engines.get(name)
        if engine is None or engine.ended(self.clock.now()):
            return None
        return (self.clock.now() - engine.started) * engine.script.cpu_per_second

    def signal(self, name: str, signal: str) -> None:
        self._speak()
        engine = self._engines.get(name)
        if engine is None or engine.ended(self.clock.now()):
            return
        self.signals.append((name, signal))
        with self.clock.condition:
            if signal == "SIGKILL":
                engine.killed_at = self.clock.now()
            else:
                engine.term_at = self.clock.now()
        self.clock.advance_to(self.clock.now())

    def set_restart(self, name: str, policy: str) -> None:
        self._speak()
        if name not in self._engines:
            raise EngineError("not_running", f"there is no engine {name}")
        self._engines[name].restart = policy

    def remove(self, name: str) -> None:
        self._speak()
        engine = self._engines.get(name)
        if engine is not None and not engine.ended(self.clock.now()):
            raise EngineError("still_running", f"{name} still runs")
        self._engines.pop(name, None)

    def healthy(self, name: str) -> bool:
        """Whether its /health would answer 200 now: what a fake HTTP asks."""
        engine, now = self._engines.get(name), self.clock.now()
        if engine is None or engine.script.healthy_at is None or engine.ended(now):
            return False
        return engine.started + engine.script.healthy_at <= now

    def _record(self, engine: _Engine) -> EngineRecord:
        end, over = engine.end(), engine.ended(self.clock.now())
        return EngineRecord(
            name=engine.spec.name,
            status=EngineStatus.EXITED if over else EngineStatus.RUNNING,
            ours=SEAT_LABEL in engine.spec.labels,
            labels=dict(engine.spec.labels),
            image=engine.spec.image,
            exit_code=end[1] if end is not None and over else None,
            oom_killed=over and engine.script.oom_killed,
            error=engine.script.error if over else None,
            restart_policy=engine.restart,
            started_at=engine.started_at,
            ident=engine.ident,
            rehearsal=self.rehearsal,
            published=tuple(sorted({entry.host_port for entry in engine.spec.publish})),
        )

    def _speak(self) -> None:
        if self.silence is not None:
            raise self.silence


class _FakeLog:
    """One reading of a log. In the clock's own thread, waiting for the next piece moves the clock."""

    def __init__(self, clock: FakeClock, engine: _Engine, *, follow: bool, tail: int | None) -> None:
        self.thread: threading.Thread | None = None
        self._clock = clock
        self._engine = engine
        self._follow = follow
        self._given = 0
        self._waiting = False
        self._over = False
        if tail is not None:
            self._given = max(0, len(self._due()) - tail)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._clock.condition:
            self.thread = threading.current_thread()
            while not self._over:
                self._waiting = False
                due = self._due()
                if len(due) > self._given:
                    self._given += 1
                    return due[self._given - 1][1]
                if not self._follow or self._engine.ended(self._clock.now()):
                    break
                self._wait()
            self._over = True
            self._clock.condition.notify_all()
        raise StopIteration

    def close(self) -> None:
        with self._clock.condition:
            self._over = True
            self._clock.condition.notify_all()

    def finished(self) -> bool:
        return self._over

    def settled(self) -> bool:
        if self._over or (self.thread is not None and not self.thread.is_alive()):
            return True
        if self.thread is threading.current_thread():
            return True
        nothing_to_do = len(self._due()) <= self._given and not self._engine.ended(self._clock.now())
        return self._waiting and nothing_to_do

    def _due(self) -> list[tuple[float, bytes]]:
        return [piece for piece in self._engine.log() if piece[0] <= self._clock.now()]

    def _wait(self) -> None:
        if self.thread is not self._clock.owner:
            self._waiting = True
            self._clock.condition.notify_all()
            self._clock.condition.wait()
            return
        end = self._engine.end()
        moments = [at for at, _ in self._engine.log()[self._given : self._given + 1]] + ([end[0]] if end else [])
        if not moments:
            message = "this log would never end: its script has no more lines and no end"
            raise AssertionError(message)
        self._clock.advance_to(min(moments))
