"""What a download has done so far, counted from the bars that huggingface_hub makes, and a way to stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from aeonctl.ports import FetchProgress


class DownloadStoppedError(Exception):
    """Ends a worker thread's download after an interrupt; it never leaves the adapter."""


class Tally:
    """Counts bytes by file. A file from the Xet store has two bars, one for the network and one for the disk; the
    further one counts: deduplicated bytes never cross the network, and unpacked ones reach the disk late."""

    def __init__(
        self, report: Callable[[FetchProgress], None], start: FetchProgress, sizes: Mapping[str, int] | None = None
    ) -> None:
        self._report = report
        self._start = start
        self._sizes = dict(sizes or {})
        self._done: dict[str, dict[str, int]] = {}
        self._files = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.moves = 0

    def stop(self) -> None:
        """Make every worker's next step end its download."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """True after ``stop``."""
        return self._stopped.is_set()

    def step(self, name: str, kind: str, amount: int) -> None:
        """Count ``amount`` for one bar of a file and report; DownloadStoppedError after ``stop``."""
        if self._stopped.is_set():
            raise DownloadStoppedError
        with self._lock:
            self.moves += 1
            bars = self._done.setdefault(name, {})
            bars[kind] = bars.get(kind, 0) + amount
            self._report(self._now(name))

    def finished(self, name: str) -> None:
        """A file is whole, whether or not any of it was downloaded."""
        with self._lock:
            self.moves += 1
            self._files += 1
            self._done[name] = {"": self._sizes.get(name, 0)}
            self._report(self._now(name))

    def _of(self, name: str) -> int:
        return max(0, *self._done.get(name, {}).values(), 0)

    def _now(self, name: str) -> FetchProgress:
        start = self._start
        moved = sum(map(self._of, self._done))
        return FetchProgress(
            min(start.files_done + self._files, start.files_total),
            start.files_total,
            min(start.bytes_done + moved, start.bytes_total),
            start.bytes_total,
            name,
            self._of(name),
            self._sizes.get(name, 0),
        )

    def bar_class(self, name: str) -> type[Bar]:
        """A class to pass as ``tqdm_class`` for one file; its instances count here."""
        tally = self

        class CountedBar(Bar):
            counts_in = tally
            file = name

        return CountedBar


class Bar:
    """The part of tqdm's interface that huggingface_hub calls. It has no ``get_lock``: nothing is drawn."""

    counts_in: Tally
    file: str

    def __init__(self, *, desc: str | None = None, total: float | None = None, **_: Any) -> None:
        self._kind = "network" if "downloading" in (desc or "").lower() else "disk"
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
        self.counts_in.step(self.file, self._kind, int(n or 0))

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
