"""A clock that tests own, and that waits for whoever reads a log in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Reader(Protocol):
    """Someone who waits for time to pass in another thread. ``settled`` is asked with the clock's condition held."""

    thread: threading.Thread | None

    def settled(self) -> bool: ...

    def finished(self) -> bool: ...


class FakeClock:
    """``sleep`` moves the time at once, then lets every reader take what is due, so that a test's outcome does not
    depend on which thread runs first."""

    def __init__(self, start: float = 1000.0, epoch: float = 1_800_000_000.0) -> None:
        self.condition = threading.Condition()
        self.owner = threading.current_thread()
        self.slept: list[float] = []
        self._start = start
        self._now = start
        self._epoch = epoch
        self._readers: list[Reader] = []
        self._plans: list[tuple[float, Callable[[], None]]] = []

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something once, in the sleep that brings the clock ``seconds`` past now."""
        self._plans.append((self._now + seconds, action))

    def now(self) -> float:
        return self._now

    def timestamp(self) -> float:
        return self._epoch + self._now - self._start

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance_to(self._now + seconds)
        due = [action for moment, action in self._plans if moment <= self._now]
        self._plans = [plan for plan in self._plans if plan[0] > self._now]
        for action in due:
            action()

    def advance_to(self, moment: float) -> None:
        """Make it that late (never earlier than it is)."""
        with self.condition:
            self._now = max(self._now, moment)
            self.condition.notify_all()
            if not self.condition.wait_for(self._all_settled, timeout=30):
                message = "somebody who reads a fake log neither reads on nor closes it"
                raise AssertionError(message)
            ended = [reader for reader in self._readers if reader.finished()]
            self._readers = [reader for reader in self._readers if not reader.finished()]
        for reader in ended:
            if reader.thread not in {None, threading.current_thread()}:
                assert reader.thread is not None
                reader.thread.join(timeout=0.05)  # let it say that the log has ended

    def add(self, reader: Reader) -> None:
        with self.condition:
            self._readers.append(reader)

    def _all_settled(self) -> bool:
        return all(reader.settled() for reader in self._readers)
