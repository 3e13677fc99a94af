"""A small Hugging Face hub on loopback: repositories in memory, served over real HTTP as huggingface_hub asks for them.

Faults are put in by path: a status with headers, a body that breaks off, a body that waits for a signal.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_PIECE = 4 * 1024 * 1024


def weights(fill: bytes, size: int) -> bytes:
    """A safetensors file of ``size`` bytes with one tensor."""
    for length in range(80, 200):
        data = size - 8 - length
        header = {"w": {"dtype": "U8", "shape": [data], "data_offsets": [0, data]}}
        text = json.dumps(header).encode()
        if len(text) <= length:
            return length.to_bytes(8, "little") + text.ljust(length) + fill * data
    raise ValueError(size)


@dataclass
class Repository:
    """Files by path, per commit; ``branches`` name commits. ``gated`` and ``private`` need a token in ``readers``;
    ``claimed`` are sizes that the listing tells wrongly; with ``xet``, weights are said to be in the Xet store."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    readers: set[str] = field(default_factory=set)
    claimed: dict[str, int] = field(default_factory=dict)
    xet: bool = False

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        named = sorted((path, _git_sha1(content)) for path, content in files.items())
        digest = hashlib.sha1(repr(named).encode()).hexdigest()
        self.commits[digest] = files
        self.branches[branch] = digest
        return digest


@dataclass
class Fault:
    """What happens to requests whose "METHOD /path" matches; ``times`` counts down, None is for ever."""

    pattern: str
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut_after: int | None = None
    claim_size: int | None = None
    hold_after: int | None = None
    times: int | None = None
    action: Callable[[], None] | None = None
    replace: bytes | None = None


class HubServer:
    """The server's state: what it serves, what was asked of it (``GET /path`` each), and its faults."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.tokens: set[str] = set()
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self.held = threading.Event()
        self.release = threading.Event()
        self.endpoint = ""
        self._lock = threading.Lock()

    def repository(self, name: str, files: dict[str, bytes] | None = None, **more: Any) -> Repository:
        found = self.repositories.setdefault(name, Repository(**more))
        if files is not None:
            found.commit(files)
        return found

    def fault(self, pattern: str, status: int | None = None, **more: Any) -> None:
        self.faults.append(Fault(pattern, status, **more))

    def fault_for(self, request: str) -> Fault | None:
        with self._lock:
            self.asked.append(request)
            for fault in self.faults:
                if re.search(fault.pattern, request) and fault.times != 0:
                    fault.times = None if fault.times is None else fault.times - 1
                    return fault
        return None

    def downloads(self) -> list[str]:
        """The names of the files whose content was asked for."""
        return [
            request.rpartition("/")[2]
            for request in self.asked
            if request.startswith("GET ") and "/resolve/" in request
        ]


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A running hub; its address is ``endpoint``."""
    hub = HubServer()

    class BoundHandler(Handler):
        state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), BoundHandler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    """Routes one request; ``state`` is the hub that it belongs to."""

    protocol_version = "HTTP/1.1"
    state: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        """Tests read ``asked`` instead."""

    def _answer(self) -> None:
        if self.path.startswith("http://"):
            self._send(407, b"", {"Proxy-Authenticate": "Basic"})
            return
        path = unquote(urlsplit(self.path).path)
        fault = self.state.fault_for(f"{self.command} {path}")
        if fault is not None and fault.action is not None:
            fault.action()
        if fault is not None and fault.status is not None:
            self._send(fault.status, fault.body, fault.headers)
            return
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._info(match[1], match[2] or "main")
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/auth-check", path):
            self._access(match[1])
        elif re.fullmatch(r"/api/models/[^/]+/[^/]+/xet-read-token/.+", path):
            store = {"X-Xet-Cas-Url": f"{self.state.endpoint}/xet", "X-Xet-Access-Token": "token"}
            self._send(200, b"{}", {**store, "X-Xet-Token-Expiration": "4000000000"})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            self._tree(match[1], match[2])
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(match[1], match[2], match[3], fault)
        else:
            self._refuse(404, "")

    def _token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _found(self, name: str, revision: str) -> tuple[Repository, str] | None:
        """The repository and commit, or None when a refusal was sent."""
        token = self._token()
        if token is not None and token not in self.state.tokens:
            message = "Invalid credentials in Authorization header"
            self._send(401, b"", {"X-Error-Message": message})
            return None
        repository = self.state.repositories.get(name)
        if repository is None or (repository.private and token not in repository.readers):
            self._refuse(404 if token else 401, "RepoNotFound")
            return None
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self._refuse(404, "RevisionNotFound")
            return None
        return repository, commit

    def _info(self, name: str, revision: str) -> None:
        if found := self._found(name, revision):
            repository, commit = found
            siblings = [{"rfilename": path} for path in repository.commits[commit]]
            gated = "auto" if repository.gated else False
            self._json({"_id": "1", "id": name, "sha": commit, "gated": gated, "private": False, "siblings": siblings})

    def _access(self, name: str) -> None:
        if (found := self._found(name, "main")) and not self._is_kept_out(found[0]):
            self._json({})

    def _is_kept_out(self, repository: Repository) -> bool:
        """Whether a gated repository refused the token."""
        if not repository.gated or self._token() in repository.readers:
            return False
        self._refuse(403 if self._token() else 401, "GatedRepo")
        return True

    def _tree(self, name: str, revision: str) -> None:
        if found := self._found(name, revision):
            repository, commit = found
            entries = [self._entry(path, content) for path, content in repository.commits[commit].items()]
            for entry in entries:
                entry["size"] = repository.claimed.get(entry["path"], entry["size"])
                if "lfs" in entry and repository.xet:
                    entry["xetHash"] = entry["lfs"]["oid"]
                if "lfs" in entry:
                    entry["lfs"]["size"] = entry["size"]
            self._json(entries)

    @staticmethod
    def _entry(path: str, content: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": _git_sha1(content)}
        if path.endswith(".safetensors"):
            digest = _sha256(content)
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
        return entry

    def _file(self, name: str, revision: str, path: str, fault: Fault | None) -> None:
        found = self._found(name, revision)
        if found is None:
            return
        repository, commit = found
        if self._is_kept_out(repository):
            return
        content = repository.commits[commit].get(path)
        if content is None:
            self._refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
            return
        is_lfs = path.endswith(".safetensors")
        etag = _sha256(content) if is_lfs else _git_sha1(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if is_lfs:
            claimed = fault.claim_size if fault is not None else None
            headers |= {"X-Linked-Size": str(claimed or len(content)), "X-Linked-ETag": f'"{etag}"'}
        self._content(content, headers, fault)

    def _content(self, content: bytes, headers: dict[str, str], fault: Fault | None) -> None:
        start = 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            start = int(match[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        content = content if fault is None or fault.replace is None else fault.replace
        body = memoryview(content)[start:]
        self.send_response(206 if start else 200)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = fault.cut_after if fault is not None else None
        hold = fault.hold_after if fault is not None else None
        sent = 0
        while sent < len(body) and (cut is None or sent < cut):
            if hold is not None and sent >= hold:
                self.state.held.set()
                self.state.release.wait(60)
            piece = body[sent : min(sent + _PIECE, cut or len(body), len(body))]
            self.wfile.write(piece)
            sent += len(piece)
        self.close_connection = cut is not None

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, b"", {"X-Error-Code": code, **(headers or {})})

    def _json(self, data: object) -> None:
        self._send(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


_DIGESTS: dict[tuple[int, str], tuple[bytes, str]] = {}
"""Digests of contents by identity, which the content itself keeps alive: a benchmark must not measure hashing."""


def _sha256(content: bytes) -> str:
    return _digest(content, "sha256", b"")


def _git_sha1(content: bytes) -> str:
    return _digest(content, "sha1", b"blob %d\0" % len(content))


def _digest(content: bytes, algorithm: str, prefix: bytes) -> str:
    key = (id(content), algorithm)
    if key not in _DIGESTS:
        digest = hashlib.new(algorithm, prefix)
        digest.update(content)
        _DIGESTS[key] = (content, digest.hexdigest())
    return _DIGESTS[key][1]


def serve(name: str, mebibytes: int, count: int) -> None:
    """A hub with one repository of ``count`` files, for a benchmark; says its address and runs until it is ended."""
    with hub_server() as hub:
        shards = [f"model-{number:05}.safetensors" for number in range(1, count)]
        size = mebibytes * 1024 * 1024 // len(shards)
        files = {shard: weights(b"%c" % (65 + number % 50), size) for number, shard in enumerate(shards)}
        repository = hub.repository(name, {"config.json": b"{}", **files})
        for content in repository.commits[repository.branches["main"]].values():
            _sha256(content)
        sys.stdout.write(f"{hub.endpoint}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
