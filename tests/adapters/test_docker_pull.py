"""A pull's stream: bytes added up over layers, and errors that come with HTTP 200."""

from __future__ import annotations

from typing import Any

import pytest

from aeonctl.adapters.docker_pull import follow_pull
from aeonctl.errors import DownloadError
from aeonctl.ports import PullProgress

REF = "vllm/vllm-openai:v0.33.0"


def step(layer: str, status: str, current: int | None = None, total: int | None = None, **more: Any) -> dict[str, Any]:
    detail = {name: value for name, value in (("current", current), ("total", total)) if value is not None}
    return {"status": status, "id": layer, "progressDetail": {**detail, **more}}


def told(*messages: dict[str, Any]) -> list[tuple[str, int, int]]:
    steps: list[PullProgress] = []
    follow_pull(REF, messages, steps.append)
    return [(one.phase, one.done, one.total) for one in steps]


def test_layers_are_added_up_by_phase() -> None:
    assert told(
        {"status": "Pulling from vllm/vllm-openai", "id": "v0.33.0"},
        step("a", "Pulling fs layer"),
        step("b", "Pulling fs layer"),
        step("c", "Already exists"),
        step("a", "Downloading", 10, 100),
        step("b", "Downloading", 5, 50),
        step("b", "Downloading", 5, 50),
        step("a", "Verifying Checksum"),
        step("a", "Download complete"),
        step("a", "Extracting", 40, 100),
        step("b", "Download complete"),
        step("a", "Pull complete"),
        step("b", "Pull complete"),
        {"status": "Digest: sha256:" + "1" * 64},
        {"status": f"Status: Downloaded newer image for {REF}"},
    ) == [
        ("download", 10, 100),
        ("download", 15, 150),
        ("download", 105, 150),
        ("extract", 40, 150),
        ("download", 150, 150),
        ("extract", 100, 150),
        ("extract", 150, 150),
    ]


def test_seconds_are_not_bytes() -> None:
    assert told(
        step("a", "Downloading", 10, 100), step("a", "Extracting", 3, units="s"), step("a", "Pull complete")
    ) == [
        ("download", 10, 100),
        ("extract", 100, 100),
    ]


def test_a_layer_of_unknown_size_counts_as_far_as_it_is() -> None:
    assert told(step("a", "Downloading", 10), step("a", "Downloading", 20, -1), step("a", "Download complete")) == [
        ("download", 10, 10),
        ("download", 20, 20),
    ]


def test_an_image_that_is_here_already_has_no_progress() -> None:
    assert told({"status": f"Status: Image is up to date for {REF}"}) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("manifest for vllm/vllm-openai:v9 not found: manifest unknown: manifest unknown", "not_found"),
        ("pull access denied for nope/x, repository does not exist or may require 'docker login'", "denied"),
        ("Head https://ghcr.io/v2/x/manifests/1: unauthorized", "denied"),
        ("failed to register layer: write /x: no space left on device", "disk_full"),
        ("toomanyrequests: You have reached your pull rate limit", "rate_limited"),
        ("no matching manifest for linux/amd64 in the manifest list entries", "wrong_platform"),
        ('Get "https://ghcr.io/v2/": dial tcp: lookup ghcr.io: no such host', "unreachable"),
        ("net/http: TLS handshake timeout", "unreachable"),
        ("context deadline exceeded", "unreachable"),
        ("unexpected EOF", "unreachable"),
        ("the moon is in the wrong phase", "other"),
    ],
)
def test_an_error_in_the_stream(words: str, reason: str) -> None:
    with pytest.raises(DownloadError) as failure:
        told(step("a", "Downloading", 10, 100), {"errorDetail": {"message": words}, "error": words})

    assert failure.value.code == "image_pull_failed"
    assert failure.value.facts == {"reason": reason, "image": REF}
    assert failure.value.causes[-1] == words
    assert failure.value.hint


def test_an_error_without_a_detail() -> None:
    with pytest.raises(DownloadError) as failure:
        told({"error": "denied"})

    assert failure.value.causes[-1] == "denied"
