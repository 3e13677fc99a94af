"""The engine's state while it serves: what it counts, whether it lives, and which end it has met."""

import queue
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from aeonctl.rehearsal_engine import failures
from aeonctl.rehearsal_engine.argv import ServeOptions
from aeonctl.rehearsal_engine.faults import Fault, tdr_strikes
from aeonctl.rehearsal_engine.log import Log
from aeonctl.rehearsal_engine.model import ModelFacts
from aeonctl.rehearsal_engine.settings import Settings

_PREFILL_S_PER_TOKEN = 2e-5
_DECODE_S_PER_TOKEN = 3e-3
_BLOCK_TOKENS = 16
STOPPED = "stopped"
DIED = "died"


class EngineDeadError(Exception):
    """The engine core is gone: the request fails with 500."""


@dataclass
class Engine:
    """One engine; requests run in threads, ``ends`` tells the main thread why to leave."""

    options: ServeOptions
    settings: Settings
    model: ModelFacts
    kv_tokens: int
    log: Log
    ends: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    counts: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"first": [], "total": [], "between": []})
    aborting: threading.Event = field(default_factory=threading.Event)
    dead: bool = False
    running: int = 0
    started_at: float = field(default_factory=time.time)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: set[int] = field(default_factory=set)

    @property
    def max_model_len(self) -> int:
        """The context length in tokens."""
        return self.model.max_model_len

    @property
    def health_status(self) -> int:
        """What /health answers; the fault health-lies keeps it at 200 after the engine's death."""
        return 503 if self.dead and self.settings.fault is not Fault.HEALTH_LIES else 200

    def begin(self, prompt: list[int]) -> None:
        """Take a request in: count it, pass the time of its prefill. Raises EngineDeadError when it kills the "
        "engine."""
        fault = self.settings.fault
        if fault is Fault.HEALTH_LIES:
            self._die(None)
        if fault is Fault.WSL2_TDR and tdr_strikes(self.options, len(prompt)):
            self._die(failures.DEVICE_NOT_READY)
        if self.dead:
            raise EngineDeadError
        with self._lock:
            self.running += 1
            self.counts["prompt_tokens"] += len(prompt)
            if self.options.prefix_caching:
                hit = len(prompt) // _BLOCK_TOKENS * _BLOCK_TOKENS if hash(tuple(prompt)) in self._seen else 0
                self._seen.add(hash(tuple(prompt)))
                self.counts["prefix_queries"] += len(prompt)
                self.counts["prefix_hits"] += hit
        self.log.wait(_PREFILL_S_PER_TOKEN * len(prompt))

    def step(self, tokens: int) -> bool:
        """Pass the time of that many output tokens; False when the server is stopping and the request is cut off."""
        self.log.wait(_DECODE_S_PER_TOKEN * tokens)
        return not self.aborting.is_set()

    def end(self, reason: str, generated: int, began: float, first: float) -> None:
        """Close a request: ``reason`` is its finish_reason, times are of time.monotonic()."""
        now = time.monotonic()
        with self._lock:
            self.running -= 1
            self.finished["stop" if reason == "tool_calls" else reason] += 1
            self.counts["generation_tokens"] += generated
            self.latencies["first"].append(first - began)
            self.latencies["total"].append(now - began)
            if generated > 1:
                self.latencies["between"] += [(now - first) / (generated - 1)] * (generated - 1)

    def answered(self) -> None:
        """Note that a whole answer has been sent; the fault exit-zero ends the engine then."""
        if self.settings.fault is Fault.EXIT_ZERO and not self.dead:
            self.dead = True
            failures.engine_dead(self.log, exited=True)
            self.ends.put(DIED)

    def _die(self, root: str | None) -> None:
        with self._lock:
            already, self.dead = self.dead, True
        if not already:
            if root is not None:
                failures.core_fails_at_work(self.log, root)
                self.ends.put(DIED)
            failures.engine_dead(self.log, exited=root is not None)
        raise EngineDeadError
