"""Downloads in threads that a user can interrupt, and that somebody watches for a standstill."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from aeonctl.adapters.hub_progress import DownloadStoppedError, Tally

WORKERS = 8
"""Files at a time, as huggingface_hub has it."""
STALL_SECONDS = 90.0
"""Without a byte for so long, a download stands still; huggingface_hub's own tries over HTTP end before that."""
_GRACE_SECONDS = 3.0


class StandstillError(Exception):
    """Nothing moved for too long; it never leaves the adapter."""


class _EndTo:
    """How a worker ended, handed to the thread that waits for it: the error, which is raised there, or None."""

    def __init__(self, ends: queue.SimpleQueue[BaseException | None]) -> None:
        self._ends = ends

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self._ends.put(error)
        return True


def run_all(fetch: Callable[[str], None], names: Iterable[str], tally: Tally, stall_seconds: float) -> None:
    """Call ``fetch`` for every name, several at a time; the first error ends all and is raised.

    StandstillError when no byte moved for ``stall_seconds``. On that, and on KeyboardInterrupt, the workers are told
    to stop and given some seconds to clean up; a stuck one ends with the process.
    """
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    for name in names:
        todo.put(name)

    def work() -> None:
        with _EndTo(ends):
            while not tally.stopped:
                try:
                    name = todo.get_nowait()
                except queue.Empty:
                    return
                fetch(name)
                tally.finished(name)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(WORKERS, todo.qsize()))]
    for worker in workers:
        worker.start()
    try:
        _wait(len(workers), ends, tally, stall_seconds)
    except BaseException:
        tally.stop()
        _abort_xet()
        deadline = time.monotonic() + _GRACE_SECONDS
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        raise


def _wait(workers: int, ends: queue.SimpleQueue[BaseException | None], tally: Tally, stall_seconds: float) -> None:
    seen, since = -1, time.monotonic()
    while workers:
        try:
            error = ends.get(timeout=min(0.5, stall_seconds))
        except queue.Empty:
            if tally.moves != seen:
                seen, since = tally.moves, time.monotonic()
            elif time.monotonic() - since >= stall_seconds:
                raise StandstillError from None
            continue
        workers -= 1
        if error is not None and not isinstance(error, DownloadStoppedError):
            raise error


def _abort_xet() -> None:
    """End what the Xet library is doing: it reads in threads of its own, which hear of no interrupt."""
    with suppress(ImportError):
        from huggingface_hub.utils._xet import abort_xet_session

        abort: Callable[[], None] = abort_xet_session
        abort()
