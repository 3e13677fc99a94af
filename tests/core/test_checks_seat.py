"""What one seat needs: image, model, port, memory, token, licence."""

from __future__ import annotations

from typing import Any

import pytest

from aeonctl.core.checks import NOT_HERE, UNKNOWN, check_of
from aeonctl.core.checks_seat import SeatNeeds, seat_findings
from aeonctl.core.container import ContainerSpec
from aeonctl.core.host import Host
from aeonctl.core.image import ImageFacts
from aeonctl.core.model import ModelFacts
from aeonctl.core.plan import Fit, Plan, Refusal
from aeonctl.core.units import GIB
from tests.core.test_checks import ROWS, host, spark

DISK = [{"role": "hub-cache", "path": "/c", "free_bytes": 100 * 10**9}]
HERE = ModelFacts(repo="org/model", present=True, path="/m")
ABSENT = ModelFacts(repo="org/model", path="/m", bytes=30 * 10**9)
GATED = ABSENT.model_copy(update={"gated": True})
DRAFTER = ModelFacts(repo="org/draft", path="/d", bytes=3 * 10**9)
IMAGE = ImageFacts(ref="org/image:1", unpacked_bytes=50 * 10**9)
FIT = Fit(fits=True, usable_gib=31.0, budget_gib=28.0, weights_gib=18.0, left_gib=10.0)


def plan(**change: Any) -> Plan:
    values: dict[str, Any] = {
        "seat": "rtx-5090/quality",
        "title": "t",
        "host": "h",
        "recorded_host": False,
        "rehearsal": False,
        "image": IMAGE,
        "model": HERE,
        "drafter": None,
        "container": ContainerSpec(name="n", image="i", entrypoint="vllm", command=(), gpus="all"),
        "port": 8000,
        "served_names": ("m",),
        "max_model_len": None,
        "fit": FIT,
        "spec_hash": "abc",
    }
    return Plan(**{**values, **change})


def situations(one: Host, image_here: bool | None = False, ours: frozenset[int] = frozenset(), **change: Any) -> Any:
    findings = seat_findings(one, SeatNeeds(plan(**change), image_here, ours))
    for finding in findings:
        assert "{" not in check_of(finding, ROWS).summary
    return {finding.check: finding.situation for finding in findings}


NO_GPU = ContainerSpec(name="n", image="i", entrypoint="vllm", command=())


@pytest.mark.parametrize(
    ("one", "change", "check", "situation"),
    [
        (host(disks=DISK), {}, "seat", "starts"),
        (host(), {"refusals": (Refusal(rule="r", why="no", source="s"),)}, "seat", "refused"),
        (host(), {"image_here": True}, "seat-image", "here"),
        (host(), {}, "seat-image", "fits"),
        (host(docker__image_root_free_bytes=10**9), {}, "seat-image", "short"),
        (host(docker__image_root_free_bytes=None), {}, "seat-image", "unsized"),
        (host(), {"image_here": None}, "seat-image", "unsized"),
        (host(), {"image": ImageFacts(ref="org/image:1")}, "seat-image", "unsized"),
        (host(), {"image": ImageFacts(ref="org/image:1", compressed_bytes=10**9)}, "seat-image", "fits"),
        (host(), {}, "seat-model", "here"),
        (host(disks=DISK), {"model": ABSENT, "drafter": DRAFTER}, "seat-model", "fits"),
        (
            host(disks=[{**DISK[0], "free_bytes": 32 * 10**9}]),
            {"model": ABSENT, "drafter": DRAFTER},
            "seat-model",
            "short",
        ),
        (host(), {"model": ABSENT}, "seat-model", "unsized"),
        (host(disks=DISK), {"model": ModelFacts(path="/m")}, "seat-model", "unsized"),
        (host(), {}, "seat-port", "free"),
        (host(ports=None), {}, "seat-port", UNKNOWN),
        (host(ports=[{"port": 8000}]), {}, "seat-port", "taken"),
        (host(ports=[{"port": 8000}]), {"ours": frozenset({8000})}, "seat-port", "ours"),
        (host(), {}, "seat-memory", "fits"),
        (host(), {"fit": Fit(fits=False, weights_gib=60.0, budget_gib=28.0)}, "seat-memory", "short"),
        (host(), {"fit": Fit()}, "seat-memory", UNKNOWN),
        (host(gpus=[{"index": 0, "vram_free_bytes": 20 * GIB}]), {}, "seat-memory", "busy"),
        (host(gpus=[{"index": 0}]), {}, "seat-memory", "fits"),
        (spark(), {}, "seat-memory", "fits"),
        (spark(memory={}), {}, "seat-memory", "fits"),
        (host(), {"container": NO_GPU}, "seat-memory", NOT_HERE),
        (host(gpus=[]), {}, "seat-memory", NOT_HERE),
        (host(), {}, "seat-token", "not-needed"),
        (host(), {"model": GATED}, "seat-token", UNKNOWN),
        (host(details__hub__token="file"), {"model": GATED}, "seat-token", "present"),
        (host(details__hub__token="none"), {"model": GATED}, "seat-token", "missing"),
        (host(), {}, "seat-gate", "open"),
        (host(), {"model": GATED}, "seat-gate", "untold"),
    ],
)
def test_what_a_seat_needs(one: Host, change: dict[str, Any], check: str, situation: str) -> None:
    assert situations(one, **change)[check] == situation


def test_each_refusal_is_a_check_of_its_own() -> None:
    refusals = tuple(Refusal(rule=rule, why=f"{rule} says no", source="s") for rule in ("one", "two"))
    found = [check_of(f, ROWS) for f in seat_findings(host(), SeatNeeds(plan(refusals=refusals), False))]
    assert [check.id for check in found[:2]] == ["seat-one", "seat-two"]
    assert found[0].remedy == "aeonctl seats"
