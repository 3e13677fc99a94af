"""The proof of the mounts against the kernel's own path resolution, in a root that holds the mounts alone."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.core.container import Mount
from aeonctl.core.model import Layout, ModelFacts, mount_drafter, mount_model
from aeonctl.core.mountable import refuse_unproven
from aeonctl.core.mountproof import Entries, mounts_for_links, place_inside, prove
from aeonctl.core.options import Options
from aeonctl.core.rules import Draft
from tests.adapters.test_hub_cache import FILES, lay_snapshot
from tests.chrooted import can_chroot, identities
from tests.real import require

FOLDERS = ("model", "model/sub", "store", "store/deep", "other")
LINK = st.tuples(
    st.sampled_from(FOLDERS),
    st.sampled_from(["a", "b", "c", "sub", "deep"]),
    st.sampled_from(["relative", "absolute"]),
    st.sampled_from([*FOLDERS, "store/w", "store/deep/w", "other/w", "model/w", "store/a", "other/b", "model/a"]),
)


@pytest.fixture(scope="module", autouse=True)
def _root() -> None:
    require(can_chroot(), "bind mounts and chroot need root")


def lay(base: Path, links: list[tuple[str, str, str, str]]) -> None:
    for folder in FOLDERS:
        (base / folder).mkdir(parents=True, exist_ok=True)
        (base / folder / "w").write_text(folder)
    (base / "model/config.json").write_text("{}")
    for folder, name, kind, target in links:
        place = base / folder / name
        if not place.exists() and not place.is_symlink():
            place.symlink_to(base / target if kind == "absolute" else os.path.relpath(base / target, place.parent))


def resolved(facts: ModelFacts, mounts: tuple[Mount, ...], inside: str) -> set[str]:
    """The files that the kernel finds inside, and that are the host's own."""
    assert facts.entries is not None
    names = list(facts.entries.files)
    with tempfile.TemporaryDirectory() as new_root:
        found = identities(Path(new_root), mounts, [f"{inside}/{name}" for name in names])
    right = set()
    for name, identity in zip(names, found, strict=True):
        host = (Path(facts.path) / name).stat()
        if identity == [host.st_dev, host.st_ino]:
            right.add(name)
    return right


def unproven(facts: ModelFacts, mounts: tuple[Mount, ...], inside: str) -> set[str]:
    assert facts.entries is not None
    return {problem.partition(":")[0] for problem in prove(mounts, facts.entries, inside)}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(LINK, max_size=6))
def test_the_proof_says_what_the_kernel_does(links: list[tuple[str, str, str, str]]) -> None:
    base = Path(tempfile.mkdtemp(prefix="links-"))
    try:
        lay(base, links)
        hub = HuggingFaceHub({"HF_HOME": str(base / "hf")})
        facts = hub.describe(base / "model")
        assert facts.entries is not None
        everything = set(facts.entries.files)
        alone = (Mount(source=facts.path, target="/model", read_only=True),)
        assert resolved(facts, alone, "/model") == everything - unproven(facts, alone, "/model")
        mounted = mount_model(facts, "/model")
        assert resolved(facts, mounted.mounts, "/model") == everything
        assert unproven(facts, mounted.mounts, "/model") == set()
    finally:
        shutil.rmtree(base)


@pytest.mark.parametrize("shared", [False, True], ids=["own-blobs", "shared-blobs"])
@pytest.mark.parametrize("drafter", [False, True], ids=["model", "drafter"])
def test_a_hubs_cache(tmp_path: Path, shared: bool, drafter: bool) -> None:
    snapshot = lay_snapshot(tmp_path / "hub", FILES, shared=shared)
    facts = HuggingFaceHub({"HF_HUB_CACHE": str(tmp_path / "hub")}).locate("org/model", None)
    assert facts.layout is (Layout.SHARED if shared else Layout.SNAPSHOT)
    mounted = (mount_drafter if drafter else mount_model)(facts, "/here")
    assert unproven(facts, mounted.mounts, mounted.path) == set()
    assert resolved(facts, mounted.mounts, mounted.path) == set(FILES)
    bare = (Mount(source=str(snapshot), target="/here"),)
    assert unproven(facts, bare, "/here") == set(FILES)
    assert resolved(facts, bare, "/here") == set()


def test_the_repository_alone_does_not_do_for_shared_blobs(tmp_path: Path) -> None:
    lay_snapshot(tmp_path / "hub", FILES, shared=True)
    facts = HuggingFaceHub({"HF_HUB_CACHE": str(tmp_path / "hub")}).locate("org/model", None)
    mounts = (Mount(source=str(facts.repo_root), target="/repo"),)
    inside = place_inside(facts.path, mounts)
    assert inside is not None
    weights = {name for name in FILES if name.endswith(".safetensors")}
    assert unproven(facts, mounts, inside) == weights
    assert resolved(facts, mounts, inside) == set(FILES) - weights


def refusals(entries: Entries, mounts: tuple[Mount, ...], inside: str | None = "/model") -> list[str]:
    facts = ModelFacts(path="/m", present=True, layout=Layout.PLAIN, entries=entries)
    draft = Draft(options=Options(), env={}, container={})
    return [refusal.why for refusal in refuse_unproven(draft, mounts, (facts, inside)).refusals]


FOLDER = (Mount(source="/m", target="/model", read_only=True),)


def test_what_cannot_be_mounted_is_refused() -> None:
    system = Entries(files={"a": "/usr/share/w", "b": "/m/b"}, links={"/m/a": "/usr/share/w"})
    assert mounts_for_links(FOLDER, system, "/model")[0] == ()
    (why,) = refusals(system, FOLDER)
    assert why == "/m cannot be mounted whole: a: its link would hide the container's own /usr/share/w"
    circle = Entries(files={"a": "/m/a"}, links={"/m/a": "a"})
    assert "circles" in refusals(circle, FOLDER)[0]
    assert refusals(Entries(files={"a": "/m/a"}), FOLDER, None) == ["/m cannot be mounted whole: no mount holds /m"]
    assert refusals(Entries(files={"a": "/m/a", "b": "/m/b"}), FOLDER) == []
    many = Entries(files={str(n): f"/s/{n}" for n in range(600)}, links={f"/m/{n}": f"/s/{n}" for n in range(600)})
    assert "more than 512 mounts" in refusals(many, FOLDER)[0]


def test_two_sources_for_one_place_are_no_proof() -> None:
    mounts = (*FOLDER, Mount(source="/n", target="/model", read_only=True))
    assert "two mounts want /model" in refusals(Entries(files={"a": "/m/a"}), mounts)[0]


def test_only_what_a_link_names_is_mounted() -> None:
    entries = Entries(
        files={"w": "/data/big/w", "config.json": "/m/config.json", "v": "/store/v"},
        links={"/m/w": "/models/w", "/models": "/data", "/data/w": "big/w", "/m/v": "../store/v"},
    )
    added, hindrance = mounts_for_links(FOLDER, entries, "/model")
    assert hindrance is None
    assert added == (
        Mount(source="/data/big/w", target="/models/w", read_only=True),
        Mount(source="/store/v", target="/store/v", read_only=True),
    )
    assert prove((*FOLDER, *added), entries, "/model") == ()
