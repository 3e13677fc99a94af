"""A pull's stream: bytes added up over layers, and errors that come with HTTP 200."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from aeonctl.adapters.docker_pull import follow_pull, ticking
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
        ("unknown blob", "corrupt"),
        ("filesystem layer verification failed for digest sha256:1", "corrupt"),
        ("received unexpected HTTP status: 503 Service Unavailable", "registry_failed"),
        ('error parsing HTTP 429 response body: unexpected end of JSON input: ""', "rate_limited"),
        ('error parsing HTTP 403 response body: unexpected end of JSON input: ""', "denied"),
        ("expected HTTP 206 from byte range request", "unreachable"),
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


class Stream:
    """Messages, then silence until somebody closes it, then maybe an error."""

    def __init__(self, messages: list[dict[str, Any]], *, stays: bool = False, error: Exception | None = None) -> None:
        self._messages = iter(messages)
        self._closed = threading.Event()
        self._stays = stays
        self._error = error
        self.closed = 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> dict[str, Any]:
        for message in self._messages:
            return message
        if self._stays:
            self._closed.wait(30)
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        self.closed += 1
        self._closed.set()


def test_silence_is_told_by_the_same_step_again() -> None:
    stream = Stream([{"status": "Pulling from x"}, step("a", "Downloading", 10, 100)], stays=True)
    steps: list[PullProgress] = []

    def listen(one: PullProgress) -> None:
        steps.append(one)
        if len(steps) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError), closing(ticking(stream, (OSError,), tick=0.01)) as ticks:
        follow_pull(REF, ticks, listen)
    assert steps[0].messages in (0, 1, 2)
    assert steps[-1] == PullProgress("download", 10, 100, messages=2)
    assert stream.closed == 1


def test_what_the_reader_met_is_raised_where_the_messages_are_taken() -> None:
    stream = Stream([step("a", "Downloading", 10, 100)], error=ConnectionResetError("gone"))
    with pytest.raises(ConnectionResetError):
        follow_pull(REF, ticking(stream, (OSError,)), lambda one: None)
    assert stream.closed == 1


def test_a_stream_that_ends_is_closed() -> None:
    stream = Stream([step("a", "Downloading", 10, 100)])
    steps: list[PullProgress] = []
    follow_pull(REF, ticking(stream, (OSError,)), steps.append)
    assert (steps, stream.closed) == ([PullProgress("download", 10, 100, messages=1)], 1)
