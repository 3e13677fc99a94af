"""What is known of an image before a byte of it moves: the catalogue, the registry, the engine here; and the room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aeonctl.core.host import Docker, Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.errors import AeonError
from aeonctl.ports import PullProgress
from tests.adapters import real_registry
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script
from tests.fakes.fault_proxy import FaultProxy, faulty
from tests.real import require
from tests.workflows.image_desk import PLAIN, RTX, SPARK, Desk, Said

MOVED = ("quay.test/none", "sha256:" + "9" * 64)
SEAT = ("--seat", "cpu/try")


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_registry.PushTo]:
    require(real_registry.available(), "docker-registry is not installed (apt-get install docker-registry)")
    with real_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(push: real_registry.PushTo) -> Iterator[FaultProxy]:
    with faulty(push.address) as running:
        yield running


class _Machine:
    """ports.HostProbe of one machine that is told."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def probe(self, *, ports: object = ()) -> Host:
        return self.host

    def port_owner(self, port: int) -> str | None:
        return None


class FakeDesk(Desk):
    """A desk whose Docker engine and machine are told."""

    def __init__(self, home: Path, *, free: int | None = None, images: dict[str, ImageFacts] | None = None) -> None:
        super().__init__(home, timeout=5)
        clock = FakeClock()
        self.engines = FakeEngines(clock, script=lambda *_: Script(), images=images or {})
        docker = Docker(reachable=True, image_root="/var/lib/docker", image_root_free_bytes=free)
        machine = _Machine(Host(arch="amd64", docker=docker, gpus=()))
        self.ports = replace(self.ports, docker=self.engines, host=machine, clock=clock)


@pytest.fixture
def desk(tmp_path: Path) -> FakeDesk:
    return FakeDesk(tmp_path / "home")


def image(said: Said) -> dict[str, object]:
    found: dict[str, object] = said.data["plan"]["image"]
    return found


def test_a_plan_of_a_catalogued_image_asks_nobody(
    desk: FakeDesk, proxy: FaultProxy, push: real_registry.PushTo
) -> None:
    push.pullable("known/image", PLAIN, "v1")
    desk.image_row(f"{proxy.address}/known/image:v1")
    said = desk.say("plan", *SEAT)
    assert (said.code, image(said)["facts_from"], image(said)["bytes_moved"], proxy.asked) == (0, "catalogue", 0, [])
    assert "facts from the catalogue, nobody was asked (--check asks the registry)" in desk.text("plan", *SEAT)[2]


def test_check_asks_and_pins_what_the_registry_has(
    desk: FakeDesk, proxy: FaultProxy, push: real_registry.PushTo
) -> None:
    digest = push.pullable("checked/image", PLAIN, "v1")["digest"]
    ref = f"{proxy.address}/checked/image:v1"
    desk.image_row(ref, digest=digest)
    said = desk.say("plan", *SEAT, "--check")
    assert (said.code, image(said)["facts_from"], image(said)["digest"]) == (0, "registry", digest)
    assert image(said)["bytes_moved"] == proxy.bytes_sent > 0
    code, _, talk = desk.text("plan", *SEAT, "--check")
    assert (code, f"image {ref}@{digest}: facts from the registry's manifest and config" in talk) == (0, True)


def test_a_pinned_platform_manifest_is_the_index_too(desk: FakeDesk, push: real_registry.PushTo) -> None:
    amd64, arm64 = push.pullable("index/image", PLAIN), push.pullable("index/image", SPARK)
    children = [
        {**one, "platform": {"os": "linux", "architecture": arch}} for one, arch in ((arm64, "arm64"), (amd64, "amd64"))
    ]
    index = push.index("index/image", "v1", children)
    for digest in (index, amd64["digest"]):
        desk.image_row(f"{push.address}/index/image:v1", digest=digest, platforms=["linux/amd64", "linux/arm64"])
        said = desk.say("plan", *SEAT, "--check")
        assert (said.code, image(said)["digest"], said.data["plan"]["warnings"][1:]) == (0, digest, [])


def test_a_tag_that_left_its_digest_is_refused_with_both(
    desk: FakeDesk, proxy: FaultProxy, push: real_registry.PushTo
) -> None:
    old = push.pullable("moved/image", PLAIN, "v1")["digest"]
    new = push.pullable("moved/image", PLAIN, "v1")["digest"]
    ref = f"{proxy.address}/moved/image:v1"
    desk.image_row(ref, digest=old)
    for words in (("plan", *SEAT, "--check"), ("up", *SEAT), ("pull-image", *SEAT)):
        said = desk.say(*words)
        assert (said.code, said.error["code"]) == (5, "image_incompatible"), words
        assert old in said.error["causes"][0]
        assert new in said.error["causes"][0]
        assert 0 < said.error["bytes_moved"] < 200_000
    assert desk.engines.pulled == []
    waived = desk.say("plan", *SEAT, "--check", "--waive", "image-digest-moved")
    assert (waived.code, image(waived)["digest"], image(waived)["tag_digest"]) == (0, old, new)


def test_a_pinned_digest_that_is_gone(desk: FakeDesk, push: real_registry.PushTo) -> None:
    push.pullable("gone/image", PLAIN, "v1")
    desk.image_row(f"{push.address}/gone/image:v1", digest=MOVED[1])
    said = desk.say("plan", *SEAT, "--check")
    assert (said.code, MOVED[1] in said.error["causes"][0]) == (5, True)


def test_a_catalogue_that_is_behind_is_a_warning(desk: FakeDesk, push: real_registry.PushTo) -> None:
    push.pullable("drift/image", RTX, "v1")
    desk.image_row(f"{push.address}/drift/image:v1", sm=["9.0"], cuda="12.9")
    said = desk.say("plan", *SEAT, "--check")
    notes = [warning["message"] for warning in said.data["plan"]["warnings"] if warning["rule"] == "image-note"]
    assert said.code == 0
    assert [note.partition(":")[0] for note in notes] == ["compute capabilities", "CUDA", "vLLM"]
    assert "the registry says 13.0, the catalogue 12.9; the registry's word is used" in notes[1]


def test_a_silent_registry_is_a_warning_in_plan_and_the_end_in_up(desk: FakeDesk) -> None:
    ref = f"127.0.0.1:{real_registry.free_port()}/some/image:v1"
    desk.image_row(ref)
    for words in (("plan", *SEAT, "--check"), ("plan", *SEAT, "--image", ref)):
        said = desk.say(*words)
        assert said.code == 0
        assert any("nothing answers" in warning["message"] for warning in said.data["plan"]["warnings"]), words
    for ending in (("up", *SEAT), ("up", *SEAT, "--image", ref), ("pull-image", ref)):
        said = desk.say(*ending)
        assert (said.code, said.error["code"]) == (6, "registry_unreachable"), ending


def test_a_local_image_is_judged_by_its_own_config_and_nobody_is_asked(tmp_path: Path) -> None:
    digest = "sha256:" + "5" * 64
    ref = "127.0.0.1:1/some/image:v1"
    facts = ImageFacts(ref=ref, facts_from=FactsFrom.LOCAL, digest=digest, arch="arm64")
    desk = FakeDesk(tmp_path / "home", images={ref: facts, f"{ref}@{digest}": facts})
    desk.image_row(ref, digest=digest)
    for words in (("plan", *SEAT), ("plan", *SEAT, "--image", ref), ("up", *SEAT), ("pull-image", ref)):
        said = desk.say(*words)
        assert (said.code, said.error["code"]) == (5, "image_incompatible"), words
        assert "is built for arm64" in said.error["causes"][0]


def test_up_asks_the_registry_before_it_pulls(desk: FakeDesk, proxy: FaultProxy, push: real_registry.PushTo) -> None:
    push.pullable("arm/image", SPARK, "v1")
    desk.image_row(f"{proxy.address}/arm/image:v1")
    said = desk.say("up", *SEAT)
    assert (said.code, said.error["code"], desk.engines.pulled) == (5, "image_incompatible", [])
    assert said.error["bytes_moved"] == proxy.bytes_sent
    assert "nothing was pulled" in said.error["causes"][-1]


def test_room_is_looked_for_first_and_layers_that_are_here_are_left_out(
    tmp_path: Path, push: real_registry.PushTo
) -> None:
    layers = [real_registry.tar_layer({name: bytes(range(256)) * 4000}) for name in ("base", "top")]
    push.layered("large/image", PLAIN, layers, "v1")
    base, top = (len(content) for content, _ in layers)
    desk = FakeDesk(tmp_path / "home", free=1000)
    desk.image_row(f"{push.address}/large/image:v1", local_bytes=2_100_000)
    said = desk.say("up", *SEAT)
    assert (said.code, said.error["code"], said.error["path"]) == (4, "disk_full", "/var/lib/docker")
    assert said.error["needed_bytes"] == base + top + 2_100_000
    assert (said.error["free_bytes"], said.error["reused_bytes"], desk.engines.pulled) == (1000, 0, [])
    desk.engines.chains = (("sha256:other",), (layers[0][1], "sha256:else"))
    said = desk.say("pull-image", *SEAT)
    assert (said.error["reused_bytes"], said.error["download_bytes"]) == (base, top)


def test_a_registry_is_asked_once(tmp_path: Path, proxy: FaultProxy, push: real_registry.PushTo) -> None:
    push.pullable("once/image", PLAIN, "v1")
    desk = FakeDesk(tmp_path / "home", free=1)
    ref = f"{proxy.address}/once/image:v1"
    desk.image_row(ref)
    for words in (("up", *SEAT), ("up", *SEAT, "--image", ref), ("pull-image", ref), ("pull-image", *SEAT)):
        proxy.asked.clear()
        assert desk.say(*words).error["code"] == "disk_full"
        assert [asked.partition("/once/image/")[2].partition("/")[0] for asked in proxy.asked] == ["manifests", "blobs"]


def test_offline_says_what_is_missing(desk: FakeDesk, proxy: FaultProxy) -> None:
    desk.image_row(f"{proxy.address}/some/image:v1")
    said = desk.say("up", *SEAT, "--offline")
    assert (said.code, said.error["code"], proxy.asked) == (6, "offline", [])
    said = desk.say("plan", *SEAT, "--offline", "--check")
    assert (said.code, proxy.asked) == (0, [])
    assert any("--offline forbids" in warning["message"] for warning in said.data["plan"]["warnings"])


def test_a_pull_that_stands_still_is_told_and_then_given_up(tmp_path: Path) -> None:
    from aeonctl.workflows.image_pull import PullWatch

    desk = FakeDesk(tmp_path / "home")
    told: list[str] = []

    class Listener:
        def warn(self, text: str) -> None:
            told.append(text)

        def pulling(self, ref: str, step: PullProgress) -> None:
            told.append(f"{step.done} of {step.total}")

    watch = PullWatch("some/image:v1", 100, desk.ports, Listener(), None)  # type: ignore[arg-type]
    watch.step(PullProgress("download", 10, 50, messages=1))
    for seconds in (29, 1, 500):
        desk.ports.clock.sleep(seconds)
        watch.step(PullProgress("download", 10, 50, messages=1))
    watch.step(PullProgress("download", 10, 50, messages=2))
    desk.ports.clock.sleep(599)
    watch.step(PullProgress("download", 10, 50, messages=2))
    assert [words.partition("(")[0].strip() for words in told] == [
        "10 of 100",
        "the pull of some/image:v1 stands still: no byte for 30 s",
        "10 of 100",
        "the pull of some/image:v1 stands still: no byte for 9 min 59 s",
    ]
    desk.ports.clock.sleep(1)
    with pytest.raises(AeonError) as caught:
        watch.step(PullProgress("download", 10, 50, messages=2))
    assert (caught.value.facts["reason"], caught.value.causes[0]) == (
        "stalled",
        "no byte came for 10 min 00 s, after 10 B of this phase",
    )
