"""Failures made on a real vLLM: each gets its true cause from what the engine left behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from aeonctl.cli.output import Output
from aeonctl.main import main
from tests.real import require

pytestmark = [pytest.mark.docker, pytest.mark.engine, pytest.mark.timeout(300)]

IMAGE = "vllm-cpu:0.32.0"
MODELS = Path.home() / ".cache" / "aeonctl-tests" / "models"
TINY = str(MODELS / "tiny" / "flat")
HUB = MODELS / "tiny" / "hub" / "models--test--tiny" / "snapshots"
SMALL = ["--enforce-eager", "--max-model-len", "2048"]
READY = b"Application startup complete"
LONGEST = 200.0
"""Seconds that a start may take on a busy machine before the test gives up."""


class Engines:
    """Containers that run vLLM in one way or another, marked as aeonctl's own so that it can be asked about them."""

    def __init__(self, url: str) -> None:
        self.client = docker.DockerClient(base_url=url)
        self.made: list[Container] = []

    def start(self, command: list[str], *, mounts: dict[str, str], **settings: Any) -> Container:
        """A container of the real image; ``mounts`` maps folders to where they are read-only inside."""
        options: dict[str, Any] = {"shm_size": "1g", "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"}, **settings}
        container: Container = self.client.containers.create(
            IMAGE,
            command,
            name=f"diagnose-{uuid.uuid4().hex[:8]}",
            labels={"io.aeonctl.seat": "cpu/try"},
            volumes={source: {"bind": target, "mode": "ro"} for source, target in mounts.items()},
            **options,
        )
        self.made.append(container)
        container.start()
        return container

    def ended(self, container: Container) -> None:
        """Wait until it has ended by itself."""
        container.wait(timeout=LONGEST)

    def log_until(self, container: Container, words: bytes) -> None:
        """Wait until its log holds the words; fail when it ends before."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            if words in container.logs():
                return
            container.reload()
            assert container.status == "running", container.logs().decode("utf-8", "replace")[-3000:]
            time.sleep(1)
        pytest.fail(f"no {words!r} within {LONGEST} s")

    def kill(self, container: Container, process: str) -> None:
        """SIGKILL to a process inside by the name that vLLM gives it."""
        script = (
            f'for p in /proc/[0-9]*; do case "$(cat $p/comm)" in "{process}"*) kill -9 "${{p#/proc/}}";; esac; done'
        )
        container.exec_run(["/bin/sh", "-c", script])


@pytest.fixture
def engines(docker_host: str) -> Iterator[Engines]:
    made = Engines(docker_host)
    tags = [tag for image in made.client.images.list() for tag in image.tags]
    require(IMAGE in tags, f"the image {IMAGE} is not in the test engine")
    require((MODELS / "tiny").is_dir(), "the tiny model is not there")
    yield made
    for container in made.made:
        with contextlib.suppress(docker.errors.APIError):
            container.remove(force=True)
    made.client.close()


def diagnosis(docker_host: str, container: Container) -> dict[str, Any]:
    out = io.StringIO()
    code = main(
        ["--json", "--host", docker_host, "diagnose", str(container.name)],
        output=Output(as_json=True, out=out, err=io.StringIO()),
    )
    answer: dict[str, Any] = json.loads(out.getvalue())
    assert code == 0, answer["errors"]
    if folder := os.environ.get("AEONCTL_KEEP_LOGS"):
        Path(folder, f"{answer['data']['summary'][:40].replace('/', '_')}.log").write_bytes(container.logs())
    data: dict[str, Any] = answer["data"]
    return data


def root_id(data: dict[str, Any]) -> str:
    assert data["verdict"] == "failed", data
    root = data["findings"][0]
    assert root["severity"] == "fatal"
    assert "Engine core initialization failed" not in root["line"]
    assert root["remedy"]
    assert root["source"]
    return str(root["id"])


def test_a_flag_that_does_not_exist(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/model", "--no-such-flag"], mounts={TINY: "/model"})
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) == "flag-not-in-this-version"


def test_a_model_that_is_not_there(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/models/missing"], mounts={})
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) == "model-path-missing"


def test_links_that_lead_out_of_the_mount(engines: Engines, docker_host: str) -> None:
    snapshot = next(HUB.iterdir())
    container = engines.start(["/model"], mounts={str(snapshot): "/model"})
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) == "model-folder-incomplete"


def test_a_port_in_use(engines: Engines, docker_host: str) -> None:
    with socket.socket() as held:
        held.bind(("0.0.0.0", 0))
        held.listen()
        port = str(held.getsockname()[1])
        container = engines.start(["/model", "--port", port, *SMALL], mounts={TINY: "/model"}, network_mode="host")
        engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) == "port-in-use"


def test_the_default_dev_shm_is_too_small(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/model", *SMALL], mounts={TINY: "/model"}, shm_size="64m")
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) == "shm-too-small"


def test_a_memory_limit_that_is_too_low(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/model", *SMALL], mounts={TINY: "/model"}, mem_limit="1500m")
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) in {"host-memory-limit", "host-oom-kill"}


def test_a_worker_killed_while_it_starts(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/model", *SMALL], mounts={TINY: "/model"})
    engines.log_until(container, b"(Worker pid=")
    engines.kill(container, "VLLM::Worker")
    engines.ended(container)
    assert root_id(diagnosis(docker_host, container)) in {"engine-core-killed", "worker-ended-without-cause"}


def test_a_healthy_engine(engines: Engines, docker_host: str) -> None:
    container = engines.start(["/model", *SMALL], mounts={TINY: "/model"})
    engines.log_until(container, READY)
    healthy = diagnosis(docker_host, container)
    assert (healthy["verdict"], [f["id"] for f in healthy["findings"] if f["severity"] == "fatal"]) == ("healthy", [])
