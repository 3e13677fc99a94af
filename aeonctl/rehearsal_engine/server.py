"""The HTTP side: routes, API keys, uvicorn's access log; bound early and listening only once the engine is ready."""

import json
import socket
import time
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from aeonctl.rehearsal_engine import chat, metrics, requests, tokens
from aeonctl.rehearsal_engine.bootlog import ROUTES
from aeonctl.rehearsal_engine.engine import Engine, EngineDeadError
from aeonctl.rehearsal_engine.failures import ENGINE_DEAD
from aeonctl.rehearsal_engine.requests import ApiError, Body

_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Server(ThreadingHTTPServer):
    """A server that holds its port from the start and refuses connections until ``open`` is called."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler, bind_and_activate=False)
        self.engine: Engine | None = None
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = host, port

    def open(self, engine: Engine) -> None:
        """Start to listen, answering for this engine."""
        self.engine = engine
        self.server_activate()


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "uvicorn"
    sys_version = ""
    _known: ClassVar[set[str]] = {path for path, _ in ROUTES}

    @property
    def _engine(self) -> Engine:
        assert isinstance(self.server, Server)  # noqa: S101  the only server that uses this handler
        assert self.server.engine is not None  # noqa: S101  it listens only after open()
        return self.server.engine

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's own parameter name
        """Keep http.server's log out; the access line is written once the status is known."""

    def _answer(self, method: str) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        try:
            self._route(method, path, raw)
        except ApiError as error:
            self._json(error.status, error.body())
        except EngineDeadError:
            self._json(500, ApiError(500, ENGINE_DEAD, "InternalServerError").body())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _route(self, method: str, path: str, raw: bytes) -> None:
        if path.startswith("/v1/") and not self._authorized():
            self._json(401, {"error": "Unauthorized"})
        elif (method, path) in {("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")}:
            self._send(self._engine.health_status, b"", None)
        elif (path, method) not in ROUTES:
            known = path in self._known
            self._json(405 if known else 404, {"detail": "Method Not Allowed" if known else "Not Found"})
        elif method == "GET":
            self._read_only(path)
        elif path == "/tokenize":
            self._json(200, _tokenized(requests.parse_body(raw, self._engine.settings), self._engine))
        else:
            self._generate(path, raw)

    def _read_only(self, path: str) -> None:
        engine = self._engine
        if path == "/metrics":
            self._send(200, metrics.exposition(engine).encode(), _METRICS_TYPE)
        elif path == "/version":
            self._json(200, {"version": engine.settings.version})
        elif path == "/load":
            self._json(200, {"server_load": 0})
        else:
            self._json(
                200, {"object": "list", "data": [_model_card(name, engine) for name in engine.options.served_names]}
            )

    def _generate(self, path: str, raw: bytes) -> None:
        body = requests.parse_body(raw, self._engine.settings)
        make = chat.chat_exchange if path == "/v1/chat/completions" else chat.completion_exchange
        exchange = make(body, self._engine)
        if exchange.streams:
            self._stream(exchange)
        else:
            self._json(200, exchange.whole())
        self._engine.answered()

    def _stream(self, exchange: chat.Exchange) -> None:
        self._log_access(200)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in exchange.events():
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _authorized(self) -> bool:
        keys = {*self._engine.settings.api_keys, *self._engine.options.listed("api-key")}
        scheme, _, key = (self.headers.get("Authorization") or "").partition(" ")
        return not keys or (scheme.lower() == "bearer" and key in keys)

    def _json(self, status: int, body: Body) -> None:
        self._send(status, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str | None) -> None:
        self._log_access(status)
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _log_access(self, status: int) -> None:
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        phrase = HTTPStatus(status).phrase
        self._engine.log.uvicorn(f'{client} - "{self.command} {self.path} HTTP/1.1" {status} {phrase}')


def _model_card(name: str, engine: Engine) -> Body:
    created = int(engine.started_at)
    permission = {
        "id": f"modelperm-{uuid.uuid4().hex[:16]}",
        "object": "model_permission",
        "created": created,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_view": True,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "vllm",
        "root": engine.options.model,
        "parent": None,
        "max_model_len": engine.max_model_len,
        "permission": [permission],
    }


def _tokenized(body: Body, engine: Engine) -> Body:
    requests.check_model(body, engine)
    if "messages" in body:
        ids = chat.chat_prompt(body, requests.chat_messages(body), engine)
        strings = None
    else:
        text = str(body.get("prompt", ""))
        ids = tokens.token_ids(text)
        strings = tokens.pieces(text) if body.get("return_token_strs") else None
    return {"count": len(ids), "max_model_len": engine.max_model_len, "tokens": ids, "token_strs": strings}
