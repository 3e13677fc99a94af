"""``up`` through ``main``: what is started, what is refused, and what is left after each way it can end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aeonctl.errors import DownloadError, EngineError, HostError
from aeonctl.ports import EngineStatus, Reply
from tests.fakes.engines import Script
from tests.fakes.ports import BOOT_LINES, HEALTHY, Ran, World, run

NAME = "aeon-mixed-5090"
UP = ["up", "--seat", "quality"]
COMPILE = (
    b"(EngineCore pid=2623) INFO 11-30 21:44:45 [model_runner.py:305] Model loading took 1.12 GiB and 1.6 seconds\n"
)
SILENT = Script(cpu_per_second=0.0, on_term=None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def left(world: World) -> list[str]:
    return [record.name for record in (*world.docker.ours(), *world.rehearsal.ours())]


def failed(ran: Ran, code: int, name: str) -> dict[str, object]:
    assert ran.code == code
    assert ran.error["code"] == name
    assert "Traceback" not in ran.err
    return ran.error


def test_the_happy_path(world: World) -> None:
    world.hub.present = set()
    ran = run([*UP, "--json"], world)
    assert ran.code == 0
    assert ran.data["engine"] == {
        "name": NAME,
        "url": "http://127.0.0.1:8000",
        "served_names": ["aeon"],
        "spec_hash": ran.plan["spec_hash"],
        "phase": "ready",
        "rungs_taken": [],
        "already_running": False,
        "rehearsal": False,
        "max_model_len": "131072",
        "kv_tokens": 137240,
        "answer": "The capital of France is Paris.",
    }
    boot = ran.data["boot"]
    assert list(boot) == ["created", "imports", "config", "weights", "memory", "first answer"]
    assert world.hub.fetched == ["AEON-7/Qwen3.8-27B-AEON-ULTIMATE-UNCENSORED-NVFP4-MIXED"]
    assert len(world.docker.pulled) == 1
    record = world.only_engine()
    assert (record.status, record.restart_policy) == (EngineStatus.RUNNING, "no")
    assert world.locks.held == ["up"]


def test_what_a_person_is_told(world: World) -> None:
    ran = run(UP, world)
    assert ran.out == "http://127.0.0.1:8000/v1\n"
    for words in (
        "ready: rtx-5090/quality as aeon-mixed-5090",
        "endpoint      http://127.0.0.1:8000/v1",
        "model         aeon",
        "context       131072 tokens",
        "KV cache      137,240 tokens",
        "first answer  it answered: 'The capital of France is Paris.'",
        "curl http://127.0.0.1:8000/v1/chat/completions",
        "aeonctl logs -f aeon-mixed-5090",
        "aeonctl down aeon-mixed-5090",
        "50% of 8.0 GB",
    ):
        assert words in ran.err


def test_the_same_again_starts_nothing(world: World) -> None:
    first = run([*UP, "--json"], world)
    again = run([*UP, "--json"], world)
    assert (first.code, again.code) == (0, 0)
    assert again.data["engine"]["already_running"] is True
    assert again.data["engine"]["spec_hash"] == first.data["engine"]["spec_hash"]
    assert len(world.docker.started) == 1


def test_an_engine_that_is_starting_is_followed_and_never_stopped(world: World) -> None:
    assert run([*UP, "--detach"], world).code == 0
    ran = run([*UP, "--json"], world)
    assert ran.code == 0
    assert ran.data["engine"]["phase"] == "ready"
    assert len(world.docker.started) == 1
    world.http.during = world.interrupt
    assert run(UP, world).code == 130
    assert left(world) == [NAME]


def test_detach_returns_after_the_start(world: World) -> None:
    ran = run([*UP, "--detach", "--json"], world)
    assert (ran.code, ran.data["engine"]["phase"]) == (0, "starting")
    assert world.http.posts == []
    again = run([*UP, "--detach", "--json"], world)
    assert again.data["engine"]["phase"] == "starting"
    world.clock.sleep(100)
    last = run([*UP, "--detach", "--json"], world)
    assert (last.data["engine"]["phase"], last.data["engine"]["already_running"]) == ("ready", True)
    assert "is starting" in run(["up", "--seat", "speed", "--name", "other", "--port", "8005", "--detach"], world).err


def test_a_name_that_is_ours_with_other_settings(world: World) -> None:
    run(UP, world)
    ran = run([*UP, "--set", "max-num-seqs=2", "--json"], world)
    error = failed(ran, 4, "name_in_use")
    assert error["message"] == f"engine {NAME} exists already (running), with other settings"
    assert len(world.docker.started) == 1
    replaced = run([*UP, "--set", "max-num-seqs=2", "--replace", "--json"], world)
    assert replaced.code == 0
    assert world.only_engine().labels["io.aeonctl.spec-hash"] == replaced.plan["spec_hash"]


def test_a_name_that_is_somebody_elses(world: World) -> None:
    run([*UP, "--detach"], world)
    world.docker.odd[NAME] = {"ours": False, "image": "postgres:17"}
    for more in ([], ["--replace"]):
        error = failed(run([*UP, *more, "--json"], world), 4, "name_in_use")
        assert error["causes"] == ["it is running, from image postgres:17"]
    assert world.docker.signals == []


def test_a_leftover_that_has_ended(world: World) -> None:
    run(UP, world)
    world.docker.signal(NAME, "SIGKILL")
    other = [*UP, "--set", "max-num-seqs=2"]
    error = failed(run([*other, "--json"], world), 4, "name_in_use")
    assert error["message"] == f"engine {NAME} exists already, and has ended (exit code 137)"
    assert error["hint"] == f"aeonctl down {NAME} removes it; aeonctl up … --replace does so and starts again"
    again = run(UP, world)
    assert again.code == 0
    assert f"clearing away what is left of engine {NAME} (exited)" in again.err
    world.docker.signal(NAME, "SIGKILL")
    assert run([*other, "--replace"], world).code == 0


def test_a_container_without_an_exit_code(world: World) -> None:
    run([*UP, "--detach"], world)
    world.docker.odd[NAME] = {"status": EngineStatus.EXITED, "exit_code": None}
    error = failed(run([*UP, "--set", "max-num-seqs=2", "--json"], world), 4, "name_in_use")
    assert error["message"] == f"engine {NAME} exists already, and has ended"


def test_a_port_in_use_names_the_owner(world: World) -> None:
    world.host.owners[8000] = "process python3 (pid 12)"
    error = failed(run([*UP, "--json"], world), 4, "port_in_use")
    assert (error["message"], error["causes"]) == (
        "port 8000 is taken",
        ["process python3 (pid 12) listens on it"],
    )
    assert error["hint"] == "another port: --port 8001"
    assert world.docker.pulled == []


def test_a_port_in_use_by_another_engine(world: World) -> None:
    run(UP, world)
    error = failed(run(["up", "--seat", "stock", "--json"], world), 4, "port_in_use")
    assert error["causes"] == [f"engine {NAME} listens on it"]
    assert error["hint"] == f"another port: --port 8001, or aeonctl down {NAME}"
    assert run(["up", "--seat", "stock", "--port", "8001"], world).code == 0


def test_two_at_once(world: World) -> None:
    world.locks.holder = "aeonctl up, pid 77, since 21:00"
    error = failed(run([*UP, "--json"], world), 4, "up_in_progress")
    assert error["causes"] == ["aeonctl up, pid 77, since 21:00"]


@pytest.mark.parametrize("code", [0, 1])
def test_a_death_in_the_boot_is_told_with_its_cause(world: World, code: int) -> None:
    words = (
        b"(EngineCore pid=2) ERROR 11-30 21:50:14 [core.py:1200] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        b"allocate 784.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 512.00 MiB is free.\n"
    )
    world.script = replace(HEALTHY, lines=(*BOOT_LINES, (50.0, words)), exit_at=51.0, exit_code=code, healthy_at=None)
    error = failed(run([*UP, "--no-ladder", "--json"], world), 7, "exited_at_start")
    assert error["message"] == f"engine {NAME} died"
    causes = error["causes"]
    assert isinstance(causes, list)
    assert causes[0] == f"it ended in phase memory with exit code {code}"
    assert any("memory" in cause for cause in causes[1:])
    assert causes[-2] == f"engine {NAME} was stopped and removed"
    assert error["diagnosis"]
    kept = Path(str(causes[-1]).removeprefix("its log is kept in "))
    assert words in kept.read_bytes()
    assert left(world) == []


def test_a_kill_for_want_of_memory(world: World) -> None:
    world.script = Script(exit_at=5.0, exit_code=137, oom_killed=True, error="the container ran out of memory")
    error = failed(run([*UP, "--json"], world), 7, "exited_at_start")
    assert error["causes"][:2] == [  # type: ignore[index]
        "it ended in phase created with exit code 137, killed by the kernel for want of memory",
        "the container ran out of memory",
    ]


def test_a_container_that_somebody_removes(world: World) -> None:
    world.script = Script(exit_at=20.0)

    def vanish() -> None:
        world.docker.signal(NAME, "SIGKILL")
        world.docker._engines.clear()

    world.clock.at(5.0, vanish)
    error = failed(run([*UP, "--json"], world), 7, "not_running")
    assert error["causes"] == ["somebody removed or renamed it in phase created"]


def test_a_stalled_boot(world: World) -> None:
    world.script = SILENT
    error = failed(run([*UP, "--json"], world), 7, "start_timeout")
    assert error["phase"] == "created"
    assert error["causes"][0] == (  # type: ignore[index]
        "phase created is over its budget of 5 min 00 s, and neither the log nor the engine's CPU time has moved for "
        "5 min 00 s"
    )
    assert left(world) == []
    assert world.docker.signals[-1] == (NAME, "SIGKILL")


def test_78_seconds_of_silence_are_healthy(world: World) -> None:
    world.script = replace(HEALTHY, healthy_at=118.0, cpu_per_second=0.0)
    ran = run(UP, world)
    assert ran.code == 0
    assert "no log line" not in ran.err


@pytest.mark.parametrize(("cpu", "words"), [(1.0, "its processes are computing"), (0.0, "and its processes are idle")])
def test_two_minutes_of_silence_are_told_once(world: World, cpu: float, words: str) -> None:
    world.script = replace(HEALTHY, healthy_at=200.0, cpu_per_second=cpu)
    ran = run(UP, world)
    assert ran.code == 0
    assert ran.err.count("warning: no log line for 2 min") == 1
    assert words in ran.err


def test_a_boot_that_computes_is_waited_for(world: World) -> None:
    world.script = Script(healthy_at=2500.0, cpu_per_second=1.0)
    assert run(UP, world).code == 0


def test_a_seat_that_may_take_longer(world: World) -> None:
    world.host.host = World(world.state, "dgx-spark").host.host
    world.script = Script(
        lines=((1.0, COMPILE),),
        healthy_at=950.0,
        cpu_per_second=0.0,
    )
    assert run(["up", "--seat", "daily"], world).code == 0


def test_the_users_own_limit(world: World) -> None:
    error = failed(run([*UP, "--timeout", "30", "--json"], world), 7, "start_timeout")
    assert error["causes"][0] == "--timeout 30 has passed in phase weights"  # type: ignore[index]
    assert left(world) == []


def message(content: object, reason: str = "length", **more: object) -> Reply:
    choice = {"message": {"content": content, **more}, "finish_reason": reason}
    return Reply(200, {"choices": [choice], "usage": {"completion_tokens": 96}}, "")


@pytest.mark.parametrize(
    "reply",
    [
        message(None, reasoning="The user asks for the capital"),
        message(None, reasoning_content="The user asks"),
        message(None),
        message("Paris.", "stop"),
    ],
)
def test_answers(world: World, reply: Reply) -> None:
    world.http.reply = reply
    assert run(UP, world).code == 0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (message("", "stop"), "the answer is empty"),
        (Reply(500, {"error": {"message": "boom"}}, ""), "HTTP 500: boom"),
        (message("!" * 96), "the answer is garbage: '!' repeated 96 times"),
        (Reply(200, {"choices": []}, ""), "the answer has no message in it"),
        (message("hm", "error"), "the answer ended with finish_reason 'error'"),
        (None, "no answer came"),
    ],
)
def test_what_is_no_answer(world: World, reply: Reply | None, words: str) -> None:
    world.http.reply = reply
    error = failed(run([*UP, "--json"], world), 7, "smoke_failed")
    assert error["message"] == f"engine {NAME} is up, but does not answer"
    assert error["causes"][0] == words  # type: ignore[index]
    assert left(world) == []


def test_a_death_at_the_first_question(world: World) -> None:
    line = b"(EngineCore pid=2) ERROR 11-30 21:50:14 [core.py:1] RuntimeError: CUDA driver error: device not ready\n"
    world.script = replace(HEALTHY, lines=(*BOOT_LINES, (61.5, line)), exit_at=62.0)
    world.http.reply = None
    error = failed(run([*UP, "--json"], world), 7, "exited_at_start")
    assert error["causes"][0] == "it ended at the first question with exit code 0"  # type: ignore[index]
    assert left(world) == []


def test_a_removal_at_the_first_question(world: World) -> None:
    world.http.reply = None

    def vanish() -> None:
        world.docker.signal(NAME, "SIGKILL")
        world.docker._engines.clear()

    world.http.during = vanish
    assert failed(run([*UP, "--json"], world), 7, "not_running")["causes"] == [
        "somebody removed or renamed it at the first question"
    ]


@pytest.mark.parametrize("stage", ["probe", "pull", "fetch", "start", "boot", "smoke"])
def test_ctrl_c_leaves_nothing(world: World, stage: str) -> None:
    world.hub.present = set()
    if stage == "boot":
        world.clock.at(30.0, world.interrupt)
    elif stage == "pull":
        world.docker.during_pull = world.interrupt
    else:
        place = {"probe": world.host, "fetch": world.hub, "start": world.docker, "smoke": world.http}[stage]
        place.during = world.interrupt  # type: ignore[attr-defined]
    ran = run(UP, world)
    assert ran.code == 130
    assert "error: interrupted\n" in ran.err
    assert left(world) == []
    if stage in ("start", "boot", "smoke"):
        assert f"engine {NAME} was stopped and removed\n" in ran.err


def test_ctrl_c_in_json(world: World) -> None:
    world.http.during = world.interrupt
    ran = run([*UP, "--json"], world)
    assert (ran.envelope["exit_code"], ran.error["code"]) == (130, "interrupted")


def test_a_failure_that_cannot_be_cleared_away(world: World) -> None:
    world.http.reply = None
    world.docker.stuck.add(NAME)
    error = failed(run([*UP, "--json"], world), 7, "smoke_failed")
    assert (
        f"engine {NAME} could not be cleared away: engine {NAME} could not be removed; it still runs 20 s after SIGKILL"
        in (
            error["causes"]  # type: ignore[operator]
        )
    )


def test_offline(world: World) -> None:
    ran = run([*UP, "--offline", "--json"], world)
    assert "image" in failed(ran, 6, "offline")["message"]  # type: ignore[operator]
    world.have_images()
    world.hub.present = set()
    error = failed(run([*UP, "--offline", "--json"], world), 6, "offline")
    assert error["hint"] == "first: aeonctl pull-model AEON-7/Qwen3.8-27B-AEON-ULTIMATE-UNCENSORED-NVFP4-MIXED"
    world.hub.present = None
    assert run([*UP, "--offline"], world).code == 0
    assert world.docker.pulled == []
    assert world.registry.asked == []


def test_a_pull_that_fails(world: World) -> None:
    (ref,) = [ref for ref in world.docker.pulls if "rtx:sm120@" in ref]
    world.docker.pulls[ref] = ((), DownloadError("image_pull_failed", "the registry refuses", cause="denied"))
    assert failed(run([*UP, "--json"], world), 6, "image_pull_failed")["causes"] == ["denied"]
    assert left(world) == []


def test_a_start_that_docker_refuses(world: World) -> None:
    world.docker.refuse = [EngineError("start_failed", "could not start", cause="no such device")]
    assert failed(run([*UP, "--json"], world), 7, "start_failed")["causes"] == ["no such device"]


def test_docker_that_does_not_answer(world: World) -> None:
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    failed(run([*UP, "--json"], world), 4, "docker_unreachable")


def test_docker_that_goes_away_in_the_boot(world: World) -> None:
    def go() -> None:
        world.docker.silence = HostError("docker_unreachable", "Docker does not answer")

    world.clock.at(30.0, go)
    error = failed(run([*UP, "--json"], world), 4, "docker_unreachable")
    assert error["causes"] == [f"engine {NAME} could not be cleared away: Docker does not answer"]


def test_a_key_is_used_and_never_shown(world: World) -> None:
    world.environment["VLLM_API_KEY"] = "sk-very-secret"
    ran = run([*UP, "--env", "VLLM_API_KEY"], world)
    assert world.http.posts[-1][2] == "sk-very-secret"
    assert 'Authorization: Bearer $VLLM_API_KEY"' in ran.err
    assert "sk-very" not in ran.out + ran.err
    assert world.docker.started[-1][0].env["VLLM_API_KEY"] is None
    assert world.docker.started[-1][1]["VLLM_API_KEY"] == "sk-very-secret"


def test_lan_and_metrics(world: World) -> None:
    world.script = Script(healthy_at=1.0)
    world.http.metrics = 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="4096"} 1.0\n'
    ran = run([*UP, "--lan"], world)
    assert "from other machines too (--lan)" in ran.err
    assert "KV cache      4,096 tokens" in ran.err


@pytest.mark.parametrize("metrics", ["", 'vllm:cache_config_info{kv_cache_size_tokens="None"} 1.0\n', "other 1\n"])
def test_metrics_that_do_not_tell(world: World, metrics: str) -> None:
    world.script = Script(healthy_at=1.0)
    world.http.metrics = metrics
    assert run([*UP, "--json"], world).data["engine"]["kv_tokens"] is None


def test_a_rehearsal_touches_nothing_real(world: World) -> None:
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    ran = run(["up", "--seat", "quality", "--rehearse", "rtx-5090", "--json"], world)
    assert (ran.code, ran.envelope["rehearsal"], ran.data["engine"]["rehearsal"]) == (0, True, True)
    assert (world.registry.asked, world.hub.fetched) == ([], [])
    words = run(["up", "--seat", "quality", "--rehearse", "rtx-5090"], world)
    assert "This is a rehearsal" in words.err


def test_dry_run_is_plan(world: World) -> None:
    dry = run([*UP, "--dry-run", "--json"], world)
    planned = run(["plan", "--seat", "quality", "--json"], world)
    assert dry.data == planned.data
    assert (dry.code, world.docker.started) == (0, [])


def test_a_refusal_pulls_nothing(world: World) -> None:
    ran = run([*UP, "--set", "quantization=modelopt", "--json"], world)
    failed(ran, 5, "refused")
    assert world.docker.pulled == world.hub.fetched == []


def test_a_log_that_cannot_be_kept(world: World) -> None:
    world.state.mkdir(exist_ok=True)
    (world.state / "logs").write_text("a file where a folder should be")
    world.http.reply = None
    error = failed(run([*UP, "--json"], world), 7, "smoke_failed")
    assert error["causes"] == ["no answer came", f"engine {NAME} was stopped and removed"]


def test_last_words_without_an_end_of_line(world: World) -> None:
    line = b"(EngineCore pid=2) ERROR 11-30 21:50:14 [core.py:1] RuntimeError: CUDA error: no kernel image is available"
    world.script = replace(HEALTHY, lines=(*BOOT_LINES, (50.0, line)), exit_at=51.0, exit_code=1, healthy_at=None)
    failed(run([*UP, "--json"], world), 7, "exited_at_start")
    world.script = replace(HEALTHY, lines=(*BOOT_LINES, (61.0, line)))
    world.http.reply = Reply(500, None, "")
    failed(run([*UP, "--json"], world), 7, "smoke_failed")


def test_a_boot_without_readings(world: World) -> None:
    world.script = replace(HEALTHY, lines=(BOOT_LINES[2], (30.0, COMPILE)), healthy_at=60.0)
    world.docker.cpu_seconds = lambda _name: None  # type: ignore[method-assign, assignment]
    ran = run(UP, world)
    assert ran.code == 0
    assert "compile  (weights 1.1 GiB)" in ran.err or "weights 1.1 GiB" in ran.err
