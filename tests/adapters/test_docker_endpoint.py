"""The endpoint is found in docker's own order."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.docker_client import ssh_command
from aeonctl.adapters.docker_endpoint import DEFAULT_URL, Endpoint, Tls, resolve
from aeonctl.errors import HostError


def context(folder: Path, name: str, endpoint: dict[str, Any]) -> Path:
    """Write a context as ``docker context create`` does; the folder of its TLS files."""
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / identity / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    return folder / "contexts" / "tls" / identity / "docker"


def current(folder: Path, name: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"currentContext": name}))


def test_the_default_socket_when_nobody_says_anything(tmp_path: Path) -> None:
    assert resolve(None, {}, tmp_path) == Endpoint(DEFAULT_URL)


def test_each_source_gives_way_to_the_one_before_it(tmp_path: Path) -> None:
    folder = tmp_path / ".docker"
    context(folder, "spark", {"Host": "ssh://me@spark"})
    context(folder, "desktop", {"Host": "unix:///run/desktop.sock"})
    current(folder, "desktop")
    named, host = {"DOCKER_CONTEXT": "spark"}, {"DOCKER_HOST": "tcp://10.0.0.7:2375"}

    assert resolve(None, {}, tmp_path) == Endpoint("unix:///run/desktop.sock", "desktop")
    assert resolve(None, named, tmp_path) == Endpoint("ssh://me@spark", "spark")
    assert resolve(None, named | host, tmp_path) == Endpoint("tcp://10.0.0.7:2375")
    assert resolve("unix:///mine.sock", named | host, tmp_path) == Endpoint("unix:///mine.sock")


@pytest.mark.parametrize("name", ["default", "", None, 7])
def test_a_current_context_that_is_none(tmp_path: Path, name: object) -> None:
    current(tmp_path / ".docker", name)

    assert resolve(None, {}, tmp_path) == Endpoint(DEFAULT_URL)


def test_the_variable_can_ask_for_the_default(tmp_path: Path) -> None:
    current(tmp_path / ".docker", "gone")

    assert resolve(None, {"DOCKER_CONTEXT": "default"}, tmp_path) == Endpoint(DEFAULT_URL)


def test_the_config_folder_can_be_elsewhere(tmp_path: Path) -> None:
    context(tmp_path / "elsewhere", "lab", {"Host": "tcp://lab:2375"})
    current(tmp_path / "elsewhere", "lab")

    assert resolve(None, {"DOCKER_CONFIG": str(tmp_path / "elsewhere")}, tmp_path) == Endpoint("tcp://lab:2375", "lab")


@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', '{"Endpoints": []}', '{"Endpoints": {"docker": {}}}'])
def test_a_context_that_is_not_there_is_an_error_and_no_fallback(tmp_path: Path, text: str) -> None:
    current(tmp_path / ".docker", "gone")
    meta = context(tmp_path / ".docker", "gone", {}).parents[2] / "meta"
    next(meta.rglob("meta.json")).write_text(text)

    with pytest.raises(HostError) as refusal:
        resolve(None, {}, tmp_path)

    assert refusal.value.code == "context_not_found"
    assert refusal.value.facts == {"context": "gone", "problem": "context_not_found"}


def test_an_unreadable_config_is_no_config(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{")

    assert resolve(None, {}, tmp_path) == Endpoint(DEFAULT_URL)


def test_the_tls_files_of_a_context(tmp_path: Path) -> None:
    files = context(tmp_path / ".docker", "lab", {"Host": "tcp://lab:2376", "SkipTLSVerify": True})
    files.mkdir(parents=True)
    (files / "ca.pem").touch()

    endpoint = resolve(None, {"DOCKER_CONTEXT": "lab"}, tmp_path)

    assert endpoint.tls == Tls(ca=files / "ca.pem", cert=None, key=None, verify=False)


def test_the_tls_files_of_the_environment(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    environment = {"DOCKER_HOST": "tcp://lab:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)}

    endpoint = resolve(None, environment, tmp_path)

    assert endpoint.tls == Tls(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem", verify=True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ssh://spark", ["--", "spark", "docker system dial-stdio"]),
        ("ssh://me@spark:2222", ["-l", "me", "-p", "2222", "--", "spark", "docker system dial-stdio"]),
        (
            "ssh://me@spark/run/user/1000/docker.sock",
            ["-l", "me", "--", "spark", "docker --host unix:///run/user/1000/docker.sock system dial-stdio"],
        ),
    ],
)
def test_the_ssh_command(url: str, expected: list[str]) -> None:
    assert ssh_command(url) == ["ssh", "-T", "-o", "ConnectTimeout=30", *expected]
