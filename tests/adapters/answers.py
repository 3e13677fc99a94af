"""An HTTP server that answers by path: a fixed answer, or one made from the request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

Answer = tuple[int, Mapping[str, str], bytes]


class Asked(NamedTuple):
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


Route = Answer | Callable[[Asked], Answer]


class Answers:
    """What is answered, and what was asked."""

    def __init__(self, routes: dict[str, Route]) -> None:
        self.routes = routes
        self.asked: list[Asked] = []

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        route = self.routes[asked.path.partition("?")[0]]
        return route(asked) if callable(route) else route

    @contextmanager
    def serving(self, host: str = "127.0.0.1") -> Iterator[str]:
        """Serve on a free port; gives ``host:port``."""

        class BoundHandler(_Handler):
            answers = self

        server = ThreadingHTTPServer((host, 0), BoundHandler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    answers: Answers

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, content = self.answers.answer(Asked(self.path, dict(self.headers), body))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *args: object) -> None:
        """Tests read ``asked`` instead."""
