"""Every seat's full command line meets a real vLLM: its parser takes each option, and the engine becomes healthy.

The image is vLLM for the CPU with a plugin that replaces what needs a GPU, after vLLM's parser has checked it, and says
so in the log. What runs then says nothing about these features; that every option is taken, passed on and logged does.
Each of these boots compiles for its own shapes: about 50 seconds on two cores.
"""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine.command_line import CommandLine

pytestmark = [pytest.mark.docker, pytest.mark.engine]

DEFAULTS = {"port": "8000", "dtype": "auto", "gpu-memory-utilization": "0.92"}
"""What vLLM 0.32.0 does not log as "non-default" although a seat says it."""

REPOSITORY = "test/tiny"


@dataclass(frozen=True)
class Case:
    """A seat on its card, how the tiny model lies on the disk, and what else this image needs to be said."""

    host: str
    seat: str
    model: str = "flat"
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.host}/{self.seat}"


CASES = (
    Case("rtx-5090", "quality"),
    Case("rtx-5090", "speed"),
    Case("rtx-5090", "judge"),
    Case("rtx-pro-6000", "quality", model="hub"),
    Case("rtx-pro-6000", "speed", model="shared"),
    # A Spark is an arm64 machine and the test image is made for the machine that runs the tests, which is rightly
    # refused there; the rule is waived, because the command line is what is tried and not the Spark. Its memory guard
    # is left out: it would hold 0.6 of a Spark's memory against what this machine has free.
    Case("dgx-spark", "daily", model="hub", more=("--waive", "image-platform", "--drafter", REPOSITORY, "--no-guard")),
)


@pytest.fixture
def models(aeonctl: CommandLine, tiny_model: Path, tiny_hub: Path, tmp_path: Path) -> dict[str, str]:
    """The tiny model as ``--model`` takes it, by layout. ``shared`` has blobs that are links into one more store."""
    hub = tmp_path / "hub"
    shutil.copytree(tiny_hub, hub, symlinks=True)
    aeonctl.environment["HF_HUB_CACHE"] = str(hub)
    return {"flat": str(tiny_model), "hub": REPOSITORY, "shared": REPOSITORY}


def share_blobs(hub: Path) -> None:
    """Move every blob into a store beside the repositories, with a link where it was."""
    store = hub / "blobs"
    store.mkdir()
    for blob in (hub / "models--test--tiny" / "blobs").iterdir():
        blob.rename(store / blob.name)
        blob.symlink_to(Path("..") / ".." / "blobs" / blob.name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_seat_boots_with_every_option(
    aeonctl: CommandLine, shim_image: str, models: dict[str, str], case: Case
) -> None:
    if case.model == "shared":
        share_blobs(Path(aeonctl.environment["HF_HUB_CACHE"]))
    seat = aeonctl.here(
        *("--as", case.host, "--seat", case.seat, "--image", shim_image, "--model", models[case.model]),
        *("--env", "VLLM_CPU_SHIM=1", "--offline", *case.more),
    )

    started = aeonctl.data("up", *seat)

    assert started["engine"]["phase"] == "ready"
    assert started["engine"]["answer"], "the first question got an answer"
    assert started["plan"]["seat"] == str(case)
    mounted = {mount["target"] for mount in started["plan"]["container"]["mounts"]}
    assert {"flat": "/model", "hub": "/blobs", "shared": "/hub"}[case.model] in mounted
    log = aeonctl.succeed("logs", aeonctl.name)
    assert options_not_logged(started["plan"]["command"], log) == {}
    assert "CPU SHIM overrode" in log or case.seat == "judge"
    aeonctl.succeed("down", aeonctl.name)


def test_the_judge_of_the_larger_card_is_that_of_the_smaller(aeonctl: CommandLine) -> None:
    """The same container, so that one boot of it tells of both."""
    smaller, larger = (
        aeonctl.data("plan", "--as", host, "--seat", "judge", "--offline")["plan"]
        for host in ("rtx-5090", "rtx-pro-6000")
    )

    assert larger["seat"] == "rtx-pro-6000/judge"
    assert larger["command"] == smaller["command"]
    spec_hash = "io.aeonctl.spec-hash"  # of everything but the labels
    assert larger["container"]["labels"][spec_hash] == smaller["container"]["labels"][spec_hash]


def options_not_logged(command: list[str], log: str) -> dict[str, Any]:
    """The options that vLLM's own summary of its arguments lacks or has with another value."""
    logged = non_default_args(log)
    missing = {}
    for option, value in given_options(command).items():
        name = option.removeprefix("no-").replace("-", "_")
        wanted = False if option.startswith("no-") and value is True else value
        if DEFAULTS.get(option) == value and name not in logged:
            continue
        if name not in logged or not same(logged[name], wanted):
            missing[option] = (value, logged.get(name))
    return missing


def non_default_args(log: str) -> dict[str, Any]:
    mark = "non-default args: "
    line = next(line for line in log.splitlines() if mark in line)
    arguments: dict[str, Any] = ast.literal_eval(line.partition(mark)[2])
    return arguments


def given_options(command: list[str]) -> dict[str, Any]:
    """The options after ``serve MODEL``: True for a switch, a list for several values."""
    values: dict[str, list[str]] = {}
    name = "model"
    for word in command[1:]:
        if word.startswith("--"):
            name = word.removeprefix("--")
            values[name] = []
        else:
            values.setdefault(name, []).append(word)
    return {
        name: True if not words else words if len(words) > 1 or name == "served-model-name" else words[0]
        for name, words in values.items()
    }


def same(logged: Any, given: Any) -> bool:
    """Whether a logged value is what the text on the command line means."""
    if isinstance(logged, dict):
        return bool(logged == json.loads(given))
    if isinstance(logged, int | float) and not isinstance(logged, bool):
        return float(logged) == float(given)
    return bool(logged == given)
