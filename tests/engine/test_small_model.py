"""A whole life on real vLLM in real Docker: up, an answer, up again, a death, down; and Ctrl-C on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.command_line import CommandLine

pytestmark = [pytest.mark.docker, pytest.mark.engine]


def small_seat(engine_image: str, small_model: Path) -> tuple[str, ...]:
    """The CPU seat with the small model. SmolLM2 does not think, and vLLM's qwen3 parser takes every text without a
    closing tag of thought for thinking, so that its answers would have no content: the parser is left out."""
    return (
        *("--seat", "cpu/try", "--image", engine_image, "--model", str(small_model)),
        *("--unset", "reasoning-parser", "--offline"),
    )


def ask(url: str, model: str, question: str) -> str:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 32,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer: str = json.load(reply)["choices"][0]["message"]["content"]
        return answer


def until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def the_engine(status: str, name: str) -> dict[str, Any]:
    engines = [engine for engine in json.loads(status)["data"]["engines"] if engine["name"] == name]
    assert len(engines) == 1, status
    engine: dict[str, Any] = engines[0]
    return engine


def test_a_life_from_up_over_a_death_to_down(aeonctl: CommandLine, engine_image: str, small_model: Path) -> None:
    seat = aeonctl.here(*small_seat(engine_image, small_model))
    first = aeonctl.data("up", *seat)
    container = aeonctl.inspect()["Id"]

    assert first["engine"]["phase"] == "ready"
    assert first["engine"]["url"] == f"http://127.0.0.1:{aeonctl.port}"
    assert {"imports", "weights", "warmup", "server"} <= first["boot"].keys()
    assert "Paris" in ask(first["engine"]["url"], first["engine"]["served_names"][0], "What is the capital of France?")

    again = aeonctl.data("up", *seat)

    assert again["engine"]["already_running"]
    assert aeonctl.inspect()["Id"] == container
    assert the_engine(aeonctl.run("status", "--json").stdout, aeonctl.name)["state"] == "ready"

    aeonctl.docker("exec", aeonctl.name, "pkill", "-KILL", "-f", "VLLM::EngineCore")
    until(lambda: the_engine(aeonctl.run("status", "--json").stdout, aeonctl.name)["state"] == "dead", "noticed")
    until(lambda: aeonctl.inspect()["State"]["Status"] == "exited", "the container ends")
    status = aeonctl.run("status", "--json")

    assert status.returncode == 7
    dead = the_engine(status.stdout, aeonctl.name)
    assert dead["state"] == "dead"
    assert "engine core exited unexpectedly" in dead["why"], "the exit code alone tells nothing"
    assert aeonctl.inspect()["State"]["ExitCode"] == 0, "vLLM leaves with 0 when its engine process is killed"

    aeonctl.succeed("down", aeonctl.name)

    assert not aeonctl.container_exists()
    assert aeonctl.port_is_free()


def test_ctrl_c_while_it_boots_leaves_nothing(aeonctl: CommandLine, engine_image: str, small_model: Path) -> None:
    words = aeonctl.words("up", *aeonctl.here(*small_seat(engine_image, small_model)))
    with subprocess.Popen(words, env=aeonctl.environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if line.split()[-1:] == ["imports"]:
                break
        assert aeonctl.container_exists(), "".join(told)
        process.send_signal(signal.SIGINT)
        told.append(process.stderr.read())

    assert process.returncode == 130, "".join(told)
    assert "interrupted" in told[-1]
    assert not aeonctl.container_exists()
    assert aeonctl.port_is_free()
