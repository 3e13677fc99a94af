"""What only the rehearsal does: files that outlive it, processes told apart, and a container's words translated."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.rehearsal import Rehearsal
from aeonctl.adapters.rehearsal_argv import process_argv, process_environment
from aeonctl.core.container import ContainerSpec, Mount, Publish
from aeonctl.errors import EngineError, HostError
from aeonctl.ports import EngineStatus
from tests.adapters.engine_kits import ENVIRONMENT, Behaviour, Bench, RealKit, rehearsal_kit


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(rehearsal_kit(tmp_path))
    yield bench
    bench.clear()


def files(tmp_path: Path, name: str) -> dict[str, Any]:
    folder = tmp_path / "rehearsal" / name
    return {path.stem: json.loads(path.read_bytes()) for path in folder.glob("*.json")}


def test_an_engine_outlives_who_started_it(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour(prints=(b"up\n",), farewell=b"down\n"))
    code = (
        "import os, sys, pathlib\n"
        "from aeonctl.adapters.rehearsal import Rehearsal\n"
        "from aeonctl.core.container import ContainerSpec\n"
        "spec = ContainerSpec.model_validate_json(sys.stdin.read())\n"
        "Rehearsal(pathlib.Path(sys.argv[1]), command=('sh',)).start(spec, os.environ)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], input=spec.model_dump_json(), text=True, check=True, timeout=60
    )

    record = bench.engines.find(spec.name)
    assert record is not None
    assert record.status is EngineStatus.RUNNING
    bench.until(lambda: b"".join(bench.engines.log(spec.name, follow=False)) == b"up\n")

    bench.engines.signal(spec.name, "SIGTERM")

    assert b"".join(bench.engines.log(spec.name, follow=True)) == b"up\ndown\n"
    ended = bench.engines.find(spec.name)
    assert ended is not None
    assert ended.exit_code == 0


def test_what_is_written_has_no_secret(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour(), env={"AEONCTL_TEST_SECRET": None})
    bench.engines.start(spec, ENVIRONMENT)

    folder = tmp_path / "rehearsal" / spec.name
    for path in folder.iterdir():
        assert ENVIRONMENT["AEONCTL_TEST_SECRET"] not in path.read_text()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_half_written_start_is_no_engine_and_makes_room(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour(code=0))
    folder = tmp_path / "rehearsal" / spec.name
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(spec.model_dump_json())
    (folder / ".process.json.77").write_text('{"pid": ')

    assert bench.engines.find(spec.name) is None
    assert bench.engines.ours() == ()

    bench.engines.start(spec, ENVIRONMENT)

    assert b"".join(bench.engines.log(spec.name, follow=True)) == b""
    assert not (folder / ".process.json.77").exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [("spec.json", "{"), ("spec.json", '{"name": 7}'), ("process.json", "[]"), ("process.json", '{"pid": 1}')],
)
def test_broken_files_are_no_engine(tmp_path: Path, file: str, text: str) -> None:
    folder = tmp_path / "rehearsal" / "broken"
    folder.mkdir(parents=True)
    spec = ContainerSpec(name="broken", image="a", entrypoint="sh", command=())
    (folder / "spec.json").write_text(spec.model_dump_json())
    process = {"pid": 1, "ticks": 1, "supervisor": 1, "supervisor_ticks": 1, "started_at": 1.0}
    (folder / "process.json").write_text(json.dumps(process))
    engines = Rehearsal(tmp_path, command=("sh",))
    assert engines.find("broken") is not None

    (folder / file).write_text(text)

    assert engines.find("broken") is None
    engines.remove("broken")
    assert not folder.exists()


def test_another_process_with_the_same_pid_is_not_the_engine(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour(code=0))
    bench.engines.start(spec, ENVIRONMENT)
    list(bench.engines.log(spec.name, follow=True))
    process = files(tmp_path, spec.name)["process"]
    (tmp_path / "rehearsal" / spec.name / "ended.json").unlink()
    reused = {**process, "pid": os.getpid(), "supervisor": os.getpid()}
    (tmp_path / "rehearsal" / spec.name / "process.json").write_text(json.dumps(reused))

    bench.engines.signal(spec.name, "SIGTERM")
    bench.engines.signal(spec.name, "SIGKILL")

    record = bench.engines.find(spec.name)
    assert record is not None
    assert record.status is EngineStatus.EXITED
    assert record.exit_code is None
    assert record.error == "how it ended is not known: its supervisor ended before it"
    assert bench.engines.cpu_seconds(spec.name) is None
    bench.engines.remove(spec.name)


def test_an_engine_without_its_supervisor_still_runs_and_can_be_stopped(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour())
    bench.engines.start(spec, ENVIRONMENT)
    os.kill(files(tmp_path, spec.name)["process"]["supervisor"], signal.SIGKILL)

    record = bench.engines.find(spec.name)
    assert record is not None
    assert record.status is EngineStatus.RUNNING

    bench.engines.signal(spec.name, "SIGKILL")
    bench.until(lambda: exited(bench, spec.name))
    bench.engines.remove(spec.name)


def test_a_kill_reaches_the_children(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(Behaviour()).model_copy(update={"command": ("-c", "sleep 300 & echo $!; wait")})
    bench.engines.start(spec, ENVIRONMENT)
    child = int(next(bench.engines.log(spec.name, follow=True)))

    bench.engines.signal(spec.name, "SIGKILL")

    bench.until(lambda: exited(bench, spec.name))
    bench.until(lambda: not alive(child))


def test_a_command_that_is_missing_leaves_nothing(tmp_path: Path) -> None:
    engines = Rehearsal(tmp_path, command=("/no/such/program",))
    spec = ContainerSpec(name="a", image="a", entrypoint="sh", command=())

    with pytest.raises(EngineError) as refusal:
        engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "start_failed"
    assert refusal.value.causes == ("/no/such/program: No such file or directory",)
    assert list((tmp_path / "rehearsal").iterdir()) == []


@pytest.mark.parametrize("name", ["..", "../x", "", "a/b", ".hidden", "-x"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    engines = Rehearsal(tmp_path, command=("sh",))
    (tmp_path / "x").mkdir()

    assert engines.find(name) is None
    assert engines.cpu_seconds(name) is None
    engines.signal(name, "SIGKILL")
    engines.remove(name)
    with pytest.raises(EngineError):
        engines.start(ContainerSpec(name=name, image="a", entrypoint="sh", command=()), ENVIRONMENT)
    assert (tmp_path / "x").is_dir()


def test_an_address_of_another_machine_cannot_be_published(bench: Bench) -> None:
    spec = bench.spec(Behaviour()).model_copy(
        update={"publish": (Publish(host_ip="203.0.113.9", host_port=8000, container_port=8000),)}
    )

    with pytest.raises(EngineError) as refusal:
        bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "start_failed"


def test_a_taken_port_of_ipv6(bench: Bench) -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        spec = bench.spec(Behaviour()).model_copy(
            update={"publish": (Publish(host_ip="::1", host_port=port, container_port=8000),)}
        )
        with pytest.raises(HostError) as refusal:
            bench.engines.start(spec, ENVIRONMENT)

    assert refusal.value.code == "port_in_use"


def test_the_rehearsal_engine_itself_where_the_container_was_to_be(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 4096}')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    bench = Bench(RealKit(Rehearsal(tmp_path / "state"), None, rehearses=True))
    spec = bench.spec(Behaviour(), port=port).model_copy(
        update={
            "command": ("serve", "/models/m", "--port", "8000", "--host", "0.0.0.0"),
            "mounts": (Mount(source=str(model), target="/models/m", read_only=True),),
        }
    )
    try:
        bench.engines.start(spec, {**os.environ, "AEONCTL_REHEARSE_SPEED": "0"})
        log = b""
        for piece in bench.engines.log(spec.name, follow=True):
            log += piece
            if b"Application startup complete." in log:
                break
        else:
            pytest.fail(log.decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as reply:
            assert reply.status == 200
        assert (bench.engines.cpu_seconds(spec.name) or 0) > 0

        bench.engines.signal(spec.name, "SIGTERM")

        bench.until(lambda: exited(bench, spec.name))
        record = bench.engines.find(spec.name)
        assert record is not None
        assert record.exit_code == 0
    finally:
        bench.clear()


def spec_of(*command: str, **more: Any) -> ContainerSpec:
    values = {"name": "a", "image": "a", "entrypoint": "vllm", "command": command, **more}
    return ContainerSpec.model_validate(values)


MODELS = (
    Mount(source="/home/ada/hub", target="/root/.cache/huggingface/hub", read_only=True),
    Mount(source="/home/ada/it's a model/", target="/models"),
    Mount(source="/home/ada/drafter", target="/models/drafter"),
    Mount(type="volume", source="compiled", target="/root/.cache/vllm"),
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("/models", "/home/ada/it's a model"),
        ("/models/config.json", "/home/ada/it's a model/config.json"),
        ("/models/drafter/x", "/home/ada/drafter/x"),
        ("/models-other/x", "/models-other/x"),
        ("/srv/models/x", "/srv/models/x"),
        ("--model=/models/a", "--model=/home/ada/it's a model/a"),
        ('{"model": "/models/drafter", "n": 3}', '{"model": "/home/ada/drafter", "n": 3}'),
        ("/root/.cache/huggingface/hub/models--a/snapshots/1", "/home/ada/hub/models--a/snapshots/1"),
        ("/root/.cache/vllm/x", "/root/.cache/vllm/x"),
        ("models", "models"),
    ],
)
def test_paths_of_the_container_become_paths_of_the_host(word: str, expected: str) -> None:
    assert process_argv(spec_of("serve", word, mounts=MODELS)) == ["serve", expected]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("serve", "m"), ["serve", "m", "--port", "8123", "--host", "127.0.0.1"]),
        (("serve", "m", "--port", "8000", "-v"), ["serve", "m", "--port", "8123", "-v", "--host", "127.0.0.1"]),
        (("serve", "--host=0.0.0.0", "--port=8000"), ["serve", "--host", "127.0.0.1", "--port", "8123"]),
        (("serve", "--port-x", "1", "--port"), ["serve", "--port-x", "1", "--port", "8123", "--host", "127.0.0.1"]),
    ],
)
def test_the_published_port_is_the_engines_port(command: tuple[str, ...], expected: list[str]) -> None:
    publish = (Publish(host_ip="127.0.0.1", host_port=8123, container_port=8000),)

    assert process_argv(spec_of(*command, publish=publish)) == expected
    assert process_argv(spec_of(*command, publish=publish, network="host")) == list(command)
    assert process_argv(spec_of(*command)) == list(command)


def test_the_environment_is_the_containers_and_little_else() -> None:
    spec = spec_of(env={"HF_HOME": "/models/x", "HF_TOKEN": None, "ABSENT": None}, mounts=MODELS)
    environment = {"PATH": "/bin", "HF_TOKEN": "hf_x", "OTHER": "1", "AEONCTL_REHEARSE_SPEED": "0"}

    given = process_environment(spec, environment)

    assert given.pop("PYTHONPATH")
    assert given == {
        "PATH": "/bin",
        "PYTHONUNBUFFERED": "1",
        "HF_HOME": "/home/ada/it's a model/x",
        "HF_TOKEN": "hf_x",
        "AEONCTL_REHEARSE_SPEED": "0",
    }


def exited(bench: Bench, name: str) -> bool:
    record = bench.engines.find(name)
    return record is not None and record.status is EngineStatus.EXITED


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
