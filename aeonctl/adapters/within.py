"""A time limit for what cannot be interrupted: a file on a stuck mount, a daemon that is silent."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A call that runs in a thread of its own. One that never returns does not keep the program from ending."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        finally:
            self._error = sys.exc_info()[1]

    def result(self, seconds: float) -> T | None:
        """What the call returned; None when it has not within ``seconds`` of its start. Raises what it raised."""
        self._thread.join(max(0.0, self._started + seconds - time.monotonic()))
        if self._error is not None:
            raise self._error
        return self._results[0] if self._results else None
