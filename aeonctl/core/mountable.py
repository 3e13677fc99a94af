"""The refusal for a model whose files would not all be found inside the container."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aeonctl.core.container import Mount
from aeonctl.core.model import ModelFacts
from aeonctl.core.mountproof import mounts_for_links, prove
from aeonctl.core.plan import Refusal
from aeonctl.core.rules import Draft

NOT_MOUNTABLE = "model-not-mountable"


def refuse_unproven(draft: Draft, mounts: Sequence[Mount], *placed: tuple[ModelFacts, str | None]) -> Draft:
    """Prove each model's mounts; ``placed`` pairs it with its place inside, None when no mount holds it.

    What is not on this disk has nothing to prove: it is proven once it is there, before the start.
    """
    refusals = [refusal for facts, inside in placed if (refusal := _refusal(facts, inside, mounts)) is not None]
    return replace(draft, refusals=(*draft.refusals, *refusals)) if refusals else draft


def _refusal(facts: ModelFacts, inside: str | None, mounts: Sequence[Mount]) -> Refusal | None:
    if facts.entries is None:
        return None
    if inside is None:
        problems: tuple[str, ...] = (f"no mount holds {facts.path}",)
    else:
        problems = prove(mounts, facts.entries, inside)
        _, hindrance = mounts_for_links(mounts, facts.entries, inside)
        problems = (hindrance, *problems[1:]) if problems and hindrance else problems
    if not problems:
        return None
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return Refusal(
        rule=NOT_MOUNTABLE,
        why=f"{facts.repo or facts.path} cannot be mounted whole: {problems[0]}{more}",
        remedy="put the files themselves into a folder: cp -rL FOLDER COPY, then --model COPY",
        source="the links in the folder, followed as the container would follow them",
    )
