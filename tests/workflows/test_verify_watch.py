"""What the look at the engine after a probe makes of its process, its log and its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.adapters.real import build_ports
from aeonctl.core.container import ContainerSpec
from aeonctl.core.knowledge import boot_knowledge
from aeonctl.core.probes import Verdict, failed, passed
from aeonctl.ports import EngineRecord, Ports, Reply, ReplyStream
from aeonctl.workflows.verify_watch import EngineWatch, UrlWatch
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script

OK = passed("fine")
DEAD = (
    "(APIServer pid=1) ERROR 11-30 21:46:44 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    "encountered an issue. See stack trace (above) for the root cause.\n"
)


@dataclass
class Answers:
    """ports.EngineHttp by path; a path that is not there does not answer."""

    replies: dict[str, Reply] = field(default_factory=dict)

    def get(self, url: str, *, timeout: float, key: str | None = None) -> Reply | None:
        return self.replies.get("/" + url.split("/", 3)[3])

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None) -> Reply | None:
        return None

    def stream(
        self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None
    ) -> ReplyStream | None:
        return None

    def metrics(self, running: float, cache: float) -> None:
        text = f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:kv_cache_usage_perc{{engine="0"}} {cache}\n'
        self.replies["/metrics"] = Reply(200, None, text)


@dataclass
class Scene:
    """One engine that lives as its script says, and the watch on it."""

    ports: Ports
    http: Answers
    engines: FakeEngines
    watch: EngineWatch

    def look(
        self, verdict: Verdict = OK, probe: str = "long-prompt", *, refusal: bool = False
    ) -> tuple[str, str | None]:
        told = self.watch.look(probe, verdict, expects_refusal=refusal)
        return told.status.value, told.code


@pytest.fixture
def scenes(tmp_path: Path) -> Iterator[Any]:
    watches: list[EngineWatch] = []

    def scene(*lines: str, **script: Any) -> Scene:
        clock = FakeClock()
        pieces = [(0.1, line.encode()) for line in lines]
        engines = FakeEngines(clock, lambda _spec, _environment: Script(lines=pieces, **script), rehearsal=True)
        http = Answers({"/health": Reply(200, None, "")})
        ports = replace(build_ports(None, {"HOME": str(tmp_path)}), clock=clock, docker=engines, http=http)
        record = engines.start(ContainerSpec(name="a", image="a", entrypoint="vllm", command=()), {})
        knowledge = boot_knowledge(ProfileFiles({}, home=tmp_path).read)
        watch = EngineWatch(record, "http://engine", engines, ports, knowledge)
        watches.append(watch)
        return Scene(ports, http, engines, watch)

    yield scene
    for watch in watches:
        watch.close()


def test_an_engine_that_is_well(scenes: Any) -> None:
    scene = scenes()
    scene.http.metrics(0.0, 0.0)
    assert scene.look() == ("pass", None)
    assert scene.look(failed("needle_lost", "…")) == ("fail", "needle_lost")
    assert not scene.watch.died


def test_an_engine_that_ended(scenes: Any) -> None:
    scene = scenes(exit_at=0.2)
    del scene.http.replies["/health"]
    assert scene.look(failed("no_answer", "nothing")) == ("fail", "engine_died_on_long_prompt")
    assert scene.watch.died
    assert scene.look(probe="health") == ("fail", "engine_died")


def test_an_engine_that_takes_its_time_to_die(scenes: Any) -> None:
    scene = scenes(exit_at=4.5)
    scene.http.replies["/health"] = Reply(503, None, "")
    assert scene.look(failed("request_failed", "HTTP 500")) == ("fail", "engine_died_on_long_prompt")


def test_a_death_that_health_does_not_know_of(scenes: Any) -> None:
    scene = scenes(DEAD)
    scene.ports.clock.sleep(1)
    told = scene.watch.look("chat", OK, expects_refusal=False)
    assert told.code == "engine_died_on_chat"
    assert "/health still says 200" in told.summary


def test_health_that_stays_bad(scenes: Any) -> None:
    scene = scenes()
    scene.http.replies["/health"] = Reply(503, None, "")
    assert scene.look() == ("fail", "engine_died_on_long_prompt")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"restart_count": 1}, "started again (1 restarts)"),
        ({"ident": "other"}, "another engine"),
        ({"started_at": 1.0}, "was started again"),
        (None, "removed"),
    ],
)
def test_another_process_is_noticed(scenes: Any, change: dict[str, Any] | None, words: str) -> None:
    scene = scenes()
    now: EngineRecord | None = None if change is None else replace(scene.watch.before, **change)
    scene.watch.engines = _Found(now)
    told = scene.watch.look("abort", OK, expects_refusal=False)
    assert told.code == "engine_died_on_abort"
    assert words in told.summary


@dataclass
class _Found:
    """Engines of which one is found as it is told."""

    record: EngineRecord | None

    def find(self, name: str) -> EngineRecord | None:
        return self.record


ENGINE_ERROR = "(EngineCore pid=9) ERROR 11-30 21:46:44 [core.py:100] something is wrong\n"
SERVER_ERROR = "(APIServer pid=1) ERROR 11-30 21:46:44 [serving.py:100] Error in preprocessing prompt inputs\n"
WARNING = "(EngineCore pid=9) WARNING 11-30 21:46:44 [core.py:100] OSError: never mind\n"


@pytest.mark.parametrize(
    ("line", "refusal", "expected"),
    [
        (ENGINE_ERROR, False, ("fail", "engine_error_logged")),
        (ENGINE_ERROR, True, ("fail", "engine_error_logged")),
        (SERVER_ERROR, False, ("warn", "error_logged")),
        (SERVER_ERROR, True, ("pass", None)),
        (WARNING, False, ("pass", None)),
    ],
)
def test_errors_in_the_log(scenes: Any, line: str, refusal: bool, expected: tuple[str, str | None]) -> None:
    scene = scenes(line)
    scene.ports.clock.sleep(1)
    assert scene.look(refusal=refusal) == expected
    assert scene.look() == ("pass", None)


def test_memory_that_does_not_come_back(scenes: Any) -> None:
    scene = scenes()
    scene.http.metrics(0.0, 0.3)
    assert scene.look() == ("fail", "memory_not_released")
    scene.http.metrics(2.0, 0.3)
    assert scene.look() == ("warn", "engine_busy")


def test_a_server_of_somebody_else(scenes: Any) -> None:
    scene = scenes()
    watch = UrlWatch("http://engine", scene.ports)
    scene.http.replies = {"/v1/models": Reply(200, {"data": []}, "")}
    assert watch.look("health", OK, expects_refusal=False) == OK
    assert watch.look("chat", OK, expects_refusal=False) == OK
    scene.http.replies = {}
    assert watch.look("long-prompt", OK, expects_refusal=False).code == "engine_died_on_long_prompt"
    assert (watch.died, watch.diagnosis()) == (True, None)
    watch.close()
