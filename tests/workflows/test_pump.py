"""The reader of a log, with more than it may hold and with one that fails."""

from __future__ import annotations

from collections.abc import Iterator

from aeonctl.errors import HostError
from aeonctl.workflows.pump import LogPump
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines


class Log:
    """A log of many pieces that knows whether it was closed."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.left == 0 or self.closed:
            raise StopIteration
        self.left -= 1
        return b"x" * 4096

    def close(self) -> None:
        self.closed = True


class OneLog(FakeEngines):
    """Engines with one prepared log, or with the error that reading it raises."""

    prepared: Log | HostError

    def log(self, name: str, *, follow: bool, tail: int | None = None) -> Log:
        if isinstance(self.prepared, HostError):
            raise self.prepared
        return self.prepared


def engines(prepared: Log | HostError) -> OneLog:
    found = OneLog(FakeClock())
    found.prepared = prepared
    return found


def test_a_long_log_is_held_in_part() -> None:
    log = Log(100_000)
    pump = LogPump(engines(log), "n")
    size = len(pump.take(wait=10))
    assert 0 < size <= 1 << 20
    pump.close()
    pump._thread.join(timeout=10)
    assert not pump._thread.is_alive()
    assert log.closed
    assert log.left > 90_000


def test_a_whole_log() -> None:
    pump = LogPump(engines(Log(3)), "n")
    read = b""
    while not pump.ended:
        read += pump.take(wait=10)
    assert (len(read), pump.error) == (3 * 4096, None)
    pump.close()


def test_a_log_that_fails() -> None:
    error = HostError("docker_unreachable", "gone")
    pump = LogPump(engines(error), "n")
    while not pump.ended:
        assert pump.take(wait=10) == b""
    assert pump.error is error
    pump.close()
