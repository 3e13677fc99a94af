"""Whatever the SDK raises becomes one of our errors, with the remedy that fits."""

from __future__ import annotations

import inspect
import struct
from typing import Any

import docker.errors
import pytest
import requests
import urllib3.exceptions

from aeonctl.adapters.docker_endpoint import Endpoint
from aeonctl.adapters.docker_errors import FOREIGN, Surroundings, surroundings, translate
from aeonctl.errors import AeonError, EngineError, HostError

HERE = Endpoint("unix:///var/run/docker.sock")
SPARK = Endpoint("ssh://me@spark")
MEMBER = Surroundings(user="ada", member=True)
FOREIGN_CLASSES = [
    cls for _, cls in inspect.getmembers(docker.errors, inspect.isclass) if cls.__module__ == "docker.errors"
]


def refused(status: int, words: str) -> docker.errors.APIError:
    """What the SDK raises for an answer with that status and message."""
    response = requests.Response()
    response.status_code = status
    kind = docker.errors.APIError
    if status == 404:
        kind = docker.errors.ImageNotFound if "No such image" in words else docker.errors.NotFound
    return kind(words, response=response, explanation=words)


def silent(cause: BaseException) -> BaseException:
    """What the SDK raises when the socket says ``cause``: wrapped thrice, the number known to the innermost alone."""
    inner = urllib3.exceptions.ProtocolError("Connection aborted.", cause)
    outer = requests.exceptions.ConnectionError(inner)
    wrapped = docker.errors.DockerException(f"Error while fetching server API version: {outer}")
    wrapped.__cause__ = outer
    return wrapped


def told(error: BaseException, endpoint: Endpoint = HERE, around: Surroundings = MEMBER, words: str = "") -> AeonError:
    return translate(error, "start aeon-quality", endpoint, around, last_words=words)


@pytest.mark.parametrize("cls", FOREIGN_CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_of_the_sdk_is_caught_and_translated(cls: type[Exception]) -> None:
    assert issubclass(cls, FOREIGN)
    error: Any = cls.__new__(cls)
    Exception.__init__(error, "words of its own")
    attributes = {"name": "lab", "param": "name", "msg": "words of its own"}
    if issubclass(cls, docker.errors.APIError):
        attributes = {"explanation": "words of its own"}
        error.response = None
    for name, value in attributes.items():
        setattr(error, name, value)

    assert isinstance(told(error), HostError | EngineError)


@pytest.mark.parametrize(
    "error",
    [
        requests.exceptions.ReadTimeout("read timed out"),
        requests.exceptions.JSONDecodeError("no JSON", "<html>", 0),
        urllib3.exceptions.LocationParseError("tcp://["),
        struct.error("unpack requires a buffer of 8 bytes"),
        OSError("no number"),
    ],
)
def test_what_lies_under_the_sdk_is_caught_and_translated(error: Exception) -> None:
    assert isinstance(error, FOREIGN)
    result = told(error)
    assert (result.code, result.facts["problem"]) == ("docker_unreachable", "failed")


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (409, 'Conflict. The container name "/a" is already in use by container "b".', "name_in_use"),
        (409, "name /a is already in use: container already exists", "name_in_use"),
        (500, "Bind for 127.0.0.1:8000 failed: port is already allocated", "port_in_use"),
        (500, "listen tcp4 127.0.0.1:8000: bind: address already in use", "port_in_use"),
        (500, "Ports are not available: exposing port TCP 127.0.0.1:8000", "port_in_use"),
        (500, 'could not select device driver "" with capabilities: [[gpu]]', "nvidia_runtime_missing"),
        (400, "unknown or invalid runtime name: nvidia", "nvidia_runtime_missing"),
        (400, "Unknown runtime specified nvidia", "nvidia_runtime_missing"),
        (500, "nvidia-container-cli: initialization error: nvml error: driver not loaded", "nvidia_runtime_missing"),
        (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all", "nvidia_runtime_missing"),
        (404, "No such image: vllm/vllm-openai:v9", "image_missing"),
        (404, "vllm/vllm-openai:v9: image not known", "image_missing"),
        (404, "No such container: a", "not_running"),
        (400, 'invalid mount config for type "bind": bind source path does not exist: /x', "start_failed"),
        (500, 'OCI runtime create failed: exec: "vllm": executable file not found in $PATH', "start_failed"),
        (409, "cannot update a stopped container", "start_failed"),
    ],
)
def test_what_the_engine_refuses(status: int, words: str, code: str) -> None:
    error = told(refused(status, words))

    assert error.code == code
    assert words in error.causes
    assert error.hint
    assert "start aeon-quality" in error.message


@pytest.mark.parametrize(
    ("cause", "code", "problem"),
    [
        (PermissionError(13, "Permission denied"), "docker_permission", "permission"),
        (FileNotFoundError(2, "No such file or directory"), "docker_unreachable", "no_socket"),
        (ConnectionRefusedError(111, "Connection refused"), "docker_unreachable", "not_running"),
        (OSError(113, "No route to host"), "docker_unreachable", "failed"),
    ],
)
def test_silence_is_told_apart_by_the_number_deep_inside(cause: OSError, code: str, problem: str) -> None:
    error = told(silent(cause))

    assert isinstance(error, HostError)
    assert (error.code, error.facts["problem"]) == (code, problem)
    assert error.facts["endpoint"] == HERE.url
    assert any(str(cause.strerror) in text for text in error.causes)


@pytest.mark.parametrize(
    ("around", "hint"),
    [
        (Surroundings(user="ada", member=True, session_has_group=False), "log out and in again (or: newgrp docker)"),
        (Surroundings(user="ada", member=False), "sudo usermod -aG docker ada, then log out and in again"),
        (Surroundings(user="ada", session_has_group=True), "ls -l /var/run/docker.sock"),
        (Surroundings(user="ada", group_exists=False), "ls -l /var/run/docker.sock"),
    ],
)
def test_the_remedy_for_permission_depends_on_the_group(around: Surroundings, hint: str) -> None:
    assert told(silent(PermissionError(13, "Permission denied")), around=around).hint == hint


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (Surroundings(systemd=True), "sudo systemctl start docker"),
        (Surroundings(systemd=False), "sudo service docker start"),
        (Surroundings(wsl=True), "WSL integration"),
    ],
)
def test_the_remedy_for_a_missing_socket_depends_on_the_machine(around: Surroundings, words: str) -> None:
    assert words in (told(silent(FileNotFoundError(2, "No such file")), around=around).hint or "")


def test_the_words_of_ssh_are_the_first_to_hear() -> None:
    error = told(silent(ConnectionResetError("reset")), SPARK, words="Host key verification failed.\n")

    assert error.causes[:2] == ("the connection through ssh failed", "Host key verification failed.")
    assert error.hint == "try it by hand: ssh me@spark docker version"


def test_an_address_that_is_none() -> None:
    error = told(docker.errors.DockerException("Bind address needs a port: bogus"), Endpoint("bogus"))

    assert "tcp://10.0.0.7:2375" in (error.hint or "")


def test_a_time_out_says_what_was_tried() -> None:
    assert "no answer in time while trying to start aeon-quality" in told(requests.exceptions.ReadTimeout()).causes


def test_this_machine_can_be_looked_at() -> None:
    assert surroundings().user
