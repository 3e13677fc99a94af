"""A model on this machine's disk (or not yet), and what must be mounted so that every file resolves inside."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.container import REVISION, Mount
from aeonctl.core.mountproof import Entries, mounts_for_links


class Layout(StrEnum):
    """How a model's files lie.

    ``plain``: real files in one folder. ``snapshot``: links into the repository's own ``blobs``. ``shared``: those
    blobs are links again, into a store that the whole hub cache shares.
    """

    PLAIN = "plain"
    SNAPSHOT = "snapshot"
    SHARED = "shared"


class ModelFacts(Value):
    """One model or drafter, as found on disk or as expected there once it is downloaded.

    ``path`` is the folder with config.json; while the revision is unknown it contains ``<revision>``, which stands for
    the content of ``revision_file``. ``bytes`` counts what is on disk, or what the catalogue expects. ``entries`` are
    the files and links as they were read; None for what is not here, and in a rehearsal.
    """

    repo: str | None = None
    revision: str | None = None
    revision_file: str | None = None
    present: bool = False
    layout: Layout = Layout.SNAPSHOT
    path: str
    repo_root: str | None = None
    hub_root: str | None = None
    hub_home: str | None = None
    bytes: int | None = Field(default=None, ge=0)
    files: int | None = Field(default=None, ge=0)
    quantization: str | None = None
    gated: bool = False
    missing: tuple[str, ...] = ()
    entries: Entries | None = Field(default=None, exclude=True, repr=False)

    @property
    def to_fetch(self) -> str | None:
        """The commit, branch or tag to ask the hub for; None for its main branch."""
        if self.revision is None and self.revision_file is not None:
            return self.revision_file.partition("/refs/")[2] or None
        return self.revision


class Mounted(NamedTuple):
    """Where a model is inside the container, by which mounts, and why not simply at its own mount point."""

    path: str
    mounts: tuple[Mount, ...]
    why: str | None


_HUB = "/hub"
_BLOBS = "/blobs"


def mount_model(facts: ModelFacts, target: str) -> Mounted:
    """The mounts for the seat's model; a snapshot's links climb from ``/model`` to ``/blobs``."""
    if facts.layout is Layout.PLAIN or facts.repo_root is None:
        return _mount_folder(facts, target)
    if facts.layout is Layout.SHARED:
        return _mount_hub(facts)
    mounts = (_bind(facts, facts.path, target), Mount(source=f"{facts.repo_root}/blobs", target=_BLOBS, read_only=True))
    return Mounted(target, mounts, "the snapshot is a folder of links into blobs, which must resolve inside too")


def mount_drafter(facts: ModelFacts, target: str) -> Mounted:
    """The mounts for a second repository, whose links cannot use ``/blobs`` as well: its whole folder is mounted."""
    if facts.layout is Layout.PLAIN or facts.repo_root is None:
        return _mount_folder(facts, target)
    if facts.layout is Layout.SHARED:
        return _mount_hub(facts)
    inside = facts.path.removeprefix(facts.repo_root)
    path = f"{target}{_named_revision(facts, inside)}"
    mount = Mount(source=facts.repo_root, target=target, read_only=True)
    return Mounted(path, (mount,), "/blobs holds the model's files, so the drafter's links need their own folder")


def _mount_folder(facts: ModelFacts, target: str) -> Mounted:
    """A folder of files; a link in it that leaves it takes what it names along, put where it leads inside."""
    mounts = (_bind(facts, facts.path, target),)
    more = () if facts.entries is None else mounts_for_links(mounts, facts.entries, target)[0]
    why = "links in the folder leave it, so what they name is mounted where they lead" if more else None
    return Mounted(target, (*mounts, *more), why)


def _mount_hub(facts: ModelFacts) -> Mounted:
    hub = str(facts.hub_root)
    mount = Mount(source=hub, target=_HUB, read_only=True)
    why = "this hub cache shares its blobs between repositories, so links resolve only below the hub's root"
    return Mounted(_HUB + _named_revision(facts, facts.path.removeprefix(hub)), (mount,), why)


def _bind(facts: ModelFacts, source: str, target: str) -> Mount:
    return Mount(source=_named_revision(facts, source), target=target, read_only=True)


def _named_revision(facts: ModelFacts, path: str) -> str:
    """A path whose unknown revision says whose revision it is, so that two models cannot be mixed up."""
    return path.replace(REVISION, f"<revision of {facts.repo}>")


def unknown_revision(facts: ModelFacts) -> dict[str, str]:
    """What stands for a revision that is not known yet, and the file that will hold it."""
    if facts.revision_file is None or REVISION not in facts.path:
        return {}
    return {_named_revision(facts, REVISION): facts.revision_file}
