"""Links on this disk: where a path really ends, and every link that was followed to get there."""

from __future__ import annotations

import errno
import os

_MOST_LINKS = 40


class LinkTracer:
    """Follows paths component by component, asking the disk once for each folder and link.

    ``links`` gathers every link met: its place, its own parents resolved, and its text.
    """

    def __init__(self, links: dict[str, str]) -> None:
        self._links = links
        self._plain: set[str] = set()

    def trace(self, path: str) -> str:
        """The real path of an absolute ``path``, whether or not anything is there.."""
        here, rest, followed = "/", _parts(path), 0
        while rest:
            part = rest.pop(0)
            if part == "..":
                here = os.path.dirname(here)  # noqa: PTH120 - a text, as the kernel walks it
                continue
            place = os.path.join(here, part)  # noqa: PTH118
            text = self._read(place)
            if text is None:
                here = place
                continue
            followed += 1
            if followed > _MOST_LINKS:
                return place
            here = "/" if text.startswith("/") else here
            rest = [*_parts(text), *rest]
        return here

    def _read(self, place: str) -> str | None:
        if place in self._links:
            return self._links[place]
        if place in self._plain:
            return None
        try:
            text = os.readlink(place)  # noqa: PTH115 - the text itself, not a Path made of it
        except OSError as error:
            if error.errno == errno.EINVAL:
                self._plain.add(place)
            return None
        self._links[place] = text
        return text


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
