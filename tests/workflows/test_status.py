"""``status`` and ``logs`` through ``main``: an engine that died is called dead, whatever else it says."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from aeonctl.cli.output import Output
from aeonctl.errors import HostError
from aeonctl.main import main
from aeonctl.ports import EngineStatus, Reply
from tests.fakes.engines import Script
from tests.fakes.ports import BOOT_LINES, HEALTHY, World, run

NAME = "aeon-mixed-5090"
DEAD = (
    b"(APIServer pid=1) ERROR 11-30 21:50:14 [async_llm.py:708] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    b"encountered an issue. See stack trace (above) for the root cause.\n"
)
READY = b"(APIServer pid=1) INFO:     Application startup complete.\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def started(world: World, script: Script, after: float) -> None:
    world.script = script
    assert run(["up", "--seat", "quality", "--detach"], world).code == 0
    world.clock.sleep(after)


def view(world: World, code: int) -> dict[str, object]:
    ran = run(["status", "--json"], world)
    assert ran.code == code
    (engine,) = ran.data["engines"]
    assert [error["code"] for error in ran.envelope["errors"]] == (["engine_died"] if code else [])
    return {name: engine[name] for name in ("state", "phase", "why")}


def test_none(world: World) -> None:
    ran = run(["status"], world)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "no engine of aeonctl exists; aeonctl up --seat SEAT starts one\n"
    assert run(["status", "--json"], world).data == {"engines": []}


def test_ready(world: World) -> None:
    started(world, HEALTHY, 3700)
    assert view(world, 0) == {"state": "ready", "phase": "ready", "why": None}
    ran = run(["status"], world)
    assert ran.out == (
        "NAME             SEAT              STATE  ENDPOINT                  UP          NOTE\n"
        "aeon-mixed-5090  rtx-5090/quality  ready  http://127.0.0.1:8000/v1  1 h 01 min\n"
    )


def test_starting(world: World) -> None:
    started(world, HEALTHY, 30)
    assert view(world, 0) == {"state": "starting", "phase": "weights", "why": None}
    assert "starting (weights)" in run(["status"], world).out


@pytest.mark.parametrize("code", [0, 1])
def test_ended_in_the_boot(world: World, code: int) -> None:
    started(world, replace(HEALTHY, healthy_at=None, exit_at=30.0, exit_code=code), 40)
    assert view(world, 7) == {"state": "dead", "phase": "weights", "why": f"exit code {code}"}


def test_ended_with_its_last_words(world: World) -> None:
    started(world, replace(HEALTHY, lines=(*BOOT_LINES, (50.0, DEAD)), exit_at=51.0, oom_killed=True), 55)
    assert str(view(world, 7)["why"]).startswith("exit code 0, out of memory; ")
    ran = run(["status"], world)
    assert "hint: aeonctl logs aeon-mixed-5090 shows its last words; aeonctl down" in ran.err


def test_dead_although_health_says_200(world: World) -> None:
    started(world, replace(HEALTHY, lines=(*BOOT_LINES, (61.0, READY), (70.0, DEAD))), 80)
    why = str(view(world, 7)["why"])
    assert why.startswith("its log says: ")
    assert why.endswith("(and /health still says 200)")


def test_dead_by_its_log_alone(world: World) -> None:
    started(world, replace(HEALTHY, lines=(*BOOT_LINES, (55.0, DEAD.rstrip())), healthy_at=None), 80)
    assert "/health" not in str(view(world, 7)["why"])


def test_health_that_says_503(world: World) -> None:
    started(world, HEALTHY, 70)
    world.http.health = Reply(503, None, "")
    assert view(world, 7) == {"state": "dead", "phase": "memory", "why": "/health says 503"}


def test_an_engine_that_stopped_answering(world: World) -> None:
    started(world, replace(HEALTHY, lines=(*BOOT_LINES, (50.0, READY)), healthy_at=None), 80)
    assert view(world, 7)["why"] == "it was ready, and does not answer any more"


def test_restarting_and_created(world: World) -> None:
    started(world, HEALTHY, 30)
    world.docker.odd[NAME] = {
        "status": EngineStatus.RESTARTING,
        "restart_policy": "unless-stopped",
        "restart_count": 3,
        "exit_code": 1,
        "started_at": None,
    }
    assert view(world, 0) == {"state": "restarting", "phase": "weights", "why": "exit code 1"}
    assert "restart unless-stopped; exit code 1" in run(["status"], world).out
    world.docker.odd[NAME] = {"status": EngineStatus.CREATED}
    assert view(world, 0) == {"state": "stopped", "phase": None, "why": "created, never started"}


def test_waivers_and_rehearsals_are_told(world: World) -> None:
    argv = ["up", "--seat", "quality", "--rehearse", "rtx-5090", "--set", "quantization=fp8"]
    assert run([*argv, "--waive", "mixed-no-quantization"], world).code == 0
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    ran = run(["status"], world)
    assert ran.code == 0
    assert "rehearsal; waived mixed-no-quantization" in ran.out
    assert "warning: Docker does not answer; only rehearsals are listed" in ran.err


def test_several_dead(world: World) -> None:
    started(world, replace(HEALTHY, exit_at=1.0, exit_code=1), 10)
    run(["up", "--seat", "stock", "--port", "8001", "--detach"], world)
    world.clock.sleep(10)
    ran = run(["status", "--json"], world)
    assert ran.error["message"] == "2 engines are dead"


def test_without_docker(world: World) -> None:
    world.docker.silence = HostError("docker_permission", "Docker may not be used")
    assert run(["status", "--json"], world).error["code"] == "docker_permission"


def test_logs(world: World) -> None:
    started(world, HEALTHY, 30)
    ran = run(["logs"], world)
    assert ran.code == 0
    assert ran.out.encode() == b"".join(text for at, text in BOOT_LINES if at <= 30)
    assert run(["logs", NAME, "--tail", "1"], world).out.encode() == BOOT_LINES[2][1]
    assert run(["logs", NAME, "--json"], world).data["log"] == ran.out


def test_logs_that_are_followed_to_the_end(world: World) -> None:
    started(world, replace(HEALTHY, exit_at=45.0, exit_code=3), 1)
    ran = run(["logs", "-f"], world)
    assert (ran.code, ran.out.encode()) == (0, b"".join(text for _, text in BOOT_LINES))
    assert ran.err == f"warning: engine {NAME} ended with exit code 3\n"


def test_logs_of_a_rehearsal_say_so(world: World) -> None:
    run(["up", "--seat", "quality", "--rehearse", "rtx-5090"], world)
    assert run(["logs"], world).err == f"engine {NAME} is a rehearsal: no GPU, no model\n"


def test_logs_of_none(world: World) -> None:
    for argv, words in ((["logs"], "there is no engine"), (["logs", "x"], "there is no engine called x")):
        ran = run([*argv, "--json"], world)
        assert (ran.code, ran.error["code"], ran.error["message"]) == (7, "not_running", words)


def test_logs_of_several(world: World) -> None:
    started(world, HEALTHY, 1)
    run(["up", "--seat", "stock", "--port", "8001", "--detach"], world)
    ran = run(["logs", "--json"], world)
    assert (ran.code, ran.error["code"]) == (2, "engine_ambiguous")
    assert ran.error["hint"] == "aeonctl logs aeon-mixed-5090"


class _Gone(io.StringIO):
    def write(self, _text: str, /) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_that_has_gone(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started(world, HEALTHY, 30)
    with (tmp_path / "out").open("w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert main(["logs"], world.ports, Output(out=_Gone(), err=io.StringIO())) == 0
