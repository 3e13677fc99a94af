"""kill -9 at every step of up, down and promote; then status, up and down work as if nothing had been."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real import require

IMAGE = "aeonctl-test/standin:1"
STANDIN = Path(__file__).parents[1] / "engine" / "standin"
ROOT = Path(__file__).parents[2]

UP_STEPS = (
    *("up:locked", "up:fetched", "up:guarded", "up:started", "boot:look", "up:healthy", "up:learned"),
    *("record:half", "record:written"),
)
FAILING_STEPS = ("up:failed", "up:undo", "down:found", "down:stopped", "down:removed", "up:rung", "up:started#2")
DOWN_STEPS = ("down:found", "down:policy", "down:term", "down:stopped", "down:removed")
PROMOTE_STEPS = ("promote:checked", "promote:set")


class Cli:
    """The program in processes of its own, which a step may kill."""

    def __init__(self, folder: Path, up_words: list[str], docker: str) -> None:
        self.folder = folder
        self.docker = docker
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.name = f"aeonctl-crash-{uuid.uuid4().hex[:8]}"
        self.up_words = [*up_words, "--port", str(self.port), "--name", self.name]

    def environment(self, crash: str = "", **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(ROOT),
            "DOCKER_HOST": self.docker,
            "AEONCTL_REHEARSE_SPEED": "0",
            "AEONCTL_CRASH_AT": crash,
            **more,
        }

    def __call__(self, *words: str, crash: str = "", **more: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "aeonctl", *words, "--json"],
            env=self.environment(crash, **more),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}

    def up(self, crash: str = "", **more: str) -> tuple[int, dict[str, Any]]:
        return self("up", *self.up_words, crash=crash, **more)

    def works(self, **more: str) -> None:
        """Nothing hidden, nothing blocked: status sees what is there, up ends ready, down leaves nothing."""
        assert set(self.seen()) <= {self.name}
        code, data = self.up(**more)
        assert code == 0, data
        assert data["data"]["engine"]["phase"] == "ready"
        code, shown = self("status")
        assert code == 0, shown
        assert [view["state"] for view in shown["data"]["engines"] if view["name"] == self.name] == ["ready"]
        code, gone = self("down", self.name)
        assert (code, [one["name"] for one in gone["data"]["stopped"]]) == (0, [self.name])
        assert self.seen() == []
        self.whole_files()

    def seen(self) -> list[str]:
        """The engines that ``status`` shows; a rehearsal has no Docker to ask when there is none."""
        code, shown = self("status")
        if code == 4 and "none.sock" in self.docker:
            return []
        assert code in (0, 7), shown
        names = [str(view["name"]) for view in shown["data"]["engines"]]
        return [name for name in names if name.startswith(self.name)]

    def whole_files(self) -> None:
        for path in (self.folder / "state").rglob("*.json"):
            if not path.name.startswith("."):
                json.loads(path.read_text())


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path, ["--seat", "quality", "--rehearse", "rtx-5090"], f"unix://{tmp_path}/none.sock")
    yield cli
    cli("down", "--all")


@pytest.fixture(scope="module")
def engine(docker_host: str) -> str:
    """A Docker engine with the stand-in image."""
    url = os.environ.get("AEONCTL_TEST_RESCUE_DOCKER_HOST") or docker_host
    require(shutil.which("docker"), "there is no docker command here")
    built = subprocess.run(["docker", "-H", url, "build", "-q", "-t", IMAGE, STANDIN], capture_output=True, check=False)
    assert built.returncode == 0, built.stderr
    return url


@pytest.fixture
def docker(engine: str, tmp_path: Path) -> Iterator[Cli]:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    words = ["--seat", "cpu/try", "--image", IMAGE, "--model", str(model), "--guard", "--guard-floor", "0.05"]
    cli = Cli(tmp_path, words, engine)
    yield cli
    subprocess.run(["docker", "-H", engine, "rm", "-f", "-v", cli.name], capture_output=True, check=False)


def killed(code: int) -> bool:
    return code == -signal.SIGKILL


@pytest.mark.parametrize("step", [*UP_STEPS, "rehearsal:folder", "rehearsal:spec", "rehearsal:launched"])
def test_up_killed_in_a_rehearsal(rehearsal: Cli, step: str) -> None:
    fault = {"AEONCTL_REHEARSE_FAULT": "graph-oom"} if step.startswith("record") else {}
    code, _ = rehearsal.up(crash=step, **fault)
    assert killed(code), step
    rehearsal.works()


@pytest.mark.parametrize("step", FAILING_STEPS)
def test_a_climb_killed_in_a_rehearsal(rehearsal: Cli, step: str) -> None:
    code, _ = rehearsal.up(crash=step, AEONCTL_REHEARSE_FAULT="kv-oom")
    assert killed(code), step
    rehearsal.works(AEONCTL_REHEARSE_FAULT="kv-oom")


@pytest.mark.parametrize("step", DOWN_STEPS)
def test_down_killed_in_a_rehearsal(rehearsal: Cli, step: str) -> None:
    assert rehearsal.up()[0] == 0
    assert killed(rehearsal("down", rehearsal.name, crash=step)[0])
    rehearsal.works()


@pytest.mark.docker
@pytest.mark.parametrize(
    "step", [*(step for step in UP_STEPS[:-2] if step != "boot:look"), "docker:before", "docker:created"]
)
def test_up_killed_with_docker(docker: Cli, step: str) -> None:
    code, _ = docker.up(crash=step)
    assert killed(code), step
    docker.works()


@pytest.mark.docker
@pytest.mark.parametrize("step", DOWN_STEPS)
def test_down_killed_with_docker(docker: Cli, step: str) -> None:
    assert docker.up()[0] == 0
    assert killed(docker("down", docker.name, crash=step)[0])
    docker.works()


@pytest.mark.docker
@pytest.mark.parametrize("step", PROMOTE_STEPS)
def test_promote_killed_with_docker(docker: Cli, step: str) -> None:
    code, data = docker.up()
    assert code == 0
    digest = data["data"]["engine"]["spec_hash"]
    folder = docker.folder / "state" / "aeonctl" / "verifications"
    folder.mkdir(parents=True)
    (folder / f"{digest}.json").write_text(json.dumps({"spec_hash": digest, "passed": True, "at": 0, "checks": []}))
    assert killed(docker("promote", docker.name, crash=step)[0])
    code, shown = docker("status")
    assert code == 0
    assert shown["data"]["engines"][0]["restart_policy"] == ("no" if step == "promote:checked" else "unless-stopped")
    docker.works()


# --- what happens to a boot from outside -----------------------------------------------------------------------------


def booting(docker: Cli, *, seconds: str = "30") -> subprocess.Popen[str]:
    """An ``up`` whose engine is up and not ready yet."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aeonctl", "up", *docker.up_words, "--env", f"STANDIN_BOOT={seconds}", "--json"],
        env=docker.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    words = ["docker", "-H", docker.docker, "logs", docker.name]
    while b"stand-in" not in subprocess.run(words, capture_output=True, check=False).stdout:
        assert time.monotonic() < deadline, "the engine never came"
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate(timeout=90)
    assert out, err
    return process.returncode, json.loads(out)


@pytest.mark.docker
def test_a_container_removed_by_hand_during_the_boot(docker: Cli) -> None:
    process = booting(docker)
    subprocess.run(["docker", "-H", docker.docker, "rm", "-f", docker.name], capture_output=True, check=True)
    code, data = ended(process)
    assert code == 7, data
    seen = data["errors"][0]["code"]
    assert seen in {"not_running", "exited_at_start"}, "Docker kills before it removes, and either may be seen first"
    docker.works()


@pytest.mark.docker
def test_a_container_renamed_by_hand_during_the_boot(docker: Cli) -> None:
    process = booting(docker, seconds="600")
    other = f"{docker.name}-renamed"
    subprocess.run(["docker", "-H", docker.docker, "rename", docker.name, other], capture_output=True, check=True)
    code, data = ended(process)
    try:
        assert (code, data["errors"][0]["code"]) == (7, "not_running")
        _, shown = docker("status")
        assert other in [view["name"] for view in shown["data"]["engines"]]
        assert docker("down", other)[0] == 0
    finally:
        subprocess.run(["docker", "-H", docker.docker, "rm", "-f", other], capture_output=True, check=False)
    docker.works()


@pytest.mark.docker
def test_the_terminal_closes_during_the_boot(docker: Cli) -> None:
    process = booting(docker)
    process.send_signal(signal.SIGHUP)
    code, data = ended(process)
    assert (code, data["errors"][0]["code"]) == (130, "interrupted")
    assert docker.seen() == []
    docker.works()


@pytest.mark.docker
def test_two_ups_race(docker: Cli) -> None:
    process = booting(docker, seconds="4")
    code, data = docker.up()
    assert (code, data["errors"][0]["code"]) == (4, "up_in_progress")
    assert ended(process)[0] == 0
    assert docker("down", docker.name)[0] == 0
    docker.works()


def test_a_record_that_is_cut_short_is_no_record(tmp_path: Path) -> None:
    from aeonctl.workflows.records import read_record, write_record

    path = tmp_path / "a" / "record.json"
    write_record(path, {"a": 1})
    assert read_record(path) == {"a": 1}
    for text in ("", '{"a"', "[1]", "\0"):
        path.write_text(text)
        assert read_record(path) is None


@pytest.mark.docker
def test_the_guard_kills_a_booted_engine_and_status_tells(docker: Cli) -> None:
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    floor = (available - 250 * 1024 * 1024) / 1024**3
    words = [word for word in docker.up_words if word != "0.05"]
    at = words.index("--guard-floor")
    words[at + 1 : at + 1] = [f"{floor:.3f}"]
    code, data = docker("up", *words, "--env", "STANDIN_EATS=960", "--detach")
    assert code == 0, data
    assert data["data"]["plan"]["container"]["oom_score_adj"] == 500
    deadline = time.monotonic() + 60
    while True:
        code, shown = docker("status")
        views = [view for view in shown["data"]["engines"] if view["name"] == docker.name]
        if views[0]["guard"] is not None or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    assert (code, shown["errors"][0]["code"]) == (7, "host_memory_guard")
    [view] = views
    assert (view["state"], view["restart_policy"]) == ("dead", "no")
    assert "the memory guard killed it" in view["guard"]
    assert docker("down", docker.name)[0] == 0


@pytest.mark.docker
def test_a_start_under_the_floor_is_refused(docker: Cli) -> None:
    words = [word if word != "0.05" else "100000" for word in docker.up_words]
    code, data = docker("up", *words)
    assert (code, data["errors"][0]["code"]) == (4, "host_memory_low")
    assert docker.seen() == []
