"""What two containers must have in common to be called the same, from ``docker inspect``."""

from __future__ import annotations

import json
from typing import Any

IGNORED = {
    "Config.Hostname": "the engine makes it of the first digits of the container's own id",
}
"""Fields that may differ, each with its reason. Id, Name, State and the paths lie outside of what is compared."""

UNORDERED = {
    "Config.Env": "the engine keeps variables in a hash table and lists them in any order",
    "Mounts": "the engine keeps mounts in a hash table, by destination",
}
"""Lists whose order means nothing, each with its reason."""


def compared(inspected: dict[str, Any]) -> list[str]:
    """Config, HostConfig and Mounts whole, less what IGNORED names, as lines."""
    whole: dict[str, Any] = {part: inspected[part] for part in ("Config", "HostConfig", "Mounts")}
    for path in IGNORED:
        part, _, key = path.partition(".")
        whole[part] = {name: value for name, value in whole[part].items() if name != key}
    for path in UNORDERED:
        part, _, key = path.partition(".")
        if key:
            whole[part] = {**whole[part], key: sorted(whole[part][key])}
        else:
            whole[part] = sorted(whole[part], key=lambda mount: str(mount["Destination"]))
    return json.dumps(whole, indent=1, sort_keys=True).splitlines()
