"""Faults while a real engine pulls: what the user sees, and that no image is left.

An engine tries a layer five times, with longer pauses each time, so this takes a minute.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from aeonctl.errors import DownloadError
from tests.adapters import real_registry
from tests.fakes.fault_proxy import Fault, faulty
from tests.real import require
from tests.workflows.fault_report import Row, assert_reported, row
from tests.workflows.image_desk import PLAIN, SPARK, Desk, Said

pytestmark = pytest.mark.docker


class Case(NamedTuple):
    """A fault of a layer's download, and what the error calls it."""

    name: str
    reason: str
    status: int = 200
    keep: float = 1.0
    stall: bool = False
    bytes_changed: bool = False
    said: str = ""

    def fault(self, path: str) -> Fault:
        body = json.dumps({"errors": [{"code": self.said, "message": self.said}]}).encode() if self.said else None
        return Fault(path, self.status, keep=self.keep, stall=self.stall, bytes_changed=self.bytes_changed, body=body)


CASES = (
    Case("layer: 401", "denied", status=401, said="UNAUTHORIZED"),
    Case("layer: 403", "denied", status=403),
    Case("layer: 404", "corrupt", status=404, said="BLOB_UNKNOWN"),
    Case("layer: 429", "rate_limited", status=429),
    Case("layer: 500, and again each time that the engine tries", "registry_failed", status=500),
    Case("layer: body cut short, each time", "unreachable", keep=0.5),
    Case("layer: other bytes than its digest", "corrupt", bytes_changed=True),
    Case("layer: stalls half-way (--timeout 2)", "stalled", keep=0.5, stall=True),
)


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_registry.PushTo]:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    with real_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def test_the_report_of_faults_in_a_pull(push: real_registry.PushTo, tmp_path: Path, docker_host: str) -> None:
    def inject(case: Case) -> Row:
        index = CASES.index(case)
        repository = f"images-test/fault-{index}"
        manifest = push.pullable(repository, PLAIN, "v1", sizes=(300_000,))
        layer = push.layers_of(repository, manifest["digest"])[0]
        desk = Desk(tmp_path / str(index), docker_host)
        with faulty(push.address) as proxy:
            proxy.fault = case.fault(layer)
            ref = f"{proxy.address}/{repository}:v1"
            said = desk.say("pull-image", ref, *(["--timeout", "2"] if case.stall else []))
        assert (said.code, said.error["code"], said.error["reason"]) == (6, "image_pull_failed", case.reason), said
        assert desk.ports.docker.image(ref) is None
        assert desk.ports.docker.image(f"{ref}@{manifest['digest']}") is None
        return row(case.name, said, "no image", 0)

    with ThreadPoolExecutor(len(CASES)) as executor:
        rows = list(executor.map(inject, CASES))
    assert_reported("While the engine pulls", [*rows, _wrong_platform(push, tmp_path, docker_host)])


def _wrong_platform(push: real_registry.PushTo, folder: Path, docker_host: str) -> Row:
    """The engine itself takes a single manifest of any architecture: it is removed again."""
    digest = push.pullable("images-test/arm64", SPARK, "v1")["digest"]
    desk = Desk(folder / "arm64", docker_host)
    ref = f"{push.address}/images-test/arm64:v1@{digest}"
    with pytest.raises(DownloadError) as caught:
        desk.ports.docker.pull(ref, lambda step: None)
    assert caught.value.facts["reason"] == "wrong_platform"
    assert desk.ports.docker.image(ref) is None
    assert desk.ports.docker.image(f"{push.address}/images-test/arm64:v1") is None
    error = caught.value
    facts = {"code": error.code, "message": error.message, "causes": error.causes, "hint": error.hint, **error.facts}
    said = Said(6, {"errors": [facts]}, "")
    return row("an arm64 image landed on an amd64 engine", said, "no image: it is removed", 0)
