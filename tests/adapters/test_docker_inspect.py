"""What is shown is what is run: the printed ``docker run``, pasted into bash, makes the container the API makes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.core.container import REVISION, ContainerSpec, Mount, Publish, docker_run_lines
from tests.inspected import compared
from tests.real import require

pytestmark = pytest.mark.docker

IMAGE = "aeonctl-test/busybox:1"
SLEEP = ("-c", "sleep 300")
OURS = f"aeonctl-inspect-{uuid.uuid4().hex[:8]}"
"""How every container and volume of this run begins: another run may use the same engine."""


class Side:
    """Both ways to make a container, in one Docker engine."""

    def __init__(self, url: str, environment: dict[str, str]) -> None:
        self.environment = {**os.environ, "DOCKER_HOST": url, **environment}
        self.engines = DockerEngines(url, self.environment, Path.home())

    def by_text(self, spec: ContainerSpec) -> dict[str, Any]:
        text = " \\\n  ".join(docker_run_lines(spec))
        pasted = subprocess.run(["bash", "-c", text], env=self.environment, capture_output=True, text=True, check=False)
        assert pasted.returncode == 0, f"{text}\n{pasted.stderr}"
        return self._inspected_then_removed(spec.name)

    def by_api(self, spec: ContainerSpec) -> dict[str, Any]:
        self.engines.start(spec, self.environment)
        return self._inspected_then_removed(spec.name)

    def docker(self, *words: str) -> str:
        done = subprocess.run(["docker", *words], env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout

    def _inspected_then_removed(self, name: str) -> dict[str, Any]:
        inspected: dict[str, Any] = json.loads(self.docker("inspect", name))[0]
        self.docker("rm", "--force", "--volumes", name)
        return inspected


@pytest.fixture
def side(docker_host: str) -> Iterator[Side]:
    side = Side(docker_host, {"AEONCTL_TEST_SECRET": 'se"cret $HOME `x`', "AEONCTL_TEST_EMPTY": ""})
    require(shutil.which("docker"), "there is no docker command here")
    yield side
    for name in side.docker("ps", "--all", "--quiet", "--filter", f"name={OURS}").split():
        side.docker("rm", "--force", "--volumes", name)
    for name in side.docker("volume", "ls", "--quiet", "--filter", f"name={OURS}").split():
        side.docker("volume", "rm", name)


def spec_of(**more: Any) -> ContainerSpec:
    values: dict[str, Any] = {
        "name": f"{OURS}-{uuid.uuid4().hex[:8]}",
        "image": IMAGE,
        "entrypoint": "sh",
        "command": SLEEP,
        **more,
    }
    return ContainerSpec.model_validate(values)


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def odd_folder(tmp_path: Path) -> Path:
    folder = tmp_path / 'a, b:c "d" $e é'
    folder.mkdir()
    return folder


ODD_VALUES = {
    "PLAIN": "1",
    "EMPTY": "",
    "QUOTES": """both "double" and 'single'""",
    "NEWLINE": "one\ntwo\n",
    "DOLLAR": "$HOME ${PATH} $(id) `id` \\ !",
    "UNICODE": "Grüße €  ",
    "EQUALS": "a=b=c",
    "AEONCTL_TEST_SECRET": None,
    "AEONCTL_TEST_EMPTY": None,
    "AEONCTL_TEST_ABSENT": None,
}
ODD_ARGV = (
    *SLEEP,
    "--model",
    "/models/a b",
    "--port=8000",
    "--speculative-config",
    '{"method": "mtp", "num_speculative_tokens": 3, "note": "it\'s"}',
    "--empty",
    "",
    "--served-model-name",
    "one",
    "two words",
    "*",
    "~",
    "#no comment",
)


def cases() -> dict[str, Callable[[Path], ContainerSpec]]:
    return {
        "nothing but the image": lambda _tmp: spec_of(),
        "env": lambda _tmp: spec_of(env=ODD_VALUES),
        "argv": lambda _tmp: spec_of(command=ODD_ARGV),
        "labels": lambda _tmp: spec_of(
            labels={"io.aeonctl.seat": "a/b", "io.aeonctl.plan": json.dumps({"a": [1, 'it\'s "b"\n$c é']}), "empty": ""}
        ),
        "mounts": lambda tmp: spec_of(
            mounts=(
                Mount(source=str(odd_folder(tmp)), target="/models/a, b"),
                Mount(source=str(tmp), target="/cache", read_only=True),
                Mount(type="volume", source=f"{OURS}-volume", target="/root/.cache/vllm"),
                Mount(type="volume", source=f"{OURS}-kept", target="/kept", read_only=True),
            )
        ),
        "publish": lambda _tmp: spec_of(
            publish=(
                Publish(host_ip="127.0.0.1", host_port=free_port(), container_port=8000),
                Publish(host_ip="0.0.0.0", host_port=free_port("0.0.0.0"), container_port=9000),
            )
        ),
        "publish on IPv6": lambda _tmp: spec_of(
            publish=(Publish(host_ip="::1", host_port=free_port("::1"), container_port=8000),)
        ),
        "host network and ipc": lambda _tmp: spec_of(network="host", ipc="host"),
        "guarded": lambda _tmp: spec_of(oom_score_adj=500, core_dumps=False),
        "shm": lambda _tmp: spec_of(shm_size="8g"),
        "shm and private ipc": lambda _tmp: spec_of(shm_size="64m", ipc="private"),
        "all gpus": lambda _tmp: spec_of(gpus="all"),
        "one gpu": lambda _tmp: spec_of(gpus="device=0"),
        "two gpus": lambda _tmp: spec_of(gpus="device=0,1"),
        "runtime": lambda _tmp: spec_of(runtime="io.containerd.runc.v2"),
        "restart": lambda _tmp: spec_of(restart="unless-stopped"),
        "restart a few times": lambda _tmp: spec_of(restart="on-failure:3"),
        "everything": lambda tmp: spec_of(
            command=ODD_ARGV,
            env=ODD_VALUES,
            labels={"io.aeonctl.seat": "a/b", "io.aeonctl.plan": '{"a": 1}'},
            mounts=(Mount(source=str(odd_folder(tmp)), target="/models", read_only=True),),
            publish=(Publish(host_ip="127.0.0.1", host_port=free_port(), container_port=8000),),
            ipc="host",
            shm_size="16g",
            gpus="all",
            restart="unless-stopped",
        ),
    }


@pytest.mark.parametrize("case", cases())
def test_the_text_and_the_request_make_the_same_container(side: Side, tmp_path: Path, case: str) -> None:
    spec = cases()[case](tmp_path)

    assert compared(side.by_api(spec)) == compared(side.by_text(spec))


def test_a_revision_is_read_when_the_text_runs(side: Side, tmp_path: Path) -> None:
    hub = tmp_path / "it's a hub"
    snapshot = hub / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    main = hub / "refs" / "main"
    main.parent.mkdir()
    main.write_text("0123abc")
    unknown = Mount(source=f"{hub}/snapshots/{REVISION}", target="/model", read_only=True)
    known = Mount(source=str(snapshot), target="/model", read_only=True)
    words = ("-c", "sleep 1000", f'{{"model":"/drafter/snapshots/{REVISION}"}}')
    spec = spec_of(mounts=(unknown,), command=words, revisions={REVISION: str(main)})

    by_text = side.by_text(spec)

    told = {"mounts": (known,), "command": tuple(word.replace(REVISION, "0123abc") for word in words)}
    assert compared(side.by_api(spec.model_copy(update=told))) == compared(by_text)


def test_every_field_of_a_spec_is_in_a_case(tmp_path: Path) -> None:
    bare = spec_of()
    specs = []
    for number, case in enumerate(cases().values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        specs.append(case(folder))

    same = {
        name for name in ContainerSpec.model_fields if all(getattr(spec, name) == getattr(bare, name) for spec in specs)
    }

    assert same == {"image", "entrypoint", "revisions"}
