"""A model whose files are links, in real containers: every file is found, and a real vLLM answers from it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.core.container import Mount
from aeonctl.core.model import ModelFacts, mount_drafter, mount_model
from tests.real import require

IMAGE, BUSYBOX = "vllm-cpu:0.32.0", "aeonctl-test/busybox:1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CACHE = Path(
    os.environ.get("AEONCTL_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aeonctl-tests"
)
TINY = CACHE / "models/tiny"


def lay_hub(hub: Path, *, shared: bool) -> Path:
    """The tiny model as a snapshot; with ``shared``, its weights lie in the store of the whole cache."""
    require((TINY / "hub").is_dir(), "the tiny model is not built: tests/engine/make-models.sh")
    shutil.copytree(TINY / "hub", hub, symlinks=True)
    root = hub / "models--test--tiny"
    if shared:
        for blob in (root / "blobs").iterdir():
            if len(blob.name) == 64:
                store = hub / "blobs" / blob.name[:2] / blob.name
                store.parent.mkdir(parents=True)
                blob.rename(store)
                blob.symlink_to(f"../../blobs/{blob.name[:2]}/{blob.name}")
    return root / "snapshots" / COMMIT


def lay_folder(base: Path) -> Path:
    """A folder of a user's own: weights by an absolute link through another link, the tokenizer by a relative one."""
    folder = base / "home/model"
    shutil.copytree(TINY / "flat", folder)
    (base / "disk/weights").mkdir(parents=True)
    (base / "disk-now").symlink_to(base / "disk")
    (base / "home/parts").mkdir()
    shutil.move(folder / "model.safetensors", base / "disk/weights/tiny.safetensors")
    (folder / "model.safetensors").symlink_to(base / "disk-now/weights/tiny.safetensors")
    shutil.move(folder / "tokenizer.json", base / "home/parts/tokenizer.json")
    (folder / "tokenizer.json").symlink_to("../parts/tokenizer.json")
    return folder


def sums_inside(docker_host: str, mounts: tuple[Mount, ...], inside: str, names: list[str]) -> list[str]:
    """SHA-256 of each file as a container sees it."""
    binds = [word for mount in mounts for word in ("-v", f"{mount.source}:{mount.target}:ro")]
    command = ["docker", "run", "--rm", "--network", "none", *binds, BUSYBOX, "sha256sum"]
    ran = subprocess.run(
        [*command, *(f"{inside}/{name}" for name in names)],
        env={**os.environ, "DOCKER_HOST": docker_host},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [line.split()[0] for line in ran.stdout.splitlines()]


@pytest.mark.docker
@pytest.mark.parametrize("layout", ["own-blobs", "shared-blobs", "folder"])
@pytest.mark.parametrize("drafter", [False, True], ids=["model", "drafter"])
def test_every_file_is_found_inside(docker_host: str, tmp_path: Path, layout: str, drafter: bool) -> None:
    folder = lay_folder(tmp_path) if layout == "folder" else lay_hub(tmp_path / "hub", shared=layout == "shared-blobs")
    facts: ModelFacts = HuggingFaceHub({"HF_HOME": str(tmp_path)}).folder(folder)
    assert facts.entries is not None
    mounted = (mount_drafter if drafter else mount_model)(facts, "/model")
    names = list(facts.entries.files)
    on_host = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    assert sums_inside(docker_host, mounted.mounts, mounted.path, names) == on_host


@pytest.fixture
def aeonctl(docker_host: str, tmp_path: Path) -> Iterator[list[str]]:
    """The program and its target; whatever it started is stopped afterwards."""
    name = f"models-links-{uuid.uuid4().hex[:6]}"
    program = [sys.executable, "-m", "aeonctl", "--json", "--host", docker_host]
    yield [*program, name]
    subprocess.run([*program, "down", name], env=environment(tmp_path), capture_output=True, check=False)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HF_HOME": str(folder / "hf")}


@pytest.mark.engine
@pytest.mark.docker
@pytest.mark.parametrize("shared", [False, True], ids=["own-blobs", "shared-blobs"])
def test_vllm_answers_from_links(aeonctl: list[str], tmp_path: Path, shared: bool) -> None:
    snapshot = lay_hub(tmp_path / "hf/hub", shared=shared)
    *program, name = aeonctl
    port = str(random.randrange(18000, 19000))
    options = ("--set", "max-model-len=1024", "--set", "reasoning-parser=", "--port", port, "--name", name)
    command = [*program, "up", "--seat", "cpu/try", "--image", IMAGE, "--model", str(snapshot), *options]
    ran = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    require("image_missing" not in ran.stdout, f"the image {IMAGE} is not built: tests/engine/build-image.sh")
    envelope: dict[str, Any] = json.loads(ran.stdout)
    assert envelope["ok"], (envelope["errors"], ran.stderr)
    assert envelope["data"]["engine"]["phase"] == "ready"
    mounts = [mount["target"] for mount in envelope["data"]["plan"]["container"]["mounts"]]
    assert ("/hub" in mounts, "/blobs" in mounts) == (shared, not shared)
