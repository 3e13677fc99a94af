"""A proxy in front of a real registry that breaks chosen answers: a status, a body cut short, a stall, other bytes."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "WWW-Authenticate")


@dataclass(frozen=True)
class Fault:
    """What happens to a GET whose path matches ``path`` (a regular expression).

    ``status`` answers with that status; ``keep`` sends only that share of the body, under the full length; ``stall``
    then holds the connection instead of closing it; ``bytes_changed`` flips the last byte; ``body`` replaces it.
    """

    path: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: float = 1.0
    stall: bool = False
    bytes_changed: bool = False
    body: bytes | None = None


class FaultProxy:
    """Passes requests on to ``target`` (``host:port``), except for ``fault``. Counts the bytes of bodies sent."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.fault: Fault | None = None
        self.address = ""
        self.asked: list[str] = []
        self.bytes_sent = 0
        self.released = threading.Event()

    def fetch(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        """The registry's own answer."""
        connection = http.client.HTTPConnection(self.target, timeout=10)
        try:
            wanted = {name: value for name, value in headers.items() if name in ("Accept", "Authorization")}
            connection.request(method, path, headers=wanted)
            response = connection.getresponse()
            found = {name: value for name in _PASSED_ON if (value := response.headers.get(name)) is not None}
            length = response.headers.get("Content-Length")
            if method == "HEAD" and length is not None:
                found["Content-Length"] = length
            return response.status, found, response.read()
        finally:
            connection.close()

    def fault_for(self, method: str, path: str) -> Fault | None:
        """The fault of a request, if it has one."""
        fault = self.fault
        return fault if fault is not None and method == "GET" and re.search(fault.path, path) else None


@contextmanager
def faulty(target: str) -> Iterator[FaultProxy]:
    """A proxy on a free port of this machine; stalled answers are let go at the end."""
    proxy = FaultProxy(target)

    class Bound(_Handler):
        fault_proxy = proxy

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    proxy.address = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield proxy
    finally:
        proxy.released.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fault_proxy: FaultProxy

    def do_GET(self) -> None:
        proxy = self.fault_proxy
        proxy.asked.append(f"{self.command} {self.path}")
        fault = proxy.fault_for(self.command, self.path)
        if fault is not None and fault.status != 200:
            self._send(fault.status, dict(fault.headers), fault.body or b"", Fault(""))
            return
        status, headers, body = proxy.fetch(self.command, self.path, dict(self.headers))
        if fault is not None and fault.body is not None:
            body = fault.body
        self._send(status, headers, body, fault or Fault(""))

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def _send(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
        if fault.bytes_changed and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "GET":
            return
        kept = body[: int(len(body) * fault.keep)]
        try:
            self.wfile.write(kept)
            self.wfile.flush()
        except OSError:
            return
        self.fault_proxy.bytes_sent += len(kept)
        if fault.stall:
            self.fault_proxy.released.wait(120)
        if fault.keep < 1 or fault.stall:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Tests read ``asked`` instead."""
