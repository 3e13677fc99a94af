"""A Host as YAML: what ``doctor --save`` writes and ``--as`` reads."""

from __future__ import annotations

import yaml

from aeonctl.core.host import Host


def dump_host(host: Host) -> str:
    """The host as YAML, without what is unknown or at its default; why a fact is unknown stays."""
    facts = host.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=110)
