"""An image registry on this machine with one small image, for a real engine to pull from."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _layer(size: int, name: str) -> tuple[bytes, str]:
    """A layer with one file that does not compress and that no engine has yet, and the digest of what is inside."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = size
        tar.addfile(entry, io.BytesIO(random.randbytes(size)))
    plain = archive.getvalue()
    return gzip.compress(plain, compresslevel=1, mtime=0), digest(plain)


class ImageRegistry:
    """Serves ``REPOSITORY:1``. ``blobs`` may be emptied or changed to break it."""

    repository = "aeonctl-test/pulled"
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

    def __init__(self) -> None:
        layers = [_layer(3_000_000, name) for name in ("one", "two")]
        config = {
            "architecture": self.architecture,
            "os": "linux",
            "config": {"Env": ["TORCH_CUDA_ARCH_LIST=12.0"], "Cmd": ["/x"]},
            "rootfs": {"type": "layers", "diff_ids": [inside for _, inside in layers]},
        }
        contents = [json.dumps(config).encode(), *(layer for layer, _ in layers)]
        self.blobs = {digest(content): content for content in contents}
        entries = [
            {"mediaType": _CONFIG if index == 0 else _LAYER, "size": len(content), "digest": digest(content)}
            for index, content in enumerate(contents)
        ]
        body = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": entries[0], "layers": entries[1:]}
        self.manifest = json.dumps(body).encode()
        self.address = ""

    @property
    def ref(self) -> str:
        return f"{self.address}/{self.repository}:1"

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, media type and body for a path below /v2/."""
        kind, _, name = path.removeprefix(f"{self.repository}/").partition("/")
        if not path:
            return 200, "application/json", b"{}"
        if kind == "manifests" and name in {"1", digest(self.manifest)}:
            return 200, _MANIFEST, self.manifest
        if kind == "blobs" and name in self.blobs:
            return 200, "application/octet-stream", self.blobs[name]
        errors = [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]
        return 404, "application/json", json.dumps({"errors": errors}).encode()


@contextmanager
def serving(registry: ImageRegistry) -> Iterator[ImageRegistry]:
    """Serve on a free port of 127.0.0.1, which engines speak plain HTTP with."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, kind, body = registry.answer(self.path.removeprefix("/v2/"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    registry.address = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
