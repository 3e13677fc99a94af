"""What only Docker does: pulls, ssh, GPUs, and silence of many kinds."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from docker.errors import ImageNotFound

from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.core.container import ContainerSpec
from aeonctl.core.image import FactsFrom
from aeonctl.errors import DownloadError, EngineError, HostError
from aeonctl.ports import EngineStatus, PullProgress
from tests.adapters.engine_kits import IMAGE, Behaviour, Bench, docker_kit, shell
from tests.fakes.image_registry import ImageRegistry, digest, serving
from tests.real import require


@pytest.fixture
def bench(docker_host: str) -> Iterator[Bench]:
    bench = Bench(docker_kit(docker_host))
    yield bench
    bench.clear()


@pytest.fixture
def registry() -> Iterator[ImageRegistry]:
    with serving(ImageRegistry()) as registry:
        yield registry


def engines_at(url: str, environment: Mapping[str, str] | None = None) -> DockerEngines:
    return DockerEngines(url, os.environ if environment is None else environment, Path.home())


@pytest.mark.docker
def test_a_pull_tells_its_bytes_and_gives_the_digest(docker_host: str, registry: ImageRegistry) -> None:
    engines = engines_at(docker_host)
    steps: list[PullProgress] = []
    try:
        assert engines.image(registry.ref) is None

        engines.pull(registry.ref, steps.append)

        facts = engines.image(registry.ref)
        assert facts is not None
        assert (facts.facts_from, facts.arch, facts.sm) == (FactsFrom.LOCAL, registry.architecture, ("12.0",))
        assert facts.digest == digest(registry.manifest)
        assert engines.image(f"{registry.ref}@{facts.digest}") is not None
        assert steps[-1].done == steps[-1].total > 6_000_000
        assert {step.phase for step in steps} <= {"download", "extract"}
        engines.pull(f"{registry.ref}@{facts.digest}", steps.append)
    finally:
        for ref in (registry.ref, f"{registry.address}/{registry.repository}@{digest(registry.manifest)}"):
            remove_image(docker_host, ref)


@pytest.mark.docker
def test_a_tag_that_is_not_there(docker_host: str, registry: ImageRegistry) -> None:
    with pytest.raises(DownloadError) as failure:
        engines_at(docker_host).pull(f"{registry.address}/{registry.repository}:2", lambda _step: None)

    assert (failure.value.code, failure.value.facts["reason"]) == ("image_pull_failed", "not_found")


@pytest.mark.docker
def test_a_layer_that_is_not_what_it_was(docker_host: str, registry: ImageRegistry) -> None:
    last = next(reversed(registry.blobs))
    registry.blobs[last] = b"\0" * len(registry.blobs[last])

    with pytest.raises(DownloadError) as failure:
        engines_at(docker_host).pull(registry.ref, lambda _step: None)

    assert failure.value.code == "image_pull_failed"
    assert engines_at(docker_host).image(registry.ref) is None


@pytest.mark.docker
def test_a_registry_that_does_not_answer(docker_host: str) -> None:
    with pytest.raises(DownloadError) as failure:
        engines_at(docker_host).pull("127.0.0.1:1/nobody/home:1", lambda _step: None)

    assert failure.value.facts["reason"] == "unreachable"


@pytest.mark.docker
def test_an_image_that_is_missing_at_start(bench: Bench) -> None:
    spec = bench.spec(Behaviour()).model_copy(update={"image": "aeonctl-test/absent:1"})

    with pytest.raises(HostError) as refusal:
        bench.engines.start(spec, {})

    assert refusal.value.code == "image_missing"


@pytest.mark.docker
def test_a_program_that_is_missing_leaves_nothing(bench: Bench) -> None:
    spec = bench.spec(Behaviour()).model_copy(update={"entrypoint": "/no/such/program"})

    with pytest.raises(EngineError) as refusal:
        bench.engines.start(spec, {})

    assert refusal.value.code == "start_failed"
    assert bench.engines.find(spec.name) is None


@pytest.mark.docker
def test_a_runtime_that_is_missing(bench: Bench) -> None:
    spec = bench.spec(Behaviour()).model_copy(update={"runtime": "no-such-runtime"})

    with pytest.raises(HostError) as refusal:
        bench.engines.start(spec, {})

    assert refusal.value.code == "nvidia_runtime_missing"
    assert bench.engines.find(spec.name) is None


class InterruptedBeforeStart(DockerEngines):
    """Ctrl-C arrives when the container is there and does not run yet."""

    def _check_gpus(self, spec: ContainerSpec, ident: str) -> None:
        record = self.find(ident)
        assert record is not None
        assert record.status is EngineStatus.CREATED
        raise KeyboardInterrupt


class InterruptedWhileCreating(DockerEngines):
    """Ctrl-C arrives when the engine has made the container and its answer was not read yet."""

    def _create(self, spec: ContainerSpec, environment: Mapping[str, str]) -> str:
        super()._create(spec, environment)
        try:
            raise KeyboardInterrupt
        finally:
            self._discard_unanswered(spec)


@pytest.mark.docker
@pytest.mark.parametrize("interrupted", [InterruptedBeforeStart, InterruptedWhileCreating])
def test_ctrl_c_leaves_nothing(docker_host: str, bench: Bench, interrupted: type[DockerEngines]) -> None:
    spec = bench.spec(Behaviour())

    with pytest.raises(KeyboardInterrupt):
        interrupted(docker_host, os.environ, Path.home()).start(spec, {})

    assert bench.engines.find(spec.name) is None


class ForgetsGpus(DockerEngines):
    """An engine that takes a request for GPUs and forgets it."""

    def _inspect(self, name: str) -> dict[str, Any] | None:
        inspected = super()._inspect(name)
        if inspected is not None:
            inspected["HostConfig"]["DeviceRequests"] = None
        return inspected


@pytest.mark.docker
def test_a_request_for_gpus_must_not_be_forgotten(docker_host: str, bench: Bench) -> None:
    spec = bench.spec(Behaviour()).model_copy(update={"gpus": "all"})

    with pytest.raises(HostError) as refusal:
        ForgetsGpus(docker_host, os.environ, Path.home()).start(spec, {})

    assert refusal.value.code == "nvidia_runtime_missing"
    assert bench.engines.find(spec.name) is None


@pytest.mark.docker
def test_a_long_log_is_read_whole(bench: Bench) -> None:
    spec = bench.spec(Behaviour(code=0)).model_copy(
        update={"command": ("-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; printf end")}
    )
    bench.engines.start(spec, {})

    text = b"".join(bench.engines.log(spec.name, follow=True)).decode()

    assert text == "".join(f"line {number}\n" for number in range(20000)) + "end"


def ssh_that(folder: Path, script: str) -> dict[str, str]:
    """An environment whose ``ssh`` is ``script``, which sees the real command's arguments."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.docker
def test_an_engine_behind_ssh(docker_host: str, tmp_path: Path) -> None:
    require(shutil.which("docker"), "there is no docker command here")
    script = f'echo "$@" >> {tmp_path}/calls; DOCKER_HOST={docker_host} exec docker system dial-stdio'
    engines = engines_at("ssh://me@spark", ssh_that(tmp_path, script))
    spec = ContainerSpec(
        name=f"aeonctl-ssh-{os.getpid()}",
        image=IMAGE,
        entrypoint="sh",
        command=shell(Behaviour(prints=(b"up\n",))),
    )
    assert engines.describe().reachable is True
    assert engines.describe().endpoint == "ssh://me@spark"
    try:
        engines.start(spec, {})
        log = engines.log(spec.name, follow=True)
        assert next(log) == b"up\n"
        reader = threading.Thread(target=lambda: list(log), daemon=True)
        reader.start()
        log.close()
        reader.join(10)
        assert not reader.is_alive()
    finally:
        engines.signal(spec.name, "SIGKILL")
        assert b"".join(engines.log(spec.name, follow=True)) == b"up\n"
        Bench(docker_kit(docker_host), [spec.name]).clear()
    calls = set((tmp_path / "calls").read_text().splitlines())
    assert calls == {"-T -o ConnectTimeout=30 -l me -- spark docker system dial-stdio"}


def test_ssh_that_is_refused_says_why(tmp_path: Path) -> None:
    docker = engines_at(
        "ssh://me@spark", ssh_that(tmp_path, "echo Host key verification failed. >&2; exit 255")
    ).describe()

    assert (docker.reachable, docker.problem) == (False, "failed")
    assert "Host key verification failed." in (docker.detail or "")


def test_no_ssh_at_all(tmp_path: Path) -> None:
    docker = engines_at("ssh://me@spark", {"PATH": str(tmp_path)}).describe()

    assert (docker.reachable, docker.problem) == (False, "failed")
    assert "there is no ssh command here" in (docker.detail or "")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("unix:///nowhere/docker.sock", "no_socket"),
        ("tcp://127.0.0.1:1", "not_running"),
        ("tcp://127.0.0.1:x", "failed"),
        ("ssh://127.0.0.1:x", "failed"),
        ("bogus", "failed"),
        ("http://[", "failed"),
    ],
)
def test_silence_is_described_and_not_raised(url: str, problem: str) -> None:
    docker = engines_at(url).describe()

    assert (docker.reachable, docker.problem, docker.endpoint) == (False, problem, url)
    with pytest.raises(HostError) as refusal:
        engines_at(url).find("anybody")
    assert refusal.value.code == "docker_unreachable"


def test_tls_files_are_used(tmp_path: Path) -> None:
    environment = {"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)}
    assert DockerEngines(None, environment, tmp_path).describe().problem == "not_running"

    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("not a certificate")
    with serving(ImageRegistry()) as registry:
        secured = {**environment, "DOCKER_HOST": f"tcp://{registry.address}"}
        docker = DockerEngines(None, secured, tmp_path).describe()

    assert (docker.reachable, docker.problem) == (False, "failed")


def test_something_else_that_speaks_http(registry: ImageRegistry) -> None:
    docker = engines_at(f"tcp://{registry.address}").describe()

    assert (docker.reachable, docker.problem) == (False, "failed")


def test_a_missing_context_is_described_and_raised(tmp_path: Path) -> None:
    engines = DockerEngines(None, {"DOCKER_CONTEXT": "gone"}, tmp_path)

    docker = engines.describe()

    assert (docker.reachable, docker.problem, docker.context) == (False, "context_not_found", "gone")
    with pytest.raises(HostError) as refusal:
        engines.ours()
    assert refusal.value.code == "context_not_found"


def test_the_library_is_imported_at_first_use_only() -> None:
    code = (
        "import sys, pathlib; from aeonctl.adapters.docker_engine import DockerEngines;"
        "DockerEngines(None, {}, pathlib.Path()); sys.exit('docker' in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def remove_image(url: str, ref: str) -> None:
    with contextlib.suppress(ImageNotFound), contextlib.closing(APIClient(url)) as client:
        client.remove_image(ref)
