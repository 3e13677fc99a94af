"""How downloads are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aeonctl.cli.session import Outcome, Session
from aeonctl.core.image import pinned
from aeonctl.core.units import human_bytes

if TYPE_CHECKING:
    from aeonctl.core.image import ImageFacts
    from aeonctl.workflows.pull import Pulled


def models(pulled: list[Pulled], dry_run: bool, session: Session) -> Outcome:
    """Where the snapshots are, or what a download would cost."""
    rows = []
    for one in pulled:
        facts = one.facts
        rows.append(
            {
                "repo": facts.repo,
                "revision": facts.revision,
                "path": facts.path,
                "bytes": facts.bytes,
                "files": facts.files,
                "reused_bytes": one.reused_bytes,
            }
        )
        size = human_bytes(facts.bytes or 0)
        if dry_run:
            to_fetch = human_bytes((facts.bytes or 0) - one.reused_bytes)
            session.output.data(f"{facts.repo}: {to_fetch} to download of {size}\n")
        else:
            session.output.note(f"{facts.repo} is complete: {size}, {human_bytes(one.reused_bytes)} of it were here")
            session.output.data(f"{facts.path}\n")
    data: dict[str, Any] = {"models": rows}
    return Outcome(data | ({"model": rows[0]} if rows else {}))


def image(facts: ImageFacts, session: Session) -> Outcome:
    """An image that is here."""
    size = f" ({human_bytes(facts.unpacked_bytes)})" if facts.unpacked_bytes else ""
    name = pinned(facts.ref, facts.digest)
    session.output.note(f"{name} is here{size}")
    session.output.data(f"{name}\n")
    platform = f"linux/{facts.arch}" if facts.arch else None
    return Outcome({"image": {**facts.model_dump(mode="json", exclude={"layers"}), "platform": platform}})
