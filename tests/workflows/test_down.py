"""``down`` through ``main``: what is stopped, how, and what is never touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aeonctl.errors import HostError
from aeonctl.ports import EngineStatus
from tests.fakes.engines import Script
from tests.fakes.ports import HEALTHY, World, run

NAME = "aeon-mixed-5090"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def start(world: World, *more: str, seat: str = "quality") -> None:
    assert run(["up", "--seat", seat, *more], world).code == 0


def test_a_ready_engine_leaves_in_order(world: World) -> None:
    start(world)
    ran = run(["down", "--json"], world)
    assert ran.code == 0
    (stopped,) = ran.data["stopped"]
    assert stopped == {"name": NAME, "seconds": 0.0, "killed": False, "was": "running", "rehearsal": False}
    assert world.docker.signals == [(NAME, "SIGTERM")]
    assert world.docker.ours() == ()
    assert f"engine {NAME} is gone" not in ran.out


def test_an_engine_that_is_starting_ignores_sigterm(world: World) -> None:
    world.script = replace(HEALTHY, on_term=None)
    start(world, "--detach")
    ran = run(["down"], world)
    assert ran.code == 0
    assert f"warning: engine {NAME} did not leave within 10 s of SIGTERM; sending SIGKILL" in ran.err
    assert f"engine {NAME} is gone (killed, 10 s)" in ran.err
    assert world.docker.signals == [(NAME, "SIGTERM"), (NAME, "SIGKILL")]


@pytest.mark.parametrize(("grace", "killed"), [("0", True), ("60", False)])
def test_the_users_own_grace(world: World, grace: str, killed: bool) -> None:
    world.script = replace(HEALTHY, term_seconds=45.0)
    start(world)
    ran = run(["down", NAME, "--grace", grace, "--json"], world)
    assert ran.data["stopped"][0]["killed"] is killed
    assert ("SIGTERM" in {signal for _, signal in world.docker.signals}) is not killed


def test_the_restart_policy_is_cleared_first(world: World) -> None:
    start(world)
    world.docker.set_restart(NAME, "unless-stopped")
    seen: list[str] = []
    real = world.docker.signal

    def look(name: str, signal: str) -> None:
        seen.append(world.docker._engines[name].restart)
        real(name, signal)

    world.docker.signal = look  # type: ignore[method-assign]
    assert run(["down"], world).code == 0
    assert seen == ["no"]


def test_nothing_to_stop(world: World) -> None:
    for argv, words in ((["down"], "no engine of aeonctl exists"), (["down", "x"], "no engine called x exists")):
        ran = run(argv, world)
        assert (ran.code, ran.err) == (0, f"{words}\n")


def test_a_foreign_container_is_never_touched(world: World) -> None:
    start(world)
    world.docker.odd[NAME] = {"ours": False}
    ran = run(["down", NAME, "--json"], world)
    assert (ran.code, ran.error["code"], ran.error["hint"]) == (
        5,
        "foreign_container",
        f"docker stop {NAME} if you mean it",
    )
    assert world.docker.signals == []


def test_several(world: World) -> None:
    start(world)
    start(world, "--port", "8001", seat="stock")
    ran = run(["down", "--json"], world)
    assert (ran.code, ran.error["code"], ran.error["causes"]) == (
        2,
        "engine_ambiguous",
        ["aeon-mixed-5090, vllm-stock"],
    )
    assert run(["down", "--all"], world).code == 0
    assert world.docker.ours() == ()


@pytest.mark.parametrize(
    ("status", "words"), [(EngineStatus.EXITED, "had ended already"), (EngineStatus.CREATED, "stopped")]
)
def test_what_does_not_run_is_removed_at_once(world: World, status: EngineStatus, words: str) -> None:
    start(world)
    world.docker.signal(NAME, "SIGKILL")
    world.docker.signals.clear()
    world.docker.odd[NAME] = {"status": status}
    ran = run(["down"], world)
    assert ran.code == 0
    assert f"engine {NAME} is gone ({words}, 0.0 s)" in ran.err
    assert world.docker.signals == []


def test_an_engine_that_survives_everything(world: World) -> None:
    start(world)
    world.docker.stuck.add(NAME)
    ran = run(["down", "--json"], world)
    assert (ran.code, ran.error["code"]) == (7, "stop_failed")
    assert ran.error["causes"] == ["it still runs 20 s after SIGKILL"]


def test_removing_that_does_nothing(world: World) -> None:
    start(world)
    world.docker.stays = True
    ran = run(["down", "--json"], world)
    assert (ran.code, ran.error["causes"]) == (7, ["it is still exited"])


def test_removing_that_fails(world: World) -> None:
    start(world)
    world.docker.odd[NAME] = {"status": EngineStatus.EXITED}
    ran = run(["down", "--json"], world)
    assert (ran.code, ran.error["code"], ran.error["causes"]) == (7, "stop_failed", [f"{NAME} still runs"])


def test_without_docker(world: World) -> None:
    run(["up", "--seat", "quality", "--rehearse", "rtx-5090"], world)
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    ran = run(["down"], world)
    assert ran.code == 0
    assert ran.err == (
        "warning: Docker does not answer; only rehearsals are listed\n"
        f"rehearsal engine {NAME} is gone (stopped, 0.0 s)\n"
    )
    again = run(["down", "--json"], world)
    assert (again.code, again.error["code"]) == (4, "docker_unreachable")


def test_a_rehearsal_by_its_name_asks_no_docker(world: World) -> None:
    run(["up", "--seat", "quality", "--rehearse", "rtx-5090"], world)
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    ran = run(["down", NAME, "--json"], world)
    assert (ran.code, ran.data["stopped"][0]["rehearsal"]) == (0, True)


def test_labels_that_cannot_be_read(world: World) -> None:
    world.script = Script(on_term=None)
    start(world, "--detach")
    for labels in ({"io.aeonctl.plan": "{"}, {"io.aeonctl.plan": "[]"}):
        world.docker.odd[NAME] = {"labels": labels, "published": ()}
        ran = run(["status", "--json"], world)
        assert ran.data["engines"][0]["url"] is None
    assert run(["down"], world).code == 0
