"""The engine's JSON as our values."""

from __future__ import annotations

from typing import Any

import pytest

from aeonctl.adapters.docker_read import digest_for, epoch, image_facts, record
from aeonctl.core.image import FactsFrom
from aeonctl.ports import EngineStatus

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def container(**more: Any) -> dict[str, Any]:
    """What 20.10 answers for a container that was killed for memory, the parts that are read."""
    return {
        "Id": "abc",
        "Name": "/aeon-quality",
        "RestartCount": 4,
        "State": {
            "Status": "exited",
            "OOMKilled": True,
            "ExitCode": 137,
            "Error": "",
            "StartedAt": "2026-11-30T22:53:24.714999123Z",
        },
        "Config": {"Image": "vllm/vllm-openai:v0.33.0", "Labels": {"io.aeonctl.seat": "rtx-5090/quality"}},
        "HostConfig": {
            "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
            "PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8000"}]},
        },
        "NetworkSettings": {"Ports": {}},
        **more,
    }


def test_a_container_that_was_killed_for_memory() -> None:
    result = record(container())

    assert result.name == "aeon-quality"
    assert result.status is EngineStatus.EXITED
    assert result.ours
    assert (result.exit_code, result.oom_killed, result.error, result.restart_count) == (137, True, None, 4)
    assert result.restart_policy == "unless-stopped"
    assert result.published == (8000,)
    assert result.ident == "abc"


def test_an_answer_with_nearly_nothing_in_it() -> None:
    result = record({"Name": "/a", "State": {"Status": "created"}})

    assert (result.status, result.ours, result.exit_code, result.restart_policy) == (
        EngineStatus.CREATED,
        False,
        None,
        "no",
    )


@pytest.mark.parametrize(
    ("word", "status", "exit_code"),
    [
        ("created", EngineStatus.CREATED, None),
        ("running", EngineStatus.RUNNING, None),
        ("paused", EngineStatus.RUNNING, None),
        ("restarting", EngineStatus.RESTARTING, 1),
        ("removing", EngineStatus.EXITED, 1),
        ("exited", EngineStatus.EXITED, 1),
        ("dead", EngineStatus.EXITED, 1),
        ("stopped", EngineStatus.EXITED, 1),
    ],
)
def test_each_status(word: str, status: EngineStatus, exit_code: int | None) -> None:
    result = record(container(State={"Status": word, "ExitCode": 1}))

    assert (result.status, result.exit_code) == (status, exit_code)


def test_a_port_that_the_engine_chose() -> None:
    ports = {
        "8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "32768"}, {"HostIp": "::", "HostPort": "32768"}],
        "9/udp": None,
    }
    chosen = record(
        container(NetworkSettings={"Ports": ports}, HostConfig={"PortBindings": {"8000/tcp": [{"HostPort": ""}]}})
    )

    assert chosen.published == (32768,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30T22:53:24.714999123Z", 1796079204.714999),
        ("2026-11-30T23:53:24+01:00", 1796079204.0),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
        ("yesterday", None),
    ],
)
def test_times(text: str | None, expected: float | None) -> None:
    assert epoch(text) == expected


@pytest.mark.parametrize(
    ("ref", "digests", "expected"),
    [
        ("vllm/vllm-openai:v0.33.0", [f"vllm/vllm-openai@{ONE}"], ONE),
        ("docker.io/vllm/vllm-openai:v0.33.0", [f"vllm/vllm-openai@{ONE}"], ONE),
        ("ghcr.io/aeon-7/vllm:1", [f"vllm/vllm-openai@{ONE}", f"ghcr.io/aeon-7/vllm@{TWO}"], TWO),
        (f"ghcr.io/aeon-7/vllm@{TWO}", [f"ghcr.io/aeon-7/vllm@{ONE}", f"ghcr.io/aeon-7/vllm@{TWO}"], TWO),
        ("ghcr.io/aeon-7/vllm:1", [f"vllm/vllm-openai@{ONE}"], None),
        ("ghcr.io/aeon-7/vllm:1", [], None),
        ("busybox", ["<none>@<none>", f"busybox@{ONE}"], ONE),
    ],
)
def test_the_digest_is_found_by_membership(ref: str, digests: list[str], expected: str | None) -> None:
    assert digest_for(ref, digests) == expected


def test_an_image() -> None:
    ref = "vllm/vllm-openai:v0.33.0"
    facts = image_facts(
        ref,
        {
            "Architecture": "arm64",
            "Os": "linux",
            "Size": 21_000_000_000,
            "RepoDigests": [f"vllm/vllm-openai@{ONE}"],
            "Config": {
                "Env": ["TORCH_CUDA_ARCH_LIST=10.0 12.0+PTX", "NVIDIA_REQUIRE_CUDA=cuda>=13.0"],
                "Labels": None,
                "Entrypoint": ["vllm", "serve"],
            },
        },
    )

    assert (facts.ref, facts.facts_from, facts.digest, facts.arch) == (ref, FactsFrom.LOCAL, ONE, "arm64")
    assert (facts.sm, facts.ptx, facts.needs_cuda, facts.vllm) == (("10.0", "12.0"), ("12.0",), "13.0", "0.33.0")
    assert (facts.unpacked_bytes, facts.entrypoint) == (21_000_000_000, ("vllm", "serve"))


def test_an_image_that_says_nothing() -> None:
    facts = image_facts("local/thing:1", {})

    assert (facts.digest, facts.arch, facts.sm, facts.unpacked_bytes, facts.entrypoint) == (
        None,
        None,
        None,
        None,
        None,
    )
