"""The fake's own promise: with a reader in another thread, what is seen after a sleep does not depend on luck."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping

import pytest

from aeonctl.core.container import ContainerSpec
from aeonctl.core.image import ImageFacts
from aeonctl.errors import DownloadError, HostError
from aeonctl.ports import EngineStatus, PullProgress
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script

SPEC = ContainerSpec(name="a", image="i:1", entrypoint="vllm", command=("serve",))
HERE = {"i:1": ImageFacts(ref="i:1")}


def engines(script: Script) -> FakeEngines:
    def life(_spec: ContainerSpec, _environment: Mapping[str, str]) -> Script:
        return script

    return FakeEngines(FakeClock(), script=life, images=dict(HERE))


def test_a_reader_has_all_that_is_due_when_a_sleep_returns() -> None:
    lines = [(moment / 10, b"%d\n" % moment) for moment in range(100)]
    fake = engines(Script(lines=lines, exit_at=10.0, exit_code=1))
    fake.start(SPEC, {})
    pieces: queue.Queue[bytes | None] = queue.Queue()
    log = fake.log("a", follow=True)

    def read() -> None:
        for piece in log:
            pieces.put(piece)
        pieces.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    seen = []
    for _ in range(10):
        fake.clock.sleep(0.5)
        seen.append(pieces.qsize())

    assert seen == [6, 11, 16, 21, 26, 31, 36, 41, 46, 51]
    fake.clock.sleep(100.0)
    reader.join(10)
    assert pieces.qsize() == 101


def test_in_the_clocks_own_thread_following_moves_the_clock() -> None:
    fake = engines(Script(lines=[(1.0, b"one\n"), (5.0, b"two\n")], exit_at=9.0, exit_code=3))
    fake.start(SPEC, {})
    began = fake.clock.now()

    seen = [(piece, fake.clock.now() - began) for piece in fake.log("a", follow=True)]

    assert seen == [(b"one\n", 1.0), (b"two\n", 5.0)]
    record = fake.find("a")
    assert record is not None
    assert (record.status, record.exit_code, fake.clock.now() - began) == (EngineStatus.EXITED, 3, 9.0)


def test_a_log_that_would_never_end_is_a_mistake_in_the_test() -> None:
    fake = engines(Script())
    fake.start(SPEC, {})

    with pytest.raises(AssertionError, match="never end"):
        next(fake.log("a", follow=True))


def test_an_engine_that_ignores_sigterm_and_one_that_takes_its_time() -> None:
    stubborn, slow = engines(Script(on_term=None)), engines(Script(on_term=0, term_seconds=5.0))
    for fake in (stubborn, slow):
        fake.start(SPEC, {})
        fake.signal("a", "SIGTERM")
        fake.clock.sleep(4.0)
        assert fake.find("a").status is EngineStatus.RUNNING  # type: ignore[union-attr]
        fake.clock.sleep(1.0)
    assert stubborn.find("a").status is EngineStatus.RUNNING  # type: ignore[union-attr]
    assert slow.find("a").exit_code == 0  # type: ignore[union-attr]
    assert slow.signals == [("a", "SIGTERM")]


def test_health_follows_the_script() -> None:
    fake = engines(Script(healthy_at=3.0, exit_at=6.0))
    fake.start(SPEC, {})
    health = []
    for _ in range(4):
        health.append(fake.healthy("a"))
        fake.clock.sleep(2.0)

    assert health == [False, False, True, False]


def test_pulls_and_refusals_as_they_are_set() -> None:
    fake = engines(Script())
    fake.pulls = {
        "j:1": ([PullProgress("download", 1, 2)], ImageFacts(ref="j:1")),
        "k:1": ([], DownloadError("image_pull_failed", "no")),
    }
    steps: list[PullProgress] = []
    fake.pull("j:1", steps.append)
    assert fake.image("j:1") is not None
    assert steps == [PullProgress("download", 1, 2)]
    with pytest.raises(DownloadError):
        fake.pull("k:1", steps.append)

    fake.refuse = [HostError("nvidia_runtime_missing", "no GPU"), None]
    with pytest.raises(HostError):
        fake.start(SPEC, {})
    assert fake.find("a") is None
    fake.start(SPEC, {})
    fake.silence = HostError("docker_unreachable", "gone")
    with pytest.raises(HostError):
        fake.find("a")
