"""GPUs through NVML, which knows that "not supported" is an answer. The only importer of pynvml."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from aeonctl.adapters.proc import ProcTree
from aeonctl.core.host import Driver, Gpu, GpuProcess, MemoryKind, MigDevice, Platform
from aeonctl.core.hostparse import kernel_module, mapped_library

T = TypeVar("T")


class Code(IntEnum):
    """NVML's error numbers. Their texts differ between the binding, nvidia-smi and releases, so only these are read."""

    UNINITIALIZED = 1
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    OPERATING_SYSTEM = 17
    VERSION_MISMATCH = 18
    UNKNOWN = 999


Problem = Literal["library_missing", "not_loaded", "mismatch", "blocked", "no_devices", "no_permission", "failed"]

PROBLEMS: dict[int, Problem] = {
    Code.LIBRARY_NOT_FOUND: "library_missing",
    Code.DRIVER_NOT_LOADED: "not_loaded",
    Code.VERSION_MISMATCH: "mismatch",
    Code.OPERATING_SYSTEM: "blocked",
    Code.NO_PERMISSION: "no_permission",
}

WORDS: dict[int, str] = {
    Code.UNINITIALIZED: "NVML was not initialised",
    Code.NOT_SUPPORTED: "this GPU does not support the query",
    Code.NO_PERMISSION: "this user may not ask",
    Code.FUNCTION_NOT_FOUND: "this driver does not know the query yet",
}

_ATS = 2
_GB10_SM = (12, 1)
_UNIFIED_SHARE = 0.9
_WSL_LIBRARY = "usr/lib/wsl/lib/libnvidia-ml.so.1"
_WSL_PROCESSES = "NVML under WSL does not list processes, and those of Windows are never visible"


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What NVML said: a value, or the number and text of its refusal."""

    value: T | None = None
    code: int | None = None
    text: str = ""

    @property
    def reason(self) -> str:
        """Why there is no value, for people."""
        return WORDS.get(self.code or 0) or f"NVML: {self.text}"


@dataclass(frozen=True)
class _Vram:
    total: int | None = None
    free: int | None = None
    reserved: int | None = None


class Nvml:
    """The GPUs of this machine, asked in this process (see nvml_process for why the program asks in another one).

    ``module`` is pynvml or something shaped like it; ``root`` is where /proc, /sys and /usr are looked up; ``load``
    opens a shared library.
    """

    def __init__(
        self, module: Any = None, *, root: Path = Path("/"), load: Callable[[str], object] = ctypes.CDLL
    ) -> None:
        self._module = module
        self._tree = ProcTree(root)
        self._load = load
        self._wsl = self._tree.platform().platform is Platform.WSL2
        self._unknown: dict[str, str] = {}
        self._broken_library = ""

    def gpus(self) -> tuple[Driver, tuple[Gpu, ...] | None, dict[str, str]]:
        """The driver, the GPUs and why facts are unknown; see ports.GpuProbe."""
        self._unknown = {}
        if self._module is None:
            self._module = importlib.import_module("pynvml")
        if self._wsl:
            self._preload()
        started = self.ask(self._module.nvmlInit)
        if started.code is not None:
            return self._no_driver(started)
        try:
            return self._driver_and_gpus()
        finally:
            self.ask(self._module.nvmlShutdown)

    def ask(self, call: Callable[..., T], *arguments: object) -> Answer[T]:
        """Every question to NVML goes through here: a refusal is an answer, and its number says which.

        NVML's errors compare by number and cannot be hashed, so they end here. A driver older than the binding raises
        an error of another family, which means the same as a function that is not there.
        """
        try:
            return Answer(call(*arguments))
        except self._module.NVMLError as error:
            return Answer(code=int(error.value), text=str(error))
        except self._module.NVMLLibraryMismatchError as error:
            return Answer(code=Code.FUNCTION_NOT_FOUND, text=str(error))
        except UnicodeDecodeError as error:
            return Answer(code=Code.UNKNOWN, text=f"unreadable text: {error.reason}")

    def _fact(self, path: str, answer: Answer[T]) -> T | None:
        """The value of an answer; the reason is noted under ``path`` when there is none."""
        if answer.value is None:
            self._unknown[path] = answer.reason
        return answer.value

    def _preload(self) -> None:
        """Under WSL the library lies outside the loader's path; one in that path is a Linux driver's, the wrong one."""
        path = self._tree.path(_WSL_LIBRARY)
        if getattr(self._module, "nvmlLib", None) is not None or not path.exists():
            return
        try:
            self._module.nvmlLib = self._load(str(path))
        except OSError as error:
            self._broken_library = f"{path}: {error}"

    # When NVML does not answer

    def _no_driver(self, answer: Answer[Any]) -> tuple[Driver, tuple[Gpu, ...] | None, dict[str, str]]:
        code = answer.code or 0
        loaded = kernel_module(self._tree.text("proc/driver/nvidia/version") or "")
        cards = None if self._wsl else self._tree.nvidia_cards()
        driver = Driver(
            version=loaded.version,
            open_module=loaded.is_open,
            problem=PROBLEMS.get(code, "failed"),
            detail="; ".join(part for part in (answer.text, self._broken_library, self._evidence(code, cards)) if part),
        )
        if code == Code.LIBRARY_NOT_FOUND and cards == 0 and not self._tree.exists("dev/nvidiactl"):
            return driver, (), self._unknown
        self._unknown["gpus"] = f"NVML does not answer: {answer.text}"
        return driver, None, self._unknown

    def _evidence(self, code: int, cards: int | None) -> str:
        """What this machine's files add to NVML's error."""
        if self._wsl and not self._tree.exists("dev/dxg"):
            return "/dev/dxg is missing, so Windows gives this distribution no GPU"
        if code in (Code.OPERATING_SYSTEM, Code.DRIVER_NOT_LOADED) and self._wsl:
            library = mapped_library(self._tree.text("proc/self/maps") or "", "libnvidia-ml")
            return f"loaded {library}" if library else ""
        if code == Code.VERSION_MISMATCH:
            loaded = kernel_module(self._tree.text("proc/driver/nvidia/version") or "").version
            return f"the loaded kernel module is {loaded}" if loaded else ""
        if cards is None:
            return ""
        return f"NVIDIA cards on the PCI bus: {cards}"

    # When it does

    def _driver_and_gpus(self) -> tuple[Driver, tuple[Gpu, ...] | None, dict[str, str]]:
        nvml = self._module
        count = self.ask(nvml.nvmlDeviceGetCount)
        loaded = kernel_module(self._tree.text("proc/driver/nvidia/version") or "")
        problem: Problem | None = None
        detail = None
        if count.code is not None:
            problem, detail = PROBLEMS.get(count.code, "failed"), count.text
            self._unknown["gpus"] = count.reason
        elif count.value == 0:
            problem, detail = "no_devices", "NVML starts but sees no GPU"
        driver = Driver(
            version=self._fact("driver.version", self.ask(nvml.nvmlSystemGetDriverVersion)),
            cuda=self._cuda(),
            open_module=loaded.is_open,
            problem=problem,
            detail=detail,
        )
        if loaded.is_open is None:
            self._unknown["driver.open_module"] = "there is no /proc/driver/nvidia/version"
        gpus = None if count.value is None else tuple(self._gpu(index) for index in range(count.value))
        return driver, gpus, self._unknown

    def _cuda(self) -> str | None:
        number = self._fact("driver.cuda", self.ask(self._module.nvmlSystemGetCudaDriverVersion_v2))
        if number is None:
            return None
        if number < 1000:
            self._unknown["driver.cuda"] = f"NVML says {number}"
            return None
        return f"{number // 1000}.{number % 1000 // 10}"

    def _gpu(self, index: int) -> Gpu:
        nvml, path = self._module, f"gpus.{index}"
        found = self.ask(nvml.nvmlDeviceGetHandleByIndex, index)
        if found.code is not None:
            self._unknown[path] = found.reason
            return Gpu(index=index)
        handle = found.value
        name = self._fact(f"{path}.name", self.ask(nvml.nvmlDeviceGetName, handle))
        capability = self._fact(f"{path}.sm", self.ask(nvml.nvmlDeviceGetCudaComputeCapability, handle))
        kind, vram = self._memory(handle, path, name, capability)
        mig = self._mode(f"{path}.mig", self.ask(nvml.nvmlDeviceGetMigMode, handle), unsupported=False)
        return Gpu(
            index=index,
            name=name,
            uuid=self._fact(f"{path}.uuid", self.ask(nvml.nvmlDeviceGetUUID, handle)),
            sm=f"{capability[0]}.{capability[1]}" if capability else None,
            memory=kind,
            vram_total_bytes=vram.total,
            vram_free_bytes=vram.free,
            vram_reserved_bytes=vram.reserved,
            mig=mig,
            mig_devices=self._mig_devices(handle) if mig else (),
            ecc=self._mode(f"{path}.ecc", self.ask(nvml.nvmlDeviceGetEccMode, handle), unsupported=None),
            processes=self._processes(handle, path),
        )

    def _mode(self, path: str, answer: Answer[Any], *, unsupported: bool | None) -> bool | None:
        """Whether a mode is on now. A GPU that has no MIG is not in MIG mode; of ECC nothing follows."""
        if answer.code == Code.NOT_SUPPORTED and unsupported is not None:
            return unsupported
        modes = self._fact(path, answer)
        return None if modes is None else bool(modes[0])

    # Memory

    def _memory(
        self, handle: object, path: str, name: str | None, capability: tuple[int, int] | None
    ) -> tuple[MemoryKind | None, _Vram]:
        """Whose memory the GPU computes in, and how much.

        Unified is only what says so by *both*: NVML tells no total, and the GPU is one that shares the system's
        memory. No total alone is an unknown (a card in an odd state), and the addressing mode alone is shared by GPUs
        with their own HBM. A GB10 driver that one day tells nearly all of MemTotal would be unified as well.
        """
        answer = self._memory_info(handle)
        total = int(answer.value.total) if answer.value is not None else 0
        silent = answer.code == Code.NOT_SUPPORTED or (answer.value is not None and total == 0)
        if (silent and self._shares_memory(handle, name, capability)) or self._is_all_of_memory(total, capability):
            reason = "unified memory: the system's MemTotal and MemAvailable count"
            self._unknown |= {f"{path}.vram_{part}_bytes": reason for part in ("total", "free", "reserved")}
            return MemoryKind.UNIFIED, _Vram()
        if total == 0:
            reason = "NVML tells a total of 0 bytes" if answer.value is not None else answer.reason
            parts = ("memory", "vram_total_bytes", "vram_free_bytes", "vram_reserved_bytes")
            self._unknown |= {f"{path}.{part}": reason for part in parts}
            return None, _Vram()
        reserved = getattr(answer.value, "reserved", None)
        if reserved is None:
            wsl, old = "NVML under WSL tells totals only", "this driver does not tell what it reserves"
            self._unknown[f"{path}.vram_reserved_bytes"] = wsl if self._wsl else old
        free = int(answer.value.free) if answer.value is not None else None
        return MemoryKind.DEDICATED, _Vram(total, free, None if reserved is None else int(reserved))

    def _memory_info(self, handle: object) -> Answer[Any]:
        """Version 2 tells what the driver reserves. It failed under WSL, and old drivers lack it: then version 1."""
        nvml = self._module
        if not self._wsl:
            second = self.ask(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
            if second.code is None:
                return second
        return self.ask(nvml.nvmlDeviceGetMemoryInfo, handle)

    def _shares_memory(self, handle: object, name: str | None, capability: tuple[int, int] | None) -> bool:
        if (capability is not None and tuple(capability) == _GB10_SM) or "GB10" in (name or ""):
            return True
        return self.ask(self._module.nvmlDeviceGetAddressingMode, handle).value == _ATS

    def _is_all_of_memory(self, total: int, capability: tuple[int, int] | None) -> bool:
        if total == 0 or capability is None or tuple(capability) != _GB10_SM:
            return False
        memory = self._tree.memory()
        machine = memory.total_bytes if memory else None
        return machine is not None and total >= _UNIFIED_SHARE * machine

    # What else is on a GPU

    def _mig_devices(self, handle: object) -> tuple[MigDevice, ...]:
        nvml = self._module
        slots = self.ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle).value or 0
        found = (self.ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot) for slot in range(slots))
        return tuple(self._mig_device(part.value) for part in found if part.code is None)

    def _mig_device(self, handle: object) -> MigDevice:
        memory = self.ask(self._module.nvmlDeviceGetMemoryInfo, handle).value
        return MigDevice(
            uuid=self.ask(self._module.nvmlDeviceGetUUID, handle).value,
            vram_total_bytes=None if memory is None else int(memory.total),
            vram_free_bytes=None if memory is None else int(memory.free),
        )

    def _processes(self, handle: object, path: str) -> tuple[GpuProcess, ...] | None:
        """Who holds memory of this GPU, for computing or for drawing. An empty list under WSL is no answer."""
        nvml = self._module
        lists = [
            self.ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
            self.ask(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
        ]
        used: dict[int, int | None] = {}
        for entry in (entry for answer in lists for entry in answer.value or ()):
            before, now = used.get(int(entry.pid)), entry.usedGpuMemory
            used[int(entry.pid)] = before if now is None else max(before or 0, int(now))
        if not used and (self._wsl or lists[0].code is not None):
            self._unknown[f"{path}.processes"] = _WSL_PROCESSES if self._wsl else lists[0].reason
            return None
        return tuple(
            GpuProcess(pid=pid, name=self._tree.process(pid), used_bytes=size) for pid, size in sorted(used.items())
        )
