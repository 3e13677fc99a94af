"""huggingface_hub's progress bars turned into our own count, and a way to stop a download between two pieces."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from aeonctl.ports import FetchProgress

_COUNTED = ("Fetching", "Downloading", "Reconstructing")


class DownloadStoppedError(Exception):
    """Ends a worker thread's download after an interrupt; it never leaves the adapter."""


class Tally:
    """What a download has done so far, counted from the bars that huggingface_hub makes of ``bar_class``.

    There are three: files, bytes from the network and bytes on the disk. The bytes done are whichever of the last two
    is further: deduplicated bytes never cross the network, and unpacked ones reach the disk late.
    """

    def __init__(self, report: Callable[[FetchProgress], None], start: FetchProgress) -> None:
        self._report = report
        self._start = start
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make every worker's next step end its download."""
        self._stopped.set()

    def step(self, kind: str, amount: int) -> None:
        """Count ``amount`` for one bar and report; DownloadStoppedError after ``stop``."""
        if self._stopped.is_set():
            raise DownloadStoppedError
        if kind not in _COUNTED:
            return
        with self._lock:
            self._done[kind] = self._done.get(kind, 0) + amount
            self._report(self._now())

    def _now(self) -> FetchProgress:
        start, done = self._start, self._done
        moved = max(done.get("Downloading", 0), done.get("Reconstructing", 0), 0)
        files = max(start.files_done, min(done.get("Fetching", 0), start.files_total))
        bytes_done = min(start.bytes_done + moved, start.bytes_total)
        return FetchProgress(files, start.files_total, bytes_done, start.bytes_total)

    def bar_class(self) -> type[Bar]:
        """A class to pass as ``tqdm_class``; its instances count here."""
        tally = self

        class CountedBar(Bar):
            counts_in = tally

        return CountedBar


class Bar:
    """The part of tqdm's interface that huggingface_hub calls. It has no ``get_lock``: nothing is drawn."""

    counts_in: Tally

    def __init__(self, *, desc: str | None = None, total: float | None = None, **_: Any) -> None:
        self._kind = (desc or "").partition(" ")[0]
        self.total = total
        self.n = 0
        self.format_dict: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, n: float | None = 1) -> None:
        """Count ``n`` more (less, when a download starts again)."""
        self.n += int(n or 0)
        self.counts_in.step(self._kind, int(n or 0))

    def refresh(self, *_: Any, **__: Any) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is drawn."""

    def set_description(self, *_: Any, **__: Any) -> None:
        """Nothing is drawn."""

    def set_description_str(self, *_: Any, **__: Any) -> None:
        """Nothing is drawn."""

    def set_postfix_str(self, *_: Any, **__: Any) -> None:
        """Nothing is drawn."""
