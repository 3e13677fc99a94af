"""A real engine pulls from a real registry: pinned, credentialed, platform by platform, and run by its digest."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.errors import HostError
from aeonctl.ports import PullProgress
from aeonctl.workflows.lockfiles import mark_passed
from tests.adapters import real_registry
from tests.fakes.fault_proxy import faulty
from tests.fakes.token_server import LOGIN, TokenServer
from tests.real import require
from tests.workflows.image_desk import PLAIN, SPARK, Desk

pytestmark = pytest.mark.docker

BUSYBOX = "aeonctl-test/busybox:1"
SEAT = ("--seat", "cpu/try")
COMMIT = "a" * 40


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_registry.PushTo]:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    with real_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def engine(docker_host: str) -> Iterator[docker.DockerClient]:
    """The SDK's client; images that a test pulled are gone afterwards."""
    client = docker.DockerClient(docker_host)
    before = {image.id for image in client.images.list(all=True)}
    yield client
    for image in client.images.list(all=True):
        if image.id not in before and any("/images-test/" in name for name in _names(image.attrs)):
            client.images.remove(str(image.id), force=True)
    client.close()


def _names(attrs: dict[str, Any]) -> list[str]:
    return [*(attrs.get("RepoTags") or ()), *(attrs.get("RepoDigests") or ())]


def test_a_platform_of_an_index_is_pulled_by_digest_and_keeps_its_tag(
    push: real_registry.PushTo, engine: docker.DockerClient, docker_host: str, tmp_path: Path
) -> None:
    amd64 = push.pullable("images-test/both", PLAIN, sizes=(200_000, 50_000))
    arm64 = push.pullable("images-test/both", SPARK)
    index = push.index(
        "images-test/both",
        "v1",
        [
            {**arm64, "platform": {"os": "linux", "architecture": "arm64"}},
            {**amd64, "platform": {"os": "linux", "architecture": "amd64"}},
        ],
    )
    desk = Desk(tmp_path / "home", docker_host)
    ref = f"{push.address}/images-test/both:v1"
    said = desk.say("pull-image", ref)
    image = said.data["image"]
    assert (said.code, image["ref"], image["digest"], image["platform"]) == (0, ref, index, "linux/amd64")
    assert image["bytes_moved"] > 0
    local = desk.ports.docker.image(ref)
    assert local is not None
    assert (local.arch, local.digest) == ("amd64", index)
    assert f"pulling {ref}@{index}: 250." in said.talk
    again = desk.say("pull-image", ref)
    assert (again.code, again.data["image"]["digest"], again.data["image"]["bytes_moved"]) == (0, index, 0)
    planned = desk.say("plan", *SEAT, "--image", ref).data["plan"]
    assert (planned["image"]["facts_from"], f"{ref}@{index}" in desk.text("plan", *SEAT, "--image", ref)[1]) == (
        "local",
        True,
    )


def test_layers_that_are_here_are_counted(
    push: real_registry.PushTo, engine: docker.DockerClient, docker_host: str, tmp_path: Path
) -> None:
    shared, first, second = (real_registry.tar_layer({name: uuid.uuid4().bytes * 3000}) for name in "abc")
    push.layered("images-test/one", PLAIN, [shared, first], "v1")
    push.layered("images-test/two", PLAIN, [shared, second], "v1")
    desk = Desk(tmp_path / "home", docker_host)
    assert desk.say("pull-image", f"{push.address}/images-test/one:v1").code == 0
    assert (shared[1], first[1]) in desk.ports.docker.layers()
    said = desk.say("pull-image", f"{push.address}/images-test/two:v1")
    assert said.code == 0
    assert f"{len(second[0])} B to download" in said.talk


def test_a_registry_behind_tokens_is_pulled_from_with_the_stored_login(
    engine: docker.DockerClient, docker_host: str, tmp_path: Path
) -> None:
    with TokenServer().running() as tokens:
        auth = {"silly": {"realm": tokens.realm, "service": "the registry"}}
        with real_registry.registry(tmp_path, auth) as private:
            private.headers = {"Authorization": "Bearer pusher"}
            private.pullable("images-test/private", PLAIN, "v1")
            ref = f"{private.address}/images-test/private:v1"
            desk = Desk(tmp_path / "home", docker_host)
            assert desk.say("pull-image", ref).error["code"] == "image_denied"
            desk.log_in(private.address, LOGIN)
            assert desk.say("pull-image", ref).code == 0


def test_a_credential_helper_is_asked(
    engine: docker.DockerClient, docker_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "htpasswd").write_text(real_registry.HTPASSWD)
    auth = {"htpasswd": {"realm": "here", "path": str(tmp_path / "htpasswd")}}
    helper = tmp_path / "bin" / "docker-credential-images-test"
    helper.parent.mkdir()
    helper.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"Username": "me", "Secret": "secret"}\'\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
    with real_registry.registry(tmp_path, auth) as private:
        private.auth = ("me", "secret")
        private.pullable("images-test/helped", PLAIN, "v1")
        desk = Desk(tmp_path / "home", docker_host)
        (desk.home / ".docker").mkdir()
        (desk.home / ".docker" / "config.json").write_text(
            json.dumps({"credHelpers": {private.address: "images-test"}})
        )
        assert desk.say("pull-image", f"{private.address}/images-test/helped:v1").code == 0


def test_a_pull_that_is_left_is_left_by_the_engine_too(
    push: real_registry.PushTo, engine: docker.DockerClient, docker_host: str
) -> None:
    class LeftError(Exception):
        pass

    def leave(step: PullProgress) -> None:
        raise LeftError

    digest = push.pullable("images-test/left", PLAIN, "v1", sizes=(3_000_000,))["digest"]
    engines = DockerEngines(docker_host, {}, Path("/nonexistent"))
    ref = f"{push.address}/images-test/left:v1@{digest}"
    with pytest.raises(LeftError):
        engines.pull(ref, leave)
    assert engines.image(ref) is None


def _vllm_that_sleeps(engine: docker.DockerClient) -> list[tuple[bytes, str]]:
    """Busybox's own layers, with a program called vllm on top."""
    content = io.BytesIO(b"".join(engine.images.get(BUSYBOX).save()))
    with tarfile.open(fileobj=content) as saved:
        names = json.loads(_read(saved, "manifest.json"))[0]["Layers"]
        layers = [real_registry.packed(_read(saved, name)) for name in names]
    script = b"#!/bin/sh\necho started\nexec sleep 600\n"
    return [*layers, real_registry.tar_layer({"bin/vllm": script, "marker": uuid.uuid4().bytes})]


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_up_runs_the_digest_then_asks_nobody_and_goes_back_to_what_passed(
    push: real_registry.PushTo, engine: docker.DockerClient, docker_host: str, tmp_path: Path
) -> None:
    desk = Desk(tmp_path / "home", docker_host)
    desk.hub_model("Qwen/Qwen3-0.6B", COMMIT)
    name, port = f"images-up-{uuid.uuid4().hex[:8]}", str(real_registry.free_port())
    start = ("up", *SEAT, "--name", name, "--port", port, "--detach")
    first = push.layered("images-test/vllm", PLAIN, _vllm_that_sleeps(engine), "v1")["digest"]
    try:
        with faulty(push.address) as proxy:
            ref = f"{proxy.address}/images-test/vllm:v1"
            desk.image_row(ref)
            said = desk.say(*start)
            assert (said.code, said.data["plan"]["image"]["digest"]) == (0, first), said
            assert engine.containers.get(name).attrs["Config"]["Image"] == f"{ref}@{first}"
            asked = len(proxy.asked)
            joined = desk.say(*start, "--offline")
            assert (joined.code, joined.data["engine"]["already_running"], len(proxy.asked)) == (0, True, asked)
            assert mark_passed(said.data["engine"]["spec_hash"], desk.ports) == ("cpu/try",)
            locked = desk.say("lock", *SEAT)
            assert locked.data["lock"]["locked"]["parts"] == {
                "image": {"ref": ref, "digest": first},
                "model": {"repo": "Qwen/Qwen3-0.6B", "revision": COMMIT},
                "drafter": None,
            }
            second = push.layered("images-test/vllm", PLAIN, _vllm_that_sleeps(engine), "v1")["digest"]
            desk.image_row(ref, digest=second)
            newer = desk.say(*start, "--replace")
            assert (newer.code, newer.data["plan"]["image"]["digest"]) == (0, second), newer
            desk.say("lock", *SEAT)
            back = desk.say("rollback", *SEAT)
            assert (back.code, back.data["lock"]["locked"]["parts"]["image"]["digest"]) == (0, first)
            frozen = desk.say(*start, "--replace", "--frozen", "--offline")
            assert (frozen.code, frozen.data["plan"]["image"]["digest"]) == (0, first), frozen
            assert frozen.data["engine"]["spec_hash"] == said.data["engine"]["spec_hash"]
            assert engine.containers.get(name).attrs["Config"]["Image"] == f"{ref}@{first}"
    finally:
        desk.say("down", name, "--grace", "0")
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(name)


def test_offline_opens_no_socket_but_dockers(docker_host: str, tmp_path: Path) -> None:
    """Every Python process of the command has a hook that ends it at a connection or a look-up of a name."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def forbid(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.sendto', 'socket.sendmsg'):\n"
        f"        if arguments[1] == {docker_host.removeprefix('unix://')!r}: return\n"
        "    elif event not in ('socket.getaddrinfo', 'socket.gethostbyname'): return\n"
        "    sys.stderr.write(f'FORBIDDEN {event} {arguments}\\n'); sys.stderr.flush(); os._exit(99)\n"
        "sys.addaudithook(forbid)\n"
    )
    desk = Desk(tmp_path / "home", docker_host)
    desk.hub_model("Qwen/Qwen3-0.6B", COMMIT)
    environment = {**desk.environment, "PYTHONPATH": f"{hook}:{Path.cwd()}", "DOCKER_HOST": docker_host}

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "aeonctl", "--json", *words], env=environment, capture_output=True, text=True
        )
        assert "FORBIDDEN" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    assert run("plan", *SEAT, "--image", BUSYBOX, "--offline")[0] == 0
    assert run("plan", *SEAT, "--offline", "--check")[0] == 0
    assert run("plan", *SEAT, "--image", "ghcr.io/some/image:v1", "--offline")[0] == 0
    code, out = run("up", *SEAT, "--offline")
    assert (code, json.loads(out)["errors"][0]["code"]) == (6, "offline")
    with pytest.raises(AssertionError, match="FORBIDDEN"):
        run("plan", *SEAT, "--image", "127.0.0.1:1/some/image:v1")


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostError) as caught:
        DockerEngines("unix:///nonexistent/docker.sock", {}, tmp_path).layers()
    assert caught.value.code == "docker_unreachable"
