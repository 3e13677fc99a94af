"""One real climb: vLLM names the length that its KV cache holds, and the next start takes it."""

from __future__ import annotations

import io
import json
import os
import re
import socket
from pathlib import Path

import pytest

from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.main import main
from tests.real import require

pytestmark = [pytest.mark.docker, pytest.mark.engine, pytest.mark.timeout(900)]

IMAGE = "vllm-cpu:0.32.0"
MODEL = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "aeonctl-tests" / "models" / "smol"
SEAT = """
id: cpu/too-long
title: A context that 1 GiB of KV cache cannot hold
gpus: 0
image: vllm-cpu
model: {id: qwen3-0.6b}
container:
  name: aeonctl-ladder-real
  shm_size: 1g
  gpus: false
  env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1"}
options:
  served-model-name: [smol]
  host: 0.0.0.0
  port: "8000"
  max-model-len: "65536"
  max-num-seqs: "2"
  enforce-eager: true
why: a test
source: a test
"""


def test_vllm_names_the_length_and_the_next_start_takes_it(docker_host: str, tmp_path: Path) -> None:
    require(MODEL.is_dir(), f"no model in {MODEL}: tests/engine/make-models.sh")
    seats = tmp_path / "config" / "aeonctl" / "profiles" / "seats"
    seats.mkdir(parents=True)
    (seats / "too-long.yaml").write_text(SEAT)
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    name = f"guard-ladder-{port}"
    ports = build_ports(docker_host, environment)
    words = ["up", "--seat", "cpu/too-long", "--image", IMAGE, "--model", str(MODEL), "--port", str(port)]
    out = io.StringIO()
    try:
        code = main([*words, "--name", name, "--json"], ports, Output(as_json=True, out=out))
    finally:
        main(["down", name], ports)
    data = json.loads(out.getvalue())
    assert code == 0, data["errors"]
    assert data["data"]["engine"]["rungs_taken"] == ["length-that-fits"]
    [decision] = [row for row in data["data"]["plan"]["decisions"] if row["rule"] == "rung:length-that-fits"]
    named = re.search(r"(\d+) tokens", decision["why"])
    assert named is not None
    assert int(decision["after"]) == int(named[1]) // 1024 * 1024
    assert decision["before"] == "65536"
    assert data["data"]["engine"]["kv_tokens"] >= int(decision["after"])
