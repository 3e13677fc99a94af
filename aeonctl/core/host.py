"""One machine, as probed: every fact may be unknown, and an unknown says why.

``None`` always means "not known", never "zero" and never "no". Why a fact is unknown stands in ``Host.unknown`` under
the fact's dotted path. A Host serialises to YAML; ``--as`` loads one instead of probing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from aeonctl.core.base import Value
from aeonctl.core.hostdetails import HostDetails
from aeonctl.core.units import GIB

Count = Annotated[int, Field(ge=0)]
"""A number of things or bytes; never negative."""

SM = Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]
"""A compute capability as NVIDIA writes it: ``12.0`` is sm_120, ``12.1`` is sm_121."""


class Platform(StrEnum):
    """What the kernel is: plain Linux, or the one inside Windows."""

    LINUX = "linux"
    WSL2 = "wsl2"


class MemoryKind(StrEnum):
    """Whose memory the GPU computes in: its own, or the one it shares with the operating system."""

    DEDICATED = "dedicated"
    UNIFIED = "unified"


class GpuProcess(Value):
    """A process that holds GPU memory; ``used_bytes`` is unknown under WSL."""

    pid: Count
    name: str | None = None
    used_bytes: Count | None = None


class MigDevice(Value):
    """One slice of a GPU in MIG mode: what a container must be given by UUID, since the whole GPU cannot be."""

    uuid: str | None = None
    vram_total_bytes: Count | None = None
    vram_free_bytes: Count | None = None


class Gpu(Value):
    """One GPU as NVML reports it. Memory is in bytes; ``reserved`` is what the driver keeps (NVML v2).

    ``mig`` is whether the GPU is cut into slices; its memory figures are then sums over ``mig_devices``.
    """

    index: Count
    name: str | None = None
    uuid: str | None = None
    sm: SM | None = None
    memory: MemoryKind | None = None
    vram_total_bytes: Count | None = None
    vram_free_bytes: Count | None = None
    vram_reserved_bytes: Count | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    ecc: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None


class Driver(Value):
    """The NVIDIA driver. ``version`` is the Windows driver's under WSL2, so gates compare ``cuda``, the newest CUDA
    API that the driver speaks (``13.0``). ``problem`` is NVML's own error when it did not answer."""

    version: str | None = None
    cuda: Annotated[str, Field(pattern=r"^\d+\.\d+$")] | None = None
    open_module: bool | None = None
    problem: (
        Literal["library_missing", "not_loaded", "mismatch", "blocked", "no_devices", "no_permission", "failed"] | None
    ) = None
    detail: str | None = None


class Memory(Value):
    """System memory from /proc/meminfo, in bytes (the guest's under WSL2)."""

    total_bytes: Count | None = None
    available_bytes: Count | None = None
    swap_total_bytes: Count | None = None
    swap_free_bytes: Count | None = None


class DockerFlavor(StrEnum):
    """Which Docker answers."""

    NATIVE = "native"
    DESKTOP = "desktop"
    ROOTLESS = "rootless"
    SNAP = "snap"
    PODMAN = "podman"


class DockerGpu(Value):
    """By which ways the engine could give a container a GPU. Each is a sign, none a proof: only a container is.

    ``runtime``: a runtime named nvidia is registered, at ``runtime_path``. ``hook``: nvidia-container-runtime-hook is
    on the PATH here. ``cdi``: the CDI devices the engine discovered.
    """

    runtime: bool | None = None
    runtime_path: str | None = None
    hook: bool | None = None
    cdi: tuple[str, ...] | None = None


class Docker(Value):
    """The Docker engine that commands would talk to. ``problem`` says what kind of silence it was.

    ``kernel`` is the engine's: one that differs from the host's means a virtual machine or another computer, whose
    paths, disks and GPUs are not this machine's. ``image_root`` is where image layers lie, which is not ``data_root``
    when Docker keeps them in containerd.
    """

    reachable: bool | None = None
    problem: Literal["not_running", "permission", "no_socket", "context_not_found", "failed"] | None = None
    detail: str | None = None
    endpoint: str | None = None
    context: str | None = None
    version: str | None = None
    api_version: str | None = None
    flavor: DockerFlavor | None = None
    arch: str | None = None
    kernel: str | None = None
    storage_driver: str | None = None
    cgroup_driver: str | None = None
    data_root: str | None = None
    image_root: str | None = None
    image_root_free_bytes: Count | None = None
    gpu: DockerGpu = DockerGpu()


class Disk(Value):
    """The file system under one folder that matters (``hub-cache``), sizes in bytes."""

    role: str
    path: str
    filesystem: str | None = None
    total_bytes: Count | None = None
    free_bytes: Count | None = None


class Port(Value):
    """A TCP port that something listens on, and who, if that may be known."""

    port: Annotated[int, Field(ge=1, le=65535)]
    owner: str | None = None


class Host(Value):
    """Everything about one machine that a plan or a check depends on."""

    name: str = "this machine"
    recorded: bool = False
    about: str | None = None
    source: str | None = None
    platform: Platform | None = None
    kernel: str | None = None
    arch: Literal["amd64", "arm64"] | None = None
    cpus: Count | None = None
    memory: Memory = Memory()
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] | None = None
    docker: Docker = Docker()
    disks: tuple[Disk, ...] = ()
    ports: tuple[Port, ...] | None = None
    details: HostDetails = HostDetails()
    unknown: dict[str, str] = Field(default_factory=dict)

    @field_validator("gpus")
    @classmethod
    def _indexes_differ(cls, gpus: tuple[Gpu, ...] | None) -> tuple[Gpu, ...] | None:
        if gpus and len({gpu.index for gpu in gpus}) != len(gpus):
            message = "two GPUs have the same index"
            raise ValueError(message)
        return gpus

    def disk(self, role: str) -> Disk | None:
        """The disk with that role, if it was probed."""
        return next((disk for disk in self.disks if disk.role == role), None)

    def port_owner(self, port: int) -> str | None:
        """Who listens on ``port``: a name, ``unknown process``, or None when nobody does (or nobody looked)."""
        taken = next((entry for entry in self.ports or () if entry.port == port), None)
        return None if taken is None else taken.owner or "an unknown process"


def usable_bytes(gpu: Gpu, memory: Memory) -> int | None:
    """What ``--gpu-memory-utilization`` is a share of, in bytes: CUDA's own total.

    For a card that is NVML's total less what the driver reserves (measured equal to cudaMemGetInfo's total to the
    byte); for unified memory it is the machine's MemTotal.
    """
    if gpu.memory is MemoryKind.UNIFIED:
        return memory.total_bytes
    if gpu.vram_total_bytes is None:
        return None
    return gpu.vram_total_bytes - (gpu.vram_reserved_bytes or 0)


def vram_gib(gpu: Gpu, memory: Memory) -> float | None:
    """``usable_bytes`` in GiB."""
    usable = usable_bytes(gpu, memory)
    return None if usable is None else usable / GIB
