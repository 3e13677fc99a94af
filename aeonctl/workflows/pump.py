"""An engine's log as it comes, read on a thread so that whoever follows it can look at other things as well."""

from __future__ import annotations

import queue
import threading

from aeonctl.errors import AeonError
from aeonctl.ports import Engines, LogStream

_MOST_CHUNKS = 256
"""The reader waits when this many pieces are not taken yet, so that a log of any size needs little memory."""


class LogPump:
    """Pieces of one engine's log. The thread is a daemon: it ends with the engine's log or with the process."""

    def __init__(self, engines: Engines, name: str, *, tail: int | None = None) -> None:
        """``tail`` is how many lines of what is there already are wanted; None wants them all."""
        self._queue: queue.Queue[bytes | None] = queue.Queue(_MOST_CHUNKS)
        self._closed = threading.Event()
        self.ended = False
        self.error: AeonError | None = None
        self._stream: LogStream | None = None
        self._thread = threading.Thread(
            target=self._read, args=(engines, name, tail), name=f"log of {name}", daemon=True
        )
        self._thread.start()

    def _read(self, engines: Engines, name: str, tail: int | None) -> None:
        try:
            self._stream = engines.log(name, follow=True, tail=tail)
            for chunk in self._stream:
                if not self._put(chunk):
                    return
        except AeonError as error:
            self.error = error
        finally:
            self._put(None)

    def _put(self, chunk: bytes | None) -> bool:
        """Hand over one piece; False when nobody reads any more."""
        while not self._closed.is_set():
            try:
                self._queue.put(chunk, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def take(self, wait: float) -> bytes:
        """What has come, up to a megabyte; waits at most ``wait`` seconds (of the real world) for the first piece."""
        pieces: list[bytes] = []
        size = 0
        while size < 1 << 20 and not self.ended:
            try:
                piece = self._queue.get(timeout=wait) if not pieces and wait > 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if piece is None:
                self.ended = True
            else:
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Stop reading; the log itself stays."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()
