"""What a command starts from: everything known, and the machine it is about."""

from __future__ import annotations

from pathlib import Path

from aeonctl.core.catalog import Catalog, recorded_host
from aeonctl.core.host import Host
from aeonctl.ports import Ports


def catalog_of(ports: Ports) -> Catalog:
    """Everything known, read when first used."""
    return Catalog(ports.profiles.read)


def host_of(as_host: str | None, ports: Ports, catalog: Catalog) -> Host:
    """The host to plan for: a recorded one by name or file, or this machine."""
    if as_host is None:
        return ports.host.probe()
    looks_like_file = "/" in as_host or as_host.endswith((".yaml", ".yml"))
    if looks_like_file:
        document = ports.profiles.file(Path(as_host))
        return recorded_host(document.data, document.origin, document.name)
    return catalog.host(as_host)
