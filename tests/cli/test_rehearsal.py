"""The rehearsal as a user meets it: real processes, real sockets, no Docker and no GPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from aeonctl.adapters.real import build_ports
from aeonctl.ports import Ports
from tests.data.profiles import files
from tests.fakes.ports import BundledProfiles, Ran, run

NAME = "aeon-mixed-5090"
HOSTS = [path.stem for path in files("hosts")]
MODEL = "AEON-7/Qwen3.8-27B-AEON-ULTIMATE-UNCENSORED-NVFP4-MIXED"


class Machine:
    """A home of its own, without Docker."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "DOCKER_HOST": f"unix://{home}/no-docker.sock",
            "AEONCTL_REHEARSE_SPEED": "0",
        }

    def ports(self, **more: str) -> Ports:
        ports = build_ports(None, {**self.environment, **more})
        return replace(ports, profiles=BundledProfiles(self.home))

    def run(self, *argv: str, **more: str) -> Ran:
        return run(argv, self.ports(**more))

    def up(self, *argv: str, host: str = "rtx-5090", port: int | None = None, **more: str) -> Ran:
        words = ["up", "--seat", "quality", "--rehearse", host, "--port", str(port or free_port()), *argv]
        return self.run(*words, **more)

    def names(self) -> list[str]:
        return [record.name for record in self.ports().rehearsal.ours()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for name in machine.names():
        machine.run("down", name, "--grace", "0")


def poll(look: Any, what: str) -> None:
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


@pytest.mark.parametrize("host", HOSTS)
def test_every_seat_that_fits_a_host_is_played_through(machine: Machine, host: str) -> None:
    seats = machine.run("seats", "--as", host, "--json").data["seats"]
    fitting = [seat["id"] for seat in seats if seat["fits"]]
    assert fitting
    for seat in fitting:
        ran = machine.run("up", "--seat", seat, "--rehearse", host, "--port", str(free_port()), "--json")
        assert ran.code == 0, ran.envelope["errors"]
        assert ran.envelope["rehearsal"] is True
        engine = ran.data["engine"]
        assert (engine["phase"], engine["answer"]) == ("ready", "The capital of France is Paris.")
        assert machine.run("down", engine["name"]).code == 0
    assert machine.names() == []


def test_every_output_says_so(machine: Machine) -> None:
    port = free_port()
    for argv in (["--dry-run"], [], []):
        ran = machine.up(*argv, port=port)
        assert ran.code == 0
        assert "[rehearsal]" in ran.err
        assert "This is a rehearsal" in ran.err
    assert "# REHEARSAL" in machine.up("--dry-run", port=port).out
    assert machine.up("--json", port=port).envelope["rehearsal"] is True
    refused = machine.up("--set", "max-num-seqs=1", port=port)
    assert (refused.code, "error: [rehearsal] engine" in refused.err) == (4, True)
    assert machine.up("--env", "1=2", "--json").envelope["rehearsal"] is True
    assert "rehearsal" in machine.run("status").out
    assert machine.run("status", "--json").data["engines"][0]["rehearsal"] is True
    logs = machine.run("logs")
    assert "rehearsal" in logs.err
    assert "INFO" in logs.out
    down = machine.run("down")
    assert f"rehearsal engine {NAME} is gone" in down.err


FAULTS: dict[str, tuple[int, str, str]] = {
    "kv-oom": (7, "exited_at_start", "One request of the full context does not fit into the KV cache."),
    "graph-oom": (7, "exited_at_start", "CUDA out of memory"),
    "no-kernel-image": (7, "exited_at_start", "The image's PyTorch or kernels were not built for this card."),
    "exit-zero-boot": (7, "exited_at_start", "with exit code 0"),
    "garbage": (7, "smoke_failed", "the answer is garbage: '!' repeated 96 times"),
    "health-lies": (7, "smoke_failed", "HTTP 500"),
    "hang": (7, "start_timeout", "--timeout 2 has passed in phase compile"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_and_nothing_is_left(machine: Machine, fault: str) -> None:
    code, name, words = FAULTS[fault]
    limit = ["--timeout", "2"] if fault == "hang" else []
    ran = machine.up(*limit, "--no-ladder", "--json", AEONCTL_REHEARSE_FAULT=fault)
    assert (ran.code, ran.error["code"]) == (code, name)
    causes = "\n".join(ran.error["causes"])
    assert words in causes
    assert f"engine {NAME} was stopped and removed" in causes
    assert machine.names() == []
    kept = Path(causes.rpartition("its log is kept in ")[2])
    assert kept.stat().st_size > 0


@pytest.mark.parametrize("fault", ["slow", "exit-zero", "wsl2-tdr"])
def test_a_fault_that_comes_later_passes_up(machine: Machine, fault: str) -> None:
    assert machine.up(AEONCTL_REHEARSE_FAULT=fault).code == 0
    assert machine.names() == [NAME]


def long_prompt(port: int) -> int:
    body = {"prompt": [7] * 24_000, "max_tokens": 4}
    try:
        return requests.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=60).status_code
    except requests.RequestException:
        return 0


@pytest.mark.parametrize("host", ["rtx-5090", "rtx-5090-wsl2"])
def test_the_fault_that_passed_every_test(machine: Machine, host: str) -> None:
    """A long prompt kills the engine where chunks are large; under WSL2 the cap avoids it."""
    port = free_port()
    assert machine.up(host=host, port=port, AEONCTL_REHEARSE_FAULT="wsl2-tdr").code == 0
    capped = host == "rtx-5090-wsl2"
    assert (long_prompt(port) == 200) is capped
    if capped:
        assert machine.run("status").code == 0
        return
    poll(lambda: machine.run("status").code == 7, "the engine's death")
    ran = machine.run("status", "--json")
    (engine,) = ran.data["engines"]
    assert (engine["state"], ran.error["code"]) == ("dead", "engine_died")
    assert "device not ready" in machine.run("logs").out
    assert machine.run("down").code == 0


def test_an_engine_that_ends_with_zero_is_dead(machine: Machine) -> None:
    assert machine.up(AEONCTL_REHEARSE_FAULT="exit-zero").code == 0
    poll(lambda: machine.run("status").code == 7, "the engine's death")


def test_two_at_once_on_two_ports(machine: Machine) -> None:
    assert machine.up("--name", "first").code == 0
    assert machine.up("--name", "second").code == 0
    assert machine.names() == ["first", "second"]
    assert machine.run("down", "--json").error["code"] == "engine_ambiguous"
    assert machine.run("down", "--all").code == 0
    assert machine.names() == []


def test_a_port_that_is_taken(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = machine.up("--json", port=taken.getsockname()[1])
    assert (ran.code, ran.error["code"]) == (4, "port_in_use")
    assert f"(pid {os.getpid()})" in ran.error["owner"]
    assert machine.names() == []


def process(machine: Machine, *argv: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "aeonctl", *argv],
        env={**machine.environment, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def boot(machine: Machine, port: int, *argv: str) -> subprocess.Popen[str]:
    """``up`` of an engine that hangs, in a process of its own, followed until it hangs."""
    words = ["up", "--seat", "quality", "--rehearse", "rtx-5090", "--port", str(port), *argv]
    started = process(machine, *words, AEONCTL_REHEARSE_FAULT="hang")
    log = machine.home / "state" / "aeonctl" / "rehearsal" / NAME / "log"
    poll(lambda: log.is_file() and "Model loading took" in log.read_text(), "the boot")
    return started


def test_a_killed_up_leaves_an_engine_that_the_next_commands_know(machine: Machine) -> None:
    port = free_port()
    started = boot(machine, port)
    busy = machine.up("--json", port=port)
    assert (busy.code, busy.error["code"]) == (4, "up_in_progress")
    started.kill()
    started.communicate(timeout=30)
    assert machine.names() == [NAME]
    (engine,) = machine.run("status", "--json").data["engines"]
    assert engine["state"] == "starting"
    again = machine.up("--timeout", "1", "--json", port=port)
    assert (again.code, again.error["code"]) == (7, "start_timeout")
    assert machine.names() == [NAME]
    down = machine.run("down", "--grace", "0.2")
    assert down.code == 0
    assert "sending SIGKILL" in down.err
    assert machine.names() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(machine: Machine, number: signal.Signals) -> None:
    started = boot(machine, free_port(), "--json")
    started.send_signal(number)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert '"code": "interrupted"' in out
    assert f"engine {NAME} was stopped and removed" in err
    assert machine.names() == []


def test_a_reader_that_leaves(machine: Machine) -> None:
    assert machine.up().code == 0
    reading = process(machine, "logs")
    assert reading.stdout is not None
    reading.stdout.close()
    assert reading.wait(timeout=30) == 0
    assert reading.stderr is not None
    assert "Traceback" not in reading.stderr.read()


def test_the_model_is_made_once(machine: Machine) -> None:
    port = free_port()
    assert f"making a stand-in for {MODEL}" in machine.up(port=port).err
    machine.run("down")
    assert "making a stand-in" not in machine.up(port=port).err
