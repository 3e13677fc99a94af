"""``doctor``, ``seats``, ``show``, ``pull-model`` and ``pull-image`` through ``main``."""

from __future__ import annotations

from pathlib import Path

import pytest

from aeonctl.core.host import Docker, Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.errors import DownloadError
from tests.fakes.ports import World, bundled_host, run

MODEL = "AEON-7/Qwen3.8-27B-AEON-ULTIMATE-UNCENSORED-NVFP4-MIXED"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_doctor_exits_by_what_failed(world: World) -> None:
    assert run(["doctor"], world).code == 0
    world.host.host = bundled_host("rtx-5090").model_copy(
        update={"docker": Docker(reachable=False, problem="not_running", detail="refused")}
    )
    ran = run(["doctor", "--json"], world)
    assert (ran.code, ran.error["code"], ran.error["failed"]) == (4, "checks_failed", ["docker"])
    (silent,) = (check for check in ran.data["checks"] if check["id"] == "docker")
    assert silent["remedy"]
    text = run(["doctor"], world)
    assert f"FAIL  docker           {silent['summary']}\n" in text.out
    assert f"-> {silent['remedy']}" in text.out
    assert "error: 1 check failed: docker" in text.err


def test_doctor_on_a_machine_without_anything(tmp_path: Path) -> None:
    ran = run(["doctor"], World(tmp_path, Host(gpus=())))
    assert ran.code == 0
    assert "skip  could not be told here (-v says why): " in ran.out
    assert "seats that fit this machine:\n  cpu/try" in ran.out


def test_doctor_of_a_seat(world: World) -> None:
    world.hub.present = set()
    ran = run(["doctor", "--seat", "quality", "--json"], world)
    assert ran.code == 0
    of_seat = {check["id"]: check["status"] for check in ran.data["checks"] if check["id"].startswith("seat")}
    assert (of_seat["seat"], of_seat["seat-model"]) == ("pass", "warn")
    assert "fail" not in of_seat.values()
    refused = run(["doctor", "--seat", "dgx-spark/daily", "--json"], world)
    assert refused.code == 4
    assert "seat-image-platform" in refused.error["failed"]
    unknown = run(["doctor", "--seat", "qualty", "--json"], world)
    assert (unknown.code, unknown.error["failed"]) == (4, ["seat"])


def test_doctor_saves_this_host(world: World, tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    ran = run(["doctor", "--save", str(path)], world)
    assert f"this host is written to {path}; use it with --as {path}" in ran.err
    again = run(["doctor", "--as", str(path), "--json"], world)
    assert again.data["host"]["gpus"] == run(["doctor", "--json"], world).data["host"]["gpus"]
    failed = run(["doctor", "--save", "/nonexistent/host.yaml", "--json"], world)
    assert (failed.code, failed.error["code"]) == (3, "file_not_written")


def test_seats(world: World) -> None:
    ran = run(["seats"], world)
    assert ran.code == 0
    assert "seats that fit this machine:\n" in ran.out
    assert "  rtx-5090/quality  Qwen3.8-27B, 131k context, 4 sequences" in ran.out
    assert "seats that would be refused here:\n" in ran.out
    assert "      this seat needs 2 GPUs of one kind, this machine has 1\n" in ran.out
    data = run(["seats", "--as", "no-gpu", "--json"], world).data
    assert [seat["id"] for seat in data["seats"] if seat["fits"]] == ["cpu/try"]
    assert {seat["unfit"] is None for seat in data["seats"]} == {True, False}
    assert all(seat["why"] and seat["source"] for seat in data["seats"])


def test_a_machine_that_no_seat_fits(tmp_path: Path) -> None:
    world = World(tmp_path, bundled_host("no-gpu").model_copy(update={"arch": "arm64"}))
    assert "\nno seat fits this machine\n" in run(["seats"], world).out


def test_show(world: World) -> None:
    ran = run(["show", "quality"], world)
    assert ran.code == 0
    assert "seat:\n  why: The long window on a 32 GB card" in ran.out
    for words in (
        "    --max-model-len 131072\n",
        "card:\n",
        "image:\n",
        "model:\n",
        "  source: AEON vLLM Ultimate RTX",
    ):
        assert words in ran.out
    spark = run(["show", "dgx-spark/daily", "--json"], world).data
    assert (spark["drafter"]["kind"], spark["card"]["id"]) == ("drafter", "dgx-spark")
    cpu = run(["show", "cpu/try", "--json"], world).data
    assert (cpu["card"], cpu["drafter"]) == (None, None)
    assert run(["show", "nothing", "--json"], world).error["code"] == "seat_not_found"


def test_pull_a_model(world: World) -> None:
    world.hub.present = set()
    ran = run(["pull-model", "Qwen/Qwen3-0.6B@main"], world)
    assert ran.code == 0
    assert ran.out.startswith("/home/user/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B/snapshots/")
    assert "download Qwen/Qwen3-0.6B: 50% of 25.0 GB" in ran.err
    assert "Qwen/Qwen3-0.6B is complete: 21.0 GB, 0 B of it were here" in ran.err
    again = run(["pull-model", "Qwen/Qwen3-0.6B", "--json"], world)
    assert again.data["model"]["reused_bytes"] == 25_000_000_000


def test_pull_a_seat_s_models(world: World) -> None:
    world.hub.present = set()
    ran = run(["pull-model", "--seat", "daily", "--as", "dgx-spark", "--json"], world)
    assert ran.code == 0
    assert world.hub.asked[0] == "z-lab/Qwen3.6-27B-DFlash"  # the gated one first: it may fail
    assert len(ran.data["models"]) == 2
    world.hub.fetched.clear()
    assert run(["pull-model", "--seat", "quality"], world).code == 0
    assert world.hub.fetched == [MODEL]


def test_a_gated_model_is_warned_of(world: World) -> None:
    world.hub.present = set()
    ran = run(["pull-model", "--seat", "daily", "--as", "dgx-spark"], world)
    assert "z-lab/Qwen3.6-27B-DFlash is gated: it needs its terms accepted" in ran.err


def test_a_dry_pull(world: World) -> None:
    world.hub.present = set()
    ran = run(["pull-model", "--seat", "quality", "--dry-run"], world)
    assert (ran.code, ran.out) == (0, f"{MODEL}: 25.0 GB to download of 25.0 GB\n")
    assert world.hub.fetched == []


@pytest.mark.parametrize(
    ("code", "status"), [("model_not_found", 6), ("gated", 6), ("offline", 6), ("incomplete", 6), ("unauthorized", 6)]
)
def test_a_pull_that_fails(world: World, code: str, status: int) -> None:
    world.hub.errors["a/b"] = DownloadError(code, "it failed", hint="try")
    ran = run(["pull-model", "a/b", "--json"], world)
    assert (ran.code, ran.error["code"], ran.error["hint"]) == (status, code, "try")


@pytest.mark.parametrize(
    ("argv", "code", "name"),
    [
        (["pull-model"], 2, "nothing_to_pull"),
        (["pull-model", "a/b", "--seat", "quality"], 2, "nothing_to_pull"),
        (["pull-model", "./folder"], 2, "nothing_to_pull"),
        (["pull-model", "one"], 3, "model_name_invalid"),
        (["pull-model", "--seat", "dgx-spark/daily"], 5, "refused"),
        (["pull-image"], 2, "nothing_to_pull"),
        (["pull-image", "a/b", "--seat", "quality"], 2, "nothing_to_pull"),
        (["pull-image", "--seat", "dgx-spark/daily"], 5, "refused"),
        (["pull-image", "example.org/none:1"], 6, "image_not_found"),
    ],
)
def test_what_cannot_be_pulled(world: World, argv: list[str], code: int, name: str) -> None:
    world.hub.folders["folder"] = ModelFacts(path="/data/folder", layout=Layout.PLAIN, present=True)
    ran = run([*argv, "--json"], world)
    assert ran.code == code
    assert ran.error["code"] == name or code == 5
    assert world.docker.pulled == []


def test_pull_an_image(world: World) -> None:
    ran = run(["pull-image", "--seat", "quality", "--json"], world)
    assert ran.code == 0
    (ref,) = world.docker.pulled
    assert ref == f"{ran.data['image']['ref']}@{ran.data['image']['digest']}"
    again = run(["pull-image", "--seat", "quality"], world)
    assert (again.out, len(world.docker.pulled)) == (f"{ref}\n", 1)


def test_pull_an_image_of_the_users(world: World) -> None:
    ref, digest = "example.org/vllm:1", "sha256:" + "a" * 64
    facts = ImageFacts(ref=ref, facts_from=FactsFrom.REGISTRY, digest=digest, unpacked_bytes=25_200_000_000)
    world.registry.images[ref] = facts
    world.docker.pulls[f"{ref}@{digest}"] = ((), facts)
    ran = run(["pull-image", ref], world)
    assert (ran.code, world.docker.pulled) == (0, [f"{ref}@{digest}"])
    assert f"{ref}@{digest} is here (25.2 GB)" in ran.err
