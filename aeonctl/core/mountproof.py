"""Whether every file of a model can be reached inside the container, told by following its links through the mounts.

Nothing is read here: the links that lead to the files were read before (``Entries``), and a path is followed through
them as the kernel would, once in the host's view and once in the container's, where only what is mounted exists.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.container import Mount

_MOST_LINKS = 40
"""Links that Linux follows in one path before it gives up (ELOOP)."""
_MOST_MOUNTS = 512
_IMAGE_OWN = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"))


class Entries(Value):
    """A model's files as they lie on the host.

    ``files`` maps a file's path below the model's folder to the real file that it ends at; ``links`` maps the place of
    every link met on the way, its own parents resolved, to the text of the link.
    """

    files: dict[str, str] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict)


class Outside(NamedTuple):
    """A path left what is mounted: where it leads inside, and the last link on the way (none: no link, or a circle)."""

    place: str
    link: str | None


@dataclass(frozen=True)
class Mapped:
    """What a container sees: its mounts, sources resolved to real paths, nearest target first."""

    mounts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, mounts: Sequence[Mount], links: Mapping[str, str]) -> Mapped:
        """The bind mounts; a volume holds nothing of the model."""
        pairs = [
            (posixpath.normpath(mount.target), real_path(mount.source, links))
            for mount in mounts
            if mount.type == "bind"
        ]
        return cls(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))

    def host_path(self, inside: str) -> str | None:
        """What of the host lies at a path inside; None where nothing is mounted."""
        for target, source in self.mounts:
            if inside == target or inside.startswith(target.rstrip("/") + "/"):
                return posixpath.normpath(source + inside[len(target.rstrip("/")) :])
        return None

    def leads_to_a_mount(self, inside: str) -> bool:
        """Whether a mount point lies below: Docker makes the folders down to it."""
        return any(target.startswith(inside.rstrip("/") + "/") for target, _ in self.mounts)


def real_path(path: str, links: Mapping[str, str]) -> str:
    """A host's path with every known link resolved; the path as it is when its links go round in circles."""
    found = _follow(path, links, None)
    return found if isinstance(found, str) else posixpath.normpath(path)


def inside_path(path: str, links: Mapping[str, str], mapped: Mapped) -> str | Outside:
    """The host's real path that ``path`` inside the container ends at, or where it left the mounts."""
    return _follow(path, links, mapped)


def _follow(path: str, links: Mapping[str, str], mapped: Mapped | None) -> str | Outside:
    """Follow a path component by component, as path_resolution(7) tells; ``mapped`` None means on the host."""
    here, rest, followed = "/", _parts(path), 0
    link: str | None = None
    while rest:
        part = rest.pop(0)
        if part == "..":
            here = posixpath.dirname(here)
            continue
        place = posixpath.join(here, part)
        host = place if mapped is None else mapped.host_path(place)
        if host is None and mapped is not None and not mapped.leads_to_a_mount(place):
            return Outside(posixpath.normpath(posixpath.join(place, *rest)), link)
        if host is None or host not in links:
            here = place
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return Outside(place, None)
        link, text = host, links[host]
        here = "/" if text.startswith("/") else here
        rest = [*_parts(text), *rest]
    return here if mapped is None else mapped.host_path(here) or Outside(here, link)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def prove(mounts: Sequence[Mount], entries: Entries, inside: str) -> tuple[str, ...]:
    """Resolve every file of a model at ``inside`` as the container would; each must be the very file of the host.

    The answer says what would not be found, and why; nothing to say means proven.
    """
    mapped = Mapped.of(mounts, entries.links)
    problems = [f"two mounts want {target}" for target in _twice(mounts)]
    for name, real in entries.files.items():
        found = inside_path(posixpath.join(inside, name), entries.links, mapped)
        if isinstance(found, Outside):
            problems.append(f"{name}: leads to {found.place} in the container, where nothing is mounted")
        elif found != real:
            problems.append(f"{name}: is {found} in the container, and {real} on the host")
    return tuple(problems)


def place_inside(path: str, mounts: Sequence[Mount]) -> str | None:
    """Where a host's path is in the container, by the mount that holds it; None when none does."""
    for mount in mounts:
        if mount.type == "bind" and (path == mount.source or path.startswith(mount.source.rstrip("/") + "/")):
            return posixpath.normpath(mount.target + path[len(mount.source.rstrip("/")) :])
    return None


def _twice(mounts: Sequence[Mount]) -> list[str]:
    """Mount points that two different sources are meant for."""
    seen: dict[str, Mount] = {}
    return [mount.target for mount in mounts if seen.setdefault(mount.target, mount) != mount]


def mounts_for_links(mounts: Sequence[Mount], entries: Entries, inside: str) -> tuple[tuple[Mount, ...], str | None]:
    """The mounts that are missing so that links which leave the model's folder resolve, or why there can be none.

    Each is one file, read-only, put where the links lead inside the container.
    """
    added: list[Mount] = []
    for name, real in entries.files.items():
        mapped = Mapped.of((*mounts, *added), entries.links)
        found = inside_path(posixpath.join(inside, name), entries.links, mapped)
        if not isinstance(found, Outside):
            continue
        if found.link is None:
            return (), f"{name}: its links go round in circles"
        if found.place.split("/")[1] in _IMAGE_OWN:
            return (), f"{name}: its link would hide the container's own {found.place}"
        added.append(Mount(source=real, target=found.place, read_only=True))
        if len(added) > _MOST_MOUNTS:
            return (), f"its links need more than {_MOST_MOUNTS} mounts"
    return tuple(added), None
