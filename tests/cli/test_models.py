"""pull-model, show and --model as a user types them, against a hub on loopback and folders on this disk."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.main import main
from tests.fakes.hub_server import HubServer, hub_server, weights

REPO = "org/model"
FILES = {
    "config.json": b'{"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 4096}',
    "model.safetensors": weights(b"w", 3000),
}
ITS_MODEL = "AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-Multimodal-NVFP4-MTP"
GATED_SEAT, GATED_DRAFTER = "daily", "z-lab/Qwen3.6-27B-DFlash"
TOTAL = sum(map(len, FILES.values()))


@dataclass
class Terminal:
    """One user's machine: ``run`` types a line and gives the envelope; ``said`` is what came on stderr."""

    folder: Path
    server: HubServer
    environment: dict[str, str]
    said: list[str] = field(default_factory=list)

    def run(self, *argv: str) -> dict[str, Any]:
        out, err = io.StringIO(), io.StringIO()
        ports = build_ports(None, self.environment)
        main(["--json", *argv], ports, Output(as_json=True, out=out, err=err))
        self.said.append(err.getvalue())
        envelope: dict[str, Any] = json.loads(out.getvalue())
        return envelope

    def error(self, *argv: str) -> dict[str, Any]:
        envelope = self.run(*argv)
        assert not envelope["ok"], envelope
        error: dict[str, Any] = envelope["errors"][0]
        return {**error, "exit_code": envelope["exit_code"]}

    def text(self, *argv: str) -> str:
        out = io.StringIO()
        assert main(list(argv), build_ports(None, self.environment), Output(out=out, err=io.StringIO())) == 0
        return out.getvalue()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with hub_server() as server:
        environment = {
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": server.endpoint,
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "DOCKER_HOST": f"unix://{tmp_path}/no-docker.sock",
        }
        yield Terminal(tmp_path, server, environment)


def test_pull_model_tells_what_came(terminal: Terminal) -> None:
    commit = terminal.server.repository(REPO, FILES).branches["main"]
    dry = terminal.run("pull-model", REPO, "--dry-run")["data"]["model"]
    assert (dry["bytes"], dry["reused_bytes"]) == (TOTAL, 0)
    assert not (terminal.folder / "hf").exists()
    path = str(terminal.folder / f"hf/hub/models--org--model/snapshots/{commit}")
    expected = {"repo": REPO, "revision": commit, "path": path, "bytes": TOTAL, "files": 2}
    assert terminal.run("pull-model", REPO)["data"]["model"] == {**expected, "reused_bytes": 0}
    terminal.server.asked.clear()
    assert terminal.run("pull-model", REPO)["data"]["model"] == {**expected, "reused_bytes": TOTAL}
    assert len(terminal.server.asked) == 1
    terminal.server.asked.clear()
    assert terminal.run("pull-model", f"{REPO}@{commit}", "--verify")["ok"]
    assert terminal.server.asked == []
    assert "every file has the checksum" in terminal.said[-1]


def test_pull_model_follows_a_branch_that_moved(terminal: Terminal) -> None:
    repository = terminal.server.repository(REPO, FILES)
    terminal.run("pull-model", REPO)
    new = repository.commit({**FILES, "config.json": b'{"architectures": []}'})
    assert terminal.run("pull-model", REPO)["data"]["model"]["revision"] == new
    other = repository.commit({**FILES, "more.txt": b"more"}, branch="v2")
    assert terminal.run("pull-model", f"{REPO}@v2")["data"]["model"]["revision"] == other


def test_a_gated_drafter_is_told_before_the_first_byte(terminal: Terminal) -> None:
    terminal.server.repository(GATED_DRAFTER, FILES, gated=True, readers={"reader"})
    terminal.server.repository(ITS_MODEL, FILES)
    error = terminal.error("--as", "dgx-spark", "pull-model", "--seat", GATED_SEAT)
    assert (error["code"], error["exit_code"]) == ("gated", 6)
    assert GATED_DRAFTER in error["message"]
    assert terminal.server.downloads() == []
    terminal.server.tokens = {"reader"}
    del terminal.environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
    terminal.environment["HF_TOKEN"] = "reader"
    data = terminal.run("--as", "dgx-spark", "pull-model", "--seat", GATED_SEAT)["data"]
    assert [model["repo"] for model in data["models"]] == [ITS_MODEL, GATED_DRAFTER]
    assert data["model"]["repo"] == ITS_MODEL


def test_model_and_drafter_must_fit_together(terminal: Terminal) -> None:
    """Each would fit alone; the disk is judged by what both need."""
    import shutil

    half = shutil.disk_usage(terminal.folder).free * 2 // 3
    terminal.server.tokens = {"reader"}
    del terminal.environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
    terminal.environment["HF_TOKEN"] = "reader"
    for repo in (ITS_MODEL, GATED_DRAFTER):
        terminal.server.repository(repo, FILES, claimed={"model.safetensors": half})
    error = terminal.error("--as", "dgx-spark", "pull-model", "--seat", GATED_SEAT)
    assert (error["code"], error["needed"] > 2 * half) == ("disk_full", True)
    assert terminal.server.downloads() == []


def test_a_folder_needs_no_download(terminal: Terminal) -> None:
    folder = lay(terminal.folder / "model")
    assert terminal.error("pull-model", str(folder))["code"] == "nothing_to_pull"


def lay(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, content in {**FILES, **files}.items():
        (folder / name).write_bytes(content)
    return folder


def test_show_tells_what_a_folder_holds(terminal: Terminal) -> None:
    folder = lay(terminal.folder / "model", **{"chat_template.jinja": b"{{ messages }}"})
    data = terminal.run("--as", "rtx-5090", "show", str(folder))["data"]
    assert data["checkpoint"]["architecture"] == "Qwen3ForCausalLM"
    assert data["checkpoint"]["chat_template"]
    assert data["checkpoint"]["context"] == 4096
    assert (data["sm"], data["host"]) == ("12.0", "rtx-5090")
    assert {image["new_enough"] for image in data["images"]} <= {True, None}
    shown = terminal.text("--as", "rtx-5090", "show", str(folder))
    assert "architecture   Qwen3ForCausalLM\n" in shown
    assert "kernels on compute capability 12.0" in shown
    assert terminal.run("--as", "rtx-5090", "show", "quality")["data"]["seat"]["id"] == "rtx-5090/quality"


def test_a_folder_without_its_dot(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(terminal.folder / "models/mine")
    monkeypatch.chdir(terminal.folder)
    plan = ("--as", "rtx-5090", "plan", "--seat", "stock", "--model")
    for argv in ((*plan, "models/mine"), ("show", "models/mine")):
        error = terminal.error(*argv)
        assert (error["code"], error["hint"].endswith(" ./models/mine")) == ("model_name_ambiguous", True)
    assert terminal.run(*plan, "./models/mine")["data"]["plan"]["model"]["path"] == str(terminal.folder / "models/mine")


@pytest.mark.parametrize(
    ("files", "named", "words"),
    [
        ({"model.gguf": b"GGUF"}, "", "GGUF"),
        ({"adapter_config.json": b"{}", "adapter_model.safetensors": b""}, "", "adapter"),
        ({"notes.txt": b""}, "", "no config.json"),
        ({"config.json": b"{}"}, "config.json", "it is a file"),
        ({}, "absent", "there is no"),
    ],
)
def test_what_is_no_model(terminal: Terminal, files: dict[str, bytes], named: str, words: str) -> None:
    folder = terminal.folder / "thing"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    where = str(folder / named)
    for argv in (("show", where), ("--as", "rtx-5090", "plan", "--seat", "stock", "--model", where)):
        error = terminal.error(*argv)
        assert (error["code"], words in error["causes"][0]) == ("model_folder_invalid", True)


def test_links_that_cannot_be_mounted_are_refused(terminal: Terminal) -> None:
    folder = lay(terminal.folder / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/etc/hostname")
    plan = ("--as", "rtx-5090", "plan", "--seat", "stock", "--model", str(folder))
    refusals = terminal.run(*plan)["data"]["plan"]["refusals"]
    assert "model-not-mountable" in [refusal["rule"] for refusal in refusals]


def test_links_that_leave_the_folder_are_mounted_with_it(terminal: Terminal) -> None:
    folder = lay(terminal.folder / "model")
    (terminal.folder / "disk").mkdir()
    (folder / "model.safetensors").rename(terminal.folder / "disk/w")
    (folder / "model.safetensors").symlink_to("../disk/w")
    plan = terminal.run("--as", "rtx-5090", "plan", "--seat", "stock", "--model", str(folder))["data"]["plan"]
    mounts = {mount["target"]: mount["source"] for mount in plan["container"]["mounts"]}
    assert mounts["/disk/w"] == str(terminal.folder / "disk/w")
    assert "model-not-mountable" not in [refusal["rule"] for refusal in plan["refusals"]]
