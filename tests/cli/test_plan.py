"""``plan`` through ``main``: which seat is meant, which options are taken, what is kept secret, and the whole text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aeonctl.core.catalog import Document
from aeonctl.core.host import Driver, Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.errors import DownloadError, HostError
from tests.data.profiles import catalog
from tests.fakes.ports import World, bundled_host, run

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def golden(name: str, text: str) -> None:
    """Compare with a file; AEONCTL_GOLDEN=write takes over what is printed now, to be looked at in the diff."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("AEONCTL_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("seat", catalog().seats)
def test_the_printed_command_of_each_seat_on_its_card(world: World, seat: str) -> None:
    host = {"cpu": "no-gpu"}.get(seat.partition("/")[0], seat.partition("/")[0])
    ran = run(["plan", "--seat", seat, "--as", host], world)
    assert ran.code == 0
    golden(f"plan-{seat.replace('/', '-')}", ran.out)


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("refused-spark-on-rtx", ["plan", "--seat", "dgx-spark/daily", "--as", "rtx-5090"]),
        ("refused-rtx-on-spark", ["plan", "--seat", "rtx-5090/quality", "--as", "dgx-spark"]),
        ("explained-wsl2", ["plan", "--seat", "quality", "--as", "rtx-5090-wsl2", "--explain"]),
        ("no-seat-for-card", ["plan", "--seat", "quality", "--as", "h200"]),
    ],
)
def test_what_is_said(world: World, name: str, argv: list[str]) -> None:
    golden(name, run(argv, world).err)


@pytest.mark.parametrize(
    ("host", "seat", "chosen"),
    [
        ("rtx-5090", "quality", "rtx-5090/quality"),
        ("rtx-5090-wsl2", "judge", "rtx-5090/judge"),
        ("rtx-pro-6000", "quality", "rtx-pro-6000/quality"),
        ("dgx-spark", "daily", "dgx-spark/daily"),
        ("rtx-5090-x2", "stock", "rtx-5090-x2/stock"),
        ("rtx-5090-x2", "quality", "rtx-5090/quality"),
        ("no-gpu", "try", "cpu/try"),
        ("rtx-5090", "try", "cpu/try"),
    ],
)
def test_a_name_means_the_seat_of_the_card_present(world: World, host: str, seat: str, chosen: str) -> None:
    plan = run(["plan", "--seat", seat, "--as", host, "--json"], world).plan
    assert plan["seat"] == chosen


def with_gpus(*names: str, **changes: Any) -> Host:
    """One machine with the cards of several recorded ones."""
    gpus = [gpu for name in names for gpu in bundled_host(name).gpus or ()]
    numbered = tuple(gpu.model_copy(update={"index": index}) for index, gpu in enumerate(gpus))
    return bundled_host(names[0]).model_copy(update={"gpus": numbered, **changes})


def test_one_of_several_cards_is_the_emptiest(world: World) -> None:
    host = with_gpus("rtx-5090", "rtx-5090")
    first, second = host.gpus or ()
    busy = first.model_copy(update={"vram_free_bytes": 1})
    world.host.host = host.model_copy(update={"gpus": (busy, second)})
    plan = run(["plan", "--seat", "quality", "--json"], world).plan
    assert plan["container"]["gpus"] == "device=1"
    assert [d["after"] for d in plan["decisions"] if d["option"] == "gpus"] == ["device=1"]
    text = run(["plan", "--seat", "quality"], world).out
    assert "--gpus '\"device=1\"'" in text


def test_several_cards_under_wsl2(tmp_path: Path) -> None:
    world = World(tmp_path, with_gpus("rtx-5090-wsl2", "rtx-5090-wsl2"))
    plan = run(["plan", "--seat", "quality", "--json"], world).plan
    assert plan["container"]["gpus"] == "all"
    assert plan["container"]["env"]["CUDA_VISIBLE_DEVICES"] == "0"


def test_mixed_cards_are_ambiguous(tmp_path: Path) -> None:
    world = World(tmp_path, with_gpus("rtx-5090", "rtx-pro-6000"))
    ran = run(["plan", "--seat", "quality", "--json"], world)
    assert (ran.code, ran.error["code"]) == (3, "seat_ambiguous")
    assert ran.error["hint"] == "name it in full: --seat rtx-5090/quality"
    plan = run(["plan", "--seat", "rtx-pro-6000/quality", "--json"], world).plan
    assert plan["container"]["gpus"] == "device=1"


@pytest.mark.parametrize(
    ("host", "code", "name"),
    [
        (bundled_host("no-gpu"), 4, "no_gpu"),
        (bundled_host("h200"), 5, "no_seat_for_card"),
        (bundled_host("rtx-5080"), 5, "no_seat_for_card"),
        (
            bundled_host("rtx-5090").model_copy(update={"gpus": None, "driver": Driver(problem="mismatch")}),
            4,
            "driver_mismatch",
        ),
        (bundled_host("no-gpu").model_copy(update={"gpus": None}), 4, "driver_missing"),
        (bundled_host("no-gpu").model_copy(update={"driver": Driver(problem="no_devices")}), 4, "driver_no_devices"),
        (bundled_host("no-gpu").model_copy(update={"gpus": None, "driver": Driver()}), 4, "driver_failed"),
    ],
)
def test_no_seat(tmp_path: Path, host: Host, code: int, name: str) -> None:
    ran = run(["plan", "--seat", "quality", "--json"], World(tmp_path, host))
    assert (ran.code, ran.error["code"]) == (code, name)
    assert ran.error["hint"]


def test_a_gpu_of_no_row_has_no_seats_of_its_own(tmp_path: Path) -> None:
    (gpu,) = bundled_host("rtx-5090").gpus or ()
    host = bundled_host("rtx-5090").model_copy(update={"gpus": (gpu.model_copy(update={"sm": "13.0"}),)})
    ran = run(["plan", "--seat", "quality", "--json"], World(tmp_path, host))
    assert (ran.code, ran.error["code"]) == (5, "no_seat_for_card")


@pytest.mark.parametrize(("setting", "own"), [("model=a/b", "--model"), ("port=9", "--port"), ("host=::", "--lan")])
def test_what_aeonctl_has_an_option_for_is_not_a_setting(world: World, setting: str, own: str) -> None:
    ran = run(["plan", "--seat", "stock", "--set", setting, "--json"], world)
    assert (ran.code, ran.error["code"]) == (2, "setting_has_an_option")
    assert own in ran.error["hint"]


FLASHINFER, NVFP4_KV = "flashinfer-fp8-sm120", "nvfp4-kv-with-dflash"


@pytest.mark.parametrize(
    ("seat", "host", "settings", "rule"),
    [
        ("quality", "rtx-5090", ["attention-backend=flashinfer"], FLASHINFER),
        ("judge", "rtx-5090", ["kv-cache-dtype=fp8", "attention-config.backend=FLASHINFER"], FLASHINFER),
        ("judge", "rtx-5090", ["kv-cache-dtype=fp8", 'attention-config={"backend":"FlashInfer"}'], FLASHINFER),
        ("stock", "rtx-5090", ["spec-method=dflash", "spec-model=z-lab/x"], "dflash-on-32gb"),
        (
            "daily",
            "dgx-spark",
            ["speculative-config=", "kv-cache-dtype=nvfp4", "spec-method=dflash"],
            "nvfp4-kv-with-dflash",
        ),
        ("daily", "dgx-spark", ["speculative-config.method="], "speculative-method"),
        ("quality", "rtx-5090", ["tensor-parallel-size=4"], "ranks-exceed-gpus"),
        ("quality", "rtx-5090", ["gpu-memory-utilization=1.5"], "utilization-out-of-range"),
        ("daily", "dgx-spark", ["gpu-memory-utilization=0,55"], "option-unknown"),
        ("quality", "rtx-5090", ["max-model-len=abc"], "option-unknown"),
        ("quality", "rtx-5090", ["max-num-seqs=0"], "count-out-of-range"),
        ("quality", "rtx-5090", ["served-model-name=--trust"], "option-unknown"),
        ("quality", "rtx-5090-wsl2", ["max-num-batched-tokens=abc"], "option-unknown"),
    ],
)
def test_no_other_spelling_gets_past_a_rule(world: World, seat: str, host: str, settings: list[str], rule: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = run(["plan", "--seat", seat, "--as", host, *words, "--json"], world)
    assert ran.code == 5
    assert rule in [refusal["rule"] for refusal in ran.plan["refusals"]]


@pytest.mark.parametrize(
    "word",
    [
        "DB_PASS=hunter2",
        "GITHUB_PAT=hunter2",
        "MYPASSWORD=hunter2",
        "COOKIE=hunter2",
        "HTTPS_PROXY=http://me:hunter2@proxy",
    ],
)
def test_a_secret_by_any_name_is_handed_on(world: World, word: str) -> None:
    ran = run(["plan", "--seat", "quality", "--env", word, "--json"], world)
    assert ran.code == 0
    assert "hunter2" not in ran.out + ran.err
    assert ran.plan["container"]["env"][word.partition("=")[0]] is None


@pytest.mark.parametrize("word", ["hf-tokn=hunter2", "api_keey=hunter2"])
def test_a_slip_in_a_secret_option_shows_nothing(world: World, word: str) -> None:
    for form in ([], ["--json"]):
        ran = run(["plan", "--seat", "quality", "--set", word, *form], world)
        assert ran.code == 5
        assert "hunter2" not in ran.out + ran.err


def test_two_different_cards_are_no_pair(tmp_path: Path) -> None:
    (first,) = bundled_host("rtx-5090").gpus or ()
    (second,) = bundled_host("rtx-pro-6000").gpus or ()
    host = bundled_host("rtx-5090").model_copy(update={"gpus": (first, second.model_copy(update={"index": 1}))})
    ran = run(["plan", "--seat", "rtx-5090-x2/stock", "--json"], World(tmp_path, host))
    assert "gpu-count-short" in [refusal["rule"] for refusal in ran.plan["refusals"]]


def test_what_would_fit_is_named(world: World) -> None:
    for host in ("h200", "no-gpu"):
        ran = run(["plan", "--seat", "quality", "--as", host, "--json"], world)
        assert "cpu/try" in ran.error["fitting"]
        assert ran.error["hint"].startswith(f"what would fit {host}: --seat ")


@pytest.mark.parametrize("seat", ["qualty", "rtx-5090/qualty", "", "/", "a/b/c"])
def test_a_seat_that_does_not_exist(world: World, seat: str) -> None:
    ran = run(["plan", "--seat", seat, "--json"], world)
    assert (ran.code, ran.error["code"]) == (3, "seat_not_found")
    if "qualty" in seat:
        assert ran.error["hint"] == f"did you mean {seat.replace('qualty', 'quality')}?"


def refusals(world: World, *words: str) -> list[tuple[str, str]]:
    ran = run(["plan", "--seat", "quality", "--json", *words], world)
    assert ran.code == (5 if ran.plan["refusals"] else 0)
    return [(refusal["why"], refusal["remedy"]) for refusal in ran.plan["refusals"]]


def test_an_unknown_option_names_the_nearest(world: World) -> None:
    assert refusals(world, "--set", "max-modle-len=1") == [
        ("--max-modle-len is not an option of vLLM 0.27.1", "did you mean --max-model-len?")
    ]
    assert refusals(world, "--set", "qqqqqqqq=1") == [
        ("--qqqqqqqq is not an option of vLLM 0.27.1", "leave it out: --set qqqqqqqq=")
    ]
    assert refusals(world, "--set", "qqqqqqqq=1", "--set", "wwwww=1", "--waive", "option-unknown") == []


def own_image(world: World, vllm: str | None) -> list[str]:
    ref = "example.org/vllm:1"
    world.registry.images[ref] = ImageFacts(
        ref=ref, facts_from=FactsFrom.REGISTRY, arch="amd64", sm=("12.0",), cuda="13.0", vllm=vllm
    )
    return ["--image", ref]


@pytest.mark.parametrize(
    ("vllm", "judged"),
    [
        ("0.27.1", None),
        ("0.32.0", "vLLM 0.32.0"),
        ("0.33.0", "vLLM 0.33.0"),
        ("0.34.0", "vLLM 0.33.0 (the image has 0.34.0)"),
        ("0.29.0", None),
        (None, None),
    ],
)
def test_a_removed_option(world: World, vllm: str | None, judged: str | None) -> None:
    found = refusals(world, "--set", "calculate-kv-scales=true", *own_image(world, vllm))
    assert [why for why, _ in found] == (
        [] if judged is None else [f"--calculate-kv-scales is not an option of {judged}"]
    )


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("max-num-seqs=four", "--max-num-seqs 'four': 'four' is not a whole number (vLLM 0.27.1)"),
        ("gpu-memory-utilization=much", "--gpu-memory-utilization 'much': 'much' is not a number (vLLM 0.27.1)"),
        ("max-num-seqs", "--max-num-seqs True: it needs a value (vLLM 0.27.1)"),
        ("trust-remote-code=maybe", "--trust-remote-code 'maybe': it is a switch: true or false (vLLM 0.27.1)"),
        ("limit-mm-per-prompt=many", "--limit-mm-per-prompt 'many': it needs JSON (vLLM 0.27.1)"),
        ("served-model-name.x=1", "--served-model-name {'x': 1}: it takes plain values (vLLM 0.27.1)"),
        ("max-num-seqs.x=1", "--max-num-seqs {'x': 1}: it takes one plain value (vLLM 0.27.1)"),
    ],
)
def test_a_value_that_vllm_would_not_take(world: World, setting: str, why: str) -> None:
    assert why in [found for found, _ in refusals(world, "--set", setting)]


def test_a_choice_that_does_not_exist(world: World) -> None:
    ((why, _),) = refusals(world, "--set", "kv-cache-dtype=fp7")
    assert why.startswith("--kv-cache-dtype 'fp7': 'fp7' is not one of auto, ")


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        (["--set", "limit-mm-per-prompt=[1]"], ["--limit-mm-per-prompt", "[1]"]),
        (["--set", "limit-mm-per-prompt=5"], ["--limit-mm-per-prompt", "5"]),
        (["--set", "served-model-name=a,b"], ["--served-model-name", "a", "b"]),
        (["--set", "served_model_name=a"], ["--served-model-name", "a"]),
        (["--set", "no-enable-chunked-prefill"], ["--no-enable-chunked-prefill"]),
        (["--set", "speculative-config.num_speculative_tokens=2"], ["--speculative-config"]),
        (["--unset", "max-model-len"], []),
        (["--unset", "nothing-of-the-kind"], []),
    ],
)
def test_settings(world: World, words: list[str], argv: list[str]) -> None:
    command = run(["plan", "--seat", "quality", "--json", *words], world).plan["command"]
    if argv:
        at = command.index(argv[0])
        assert command[at : at + len(argv)] == argv
    else:
        assert words[1] not in " ".join(command)


def test_a_setting_that_changes_nothing_is_no_decision(world: World) -> None:
    plan = run(["plan", "--seat", "quality", "--json", "--set", "max-num-seqs=4"], world).plan
    assert "--set" not in {decision["rule"] for decision in plan["decisions"]}


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "words",
    [
        ["--set", f"api-key={SECRET}"],
        ["--set", f"--api_key={SECRET}"],
        ["--set", f"hf-token={SECRET}"],
        ["--set", f"api-key={SECRET}", "--waive", "secret-in-argv"],
        ["--set", f"api key={SECRET}"],
        ["--set", f"apikey={SECRET}", "--waive", "option-unknown"],
        ["--env", f"HF_TOKEN={SECRET}"],
        ["--env", f"X_TOKEN={SECRET}"],
        ["--env", f"VLLM_API_KEY={SECRET}"],
        ["--env", "HF_TOKEN"],
        ["--env", f"X TOKEN={SECRET}"],
    ],
)
@pytest.mark.parametrize("command", [["plan"], ["plan", "--explain"], ["up"], ["up", "--detach"]])
def test_a_secret_is_never_shown(world: World, words: list[str], command: list[str]) -> None:
    world.environment["HF_TOKEN"] = SECRET
    for more in ([], ["--json"], ["-v"]):
        ran = run([*command, "--seat", "quality", *words, *more], world)
        assert ran.code == (0 if words[0] == "--env" and "X TOKEN" not in words[1] else 2 if " " in words[1] else 5)
        assert SECRET not in ran.out + ran.err
    for spec, _ in world.docker.started:
        assert SECRET not in spec.model_dump_json()


def test_secrets_reach_the_engine(world: World) -> None:
    run(["up", "--seat", "quality", "--env", f"X_TOKEN={SECRET}", "--env", "OTHER_KEY", "--detach"], world)
    ((spec, environment),) = world.docker.started
    assert (spec.env["X_TOKEN"], spec.env["OTHER_KEY"]) == (None, None)
    assert environment["X_TOKEN"] == SECRET


def test_env_and_name_and_port(world: World) -> None:
    words = ["--env", "A=1", "--env", "A=2", "--name", "aeon-2", "--port", "9001"]
    plan = run(["plan", "--seat", "quality", "--json", *words], world).plan
    assert plan["container"]["env"]["A"] == "2"
    assert plan["container"]["name"] == "aeon-2"
    assert plan["container"]["publish"] == ["127.0.0.1:9001:8000"]
    spark = run(["plan", "--seat", "daily", "--as", "dgx-spark", "--json", "--port", "9001"], world).plan
    assert spark["command"][spark["command"].index("--port") + 1] == "9001"
    lan = run(["plan", "--seat", "daily", "--as", "dgx-spark", "--json", "--lan"], world).plan
    assert "--host" not in lan["command"]


@pytest.mark.parametrize("name", ["", "a", "a b", "-x", "a/b", "ä-engine", "x" * 200, "a;rm"])
def test_a_name_that_docker_would_not_take(world: World, name: str) -> None:
    ran = run(["plan", "--seat", "quality", "--name", name, "--json"], world)
    assert (ran.code, ran.error["code"]) == (2, "name_invalid")


def test_an_image_that_nobody_can_ask_about(world: World) -> None:
    down = DownloadError("registry_unreachable", "the registry does not answer")
    world.registry.images["example.org/vllm:1"] = down
    ran = run(["plan", "--seat", "quality", "--image", "example.org/vllm:1", "--json"], world)
    assert ran.code == 0
    (note,) = [remark["message"] for remark in ran.plan["warnings"] if remark["rule"] == "image-note"]
    assert note == (
        "nobody could be asked about example.org/vllm:1: the registry does not answer; "
        "it is judged by what is known of it here"
    )
    assert run(["up", "--seat", "quality", "--image", "example.org/vllm:1", "--json"], world).error["code"] == (
        "registry_unreachable"
    )
    offline = run(["plan", "--seat", "quality", "--image", "example.org/vllm:1", "--offline", "--json"], world)
    assert any("--offline forbids asking" in remark["message"] for remark in offline.plan["warnings"])
    gone = run(["plan", "--seat", "quality", "--image", "example.org/none:1", "--json"], world)
    assert (gone.code, gone.error["code"]) == (6, "image_not_found")


def test_an_image_that_is_here_is_asked_itself(world: World) -> None:
    ref = "aeonctl-test/vllm:1"
    world.docker.images[ref] = ImageFacts(ref=ref, facts_from=FactsFrom.LOCAL, arch="amd64", sm=("12.0",), cuda="13.0")
    plan = run(["plan", "--seat", "quality", "--image", ref, "--json"], world).plan
    assert (plan["image"]["facts_from"], plan["image"]["ref"]) == ("local", ref)
    world.docker.silence = HostError("docker_unreachable", "Docker does not answer")
    assert run(["plan", "--seat", "quality", "--image", ref, "--json"], world).code == 6


@pytest.mark.parametrize("image", ["", "UPPER/x", "a b", "x@sha256:1", "a//b"])
@pytest.mark.parametrize("more", [[], ["--offline"], ["--rehearse", "rtx-5090"]])
def test_a_reference_that_docker_would_not_take(world: World, image: str, more: list[str]) -> None:
    ran = run(["plan", "--seat", "quality", "--image", image, "--json", *more], world)
    assert (ran.code, ran.error["code"]) == (2, "image_reference_invalid")


def test_a_rehearsal_of_another_image(world: World) -> None:
    argv = ["plan", "--seat", "quality", "--rehearse", "rtx-5090", "--image", "example.org/vllm:2", "--json"]
    ran = run(argv, world)
    assert (ran.plan["image"]["ref"], ran.plan["image"]["digest"]) == ("example.org/vllm:2", None)
    assert run(["plan", "--seat", "quality", "--rehearse", "rtx-5090", "--as", "h200", "--json"], world).code == 2
    assert "# REHEARSAL" in run(["plan", "--seat", "quality", "--rehearse", "rtx-5090"], world).out


@pytest.mark.parametrize("model", ["", "a", "a/b/c", "a /b", "a/b@", "a/b@../x", ".a/b", "a/b@x y"])
def test_a_model_that_the_hub_would_not_take(world: World, model: str) -> None:
    ran = run(["plan", "--seat", "quality", "--model", model, "--json"], world)
    assert (ran.code, ran.error["code"] if ran.code else "") in ((3, "model_name_invalid"), (0, ""))
    assert ran.code == 3 or model == "a/b@"


def test_another_model_and_drafter(world: World) -> None:
    plan = run(["plan", "--seat", "quality", "--model", "org/name@v1", "--json"], world).plan
    assert plan["model"]["repo"] == "org/name"
    assert plan["command"][:2] == ["serve", "/model"]
    facts = ModelFacts(path="/data/d", layout=Layout.PLAIN, present=True, repo="kept/out")
    world.hub.folders["/data/d"] = facts
    spark = run(["plan", "--seat", "daily", "--as", "dgx-spark", "--drafter", "/data/d", "--json"], world).plan
    assert spark["drafter"]["path"] == "/data/d"
    assert ("/data/d", "/drafter") in [(m["source"], m["target"]) for m in spark["container"]["mounts"]]
    stock = run(["plan", "--seat", "stock", "--model", "/data/d", "--json"], world).plan
    assert stock["command"][:3] == ["serve", "--max-model-len", "32768"]
    assert stock["command"][-2:] == ["--model", "/model"]
    missing = run(["plan", "--seat", "quality", "--model", "./nothing", "--json"], world)
    assert (missing.code, missing.error["code"]) == (3, "model_folder_invalid")


def test_waiving_no_rule(world: World) -> None:
    ran = run(["plan", "--seat", "quality", "--waive", "wsl2-chunk-cop", "--json"], world)
    assert (ran.code, ran.error["hint"]) == (3, "did you mean wsl2-chunk-cap?")


def test_a_template_that_cannot_be_filled(world: World) -> None:
    world.profiles.template_text = "{{ nothing }}"
    ran = run(["plan", "--seat", "quality", "--json"], world)
    assert (ran.code, ran.error["code"]) == (3, "template_error")


def test_a_host_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    assert run(["doctor", "--save", str(path)], world).code == 0
    plan = run(["plan", "--seat", "quality", "--as", str(path), "--json"], world).plan
    assert (plan["host"], plan["recorded_host"]) == ("host", True)
    unknown = run(["plan", "--seat", "quality", "--as", "rtx-509", "--json"], world)
    assert (unknown.code, unknown.error["code"], unknown.error["hint"]) == (
        3,
        "host_not_found",
        "did you mean rtx-5090?",
    )


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("seats", {"id": "rtx-5090/quality"}, "Field required"),
        ("seats", [], None),
        ("rules", [{"id": "x", "when": {}, "then": {}, "why": "", "source": ""}], "exactly one of cap"),
        ("cards", 5, "not valid"),
        ("images", [{"id": "x", "digest": "5"}], "a digest is sha256:"),
    ],
)
def test_a_row_of_the_users(world: World, kind: str, data: object, words: str | None) -> None:
    world.profiles.more = {kind: [Document("my.yaml", "my", data)]}
    ran = run(["plan", "--seat", "quality", "--json"], world)
    assert ran.code == (0 if words is None else 3)
    if words is not None:
        assert ran.error["message"] == "my.yaml is not valid"
        assert words in " ".join([*ran.error["causes"], ran.error["message"]])
