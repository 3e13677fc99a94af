"""Parity: every recipe that the source documents print is a seat with exactly these options and container settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aeonctl.core.catalog import Catalog
from aeonctl.core.options import OptionValue, canonical
from aeonctl.core.rows import Seat
from tests.data.profiles import DATA, catalog

BOOK: dict[str, Any] = json.loads((DATA / "recipes.json").read_text(encoding="utf-8"))
RECIPES: dict[str, dict[str, Any]] = {recipe["id"]: recipe for recipe in BOOK["recipes"]}

SEATS = {
    "rtx-5090/quality": "rtx-5090/quality",
    "rtx-5090/speed": "rtx-5090/speed",
    "rtx-pro-6000/quality": "rtx-pro-6000/quality",
    "rtx-pro-6000/speed": "rtx-pro-6000/speed",
    "rtx-5090/judge": "rtx/judge",
    "rtx-pro-6000/judge": "rtx/judge",
    "dgx-spark/daily": "dgx-spark/daily (Qwen3.6-27B + DFlash)",
    "rtx-5090/stock": "rtx-5090/stock (Qwen3.8-27B NVFP4, upstream image)",
}
"""Which recipe a seat follows; the article's judge seat names no card."""

MOUNTS = {"/root/.cache/huggingface": "hub-home", "/root/.cache/vllm": "aeonctl-vllm-cache"}


def resolved(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe with everything that it takes over from another one."""
    if "same_as" not in recipe:
        return recipe
    base = resolved(RECIPES[recipe["same_as"]])
    return {
        **base,
        **recipe,
        "options": {**base["options"], **recipe.get("changes", {})},
        "container": {**base["container"], **recipe.get("container_changes", {})},
    }


@pytest.fixture(scope="module")
def bundled() -> Catalog:
    return catalog()


def canonical_options(known: Catalog, seat: Seat, options: dict[str, OptionValue]) -> dict[str, OptionValue]:
    table = known.flags.deciding(known.images[seat.image].vllm)[0]
    return dict(canonical({name.removeprefix("--"): value for name, value in options.items()}, table))


def test_every_recipe_is_followed_by_a_seat() -> None:
    assert set(SEATS.values()) == set(RECIPES)


@pytest.mark.parametrize("seat_id", SEATS)
def test_options_are_the_documents(bundled: Catalog, seat_id: str) -> None:
    seat = bundled.seats[seat_id]
    recipe = resolved(RECIPES[SEATS[seat_id]])
    expected = dict(recipe["options"])
    model = expected.pop("--model", None)
    assert seat.model.positional == (model is None)
    if model is not None:
        assert bundled.models[seat.model.id].repo == model
    assert dict(seat.options) == canonical_options(bundled, seat, expected)
    for name in recipe.get("absent", ()):
        assert name.removeprefix("--") not in seat.options


@pytest.mark.parametrize("seat_id", SEATS)
def test_the_container_is_the_documents(bundled: Catalog, seat_id: str) -> None:
    seat = bundled.seats[seat_id]
    expected = resolved(RECIPES[SEATS[seat_id]])["container"]
    container = seat.container
    if "name" in expected:
        assert container.name == expected["name"]
    assert container.gpus == (expected["gpus"] == "all")
    assert container.ipc == expected["ipc"]
    assert container.shm_size == expected.get("shm_size")
    assert container.network == expected.get("network", "bridge")
    assert container.runtime == expected.get("runtime")
    assert container.env == expected.get("env", {})
    assert list(container.pass_env) == expected.get("env_passthrough", [])
    assert container.volumes == {MOUNTS[path]: path for path in expected.get("mounts_rw", ())}
    if "publish" in expected:
        assert f"{container.port}:{container.port}" == expected["publish"]


@pytest.mark.parametrize("seat_id", SEATS)
def test_model_drafter_and_mounts_are_the_documents(bundled: Catalog, seat_id: str) -> None:
    seat = bundled.seats[seat_id]
    recipe = resolved(RECIPES[SEATS[seat_id]])
    if "model" in recipe:
        assert bundled.models[seat.model.id].repo == recipe["model"]
    drafter = None if seat.drafter is None else bundled.models[seat.drafter.id].repo
    assert drafter == recipe.get("drafter")
    mounts = [seat.model.mount] if seat.model.by == "mount" else []
    mounts += [] if seat.drafter is None else [seat.drafter.mount]
    assert mounts == recipe["container"].get("mounts_ro", [])
    if seat.model.by == "mount":
        assert recipe["command"] == ["serve", seat.model.mount]


@pytest.mark.parametrize("seat_id", SEATS)
def test_the_image_is_the_documents(bundled: Catalog, seat_id: str) -> None:
    image = bundled.images[bundled.seats[seat_id].image]
    expected = BOOK["images"][resolved(RECIPES[SEATS[seat_id]])["image"]]
    assert image.ref == expected["ref"]
    assert image.digest == expected.get("digest")
    if "platform" in expected:
        assert image.platforms == (expected["platform"],)
        assert list(image.sm) == expected["sm"]
    assert image.driver_branch_min == expected.get("driver_branch_min", image.driver_branch_min)
    if "local_size_gb" in expected:
        assert image.local_bytes == expected["local_size_gb"] * 10**9
    if "version_label" in expected:
        assert image.vllm == expected["version_label"].partition("+")[0]


def test_digits_stay_as_written(bundled: Catalog) -> None:
    assert bundled.seats["rtx-5090/speed"].options["gpu-memory-utilization"] == "0.90"
    assert bundled.seats["dgx-spark/quality"].options["gpu-memory-utilization"] == "0.80"


@pytest.mark.parametrize("seat_id", [seat for seat in SEATS if "wsl2" in resolved(RECIPES[SEATS[seat]])])
def test_the_wsl2_cap_is_the_documents(bundled: Catalog, seat_id: str) -> None:
    cap = bundled.rules["wsl2-chunk-cap"].then.cap
    assert cap is not None
    assert {f"--{cap.option}": cap.value} == resolved(RECIPES[SEATS[seat_id]])["wsl2"]


def test_the_utilization_cap_is_the_documents(bundled: Catalog) -> None:
    cap = bundled.rules["unified-utilization-cap"].then.cap
    limits = RECIPES[SEATS["dgx-spark/daily"]]["hard_limits"]
    assert cap is not None
    assert float(cap.value) == limits[f"--{cap.option}"]["max"]
