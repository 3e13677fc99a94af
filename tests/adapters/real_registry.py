"""A real registry (Debian's docker-registry) on a free port of this machine, and images pushed to it by plain HTTP."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"

DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"

HTPASSWD = "me:$2b$04$lc.IRu9CKVl/0SMMSh56X.imtsv/S/EMo72jTiw5gOsQ8N2yX7W/a\n"
"""bcrypt of the password ``secret``, at its lowest cost."""


def tar_layer(files: dict[str, bytes], *, mode: int = 0o755) -> tuple[bytes, str]:
    """A layer with these files: its compressed bytes and the digest of what is inside."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed(archive.getvalue())


def packed(plain: bytes) -> tuple[bytes, str]:
    """A layer's tar archive as a registry keeps it, and its diff id."""
    return gzip.compress(plain, compresslevel=1, mtime=0), f"sha256:{hashlib.sha256(plain).hexdigest()}"


def available() -> bool:
    return shutil.which("docker-registry") is not None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def registry(folder: Path, auth: dict[str, Any] | None = None) -> Iterator[PushTo]:
    """A registry that keeps its data in ``folder``; it is ended on leaving."""
    port = free_port()
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if auth is not None:
        config["auth"] = auth
    path = folder / "config.yml"
    path.write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(path)], stdout=log, stderr=log)
        try:
            _wait(port, process, folder / "log")
            yield PushTo(f"127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            requests.get(f"http://127.0.0.1:{port}/v2/", timeout=2)
        except requests.ConnectionError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"docker-registry did not start: {log.read_text()}")


class PushTo:
    """Pushes images to the registry at ``address``; the methods give descriptors, as manifests hold them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.auth: tuple[str, str] | None = None
        self.headers: dict[str, str] = {}

    def blob(self, repository: str, content: bytes, media_type: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        start = requests.post(
            f"http://{self.address}/v2/{repository}/blobs/uploads/", auth=self.auth, headers=self.headers, timeout=10
        )
        assert start.status_code == 202, start.text
        location = start.headers["Location"]
        done = requests.put(
            f"{location}&digest={digest}", data=content, auth=self.auth, headers=self.headers, timeout=10
        )
        assert done.status_code == 201, done.text
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def manifest(self, repository: str, data: dict[str, Any], tag: str | None = None) -> dict[str, Any]:
        content = json.dumps(data).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        url = f"http://{self.address}/v2/{repository}/manifests/{tag or digest}"
        headers = {"Content-Type": data["mediaType"], **self.headers}
        reply = requests.put(url, data=content, headers=headers, auth=self.auth, timeout=10)
        assert reply.status_code == 201, reply.text
        return {"mediaType": data["mediaType"], "digest": digest, "size": len(content)}

    def image(
        self, repository: str, config: dict[str, Any], tag: str | None = None, *, docker: bool = False
    ) -> dict[str, Any]:
        """One image of two small layers; its descriptor."""
        kind = DOCKER_MANIFEST if docker else OCI_MANIFEST
        config_kind = DOCKER_CONFIG if docker else OCI_CONFIG
        layers = [
            self.blob(repository, content, "application/vnd.oci.image.layer.v1.tar+gzip")
            for content in (b"first layer", b"second")
        ]
        body = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": self.blob(repository, json.dumps(config).encode(), config_kind),
            "layers": layers,
        }
        return self.manifest(repository, body, tag)

    def pullable(
        self, repository: str, config: dict[str, Any], tag: str | None = None, *, sizes: tuple[int, ...] = (40_000,)
    ) -> dict[str, Any]:
        """An image that an engine can pull: a layer of one random file for each size; its descriptor."""
        layers = [tar_layer({f"file-{index}": os.urandom(size)}) for index, size in enumerate(sizes)]
        return self.layered(repository, config, layers, tag)

    def layered(
        self, repository: str, config: dict[str, Any], layers: list[tuple[bytes, str]], tag: str | None = None
    ) -> dict[str, Any]:
        """An image of these layers (compressed bytes, diff id); its descriptor."""
        inside = {"type": "layers", "diff_ids": [diff_id for _, diff_id in layers]}
        body = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": self.blob(repository, json.dumps({**config, "rootfs": inside}).encode(), DOCKER_CONFIG),
            "layers": [self.blob(repository, content, DOCKER_LAYER) for content, _ in layers],
        }
        return self.manifest(repository, body, tag)

    def layers_of(self, repository: str, digest: str) -> list[str]:
        """The digests of a manifest's layers."""
        url = f"http://{self.address}/v2/{repository}/manifests/{digest}"
        reply = requests.get(url, headers={"Accept": DOCKER_MANIFEST, **self.headers}, auth=self.auth, timeout=10)
        return [layer["digest"] for layer in reply.json()["layers"]]

    def index(self, repository: str, tag: str, children: list[dict[str, Any]], *, docker: bool = False) -> str:
        body = {"schemaVersion": 2, "mediaType": DOCKER_LIST if docker else OCI_INDEX, "manifests": children}
        return str(self.manifest(repository, body, tag)["digest"])
