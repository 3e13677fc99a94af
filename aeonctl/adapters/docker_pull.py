"""An image pull as the engine tells it: a stream of JSON, whose errors come with HTTP 200."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from aeonctl.core.image import parse_reference
from aeonctl.errors import DownloadError
from aeonctl.ports import PullProgress


class _Reason(NamedTuple):
    """Words of an engine or a registry, what they mean and what to do then."""

    pattern: str
    name: str
    meaning: str
    hint: str


_REASONS = (
    _Reason(
        r"no matching manifest|does not match the specified platform",
        "wrong_platform",
        "the image is not published for this machine's architecture",
        "choose an image for this architecture: aeonctl plan --seat SEAT --explain",
    ),
    _Reason(
        r"no space left on device|not enough space",
        "disk_full",
        "the disk of Docker's image store is full",
        "docker image ls, docker image rm IMAGE, docker system df",
    ),
    _Reason(
        r"toomanyrequests|rate limit|HTTP 429",
        "rate_limited",
        "the registry limits how often this address may pull",
        "docker login REGISTRY, or wait an hour",
    ),
    _Reason(
        r"unauthorized|authentication required|no basic auth|HTTP 401",
        "denied",
        "the registry wants a log-in, or does not take the stored one",
        "docker logout REGISTRY, then docker login REGISTRY; for a public image the log-out alone may do",
    ),
    _Reason(
        r"denied|pull access|forbidden|HTTP 403",
        "denied",
        "the registry denies access, or there is no such image (it does not say which)",
        "check the name; for a private image: docker login REGISTRY",
    ),
    _Reason(
        r"unknown blob|blob unknown",
        "corrupt",
        "the registry lacks a part that the image's own manifest names",
        "try again; if it stays so, the image must be pushed again by its maker",
    ),
    _Reason(
        r"verification failed for digest|unexpected (?:commit )?digest|digest mismatch",
        "corrupt",
        "what the registry sent is not what its digest promises",
        "try again; if it stays so, the registry or a proxy in between is broken, and its owner should know",
    ),
    _Reason(
        r"unexpected HTTP status:? 5\d\d|unexpected status.*: 5\d\d|\b50[0234] (?:Internal|Bad|Service|Gateway)",
        "registry_failed",
        "the registry has trouble of its own",
        "try again in some minutes: layers that came stay",
    ),
    _Reason(
        r"manifest unknown|manifest for .* not found|name unknown|not found|no such image",
        "not_found",
        "the registry has no such image or tag",
        "check the name and the tag",
    ),
    _Reason(
        r"i/o timeout|timeout|deadline exceeded|TLS handshake|no such host|connection refused|connection reset"
        r"|network is unreachable|server misbehaving|unexpected EOF|\bEOF\b|dial tcp|byte range request",
        "unreachable",
        "the Docker engine did not reach the registry, or the connection broke off",
        "check the network and the proxy of the Docker engine, then try again: layers that came stay",
    ),
)


def pull_failed(ref: str, words: str) -> DownloadError:
    """The error for a pull that ended with ``words``."""
    for reason in _REASONS:
        if re.search(reason.pattern, words, re.IGNORECASE):
            cause = (reason.meaning, words)
            return DownloadError(
                "image_pull_failed",
                f"could not pull {ref}",
                cause=cause,
                hint=reason.hint.replace("REGISTRY", parse_reference(ref).registry),
                reason=reason.name,
                image=ref,
            )
    hint = f"docker pull {ref}"
    return DownloadError(
        "image_pull_failed", f"could not pull {ref}", cause=words, hint=hint, reason="other", image=ref
    )


@dataclass
class PullTally:
    """Adds up the layers. A layer counts from its first byte count on, so totals grow while a pull begins."""

    download: dict[str, tuple[int, int]] = field(default_factory=dict)
    extract: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, message: Mapping[str, Any]) -> PullProgress | None:
        """Take one message; the progress of the phase that moved, or None when none did."""
        layer, status = str(message.get("id", "")), message.get("status")
        detail = message.get("progressDetail") or {}
        if status in {"Download complete", "Pull complete"}:
            return self._finish("download" if status == "Download complete" else "extract", layer)
        phase = {"Downloading": "download", "Extracting": "extract"}.get(str(status))
        current, total = detail.get("current"), detail.get("total")
        if phase is None or "units" in detail or not isinstance(current, int):
            return None
        table = self._table(phase)
        if not isinstance(total, int) or total <= 0:
            total = table.get(layer, (0, 0))[1]
        return self._set(phase, layer, (current, max(current, total)))

    def _finish(self, phase: str, layer: str) -> PullProgress | None:
        known = self._table(phase).get(layer) or self.download.get(layer)
        return None if known is None else self._set(phase, layer, (known[1], known[1]))

    def _set(self, phase: str, layer: str, count: tuple[int, int]) -> PullProgress | None:
        table = self._table(phase)
        if table.get(layer) == count:
            return None
        table[layer] = count
        return PullProgress(
            phase=phase,
            done=sum(done for done, _ in table.values()),
            total=sum(total for _, total in (self.download | table).values()),
        )

    def _table(self, phase: str) -> dict[str, tuple[int, int]]:
        return self.download if phase == "download" else self.extract


class Closable(Iterator[Mapping[str, Any]], Protocol):
    """A stream of messages that another thread can end."""

    def close(self) -> None:
        """Whoever waits for the next message gets the end."""


@dataclass(frozen=True)
class _End:
    """The stream is over, maybe by an error."""

    error: BaseException | None


def ticking(
    stream: Closable, foreign: tuple[type[BaseException], ...], tick: float = 1.0
) -> Generator[Mapping[str, Any] | None]:
    """The messages as they come, and None after every ``tick`` seconds without one. Closing this closes the stream, so
    that the engine gives the pull up. An error of a ``foreign`` kind is raised here."""
    messages: queue.SimpleQueue[Mapping[str, Any] | _End] = queue.SimpleQueue()

    def read() -> None:
        error: BaseException | None = None
        try:
            for message in stream:
                messages.put(message)
        except foreign as raised:
            error = raised
        finally:
            messages.put(_End(error))

    threading.Thread(target=read, name="image pull", daemon=True).start()
    try:
        while True:
            try:
                message = messages.get(timeout=tick)
            except queue.Empty:
                yield None
                continue
            if isinstance(message, _End):
                if message.error is not None:
                    raise message.error
                return
            yield message
    finally:
        with suppress(*foreign, AttributeError):  # it may have ended and be closed already
            stream.close()


def follow_pull(
    ref: str, messages: Iterable[Mapping[str, Any] | None], progress: Callable[[PullProgress], None]
) -> None:
    """Read the stream to its end; None is a while without a message, at which the last step is told again.
    DownloadError image_pull_failed when a message says so."""
    tally, count, last = PullTally(), 0, PullProgress("download", 0, 0)
    for message in messages:
        if message is None:
            progress(replace(last, messages=count))
            continue
        count += 1
        if "error" in message or "errorDetail" in message:
            detail = message.get("errorDetail") or {}
            raise pull_failed(ref, str(detail.get("message") or message.get("error")))
        step = tally.add(message)
        if step is not None:
            last = replace(step, messages=count)
            progress(last)
