"""Parity through the command line: what ``plan`` prints for each recipe is the document's, and every difference that a
host forces is a decision with its reason, its rule and its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.core.catalog import Catalog
from aeonctl.core.flags import FlagTable
from aeonctl.core.options import canonical
from tests.data.profiles import catalog
from tests.data.test_recipes import RECIPES, SEATS, resolved
from tests.fakes.ports import COMMIT, FakeHub, World, run

HOSTS = {
    "rtx-5090": ("rtx-5090", "rtx-5090-wsl2"),
    "rtx-pro-6000": ("rtx-pro-6000", "rtx-pro-6000-wsl2"),
    "dgx-spark": ("dgx-spark",),
}
CASES = [(seat, host) for seat in SEATS for host in HOSTS[seat.partition("/")[0]]]


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog()


def table_of(known: Catalog, seat: str) -> FlagTable:
    return known.flags.deciding(known.images[known.seats[seat].image].vllm)[-1]


def read_argv(words: list[str], table: FlagTable) -> dict[str, Any]:
    """An argv back into options: JSON as JSON, lists as lists."""
    found: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word
            found[name] = []
        else:
            found[name].append(word)
    options: dict[str, Any] = {}
    for name, values in found.items():
        hit = table.find(name)
        kind = hit[1].kind if hit else "value"
        if not values:
            options[name[2:]] = True
        elif kind == "json":
            options[name[2:]] = json.loads(values[0])
        else:
            options[name[2:]] = values if kind == "list" else values[0]
    return dict(canonical(options, table))


def differences(plan: dict[str, Any], recipe: dict[str, Any], table: FlagTable) -> dict[str, Any]:
    """Every way in which a plan differs from its recipe, by the name that a decision would give it."""
    expected = dict(canonical({name[2:]: value for name, value in recipe["options"].items()}, table))
    start = 2 if recipe.get("command") else 1
    actual = read_argv(plan["command"][start:], table)
    found: dict[str, Any] = {}
    for name in [*expected, *(name for name in actual if name not in expected)]:
        if actual.get(name) != expected.get(name):
            found |= changed(f"--{name}", expected.get(name), actual.get(name))
    wanted, container = recipe["container"], plan["container"]
    env = wanted.get("env", {}) | dict.fromkeys(wanted.get("env_passthrough", ()))
    for name in {**env, **container["env"]}:
        if name not in env or env[name] != container["env"].get(name, "absent"):
            found[name] = (env.get(name), container["env"].get(name))
    for name in ("ipc", "shm_size", "gpus", "runtime"):
        if container[name] != wanted.get(name):
            found[name] = (wanted.get(name), container[name])
    if container["network"] != wanted.get("network", "bridge"):
        found["network"] = (wanted.get("network"), container["network"])
    if "publish" in wanted and container["publish"] != [wanted["publish"]]:
        found["publish"] = (wanted["publish"], container["publish"][0])
    targets = [mount["target"] for mount in container["mounts"] if mount["read_only"]]
    if targets != wanted.get("mounts_ro", []):
        found["mounts"] = (wanted.get("mounts_ro"), targets)
    assert [m["target"] for m in container["mounts"] if not m["read_only"]] == wanted.get("mounts_rw", [])
    assert container["name"] == wanted.get("name", container["name"])
    assert (container["entrypoint"], container["restart"]) == ("vllm", "no")
    return found


def changed(name: str, before: Any, after: Any) -> dict[str, Any]:
    """A changed option; inside JSON only the keys that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return {f"{name}.{key}": (before.get(key), after.get(key)) for key in keys}
    return {name: (before, after)}


LOOPBACK = {"publish": ("8000:8000", "127.0.0.1:8000:8000")}
JUDGE_PORT = {"publish": ("18081:18081", "127.0.0.1:18081:18081")}
LINKS = {"mounts": (["/model"], ["/model", "/blobs"])}
PIN = {"VLLM_WSL2_ENABLE_PIN_MEMORY": (None, "1")}
CAPPED = {"--max-num-batched-tokens": ("8192", "2048")}

DIFFERENCES: dict[tuple[str, str], dict[str, Any]] = {
    ("rtx-5090/quality", "rtx-5090"): LOOPBACK | LINKS,
    ("rtx-5090/quality", "rtx-5090-wsl2"): LOOPBACK | LINKS | PIN | CAPPED,
    ("rtx-5090/speed", "rtx-5090"): LOOPBACK | LINKS,
    ("rtx-5090/speed", "rtx-5090-wsl2"): LOOPBACK | LINKS | PIN | CAPPED,
    ("rtx-pro-6000/quality", "rtx-pro-6000"): LOOPBACK | LINKS,
    ("rtx-pro-6000/quality", "rtx-pro-6000-wsl2"): LOOPBACK | LINKS | PIN | CAPPED,
    ("rtx-pro-6000/speed", "rtx-pro-6000"): LOOPBACK | LINKS,
    ("rtx-pro-6000/speed", "rtx-pro-6000-wsl2"): LOOPBACK
    | LINKS
    | PIN
    | {"--max-num-batched-tokens": ("16384", "2048")},
    ("rtx-5090/judge", "rtx-5090"): JUDGE_PORT | LINKS,
    ("rtx-5090/judge", "rtx-5090-wsl2"): JUDGE_PORT | LINKS | PIN,
    ("rtx-pro-6000/judge", "rtx-pro-6000"): JUDGE_PORT | LINKS,
    ("rtx-pro-6000/judge", "rtx-pro-6000-wsl2"): JUDGE_PORT | LINKS | PIN,
    ("dgx-spark/daily", "dgx-spark"): {
        "--host": (None, "127.0.0.1"),
        "--speculative-config.model": ("/drafter", f"/drafter/snapshots/{COMMIT}"),
        "mounts": (["/model", "/drafter"], ["/model", "/blobs", "/drafter"]),
    },
    ("rtx-5090/stock", "rtx-5090"): LOOPBACK,
    ("rtx-5090/stock", "rtx-5090-wsl2"): LOOPBACK | PIN | {"--max-num-batched-tokens": (None, "2048")},
}


def planned(world: World, seat: str, host: str, *more: str) -> dict[str, Any]:
    ran = run(["plan", "--as", host, "--seat", seat, "--json", *more], world)
    assert ran.code == 0, ran.envelope["errors"]
    return ran.plan


def test_every_recipe_is_compared() -> None:
    assert set(DIFFERENCES) == set(CASES)


@pytest.mark.parametrize(("seat", "host"), CASES)
def test_a_plan_is_the_documents(tmp_path: Path, known: Catalog, seat: str, host: str) -> None:
    recipe = resolved(RECIPES[SEATS[seat]])
    plan = planned(World(tmp_path), seat, host)
    found = differences(plan, recipe, table_of(known, seat))
    assert found == DIFFERENCES[seat, host]
    decided = {decision["option"]: decision for decision in plan["decisions"]}
    guarded = {"oom-score-adj", "ulimit core"} if host.startswith("dgx-spark") else set()
    assert set(decided) - {"mounts", "--speculative-config.model"} == guarded | set(found) - {
        "mounts",
        "--speculative-config.model",
    }
    for name in found:
        decision = decided[name]
        assert decision["why"]
        assert decision["rule"]
        assert decision["source"]
        if name != "mounts":
            assert (decision["before"], decision["after"]) == found[name]
    for name in recipe.get("absent", ()):
        assert name not in plan["command"]


@pytest.mark.parametrize("seat", [seat for seat in SEATS if "wsl2" in resolved(RECIPES[SEATS[seat]])])
def test_the_wsl2_row(tmp_path: Path, seat: str) -> None:
    host = f"{seat.partition('/')[0]}-wsl2"
    plan = planned(World(tmp_path), seat, host)
    for name, value in resolved(RECIPES[SEATS[seat]])["wsl2"].items():
        assert plan["command"][plan["command"].index(name) + 1] == value


def test_lan_is_what_the_documents_publish(tmp_path: Path) -> None:
    plan = planned(World(tmp_path), "quality", "rtx-5090", "--lan")
    assert plan["container"]["publish"] == ["0.0.0.0:8000:8000"]
    assert "publish" not in {decision["option"] for decision in plan["decisions"]}


MODEL = "AEON-7/Qwen3.8-27B-AEON-ULTIMATE-UNCENSORED-NVFP4-MIXED"


EMPTY_WEIGHTS = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file without tensors."""


def lay_out(root: Path, layout: str) -> Path:
    """A model in a hub cache; returns the snapshot's folder. ``shared`` blobs are links into a store of all repos."""
    repo = root / "hub" / f"models--{MODEL.replace('/', '--')}"
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    for number, (name, content) in enumerate((("config.json", b"{}"), ("model.safetensors", EMPTY_WEIGHTS))):
        blob = repo / "blobs" / f"{number:040x}"
        if layout == "shared":
            store = root / "hub" / "blobs" / f"{number:040x}"
            store.parent.mkdir(exist_ok=True)
            store.write_bytes(content)
            blob.symlink_to(f"../../blobs/{number:040x}")
        else:
            blob.write_bytes(content)
        (snapshot / name).symlink_to(f"../../blobs/{number:040x}")
    return snapshot


@pytest.mark.parametrize("layout", ["plain", "snapshot", "shared"])
def test_the_same_options_for_every_layout(tmp_path: Path, known: Catalog, layout: str) -> None:
    world = World(tmp_path)
    world.hub = HuggingFaceHub({"HF_HOME": str(tmp_path)}, home=tmp_path)  # type: ignore[assignment]
    more: list[str] = []
    if layout == "plain":
        folder = tmp_path / "my model"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(EMPTY_WEIGHTS)
        more = ["--model", str(folder)]
    else:
        folder = lay_out(tmp_path, layout)
    plan = planned(world, "rtx-5090/quality", "rtx-5090", *more)
    hub, root = str(tmp_path / "hub"), str(folder.parent.parent)
    mounts = {
        "plain": [(str(folder), "/model")],
        "snapshot": [(str(folder), "/model"), (f"{root}/blobs", "/blobs")],
        "shared": [(hub, "/hub")],
    }[layout]
    assert [(mount["source"], mount["target"]) for mount in plan["container"]["mounts"]] == mounts
    served = f"/hub/models--{MODEL.replace('/', '--')}/snapshots/{COMMIT}" if layout == "shared" else "/model"
    assert plan["command"][:2] == ["serve", served]
    assert (plan["model"]["present"], plan["model"]["layout"]) == (True, layout)
    links = {
        "plain": {},
        "snapshot": LINKS,
        "shared": {"mounts": (["/model"], ["/hub"])},
    }[layout]
    found = differences(plan, resolved(RECIPES["rtx-5090/quality"]), table_of(known, "rtx-5090/quality"))
    assert found == LOOPBACK | links


def test_a_model_that_is_not_here_is_read_when_the_command_runs(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.hub = FakeHub(present=set())
    ran = run(["plan", "--as", "rtx-5090", "--seat", "quality"], world)
    assert f"# not on this disk yet; first run: aeonctl pull-model {MODEL}\n" in ran.out
    assert '/snapshots/"$(cat /home/user/.cache/huggingface/hub/models--AEON-7--Qwen3.8' in ran.out
