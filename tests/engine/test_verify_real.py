"""``verify`` on a real vLLM: it passes with a small chat model, and says how the engine died of a long prompt."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest

from aeonctl.adapters.real import build_ports
from tests.real import require
from tests.workflows.verify_rehearsal import Ran, Rehearsed, free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

IMAGE = "vllm-cpu:0.32.0"
NAME = "verify-real"
MODEL = Path.home() / ".cache" / "aeonctl-tests" / "models" / "smol"


@dataclass(frozen=True)
class Real(Rehearsed):
    """One engine in Docker."""

    client: Any

    def kill_core_at_work(self) -> None:
        """SIGKILL to the engine process once it has a request of more than 1,000 tokens at work."""
        metrics = f"http://127.0.0.1:{self.port}/metrics"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            reply = self.ports.http.get(metrics, timeout=5)
            if reply is not None and any(
                line.startswith("vllm:kv_cache_usage_perc") and float(line.rpartition(" ")[2]) > 0.012
                for line in reply.text.splitlines()
            ):
                break
            time.sleep(0.02)
        # the kernel keeps 15 letters of VLLM::EngineCore
        find = 'for p in /proc/[0-9]*; do grep -q EngineCor "$p/comm" && kill -9 "${p#/proc/}"; done'
        self.client.containers.get(NAME).exec_run(["bash", "-c", find])


@pytest.fixture(scope="module")
def engine(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    client = docker.DockerClient(base_url=docker_host)
    require(client.images.list(name=IMAGE), f"there is no image {IMAGE}")
    require((MODEL / "config.json").is_file(), f"there is no model in {MODEL}")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    ports = replace(build_ports(docker_host, environment), environment=environment)
    real = Real(ports, NAME, free_port(), client)
    options = ("--unset", "reasoning-parser", "--set", "served-model-name=smol", "--set", "max-num-batched-tokens=512")
    where = ("--image", IMAGE, "--model", str(MODEL), "--name", NAME, "--port", str(real.port), "--offline")
    try:
        started = real.run("up", "--seat", "cpu/try", *where, *options)
        assert started.code == 0, started.envelope
        yield real
    finally:
        real.run("down", NAME, "--grace", "0")
        client.close()


def test_it_passes(engine: Real) -> None:
    ran = engine.verify("--length", "137")
    assert ran.code == 0, ran.envelope
    assert ran.checks("fail") == []
    assert ran.checks("skip") == ["key", "thinking", "tools", "image"]
    summary = ran.check("long-prompt")["summary"]
    assert summary == "the needle came back from 137 tokens", ran.check("long-prompt")
    assert engine.run("status").data["engines"][0]["verified"] is True


def test_its_death_on_the_long_prompt_is_told(engine: Real) -> None:
    found: list[Ran] = []
    asking = threading.Thread(target=lambda: found.append(engine.verify("--length", "3000")))
    asking.start()
    engine.kill_core_at_work()
    asking.join()
    ran = found[0]
    assert (ran.code, ran.error["code"]) == (8, "engine_died_on_long_prompt"), ran.data["checks"]
    assert ran.checks("fail") == ["long-prompt"]
    assert ran.check("long-prompt")["summary"] == "the engine ended with exit code 0"
    assert [check["status"] for check in ran.data["checks"]][-3:] == ["skip"] * 3
