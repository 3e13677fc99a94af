"""What only ``doctor`` asks about a machine, beyond what a plan needs. None is always "not known"; a check skips it.

No fact here is a secret, a serial number or an address: a host file is made to be sent with a bug report.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aeonctl.core.base import Value


class DriverFiles(Value):
    """The driver as files tell it. ``module`` is the version of the loaded kernel module, ``library`` that of the
    library a program would load; ``pci_cards`` counts NVIDIA cards on the bus, driver or not."""

    pci_cards: int | None = None
    module: str | None = None
    library: str | None = None
    nouveau: bool | None = None
    secure_boot: bool | None = None


class KernelLog(Value):
    """What the kernel's log holds since the boot. ``xids`` counts NVIDIA's error numbers, ``no_memory`` the driver's
    NV_ERR_NO_MEMORY lines; ``open_module_needed`` is the closed module's own complaint about a card."""

    xids: dict[str, int] = Field(default_factory=dict)
    no_memory: int = 0
    oom_kills: int = 0
    open_module_needed: bool = False


class WslDetails(Value):
    """What belongs to WSL2 alone. ``config`` holds .wslconfig by ``section.key`` in lower case; ``tdr_seconds`` is the
    display watchdog's delay (2 is what Windows does when nothing is set)."""

    version: str | None = None
    networking: str | None = None
    gpu_device: bool | None = None
    linux_packages: tuple[str, ...] | None = None
    foreign_libraries: tuple[str, ...] | None = None
    nvidia_smi: Literal["on-path", "off-path", "absent"] | None = None
    tdr_seconds: int | None = None
    config: dict[str, str] | None = None
    windows_free_bytes: int | None = None


class DockerSetup(Value):
    """Docker as this machine's files and this session tell it, next to what the engine says of itself.

    ``in_group`` is this session's, ``listed_in_group`` the group database's. ``file_runtimes`` are the runtimes in
    daemon.json by name. ``runtime_found`` is whether the registered nvidia runtime's program exists. ``cdi_driver``
    is the driver version that the CDI specification was made for. ``engines`` are the engines that run or are set up.
    """

    in_group: bool | None = None
    listed_in_group: bool | None = None
    file_runtimes: dict[str, str] | None = None
    runtime_found: bool | None = None
    toolkit: bool | None = None
    cdi_driver: str | None = None
    engines: tuple[str, ...] | None = None


class SystemDetails(Value):
    """The operating system. ``dgx`` are whitelisted keys of /etc/dgx-release; ``firmware`` is the BIOS version."""

    init: Literal["systemd", "other"] | None = None
    free_bytes: int | None = None
    cached_bytes: int | None = None
    earlyoom: bool | None = None
    dgx: dict[str, str] | None = None
    product: str | None = None
    firmware: str | None = None


class HubDetails(Value):
    """The hub's settings and the state of its cache. Of the token only where it is from; of the endpoint only scheme
    and host. ``dangling`` names repositories with links that lead nowhere; ``leftovers`` are unfinished downloads.
    ``scanned`` is false when the cache was too large to look through in the time there was."""

    token: Literal["environment", "file", "unreadable", "none"] | None = None
    token_exposed: bool | None = None
    endpoint: str | None = None
    offline: bool | None = None
    writable: bool | None = None
    foreign_files: int | None = None
    dangling: tuple[str, ...] | None = None
    leftovers: int | None = None
    leftover_bytes: int | None = None
    scanned: bool | None = None


class OwnContainer(Value):
    """A container of ours; ``verified`` is whether a verification of its very settings is on record."""

    name: str
    restart: str = "no"
    status: str | None = None
    verified: bool = False


class OwnState(Value):
    """aeonctl's own files and containers. ``held`` are locks that a living process holds, ``stale`` the notes of
    processes that died with theirs."""

    writable: bool | None = None
    held: tuple[str, ...] | None = None
    stale: tuple[str, ...] | None = None
    containers: tuple[OwnContainer, ...] | None = None


class HostDetails(Value):
    """Everything beyond a plan's needs; a part is None where nobody looked, or nobody could."""

    driver: DriverFiles = DriverFiles()
    kernel_log: KernelLog | None = None
    wsl: WslDetails = WslDetails()
    docker: DockerSetup = DockerSetup()
    system: SystemDetails = SystemDetails()
    hub: HubDetails = HubDetails()
    own: OwnState = OwnState()
