"""Something shaped like the module pynvml, with the real one's errors: a machine's GPUs as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1024**2


@dataclass(frozen=True)
class Refusal:
    """An NVML error in the place of a value."""

    code: int


NOT_SUPPORTED = Refusal(3)
UNKNOWN = Refusal(999)
FUNCTION_NOT_FOUND = Refusal(13)


class LibraryTooOld:
    """In the place of a value: the driver lacks the versioned symbol."""


@dataclass
class FakeGpu:
    """One GPU; ``v1`` and ``v2`` are (total, free[, reserved]) in bytes."""

    name: Any = "NVIDIA GeForce RTX 5090"
    cc: Any = (12, 0)
    uuid: Any = "GPU-5090"
    v1: Any = (32607 * MIB, 32000 * MIB)
    v2: Any = (32607 * MIB, 32000 * MIB, 494 * MIB)
    addressing: Any = 0
    mig: Any = NOT_SUPPORTED
    mig_slots: dict[int, FakeGpu] = field(default_factory=dict)
    ecc: Any = NOT_SUPPORTED
    compute: Any = ()
    graphics: Any = ()


@dataclass
class FakeNvml:
    """The module. ``init`` or ``count`` may be a Refusal; handles are the FakeGpus themselves."""

    cards: list[Any] = field(default_factory=list)
    init: Any = None
    count: Any = None
    driver: Any = "580.95.05"
    cuda: Any = 13000
    nvmlLib: Any = None  # noqa: N815 - the module's own name
    nvmlMemory_v2: int = 0x02000028  # noqa: N815 - the module's own name
    calls: list[str] = field(default_factory=list)
    NVMLError = pynvml.NVMLError
    NVMLLibraryMismatchError = pynvml.NVMLLibraryMismatchError

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answer = _QUERIES.get(name)
        if answer is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            return _told(answer(self, *arguments))

        return call


def _told(value: Any) -> Any:
    if isinstance(value, Refusal):
        raise pynvml.NVMLError(value.code)
    if isinstance(value, LibraryTooOld):
        raise pynvml.NVMLLibraryMismatchError("Unversioned function called and the pyNVML version does not match")
    return value


def _memory(_: FakeNvml, gpu: FakeGpu, version: int | None = None) -> Any:
    value = gpu.v2 if version else gpu.v1
    if isinstance(value, Refusal):
        return value
    total, free, *reserved = value
    facts = {"total": total, "free": free, "used": total - free}
    return SimpleNamespace(**facts, **({"reserved": reserved[0]} if version else {}))


def _processes(value: Any) -> Any:
    if isinstance(value, Refusal | LibraryTooOld):
        return value
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in value]


def _pair(value: Any) -> Any:
    return value if isinstance(value, Refusal) else [value, value]


_QUERIES: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda nvml: nvml.init,
    "nvmlShutdown": lambda nvml: None,
    "nvmlSystemGetDriverVersion": lambda nvml: nvml.driver,
    "nvmlSystemGetCudaDriverVersion_v2": lambda nvml: nvml.cuda,
    "nvmlDeviceGetCount": lambda nvml: len(nvml.cards) if nvml.count is None else nvml.count,
    "nvmlDeviceGetHandleByIndex": lambda nvml, index: nvml.cards[index],
    "nvmlDeviceGetName": lambda nvml, gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda nvml, gpu: gpu.uuid,
    "nvmlDeviceGetCudaComputeCapability": lambda nvml, gpu: gpu.cc,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetAddressingMode": lambda nvml, gpu: gpu.addressing,
    "nvmlDeviceGetMigMode": lambda nvml, gpu: _pair(gpu.mig),
    "nvmlDeviceGetMaxMigDeviceCount": lambda nvml, gpu: 7 if gpu.mig_slots else 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda nvml, gpu, slot: gpu.mig_slots.get(slot, Refusal(6)),
    "nvmlDeviceGetEccMode": lambda nvml, gpu: _pair(gpu.ecc),
    "nvmlDeviceGetComputeRunningProcesses": lambda nvml, gpu: _processes(gpu.compute),
    "nvmlDeviceGetGraphicsRunningProcesses": lambda nvml, gpu: _processes(gpu.graphics),
}
