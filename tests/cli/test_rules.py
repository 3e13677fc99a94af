"""Every rule through the command line, on recorded hosts: one plan that it acts on, and one that it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aeonctl.core.host import DockerFlavor, Driver, Host
from aeonctl.core.image import ImageFacts
from tests.data.profiles import catalog
from tests.fakes.ports import FakeHub, World, bundled_host, run

OWN = ("--image", "example.org/vllm:1")


@dataclass(frozen=True)
class Case:
    """A plan: the host, the words after ``plan``, and what is changed in the world before."""

    host: str
    words: str
    host_change: dict[str, Any] | None = None
    image: ImageFacts | None = None
    absent: bool = False


def plan_of(tmp_path: Path, case: Case) -> dict[str, Any]:
    world = World(tmp_path, changed_host(case))
    if case.absent:
        world.hub = FakeHub(present=set())
    words = case.words.split()
    if case.image is not None:
        world.registry.images["example.org/vllm:1"] = case.image
        words += OWN
    ran = run(["plan", "--json", *words], world)
    assert ran.code in (0, 5), ran.envelope["errors"]
    return ran.plan


def changed_host(case: Case) -> Host:
    return bundled_host(case.host).model_copy(update=case.host_change or {})


def acted(plan: dict[str, Any]) -> dict[str, str]:
    """Which rules acted, and how."""
    found = {decision["rule"]: "decision" for decision in plan["decisions"]}
    found |= {remark["rule"]: "warning" for remark in plan["warnings"]}
    return found | {refusal["rule"]: "refusal" for refusal in plan["refusals"]}


def image(**facts: Any) -> ImageFacts:
    base: dict[str, Any] = {"arch": "amd64", "sm": ("12.0",), "vllm": "0.33.0", "cuda": "13.0", "entrypoint": ()}
    return ImageFacts(ref="example.org/vllm:1", **(base | facts))


def mig(host: str) -> dict[str, Any]:
    gpus = bundled_host(host).gpus or ()
    return {"gpus": tuple(gpu.model_copy(update={"mig": True}) for gpu in gpus)}


def gpu(host: str, **changes: Any) -> dict[str, Any]:
    gpus = bundled_host(host).gpus or ()
    return {"gpus": tuple(one.model_copy(update=changes) for one in gpus)}


def docker(host: str, flavor: DockerFlavor) -> dict[str, Any]:
    return {"docker": bundled_host(host).docker.model_copy(update={"flavor": flavor})}


def runtime(host: str, there: bool | None) -> dict[str, Any]:
    found = bundled_host(host).docker
    return {"docker": found.model_copy(update={"gpu": found.gpu.model_copy(update={"runtime": there})})}


QUALITY, STOCK, DAILY = "--seat rtx-5090/quality", "--seat rtx-5090/stock", "--seat dgx-spark/daily"
SPARK = "--seat dgx-spark/quality"
DFLASH = '--set speculative-config={"method":"dflash","model":"/drafter","attention_backend":"TRITON_ATTN"}'
NO_SPEC = "--unset speculative-config"
SMALL = bundled_host("rtx-5090-wsl2").memory.model_copy(update={"total_bytes": 16 * 1024**3})

CASES: dict[str, tuple[str, Case, Case]] = {
    "wsl2-chunk-cap": ("decision", Case("rtx-5090-wsl2", QUALITY), Case("rtx-5090", QUALITY)),
    "wsl2-pin-memory": (
        "decision",
        Case("rtx-5090-wsl2", QUALITY),
        Case("rtx-5090-wsl2", STOCK, image=image(vllm="0.23.0")),
    ),
    "wsl2-expandable-segments": (
        "warning",
        Case("rtx-5090-wsl2", QUALITY),
        Case("rtx-5090-wsl2", QUALITY + " --env PYTORCH_CUDA_ALLOC_CONF=x:y"),
    ),
    "wsl2-utilization-high": (
        "warning",
        Case("rtx-5090-wsl2", QUALITY + " --set gpu-memory-utilization=0.95"),
        Case("rtx-5090-wsl2", QUALITY + " --set gpu-memory-utilization=0.94"),
    ),
    "wsl2-memory": (
        "warning",
        Case("rtx-5090-wsl2", QUALITY, {"memory": SMALL}),
        Case("rtx-5090", QUALITY, {"memory": SMALL}),
    ),
    "unified-utilization-default": (
        "decision",
        Case("dgx-spark", DAILY + " --unset gpu-memory-utilization"),
        Case("dgx-spark", DAILY),
    ),
    "unified-utilization-cap": (
        "decision",
        Case("dgx-spark", DAILY + " --set gpu-memory-utilization=0.9"),
        Case("dgx-spark", DAILY + " --set gpu-memory-utilization=0.88"),
    ),
    "unified-startup-plan-env": (
        "refusal",
        Case("dgx-spark", DAILY + " --env VLLM_ENABLE_STARTUP_PLAN=1"),
        Case("rtx-5090", QUALITY + " --env VLLM_ENABLE_STARTUP_PLAN=1"),
    ),
    "unified-expandable-segments": (
        "warning",
        Case("dgx-spark", DAILY + " --env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        Case("rtx-5090", QUALITY),
    ),
    "unified-batched-tokens": (
        "warning",
        Case("dgx-spark", DAILY + " --set max-num-batched-tokens=65536"),
        Case("dgx-spark", DAILY + " --set max-num-batched-tokens=32768"),
    ),
    "unified-old-vllm": (
        "warning",
        Case("dgx-spark", DAILY, image=image(vllm="0.23.1", arch="arm64", sm=("12.1",))),
        Case("dgx-spark", DAILY),
    ),
    "dflash-on-32gb": (
        "refusal",
        Case("rtx-5090", f"{QUALITY} {DFLASH}"),
        Case("rtx-pro-6000", f"--seat rtx-pro-6000/quality {DFLASH}"),
    ),
    "mtp-with-dflash": (
        "refusal",
        Case("dgx-spark", f"{DAILY} --set speculative-config.method=mtp"),
        Case("dgx-spark", DAILY),
    ),
    "nvfp4-kv-with-dflash": (
        "refusal",
        Case("dgx-spark", f"{DAILY} --set kv-cache-dtype=nvfp4"),
        Case("rtx-5090", f"{QUALITY} --set kv-cache-dtype=nvfp4"),
    ),
    "speculative-attention-backend": (
        "refusal",
        Case("rtx-5090", f"{QUALITY} --unset speculative-config.attention_backend"),
        Case("rtx-5090", f"{QUALITY} {NO_SPEC}"),
    ),
    "spark-mixed-mtp": (
        "warning",
        Case("dgx-spark", SPARK + " --set speculative-config.method=mtp"),
        Case("dgx-spark", SPARK),
    ),
    "dspark-block-size": (
        "warning",
        Case("dgx-spark", DAILY + " --set speculative-config.method=dspark"),
        Case("dgx-spark", DAILY),
    ),
    "dflash2-old-vllm": (
        "warning",
        Case("dgx-spark", SPARK, image=image(vllm="0.27.1", arch="arm64", sm=("12.1",))),
        Case("dgx-spark", SPARK),
    ),
    "thinking-budget-v2-runner": (
        "warning",
        Case("rtx-5090", QUALITY + " --env VLLM_USE_V2_MODEL_RUNNER=1"),
        Case("rtx-5090", STOCK + " --env VLLM_USE_V2_MODEL_RUNNER=1"),
    ),
    "flashinfer-fp8-sm120": (
        "refusal",
        Case("rtx-5090", f"{QUALITY} --set attention-backend=FLASHINFER"),
        Case("rtx-5090", f"{STOCK} --set attention-backend=FLASHINFER"),
    ),
    "flashinfer-fp8-sm120-unset": (
        "warning",
        Case("rtx-5090", f"{QUALITY} --unset attention-backend"),
        Case("rtx-5090", QUALITY),
    ),
    "flashinfer-fp8-long-context": (
        "warning",
        Case("rtx-5090", STOCK + " --set max-model-len=32769"),
        Case("rtx-5090", STOCK),
    ),
    "triton-attn-nvfp4-kv": (
        "warning",
        Case("rtx-5090", QUALITY + " --set kv-cache-dtype=nvfp4"),
        Case("rtx-5090", QUALITY),
    ),
    "sm120-hybrid-cuda-graphs": (
        "warning",
        Case("rtx-5090", QUALITY),
        Case("rtx-5090", QUALITY + " --set enforce-eager=true"),
    ),
    "nvfp4-one-card-graphs": (
        "warning",
        Case("rtx-5090", STOCK + " --unset enforce-eager"),
        Case("rtx-5090", STOCK),
    ),
    "mixed-no-quantization": (
        "refusal",
        Case("rtx-5090", f"{QUALITY} --set quantization=modelopt"),
        Case("dgx-spark", DAILY),
    ),
    "modelopt-quantization": (
        "warning",
        Case("dgx-spark", f"{DAILY} --unset quantization"),
        Case("dgx-spark", DAILY),
    ),
    "repetition-penalty-with-tools": (
        "warning",
        Case("rtx-5090", QUALITY),
        Case("rtx-5090", QUALITY + " --set override-generation-config.repetition_penalty=1.0"),
    ),
    "speculative-method": (
        "refusal",
        Case("dgx-spark", "--seat daily --set speculative-config.method="),
        Case("dgx-spark", "--seat daily"),
    ),
    "utilization-out-of-range": (
        "refusal",
        Case("rtx-5090", QUALITY + " --set gpu-memory-utilization=1.5"),
        Case("rtx-5090", QUALITY + " --set gpu-memory-utilization=1.0"),
    ),
    "count-out-of-range": (
        "refusal",
        Case("rtx-5090", QUALITY + " --set max-num-seqs=0"),
        Case("rtx-5090", QUALITY + " --set max-num-seqs=1"),
    ),
    "ranks-exceed-gpus": (
        "refusal",
        Case("rtx-5090", QUALITY + " --set tensor-parallel-size=2"),
        Case("rtx-5090-x2", "--seat stock"),
    ),
    "tool-choice-needs-parser": (
        "refusal",
        Case("rtx-5090", QUALITY + " --unset tool-call-parser"),
        Case("rtx-5090", QUALITY),
    ),
    "mamba-block-size-needs-prefix-caching": (
        "refusal",
        Case("rtx-5090", QUALITY + " --set mamba-block-size=16"),
        Case("rtx-5090", QUALITY + " --set mamba-block-size=16 --set enable-prefix-caching=true"),
    ),
    "secret-in-argv": ("refusal", Case("rtx-5090", QUALITY + " --set api-key=x"), Case("rtx-5090", QUALITY)),
    "secret-in-argv-hf-token": ("refusal", Case("rtx-5090", QUALITY + " --set hf-token=x"), Case("rtx-5090", QUALITY)),
    "lan-without-key": (
        "warning",
        Case("rtx-5090", QUALITY + " --lan"),
        Case("rtx-5090", QUALITY + " --lan --env VLLM_API_KEY"),
    ),
    "image-platform": ("refusal", Case("dgx-spark", QUALITY), Case("rtx-5090", QUALITY)),
    "image-not-for": ("refusal", Case("dgx-spark", QUALITY), Case("rtx-5090", QUALITY)),
    "image-sm-excluded": (
        "refusal",
        Case("rtx-5090", STOCK, image=image(not_for_sm=("12.0",))),
        Case("rtx-5090", STOCK, image=image()),
    ),
    "image-sm-mismatch": ("refusal", Case("h200", QUALITY), Case("rtx-5090", QUALITY)),
    "image-sm-unlisted": (
        "warning",
        Case("dgx-spark", DAILY, image=image(arch="arm64")),
        Case("dgx-spark", DAILY),
    ),
    "image-sm-unknown": (
        "warning",
        Case("rtx-5090", STOCK, image=image(sm=None)),
        Case("rtx-5090", STOCK, image=image()),
    ),
    "image-driver-old": (
        "refusal",
        Case("rtx-5090", QUALITY, {"driver": Driver(version="575.57.08", cuda="12.9")}),
        Case("rtx-5090", QUALITY),
    ),
    "image-driver-unknown": (
        "warning",
        Case("rtx-5090", QUALITY, {"driver": Driver()}),
        Case("rtx-5090", QUALITY),
    ),
    "cpu-image-on-gpu-seat": (
        "refusal",
        Case("rtx-5090", STOCK, image=image(cpu_only=True)),
        Case("rtx-5090", "--seat cpu/try"),
    ),
    "spark-mixed-needs-patch": (
        "refusal",
        Case("dgx-spark", SPARK + " --offline --image ghcr.io/aeon-7/aeon-vllm-ultimate:2026-09-11-v0.29.0-omni"),
        Case("dgx-spark", SPARK),
    ),
    "seat-card-other": ("warning", Case("rtx-pro-6000", QUALITY), Case("rtx-5090", QUALITY)),
    "seat-card-unknown": (
        "warning",
        Case("rtx-5090", QUALITY, gpu("rtx-5090", sm="13.0", name="NVIDIA Something")),
        Case("rtx-5090", QUALITY),
    ),
    "seat-vram-short": ("refusal", Case("rtx-5080", QUALITY), Case("rtx-5090", QUALITY)),
    "seat-vram-unknown": (
        "warning",
        Case("rtx-5090", QUALITY, gpu("rtx-5090", vram_total_bytes=None)),
        Case("rtx-5090", QUALITY),
    ),
    "gpu-count-short": (
        "refusal",
        Case("rtx-5090", "--seat rtx-5090-x2/stock"),
        Case("rtx-5090-x2", "--seat rtx-5090-x2/stock"),
    ),
    "weights-do-not-fit": (
        "refusal",
        Case("rtx-5080", QUALITY, absent=True),
        Case("rtx-5090", QUALITY, absent=True),
    ),
    "nvidia-runtime-absent": (
        "decision",
        Case("rtx-5090", STOCK, runtime("rtx-5090", False)),
        Case("rtx-5090", STOCK, runtime("rtx-5090", None)),
    ),
    "mig-enabled": ("refusal", Case("h200", STOCK, mig("h200")), Case("h200", STOCK)),
    "docker-desktop-host-network": (
        "warning",
        Case("dgx-spark", DAILY, docker("dgx-spark", DockerFlavor.DESKTOP)),
        Case("dgx-spark", DAILY),
    ),
    "docker-podman": (
        "warning",
        Case("rtx-5090", QUALITY, docker("rtx-5090", DockerFlavor.PODMAN)),
        Case("rtx-5090", QUALITY),
    ),
    "docker-snap": (
        "warning",
        Case("rtx-5090", QUALITY, docker("rtx-5090", DockerFlavor.SNAP)),
        Case("rtx-5090", QUALITY),
    ),
    "gated-drafter": ("warning", Case("dgx-spark", DAILY, absent=True), Case("dgx-spark", DAILY)),
}

NEVER_ACTS = {
    "first-start-restart-no": "every seat starts with restart no, so that the rule has nothing to change",
    "gated-model": "no seat's model is gated",
    "image-digest-moved": "only a registry that was asked can say so; tests/workflows/test_images.py asks one",
}


def test_every_rule_has_its_cases() -> None:
    assert set(catalog().rules) == set(CASES) | set(NEVER_ACTS)


@pytest.mark.parametrize("rule", CASES)
def test_it_acts(tmp_path: Path, rule: str) -> None:
    how, case, _ = CASES[rule]
    assert acted(plan_of(tmp_path, case)).get(rule) == how


@pytest.mark.parametrize("rule", CASES)
def test_it_does_not(tmp_path: Path, rule: str) -> None:
    assert rule not in acted(plan_of(tmp_path, CASES[rule][2]))


@pytest.mark.parametrize("rule", [rule for rule in CASES if not rule.startswith("secret")])
def test_it_is_waived_by_its_id(tmp_path: Path, rule: str) -> None:
    case = CASES[rule][1]
    waived = Case(case.host, f"{case.words} --waive {rule}", case.host_change, case.image, case.absent)
    plan = plan_of(tmp_path, waived)
    assert rule not in acted(plan)
    assert plan["waived"] == [rule]
    assert plan["container"]["labels"]["io.aeonctl.waived"] == rule


def test_a_rule_that_does_not_act_is_not_waived(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Case("rtx-5090", QUALITY + " --waive wsl2-chunk-cap"))
    assert plan["waived"] == []
    assert "io.aeonctl.waived" not in plan["container"]["labels"]


def option(plan: dict[str, Any], name: str) -> str:
    words: list[str] = plan["command"]
    return words[words.index(name) + 1]


def test_the_wsl2_cap_wins_over_set(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Case("rtx-5090-wsl2", QUALITY + " --set max-num-batched-tokens=16384"))
    assert option(plan, "--max-num-batched-tokens") == "2048"
    values = [(d["before"], d["after"]) for d in plan["decisions"] if d["option"] == "--max-num-batched-tokens"]
    assert values == [("8192", "16384"), ("16384", "2048")]
    lower = plan_of(tmp_path, Case("rtx-5090-wsl2", QUALITY + " --set max-num-batched-tokens=1024"))
    assert option(lower, "--max-num-batched-tokens") == "1024"


def test_pinned_memory_is_the_users_to_switch_off(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Case("rtx-5090-wsl2", QUALITY + " --env VLLM_WSL2_ENABLE_PIN_MEMORY=0"))
    assert plan["container"]["env"]["VLLM_WSL2_ENABLE_PIN_MEMORY"] == "0"


def test_unified_memory_default_and_cap(tmp_path: Path) -> None:
    unset = plan_of(tmp_path, CASES["unified-utilization-default"][1])
    assert option(unset, "--gpu-memory-utilization") == "0.80"
    high = plan_of(tmp_path, CASES["unified-utilization-cap"][1])
    assert option(high, "--gpu-memory-utilization") == "0.88"


def test_the_stock_seat_is_silent_at_32k(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Case("rtx-5090", STOCK))
    assert set(acted(plan)) == {"loopback", "seat-advisory"}


@pytest.mark.parametrize("seat", catalog().seats)
def test_every_first_start_has_restart_no(tmp_path: Path, seat: str) -> None:
    host = {"cpu": "no-gpu"}.get(seat.partition("/")[0], seat.partition("/")[0])
    plan = plan_of(tmp_path, Case(host, f"--seat {seat}"))
    assert plan["container"]["restart"] == "no"
    assert plan["refusals"] == []


IMAGES: dict[tuple[str, str], set[str]] = {
    ("dgx-spark", "rtx-5090/quality"): {"image-platform", "image-not-for"},
    ("rtx-5090", "dgx-spark/daily"): {
        "image-platform",
        "image-sm-excluded",
        "seat-vram-short",
        "dflash-on-32gb",
        "weights-do-not-fit",
    },
    ("b200", "rtx-5090/quality"): {"image-not-for"},
    ("rtx-4090", "rtx-5090/quality"): {"image-not-for", "seat-vram-short"},
    ("h200", "rtx-5090/quality"): {"image-sm-mismatch"},
}


@pytest.mark.parametrize(("host", "seat"), IMAGES)
def test_an_image_on_the_wrong_card_is_refused_with_all_reasons(tmp_path: Path, host: str, seat: str) -> None:
    world = World(tmp_path, host)
    ran = run(["up", "--seat", seat, "--json"], world)
    assert ran.code == 5
    rules = {refusal["rule"] for refusal in ran.error["refusals"]}
    assert rules == IMAGES[host, seat]
    assert (world.docker.pulled, world.hub.fetched, world.docker.started) == ([], [], [])


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("b200", "use the fat tag, ghcr.io/aeon-7/aeon-vllm-ultimate-rtx:sm120-fat"),
        ("rtx-4090", "Ada is not a target; the stock seat's image (vllm/vllm-openai) has kernels for it"),
        ("h200", "Hopper is not a target; the stock seat's image (vllm/vllm-openai) has kernels for it"),
        ("dgx-spark", "use the Spark image, ghcr.io/aeon-7/aeon-vllm-ultimate (a dgx-spark seat)"),
    ],
)
def test_what_its_owner_is_told(tmp_path: Path, host: str, words: str) -> None:
    ran = run(["plan", "--seat", "rtx-5090/quality"], World(tmp_path, host))
    assert ran.code == 5
    assert words in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("host", ["h200", "b200", "rtx-5090"])
def test_upstream_s_image_has_kernels_for_these(tmp_path: Path, host: str) -> None:
    plan = plan_of(tmp_path, Case(host, STOCK))
    assert not {rule for rule in acted(plan) if rule.startswith("image-")}
    assert plan["refusals"] == []


def test_the_stock_image_on_ada_is_judged_by_its_memory_alone(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Case("rtx-4090", STOCK))
    assert {refusal["rule"] for refusal in plan["refusals"]} == {"seat-vram-short"}


def test_an_image_of_the_users_is_judged_by_its_manifest(tmp_path: Path) -> None:
    world = World(tmp_path, "dgx-spark")
    world.registry.images["example.org/vllm:1"] = image(not_for="GB10 sm_121", not_for_sm=("12.1",))
    ran = run(["up", "--seat", "daily", *OWN, "--json"], world)
    assert [refusal["rule"] for refusal in ran.error["refusals"]] == ["image-platform", "image-not-for"]
    assert world.registry.asked == [("example.org/vllm:1", "arm64")]
