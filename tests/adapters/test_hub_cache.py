"""The hub's cache and plain model folders, from real files and links."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.adapters.hub_cache import hub_folder, quantization
from aeonctl.core.model import Layout
from aeonctl.errors import ConfigurationError
from tests.fakes.hub_server import weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"
INDEX = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
FILES = {
    "config.json": "{}",
    "model.safetensors.index.json": INDEX,
    "model-1.safetensors": weights(b"1", 201).decode(),
    "model-2.safetensors": weights(b"2", 202).decode(),
    "deep/er/file.txt": "text",
}


@pytest.fixture
def hub(tmp_path: Path) -> HuggingFaceHub:
    return HuggingFaceHub({"HF_HOME": str(tmp_path)}, home=tmp_path / "home")


def lay_snapshot(hub: Path, files: dict[str, str], *, shared: bool = False, tree: bool = False) -> Path:
    """A snapshot as huggingface_hub leaves it; with ``shared``, weights lie in the store of the whole cache."""
    root = hub / "models--org--model"
    snapshot = root / "snapshots" / COMMIT
    (root / "refs").mkdir(parents=True)
    (root / "refs/main").write_text(COMMIT)
    (root / "blobs").mkdir()
    for number, (name, content) in enumerate(files.items()):
        blob = root / "blobs" / f"etag{number}"
        if shared and name.endswith(".safetensors"):
            store = hub / "blobs" / "ab" / f"ab{number}"
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_text(content)
            blob.symlink_to(Path("../../blobs/ab") / store.name)
        else:
            blob.write_text(content)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if tree:
        listed = {name: {"size": len(content), "blob_id": "x"} for name, content in files.items()}
        (root / "trees").mkdir()
        (root / f"trees/{COMMIT}.json").write_text(json.dumps({"format_version": 1, "files": listed}))
    return snapshot


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/me/.cache/huggingface/hub"),
        ({"HOME": "/other"}, "/home/me/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/xdg", "HF_HOME": "~/hf"}, "/home/me/hf/hub"),
        ({"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HUB_CACHE": "$DISK/${X}"}, "/disk/${X}"),
        ({"HF_HOME": "", "HF_HUB_CACHE": ""}, "/home/me/.cache/huggingface/hub"),
        ({"HF_HOME": "~"}, "/home/me/hub"),
    ],
)
def test_where_the_cache_is(environment: dict[str, str], expected: str) -> None:
    assert hub_folder({**environment, "DISK": "/disk"}, Path("/home/me")) == Path(expected)


def test_a_relative_cache_is_made_absolute() -> None:
    assert hub_folder({"HF_HOME": "hf"}) == Path.cwd() / "hf/hub"


@pytest.mark.parametrize("tree", [False, True], ids=["old-cache", "listed"])
@pytest.mark.parametrize("shared", [False, True], ids=["own-blobs", "shared-blobs"])
def test_a_whole_snapshot(hub: HuggingFaceHub, tmp_path: Path, shared: bool, tree: bool) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES, shared=shared, tree=tree)
    facts = hub.locate("org/model", None)
    assert (facts.present, facts.missing) == (True, ())
    assert facts.layout is (Layout.SHARED if shared else Layout.SNAPSHOT)
    assert (facts.path, facts.revision, facts.files) == (str(snapshot), COMMIT, 5)
    assert facts.bytes == sum(map(len, FILES.values()))
    assert hub.folder(snapshot) == facts
    (tmp_path / "short").symlink_to(snapshot)
    assert hub.folder(tmp_path / "short") == facts


def test_a_snapshot_of_copies_is_plain(hub: HuggingFaceHub, tmp_path: Path) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES)
    for link in [path for path in snapshot.rglob("*") if path.is_symlink()]:
        content = link.read_bytes()
        link.unlink()
        link.write_bytes(content)
    assert (hub.locate("org/model", None).layout, hub.locate("org/model", None).present) == (Layout.PLAIN, True)


def test_a_cache_behind_links(hub: HuggingFaceHub, tmp_path: Path) -> None:
    """The repository's folder moved to another disk: its own blobs move along, shared ones do not."""
    lay_snapshot(tmp_path / "big", FILES)
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub/models--org--model").symlink_to(tmp_path / "big/models--org--model")
    facts = hub.locate("org/model", None)
    assert (facts.present, facts.layout) == (True, Layout.SNAPSHOT)
    lay_snapshot(tmp_path / "other", FILES, shared=True)
    (tmp_path / "hub/models--org--model").unlink()
    (tmp_path / "hub/models--org--model").symlink_to(tmp_path / "other/models--org--model")
    facts = hub.locate("org/model", None)
    assert not facts.present
    assert "its link leads outside" in facts.missing[0]


def test_what_is_not_in_the_cache(hub: HuggingFaceHub, tmp_path: Path) -> None:
    facts = hub.locate("org/model", "v1")
    root = f"{tmp_path}/hub/models--org--model"
    assert facts.model_dump(exclude_defaults=True) == {
        "repo": "org/model",
        "revision_file": f"{root}/refs/v1",
        "path": f"{root}/snapshots/<revision>",
        "repo_root": root,
        "hub_root": f"{tmp_path}/hub",
        "hub_home": str(tmp_path),
    }
    pinned = hub.locate("org/model", COMMIT)
    assert (pinned.path, pinned.revision, pinned.revision_file) == (f"{root}/snapshots/{COMMIT}", COMMIT, None)
    elsewhere = HuggingFaceHub({"HF_HUB_CACHE": "/models"}).locate("org/model", None)
    assert (elsewhere.hub_root, elsewhere.hub_home) == ("/models", None)


@pytest.mark.parametrize("name", ["config.json", "model-2.safetensors", "deep/er/file.txt"])
def test_a_link_that_leads_nowhere(hub: HuggingFaceHub, tmp_path: Path, name: str) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES, tree=True)
    (snapshot / name).resolve().unlink()
    facts = hub.locate("org/model", None)
    assert not facts.present
    assert "<revision>" in facts.path
    (missing,) = facts.missing
    assert missing.startswith(f"{name}: its link leads nowhere")
    with pytest.raises(ConfigurationError) as caught:
        hub.folder(snapshot)
    assert (caught.value.code, name in caught.value.causes[0]) == ("model_folder_invalid", True)


def test_files_that_are_not_there(hub: HuggingFaceHub, tmp_path: Path) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES, tree=True)
    (snapshot / "model-2.safetensors").unlink()
    (snapshot / "deep/er/file.txt").unlink()
    assert hub.locate("org/model", None).missing == ("model-2.safetensors", "deep/er/file.txt")
    folder = hub.folder(snapshot)
    assert (folder.present, folder.missing) == (False, ("model-2.safetensors", "deep/er/file.txt"))


def test_a_size_that_is_not_the_listed_one(hub: HuggingFaceHub, tmp_path: Path) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES, tree=True)
    (snapshot / "model-2.safetensors").resolve().write_bytes(weights(b"2", 200))
    assert hub.locate("org/model", None).missing == ("model-2.safetensors: 200 bytes instead of 202",)


def test_a_download_that_has_not_finished(hub: HuggingFaceHub, tmp_path: Path) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", {"config.json": "{}"})
    assert hub.locate("org/model", None).missing == ("weights: there is no .safetensors file",)
    blob = tmp_path / "hub/models--org--model/blobs/etag7.incomplete"
    blob.write_text("half")
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{blob.name}")
    missing = hub.locate("org/model", None).missing
    assert missing[0] == "model.safetensors: a download that has not finished"
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").write_bytes(weights(b"w", 200))
    assert hub.locate("org/model", None).missing == ("blobs/etag7.incomplete: a download that has not finished",)


@pytest.mark.parametrize("content", ["", "main", "0" * 39, "é"])
def test_a_reference_that_is_no_commit(hub: HuggingFaceHub, tmp_path: Path, content: str) -> None:
    lay_snapshot(tmp_path / "hub", FILES)
    (tmp_path / "hub/models--org--model/refs/main").write_text(content)
    assert not hub.locate("org/model", None).present


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 1}', '{"files": {"a": 1}}', '{"files": {"a": {}}}'])
def test_a_listing_that_cannot_be_read_counts_as_none(hub: HuggingFaceHub, tmp_path: Path, content: str) -> None:
    lay_snapshot(tmp_path / "hub", FILES, tree=True)
    (tmp_path / f"hub/models--org--model/trees/{COMMIT}.json").write_text(content)
    assert hub.locate("org/model", None).present


@pytest.mark.parametrize("repo", ["..", "a\0b", "../../etc", "x" * 5000, ""])
def test_names_of_any_kind_raise_nothing(hub: HuggingFaceHub, repo: str) -> None:
    assert not hub.locate(repo, None).present
    assert not hub.locate("org/model", repo).present


def test_a_plain_folder(hub: HuggingFaceHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home/model"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/huge").write_text("not counted")
    (folder / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')
    (folder / "model.safetensors").write_bytes(weights(b"w", 200))
    (folder / "again.safetensors").symlink_to("model.safetensors")
    facts = hub.folder(folder)
    assert facts.entries is not None
    assert facts.model_dump(exclude_defaults=True) == {
        "present": True,
        "layout": Layout.PLAIN,
        "path": str(folder),
        "bytes": 448,
        "files": 3,
        "quantization": "fp8",
    }
    assert hub.folder(Path("~/model")) == facts
    monkeypatch.chdir(tmp_path)
    assert hub.folder(Path("home/model")) == facts


def test_a_plain_folder_that_is_not_whole(hub: HuggingFaceHub, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(INDEX)
    (tmp_path / "model-1.safetensors.incomplete").write_text("")
    assert hub.folder(tmp_path).missing == (
        "model-1.safetensors.incomplete: a download that has not finished",
        "model-1.safetensors",
        "model-2.safetensors",
    )
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert "model.safetensors.index.json: it names no shards" in hub.folder(tmp_path).missing


@pytest.mark.parametrize(
    ("target", "words"),
    [("gone", "leads nowhere"), ("config.json", "leads nowhere")],
)
def test_a_link_that_a_mount_would_break(hub: HuggingFaceHub, tmp_path: Path, target: str, words: str) -> None:
    (tmp_path / "config.json").symlink_to(target)
    with pytest.raises(ConfigurationError) as caught:
        hub.folder(tmp_path)
    assert caught.value.causes[0].startswith("config.json: its link")
    assert words in caught.value.causes[0]


@pytest.mark.parametrize(
    ("files", "named", "words"),
    [
        ([], "absent", "there is no "),
        (["model.gguf"], "", "GGUF"),
        (["model.gguf"], "model.gguf", "it is a file"),
        (["adapter_config.json"], "", "adapter"),
        (["notes.txt"], "", "there is no config.json in it"),
        ([], "", "there is no config.json in it"),
        ([], "a\0b", "null"),
        ([], "x" * 5000, "File name too long"),
    ],
)
def test_folders_that_are_no_models(
    hub: HuggingFaceHub, tmp_path: Path, files: list[str], named: str, words: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("")
    with pytest.raises(ConfigurationError) as caught:
        hub.folder(tmp_path / named)
    assert caught.value.code == "model_folder_invalid"
    assert words in caught.value.causes[0]
    assert caught.value.hint


def test_a_repositorys_folder_leads_to_its_snapshot(hub: HuggingFaceHub, tmp_path: Path) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES)
    with pytest.raises(ConfigurationError) as caught:
        hub.folder(snapshot.parent.parent)
    assert caught.value.hint == f"did you mean {snapshot}?"


MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION", "exclude_modules": []}}


@pytest.mark.parametrize(
    ("config", "modelopt", "expected"),
    [
        ({}, {}, None),
        ({"quantization_config": None}, {}, None),
        ({"quantization_config": "?"}, {"quantization": 1}, None),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, {}, "nvfp4"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}}, {}, "nvfp4-mixed"),
        ({}, MODELOPT, "nvfp4-mixed"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, MODELOPT, "nvfp4-mixed"),
        ({}, {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "format": "x"}}, {}, "compressed-tensors"),
        ({"quantization_config": {"quant_method": "auto-round", "bits": 4}}, {}, "auto-round"),
        ({"quantization_config": {"quant_method": 4}}, {"quantization": {"quant_algo": None}}, None),
    ],
)
def test_quantization(config: dict[str, Any], modelopt: dict[str, Any], expected: str | None) -> None:
    assert quantization(config, modelopt) == expected
