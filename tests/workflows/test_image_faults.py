"""A registry's faults before anything is pulled: each is its own message, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.adapters import real_registry
from tests.adapters.answers import Answer
from tests.fakes.fault_proxy import Fault, FaultProxy, faulty
from tests.fakes.token_server import TokenServer
from tests.real import require
from tests.workflows.fault_report import Row, assert_reported, row
from tests.workflows.image_desk import RTX, SPARK, Desk

MANIFEST, CONFIG = r"/manifests/", r"/blobs/"
REPOSITORY = "aeon-7/image"


class Case(NamedTuple):
    """A fault, and which part of the error says it."""

    name: str
    fault: Fault
    code: str
    words: str


CASES = (
    Case("manifest: 403", Fault(MANIFEST, status=403), "image_denied", "does not let them read"),
    Case("manifest: 404", Fault(MANIFEST, status=404), "image_not_found", "has no image"),
    Case("manifest: 429", Fault(MANIFEST, 429, {"Retry-After": "77"}), "registry_rate_limited", "come back in 77 s"),
    Case("manifest: 500", Fault(MANIFEST, status=500), "registry_failed", "trouble of its own"),
    Case("manifest: 503", Fault(MANIFEST, status=503), "registry_failed", "trouble of its own"),
    Case("manifest: body cut short", Fault(MANIFEST, keep=0.5), "registry_failed", "broke off"),
    Case(
        "manifest: stalls half-way",
        Fault(MANIFEST, keep=0.5, stall=True),
        "registry_unreachable",
        "no byte came for 1 s",
    ),
    Case("manifest: a log-in page instead", Fault(MANIFEST, body=b"<html>"), "registry_failed", "not JSON"),
    Case("config: 404", Fault(CONFIG, status=404), "image_not_found", "has no image"),
    Case("config: 500", Fault(CONFIG, status=500), "registry_failed", "trouble of its own"),
    Case("config: body cut short", Fault(CONFIG, keep=0.5), "registry_failed", "broke off"),
    Case("config: other bytes than its digest", Fault(CONFIG, bytes_changed=True), "registry_failed", "has the digest"),
)


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_registry.PushTo]:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    with real_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        running.pullable(REPOSITORY, RTX, "v1")
        running.pullable(REPOSITORY, SPARK, "arm64")
        yield running


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "home", timeout=1.0)


def test_the_report_of_faults_before_the_pull(push: real_registry.PushTo, desk: Desk, tmp_path: Path) -> None:
    rows: list[Row] = []
    for case in CASES:
        with faulty(push.address) as proxy:
            proxy.fault = case.fault
            said = desk.say("pull-image", f"{proxy.address}/{REPOSITORY}:v1", "--as", "rtx-5090")
        heard = " ".join((said.error["message"], *said.error["causes"]))
        assert (said.code, said.error["code"], case.words in heard) == (6, case.code, True), (case.name, said)
        assert said.error["hint"]
        rows.append(row(case.name, said, "nothing", 0))
    rows += [_nobody(desk), _wrong_digest(push, desk), *_log_ins(desk, tmp_path), *_token_faults(tmp_path)]
    assert_reported("Before the pull", [*rows, *_refusals(push, desk)])


def _nobody(desk: Desk) -> Row:
    said = desk.say("pull-image", f"127.0.0.1:{real_registry.free_port()}/{REPOSITORY}:v1", "--as", "rtx-5090")
    assert (said.code, said.error["code"]) == (6, "registry_unreachable")
    return row("nobody listens", said, "nothing", 0)


def _wrong_digest(push: real_registry.PushTo, desk: Desk) -> Row:
    digest = push.pullable(REPOSITORY, RTX, "pinned")["digest"]
    with faulty(push.address) as proxy:
        proxy.fault = Fault(MANIFEST, body=b'{"schemaVersion": 2}')
        said = desk.say("pull-image", f"{proxy.address}/{REPOSITORY}@{digest}", "--as", "rtx-5090")
    assert (said.code, said.error["code"]) == (6, "registry_failed")
    return row("manifest: other bytes than the pinned digest", said, "nothing", 0)


def _log_ins(desk: Desk, folder: Path) -> list[Row]:
    """A registry that wants a password: none, a wrong one, the right one."""
    (folder / "htpasswd").write_text(real_registry.HTPASSWD)
    auth = {"htpasswd": {"realm": "here", "path": str(folder / "htpasswd")}}
    with real_registry.registry(folder, auth) as private:
        private.auth = ("me", "secret")
        private.pullable(REPOSITORY, RTX, "v1")
        ask = (
            "plan",
            "--seat",
            "rtx-5090/quality",
            "--as",
            "rtx-5090",
            "--image",
            f"{private.address}/{REPOSITORY}:v1",
        )
        without = desk.say(*ask)
        desk.log_in(private.address, "me:guess")
        wrong = desk.say(*ask)
        desk.log_in(private.address, "me:secret")
        right = desk.say(*ask)
    assert (without.error["code"], without.error["status"], wrong.error["status"]) == ("image_denied", 401, 401)
    assert "docker logout" in wrong.error["hint"]
    assert right.data["plan"]["image"]["facts_from"] == "registry"
    return [row("401 without a log-in", without, "nothing", 0), row("401 with a stored log-in", wrong, "nothing", 0)]


def _token_faults(folder: Path) -> list[Row]:
    """A registry behind a token server, which is itself broken."""
    rows = []
    home = folder / "token"
    home.mkdir()
    with TokenServer(open_to_all=True).running() as tokens:
        auth = {"silly": {"realm": tokens.realm, "service": "the registry"}}
        with real_registry.registry(home, auth) as push:
            push.headers = {"Authorization": "Bearer pusher"}
            push.pullable(REPOSITORY, RTX, "v1")
            desk = Desk(home / "user", timeout=1.0)
            ask = ("pull-image", f"{push.address}/{REPOSITORY}:v1", "--as", "dgx-spark")
            assert (
                desk.say(*ask).error["code"] == "image_incompatible"
            )  # read with a token, and refused for its platform
            broken: tuple[tuple[str, Answer, str], ...] = (
                ("token server: 401", (401, {}, b""), "image_denied"),
                ("token server: 429", (429, {}, b""), "registry_rate_limited"),
                ("token server: 503", (503, {}, b""), "registry_failed"),
                ("token server: no token in its answer", (200, {}, b"{}"), "registry_failed"),
            )
            for name, answer, code in broken:
                tokens.answer_instead = answer
                said = desk.say(*ask)
                assert (said.code, said.error["code"]) == (6, code), (name, said)
                rows.append(row(name, said, "nothing", 0))
    return rows


def _refusals(push: real_registry.PushTo, desk: Desk) -> list[Row]:
    """A whole answer that means no: bytes moved are in it, and few."""
    rows = []
    with faulty(push.address) as proxy:
        for name, tag, host in (
            ("a single arm64 manifest for an amd64 host", "arm64", "rtx-5090"),
            ("an sm_120 amd64 image for a GB10", "v1", "dgx-spark"),
        ):
            before = proxy.bytes_sent
            said = desk.say("pull-image", f"{proxy.address}/{REPOSITORY}:{tag}", "--as", host)
            assert (said.code, said.error["code"]) == (5, "image_incompatible")
            assert 0 < said.error["bytes_moved"] == proxy.bytes_sent - before < 200_000
            assert "nothing was pulled" in said.error["causes"][-1]
            rows.append(row(name, said, "nothing", *range(len(said.error["causes"]))))
        assert not any("/blobs/" in asked and "HEAD" in asked for asked in proxy.asked)
    return rows


def test_a_proxy_without_a_fault_changes_nothing(push: real_registry.PushTo, desk: Desk) -> None:
    with faulty(push.address) as proxy:
        ref = f"{proxy.address}/{REPOSITORY}:v1"
        said = desk.say("plan", "--seat", "rtx-5090/quality", "--as", "rtx-5090", "--image", ref)
        assert isinstance(proxy, FaultProxy)
    image = said.data["plan"]["image"]
    assert (image["ref"], image["facts_from"], image["sm"]) == (ref, "registry", ["12.0"])
    assert image["bytes_moved"] == proxy.bytes_sent
    assert said.data["plan"]["container"]["labels"]


def test_a_refusal_of_an_image_of_real_proportions_moves_few_bytes(push: real_registry.PushTo, desk: Desk) -> None:
    """vLLM's own image has 32 layers, a history of some 50 kB, two platforms and an attestation for each."""
    history = [
        {"created": "2026-11-01T00:00:00Z", "created_by": f"RUN {number:04d} " + "x" * 1500} for number in range(33)
    ]
    layers = [real_registry.tar_layer({"same": b"layer"})] * 32
    amd64 = push.layered("real/image", {**RTX, "history": history}, layers)
    arm64 = push.layered("real/image", {**SPARK, "history": history}, layers)
    note = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": amd64["digest"]}
    attestation = {
        **push.image("real/image", {"architecture": "unknown", "os": "unknown"}),
        "platform": {"os": "unknown", "architecture": "unknown"},
        "annotations": note,
    }
    children = [
        {**amd64, "platform": {"os": "linux", "architecture": "amd64"}},
        {**arm64, "platform": {"os": "linux", "architecture": "arm64"}},
        attestation,
        attestation,
    ]
    push.index("real/image", "v1", children)
    with faulty(push.address) as proxy:
        ref = f"{proxy.address}/real/image:v1"
        said = desk.say("plan", "--seat", "rtx-5090/quality", "--as", "rtx-4090", "--image", ref)
        assert said.code == 5
        assert "image-sm-mismatch" in [refusal["rule"] for refusal in said.error["refusals"]]
        assert 50_000 < said.error["bytes_moved"] == proxy.bytes_sent < 100_000
        code, out, talk = desk.text("plan", "--seat", "rtx-5090/quality", "--as", "rtx-4090", "--image", ref)
    assert (code, out) == (5, "")
    assert "moved" in talk
    assert "nothing was pulled: the registry's word for it was" in " ".join(said.error["causes"])
