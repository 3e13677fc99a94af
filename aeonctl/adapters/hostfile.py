"""A Host as YAML: what ``doctor --save`` writes and ``--as`` reads."""

from __future__ import annotations

import yaml

from aeonctl.core.host import Host


def dump_host(host: Host) -> str:
    """The host as YAML, without what is unknown or at its default; why a fact is unknown stays.

    In ASCII: written as it is, U+0085 would be read back as a blank.
    """
    facts = host.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return yaml.safe_dump(facts, sort_keys=False, width=110)
