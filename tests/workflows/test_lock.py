"""``lock``, ``rollback`` and ``--frozen`` through the command line, without any engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflows.image_desk import Desk

DIGEST = "sha256:" + "7" * 64
COMMIT = "b" * 40
SEAT = ("--seat", "cpu/try")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "home")


def test_what_cannot_be_pinned_is_named_whole(desk: Desk) -> None:
    said = desk.say("lock", *SEAT, "--offline")
    assert (said.code, said.error["code"]) == (5, "lock_incomplete")
    assert [cause.split(" ")[0] for cause in said.error["causes"]] == ["image", "model"]


def test_frozen_without_a_lock_is_refused(desk: Desk) -> None:
    for words in (("plan", *SEAT, "--frozen"), ("up", *SEAT, "--frozen")):
        said = desk.say(*words)
        assert (said.code, said.error["code"], said.error["hint"]) == (5, "lock_missing", "aeonctl lock --seat cpu/try")


def test_frozen_is_what_was_locked_whatever_the_catalogue_says_now(desk: Desk) -> None:
    desk.hub_model("Qwen/Qwen3-0.6B", COMMIT)
    desk.image_row("some.test/image:v1", digest=DIGEST)
    locked = desk.say("lock", *SEAT)
    assert (locked.code, locked.data["lock"]["locked"]["parts"]["image"]["digest"]) == (0, DIGEST)
    desk.image_row("some.test/image:v2", digest="sha256:" + "8" * 64)
    (desk.home / "hf/hub/models--Qwen--Qwen3-0.6B/refs/main").write_text("c" * 40)
    plan = desk.say("plan", *SEAT, "--frozen").data["plan"]
    assert (plan["image"]["ref"], plan["image"]["digest"]) == ("some.test/image:v1", DIGEST)
    assert (plan["model"]["revision"], plan["model"]["present"]) == (COMMIT, True)
    code, shown, _ = desk.text("lock")
    assert (code, shown) == (
        0,
        f"cpu/try\n  image    some.test/image:v1@{DIGEST}\n  model    Qwen/Qwen3-0.6B@{COMMIT}\n  passed   no\n",
    )


def test_frozen_beside_a_named_part_is_a_usage_error(desk: Desk) -> None:
    said = desk.say("plan", *SEAT, "--frozen", "--image", "some.test/image:v1")
    assert (said.code, said.error["code"]) == (2, "frozen_and_named")


def test_a_lock_without_the_drafter_that_the_seat_has_is_refused(desk: Desk) -> None:
    path = desk.home / ".local/state/aeonctl/seat-locks/dgx-spark--quality.json"
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"version": 1, "seat": "dgx-spark/quality", "locked": {"parts": {"image": {"ref": "a/b:c", "digest": "'
        + DIGEST
        + '"}, "model": {"repo": "o/m", "revision": "r"}, "drafter": null}, "spec_hash": "s", "at": 1.0}}'
    )
    said = desk.say("plan", "--seat", "dgx-spark/quality", "--as", "dgx-spark", "--frozen")
    assert (said.code, said.error["code"]) == (5, "lock_incomplete")
    path.write_text("{")
    said = desk.say("lock")
    assert (said.code, said.error["code"]) == (3, "lock_invalid")


def test_nothing_to_go_back_to(desk: Desk) -> None:
    said = desk.say("rollback", *SEAT)
    assert (said.code, said.error["code"]) == (3, "nothing_passed")
    assert desk.text("lock")[2].startswith("nothing is locked")
