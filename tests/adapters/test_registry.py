"""The registry adapter against a real registry, and against answers that no good registry gives."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.registry import OciRegistry, image_config
from aeonctl.adapters.registry_http import docker_login
from aeonctl.core.image import FactsFrom
from aeonctl.errors import AeonError, DownloadError
from tests.adapters import real_registry
from tests.adapters.answers import Answer, Answers, Asked, Route
from tests.real import require

RTX = {
    "architecture": "amd64",
    "os": "linux",
    "config": {
        "Entrypoint": ["/bin/bash"],
        "Env": ["PATH=/usr/bin", "TORCH_CUDA_ARCH_LIST=12.0;12.0a", "CUDA_VERSION=13.0.2"],
        "Labels": {
            "ai.aeon.hardware": "RTX 5090, RTX PRO 6000 sm_120",
            "ai.aeon.not_for": "DGX Spark GB10 sm_121a, B200 sm_100",
            "org.opencontainers.image.version": "0.27.1+aeon.sm120",
        },
    },
}
SPARK = {
    "architecture": "arm64",
    "os": "linux",
    "config": {"Env": ["TORCH_CUDA_ARCH_LIST=12.1a"], "Labels": {"ai.aeon.hardware": "DGX Spark"}},
}
ATTESTATION = {"platform": {"os": "unknown", "architecture": "unknown"}}


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_registry.PushTo]:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    with real_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def registry(tmp_path: Path) -> OciRegistry:
    return OciRegistry({"DOCKER_CONFIG": str(tmp_path)}, timeout=10)


def push_index(push: real_registry.PushTo, repository: str, *, docker: bool = False) -> str:
    amd64 = push.image(repository, RTX, docker=docker)
    arm64 = push.image(repository, SPARK, docker=docker)
    attestation = push.image(repository, {"architecture": "unknown", "os": "unknown"}, docker=docker)
    note = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": amd64["digest"]}
    children = [
        {**attestation, **ATTESTATION, "annotations": note},
        {**arm64, "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        {**amd64, "platform": {"os": "linux", "architecture": "amd64"}},
    ]
    return push.index(repository, "both", children, docker=docker)


@pytest.mark.parametrize("docker", [False, True], ids=["oci-index", "docker-list"])
def test_an_index_gives_the_facts_of_the_asked_platform(
    push: real_registry.PushTo, registry: OciRegistry, docker: bool
) -> None:
    repository = f"aeon-7/both-{'docker' if docker else 'oci'}"
    digest = push_index(push, repository, docker=docker)
    amd64 = registry.image(f"{push.address}/{repository}:both", "amd64")
    arm64 = registry.image(f"{push.address}/{repository}:both", "arm64")
    assert amd64.model_dump(exclude_defaults=True, exclude={"platform_digest", "bytes_moved"}) == {
        "ref": f"{push.address}/{repository}:both",
        "facts_from": FactsFrom.REGISTRY,
        "digest": digest,
        "platforms": ("linux/arm64", "linux/amd64"),
        "arch": "amd64",
        "sm": ("12.0",),
        "not_for": "DGX Spark GB10 sm_121a, B200 sm_100",
        "not_for_sm": ("12.1", "10.0"),
        "cuda": "13.0",
        "vllm": "0.27.1",
        "compressed_bytes": 17,
        "layers": ({"diff_id": None, "size": 11}, {"diff_id": None, "size": 6}),
        "entrypoint": ("/bin/bash",),
        "family": "aeon",
    }
    assert (arm64.arch, arm64.sm, arm64.digest) == ("arm64", ("12.1",), digest)
    assert len({digest, amd64.platform_digest, arm64.platform_digest}) == 3
    assert 500 < amd64.bytes_moved < 10_000


def test_an_index_without_the_platform_says_what_there_is(push: real_registry.PushTo, registry: OciRegistry) -> None:
    push_index(push, "aeon-7/other")
    both = registry.image(f"{push.address}/aeon-7/other:both", "riscv64")
    assert (both.arch, both.platforms) == (None, ("linux/arm64", "linux/amd64"))
    arm64 = push.image("aeon-7/spark", SPARK)
    push.index("aeon-7/spark", "one", [{**arm64, "platform": {"os": "linux", "architecture": "arm64"}}])
    only = registry.image(f"{push.address}/aeon-7/spark:one", "amd64")
    assert (only.arch, only.platforms, only.sm) == ("arm64", ("linux/arm64",), ("12.1",))
    assert registry.image(f"{push.address}/aeon-7/spark:one", None).arch == "arm64"


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker-schema-2"])
def test_a_single_manifest_tells_its_own_platform(
    push: real_registry.PushTo, registry: OciRegistry, docker: bool
) -> None:
    repository = f"single/{'docker' if docker else 'oci'}"
    digest = push.image(repository, SPARK, "v1", docker=docker)["digest"]
    facts = registry.image(f"{push.address}/{repository}:v1", "amd64")
    assert (facts.arch, facts.platforms, facts.digest) == ("arm64", ("linux/arm64",), digest)
    pinned = registry.image(f"{push.address}/{repository}@{digest}", "amd64")
    assert pinned.digest == digest


def test_few_bytes_are_moved_and_counted(push: real_registry.PushTo, registry: OciRegistry) -> None:
    push_index(push, "aeon-7/bytes")
    registry.image(f"{push.address}/aeon-7/bytes:both", "amd64")
    assert 500 < registry.bytes_moved < 10_000


def test_what_is_not_there(push: real_registry.PushTo, registry: OciRegistry) -> None:
    push.image("there/image", SPARK, "v1")
    absent = "sha256:" + "0" * 64
    for ref in ("there/image:v2", "not/there:v1", f"there/image@{absent}"):
        error = refused(registry, f"{push.address}/{ref}")
        assert (error.code, bool(error.hint)) == ("image_not_found", True)


def test_nobody_answers(registry: OciRegistry) -> None:
    error = refused(registry, f"127.0.0.1:{real_registry.free_port()}/some/image:v1")
    assert error.code == "registry_unreachable"
    assert "refused" in error.causes[0]
    error = refused(registry, "no-such-registry.invalid/some/image:v1")
    assert error.code == "registry_unreachable"


def test_a_password_is_asked_for_and_read_from_dockers_configuration(tmp_path: Path) -> None:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    (tmp_path / "htpasswd").write_text(real_registry.HTPASSWD)
    auth = {"htpasswd": {"realm": "here", "path": str(tmp_path / "htpasswd")}}
    with real_registry.registry(tmp_path, auth) as push:
        push.auth = ("me", "secret")
        push.image("private/image", SPARK, "v1")
        ref = f"{push.address}/private/image:v1"
        error = refused(OciRegistry({"DOCKER_CONFIG": str(tmp_path / "none")}), ref)
        assert (error.code, error.hint) == ("image_denied", f"check the name, then: docker login {push.address}")
        log_in(tmp_path / "wrong", push.address, "me:guess")
        assert refused(OciRegistry({"DOCKER_CONFIG": str(tmp_path / "wrong")}), ref).code == "image_denied"
        log_in(tmp_path / "right", push.address, "me:secret")
        assert OciRegistry({"DOCKER_CONFIG": str(tmp_path / "right")}).image(ref, "arm64").arch == "arm64"


def test_tokens_are_fetched_where_the_challenge_says(tmp_path: Path) -> None:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    answers = Answers({"/token": (200, {}, b'{"token": "anyone"}')})
    with answers.serving() as token_address:
        auth = {"silly": {"realm": f"http://{token_address}/token", "service": "the registry"}}
        with real_registry.registry(tmp_path, auth) as push:
            push.headers = {"Authorization": "Bearer pusher"}
            push.image("public/image", SPARK, "v1")
            ref = f"{push.address}/public/image:v1"
            assert OciRegistry({"DOCKER_CONFIG": str(tmp_path)}).image(ref, "arm64").arch == "arm64"
            (asked,) = answers.asked
            assert asked.path == "/token?service=the+registry&scope=repository%3Apublic%2Fimage%3Apull"
            assert asked.headers.get("Authorization") is None
            log_in(tmp_path, push.address, "me:secret")
            OciRegistry({"DOCKER_CONFIG": str(tmp_path)}).image(ref, "arm64")
            expected = base64.b64encode(b"me:secret").decode()
            assert answers.asked[1].headers["Authorization"] == f"Basic {expected}"


def test_a_stale_login_falls_back_to_anyone(tmp_path: Path) -> None:
    config = b'{"architecture": "arm64", "os": "linux"}'
    answers = Answers({"/token": (401, {}, b"{}")})

    def token(asked: Asked) -> Answer:
        return (401, {}, b"{}") if asked.headers.get("Authorization") else (200, {}, b'{"access_token": "t"}')

    def manifest(asked: Asked) -> Answer:
        if asked.headers.get("Authorization") != "Bearer t":
            challenge = f'Bearer realm="http://{asked.headers["Host"]}/token",service="s"'
            return 401, {"WWW-Authenticate": challenge}, b"{}"
        body = {"schemaVersion": 2, "config": {"digest": real_digest(config)}, "layers": []}
        return 200, {"Content-Type": real_registry.OCI_MANIFEST}, json.dumps(body).encode()

    answers.routes = {
        "/token": token,
        "/v2/a/b/manifests/latest": manifest,
        f"/v2/a/b/blobs/{real_digest(config)}": (200, {}, config),
    }
    with answers.serving() as address:
        log_in(tmp_path, address, "me:expired")
        facts = OciRegistry({"DOCKER_CONFIG": str(tmp_path)}).image(f"{address}/a/b", "arm64")
    assert (facts.arch, facts.compressed_bytes) == ("arm64", None)


def test_an_identity_token_is_exchanged(tmp_path: Path) -> None:
    def manifest(asked: Asked) -> Answer:
        if asked.headers.get("Authorization") == "Bearer t":
            return 429, {"Retry-After": "60"}, b""
        return 401, {"WWW-Authenticate": f'Bearer realm="http://{asked.headers["Host"]}/token"'}, b""

    answers = Answers({"/v2/a/b/manifests/v1": manifest, "/token": (200, {}, b'{"access_token": "t"}')})
    with answers.serving() as address:
        (tmp_path / "config.json").write_text(json.dumps({"auths": {address: {"identitytoken": "kept"}}}))
        error = refused(OciRegistry({"DOCKER_CONFIG": str(tmp_path)}), f"{address}/a/b:v1")
    assert error.code == "registry_rate_limited"
    assert "60 s" in error.causes[0]
    form = next(asked.body for asked in answers.asked if asked.path == "/token")
    assert b"grant_type=refresh_token" in form
    assert b"refresh_token=kept" in form


def test_a_redirect_to_another_host_takes_no_authorization_along(tmp_path: Path) -> None:
    elsewhere = Answers({"/cdn": (200, {}, b'{"config": {}}')})
    with elsewhere.serving("127.0.0.2") as cdn:
        routes: dict[str, Route] = {
            "/v2/a/b/manifests/v1": lambda asked: (
                (307, {"Location": f"http://{cdn}/cdn"}, b"")
                if asked.headers.get("Authorization")
                else (401, {"WWW-Authenticate": "Basic realm=here"}, b"")
            )
        }
        with Answers(routes).serving() as address:
            log_in(tmp_path, address, "me:secret")
            refused(OciRegistry({"DOCKER_CONFIG": str(tmp_path)}), f"{address}/a/b:v1")
    assert [asked.headers.get("Authorization") for asked in elsewhere.asked] == [None]


PAGE = (200, {"Content-Type": "text/html"}, b"<html>log in</html>")
SCHEMA_1 = (200, {"Content-Type": "application/vnd.docker.distribution.manifest.v1+prettyjws"}, b'{"fsLayers": []}')
EMPTY_INDEX = (200, {"Content-Type": real_registry.OCI_INDEX}, b'{"manifests": [7, {"platform": 1}]}')


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (PAGE, "registry_failed", "not JSON"),
        ((200, {}, b"[]"), "registry_failed", "not an object"),
        ((200, {}, b"[" * 100_000), "registry_failed", "not JSON"),
        (SCHEMA_1, "registry_failed", "schema 1"),
        (EMPTY_INDEX, "registry_failed", "no image for any platform"),
        ((503, {}, b""), "registry_failed", "503"),
        ((403, {}, b""), "image_denied", "403"),
        ((401, {}, b""), "image_denied", "401"),
        ((401, {"WWW-Authenticate": "Bearer realm"}, b""), "registry_failed", "challenge"),
        ((200, {"Content-Length": "10"}, b"{}"), "registry_failed", "broke off"),
        ((200, {}, b" " * 17_000_000), "registry_failed", "larger"),
        ((302, {"Location": "/v2/a/b/manifests/v1"}, b""), "registry_failed", "TooManyRedirects"),
    ],
)
def test_answers_that_are_none(registry: OciRegistry, answer: Answer, code: str, words: str) -> None:
    with Answers({"/v2/a/b/manifests/v1": answer}).serving() as address:
        error = refused(registry, f"{address}/a/b:v1")
    assert error.code == code
    assert words in " ".join(error.causes)


def test_an_index_in_an_index(push: real_registry.PushTo, registry: OciRegistry) -> None:
    inner = {"digest": push_index(push, "nested/image"), "mediaType": real_registry.OCI_INDEX, "size": 1}
    push.index("nested/image", "outer", [{**inner, "platform": {"os": "linux", "architecture": "amd64"}}])
    error = refused(registry, f"{push.address}/nested/image:outer")
    assert (error.code, error.causes) == ("registry_failed", ("its index names another index",))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, {}, b'{"token": "two\\nlines"}'), "registry_failed"),
        ((200, {}, b"{}"), "registry_failed"),
        ((500, {}, b""), "registry_failed"),
        ((403, {}, b""), "image_denied"),
    ],
)
def test_a_token_that_is_none(registry: OciRegistry, answer: Answer, code: str) -> None:
    def manifest(asked: Asked) -> Answer:
        return 401, {"WWW-Authenticate": f'Bearer realm="http://{asked.headers["Host"]}/token"'}, b""

    with Answers({"/v2/a/b/manifests/v1": manifest, "/token": answer}).serving() as address:
        assert refused(registry, f"{address}/a/b:v1").code == code


def test_bytes_that_are_not_the_digests(registry: OciRegistry) -> None:
    wanted = "sha256:" + "1" * 64
    with Answers({f"/v2/a/b/manifests/{wanted}": (200, {}, b"{}")}).serving() as address:
        error = refused(registry, f"{address}/a/b@{wanted}")
    assert error.code == "registry_failed"
    assert wanted in error.causes[0]


@pytest.mark.parametrize("config", [{}, {"config": None}, {"config": {"Env": None, "Labels": None}}])
def test_a_config_with_nothing_in_it(config: dict[str, Any]) -> None:
    assert image_config(config, "here").env == ()


def test_a_config_of_the_wrong_kind() -> None:
    with pytest.raises(DownloadError, match="here"):
        image_config({"config": {"Env": "PATH"}}, "here")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"auths": {"r": {"auth": "!"}}}', '{"credsStore": "absent-helper"}']
)
def test_a_login_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert docker_login(tmp_path, "r") is None


def refused(registry: OciRegistry, ref: str) -> AeonError:
    with pytest.raises(DownloadError) as caught:
        registry.image(ref, "amd64")
    assert caught.value.hint
    return caught.value


def log_in(folder: Path, address: str, login: str) -> None:
    folder.mkdir(exist_ok=True)
    auths = {address: {"auth": base64.b64encode(login.encode()).decode()}}
    (folder / "config.json").write_text(json.dumps({"auths": auths}))


def real_digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
