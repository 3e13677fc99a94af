"""The system's clock."""

from __future__ import annotations

import time


class SystemClock:
    """ports.Clock on real time."""

    def now(self) -> float:
        """Seconds on a monotonic scale."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; an interrupt ends it early. Nothing happens for zero or less."""
        if seconds > 0:
            time.sleep(seconds)

    def timestamp(self) -> float:
        """Seconds since the epoch."""
        return time.time()
