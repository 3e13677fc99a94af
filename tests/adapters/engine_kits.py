"""The same small engines on the fake, as rehearsal processes and in Docker."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.adapters.docker_read import SEAT_LABEL
from aeonctl.adapters.rehearsal import Rehearsal
from aeonctl.core.container import ContainerSpec, Publish
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.ports import Engines
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script

IMAGE = "aeonctl-test/busybox:1"
STEP_SECONDS = 0.1
Found = TypeVar("Found")
ENVIRONMENT = {**os.environ, "AEONCTL_TEST_SECRET": "it's $ecret"}


@dataclass(frozen=True)
class Behaviour:
    """Print ``prints`` (bytes, a step of time between two), then the variables ``tells``; then leave with ``code``, or
    stay (``code`` None) until SIGTERM, on which it prints ``farewell`` and leaves with 0. ``burns`` uses the CPU."""

    prints: tuple[bytes, ...] = ()
    tells: tuple[str, ...] = ()
    code: int | None = None
    farewell: bytes = b""
    burns: bool = False


def shell(behaviour: Behaviour) -> tuple[str, ...]:
    """The behaviour as arguments of ``sh``."""
    lines = [f"trap {_quote(_printf(behaviour.farewell) + '; exit 0')} TERM"]
    for text in behaviour.prints:
        lines += [_printf(text), f"sleep {STEP_SECONDS}"]
    lines += [f'printf "%s\\n" "{name}=${{{name}-not set}}"' for name in behaviour.tells]
    pause = ":" if behaviour.burns else "sleep 0.05"
    lines.append(f"exit {behaviour.code}" if behaviour.code is not None else f"while :; do {pause}; done")
    return ("-c", "\n".join(lines))


def _printf(text: bytes) -> str:
    return "printf '" + "".join(f"\\{byte:03o}" for byte in text) + "'" if text else ":"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Kit(Protocol):
    """One implementation, and how to wait in its time."""

    engines: Engines
    image: ImageFacts | None
    rehearses: bool

    def pause(self) -> None: ...

    @contextmanager
    def busy_port(self) -> Iterator[int]: ...

    def script(self, behaviour: Behaviour) -> tuple[str, ...]: ...


@dataclass
class RealKit:
    """Real processes in real time."""

    engines: Engines
    image: ImageFacts | None
    rehearses: bool

    def pause(self) -> None:
        time.sleep(0.02)

    @contextmanager
    def busy_port(self) -> Iterator[int]:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            yield listener.getsockname()[1]

    def script(self, behaviour: Behaviour) -> tuple[str, ...]:
        return shell(behaviour)


class FakeKit:
    """The fake, whose engines do what the behaviour says without a shell."""

    def __init__(self) -> None:
        self._clock = FakeClock()
        self._behaviours: dict[tuple[str, ...], Behaviour] = {}
        self.rehearses = False
        self.image: ImageFacts | None = ImageFacts(
            ref=IMAGE, facts_from=FactsFrom.LOCAL, arch="amd64", unpacked_bytes=1
        )
        self._fake = FakeEngines(self._clock, script=self._life, images={IMAGE: self.image})
        self.engines: Engines = self._fake

    def pause(self) -> None:
        self._clock.sleep(STEP_SECONDS)

    @contextmanager
    def busy_port(self) -> Iterator[int]:
        self._fake.taken_ports.add(8123)
        yield 8123
        self._fake.taken_ports.discard(8123)

    def script(self, behaviour: Behaviour) -> tuple[str, ...]:
        command = shell(behaviour)
        self._behaviours[command] = behaviour
        return command

    def _life(self, spec: ContainerSpec, environment: Mapping[str, str]) -> Script:
        behaviour = self._behaviours[spec.command]
        given = {name: environment.get(name) if value is None else value for name, value in spec.env.items()}
        lines = [(index * STEP_SECONDS, text) for index, text in enumerate(behaviour.prints)]
        after = len(lines) * STEP_SECONDS
        told = {name: given.get(name) for name in behaviour.tells}
        lines += [(after, f"{name}={'not set' if value is None else value}\n".encode()) for name, value in told.items()]
        return Script(
            lines=lines,
            exit_at=None if behaviour.code is None else after,
            exit_code=behaviour.code or 0,
            term_lines=[behaviour.farewell] if behaviour.farewell else [],
        )


def rehearsal_kit(state: Path) -> RealKit:
    return RealKit(Rehearsal(state, command=("sh",)), None, rehearses=True)


def docker_kit(url: str) -> RealKit:
    engines = DockerEngines(url, dict(os.environ), Path.home())
    return RealKit(engines, engines.image(IMAGE), rehearses=False)


@dataclass
class Bench:
    """A kit with the engines that a test starts, all of which are gone afterwards."""

    kit: Kit
    names: list[str] = field(default_factory=list)

    @property
    def engines(self) -> Engines:
        return self.kit.engines

    def spec(
        self,
        behaviour: Behaviour,
        *,
        env: Mapping[str, str | None] | None = None,
        labels: Mapping[str, str] | None = None,
        port: int | None = None,
        restart: str = "no",
    ) -> ContainerSpec:
        """A spec under a new name, with our label unless ``labels`` says otherwise."""
        name = f"aeonctl-contract-{uuid.uuid4().hex[:12]}"
        self.names.append(name)
        return ContainerSpec(
            name=name,
            image=IMAGE,
            entrypoint="sh",
            command=self.kit.script(behaviour),
            env=dict(env or {}),
            labels={SEAT_LABEL: "contract"} if labels is None else dict(labels),
            publish=() if port is None else (Publish(host_ip="127.0.0.1", host_port=port, container_port=8000),),
            restart=restart,
        )

    def until(self, look: Callable[[], Found | None]) -> Found:
        """What ``look`` gives once it gives something that is true."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            self.kit.pause()
        message = f"waited in vain for {look}"
        raise AssertionError(message)

    def clear(self) -> None:
        for name in self.names:
            self.engines.signal(name, "SIGKILL")
            self.until(lambda name=name: self._removed(name))  # type: ignore[misc]

    def _removed(self, name: str) -> bool:
        record = self.engines.find(name)
        if record is not None and record.exit_code is not None:
            self.engines.remove(name)
        return self.engines.find(name) is None
