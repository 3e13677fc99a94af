"""NVML's answers and refusals, one machine after another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from aeonctl.adapters.nvml import Nvml
from aeonctl.adapters.nvml_process import NvmlProcess, report
from aeonctl.core.host import Gpu, GpuProcess, MemoryKind, MigDevice
from tests.fakes.machine import linux, write_tree, wsl2
from tests.fakes.nvml import (
    FUNCTION_NOT_FOUND,
    MIB,
    NOT_SUPPORTED,
    UNKNOWN,
    FakeGpu,
    FakeNvml,
    LibraryTooOld,
    Refusal,
)

OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)\n"
    "GCC version:  gcc version 15.3.0 (GCC)\n"
)
GB10 = FakeGpu(
    name="NVIDIA GB10", cc=(12, 1), uuid="GPU-10", v1=NOT_SUPPORTED, v2=NOT_SUPPORTED, addressing=2, compute=[(7, 512)]
)


def probe_one(root: Path, gpu: FakeGpu) -> tuple[Gpu, dict[str, str]]:
    _, gpus, unknown = Nvml(FakeNvml([gpu]), root=root, load=str).gpus()
    assert gpus is not None
    assert len(gpus) == 1
    return gpus[0], unknown


def test_a_5090_on_linux(tmp_path: Path) -> None:
    root = linux(tmp_path, **{"proc/driver/nvidia/version": OPEN_MODULE, "proc/7/comm": "Xorg\n"})
    driver, gpus, unknown = Nvml(FakeNvml([FakeGpu(graphics=[(7, 4 * MIB)])]), root=root).gpus()
    assert (driver.version, driver.cuda, driver.open_module, driver.problem) == ("580.95.05", "13.0", True, None)
    assert gpus == (
        Gpu(
            index=0,
            name="NVIDIA GeForce RTX 5090",
            uuid="GPU-5090",
            sm="12.0",
            memory=MemoryKind.DEDICATED,
            vram_total_bytes=32607 * MIB,
            vram_free_bytes=32000 * MIB,
            vram_reserved_bytes=494 * MIB,
            mig=False,
            processes=(GpuProcess(pid=7, name="Xorg", used_bytes=4 * MIB),),
        ),
    )
    assert unknown == {"gpus.0.ecc": "this GPU does not support the query"}


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (12, "library_missing"),
        (9, "not_loaded"),
        (18, "mismatch"),
        (17, "blocked"),
        (4, "no_permission"),
        (999, "failed"),
        (15, "failed"),
        (4711, "failed"),
    ],
)
def test_why_nvml_does_not_start(tmp_path: Path, code: int, problem: str) -> None:
    driver, gpus, unknown = Nvml(FakeNvml(init=Refusal(code)), root=linux(tmp_path)).gpus()
    assert driver.problem == problem
    assert gpus is None
    assert unknown["gpus"].startswith("NVML does not answer")
    assert str(pynvml.NVMLError(code)) in (driver.detail or "")


def test_a_mismatch_names_the_module_that_is_still_loaded(tmp_path: Path) -> None:
    root = linux(tmp_path, **{"proc/driver/nvidia/version": OPEN_MODULE})
    driver, _, _ = Nvml(FakeNvml(init=Refusal(18)), root=root).gpus()
    assert driver.version == "580.159.04"
    assert "the loaded kernel module is 580.159.04" in (driver.detail or "")


def test_no_library_and_a_card_means_a_driver_is_wanted(tmp_path: Path) -> None:
    card = {
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
    }
    audio = {
        "sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:01:00.1/class": "0x040300",
    }
    driver, gpus, _ = Nvml(FakeNvml(init=Refusal(12)), root=linux(tmp_path, **card, **audio)).gpus()
    assert gpus is None
    assert "NVIDIA cards on the PCI bus: 1" in (driver.detail or "")


def test_no_library_and_no_card_is_no_gpu(tmp_path: Path) -> None:
    other = {
        "sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n",
        "sys/bus/pci/devices/0000:00:02.0/class": "0x030000",
    }
    driver, gpus, unknown = Nvml(FakeNvml(init=Refusal(12)), root=linux(tmp_path, **other)).gpus()
    assert (driver.problem, gpus, unknown) == ("library_missing", (), {})


def test_a_bus_that_cannot_be_seen_proves_nothing(tmp_path: Path) -> None:
    _, gpus, _ = Nvml(FakeNvml(init=Refusal(12)), root=linux(tmp_path)).gpus()
    assert gpus is None


def test_a_driver_that_sees_no_gpu(tmp_path: Path) -> None:
    driver, gpus, _ = Nvml(FakeNvml([]), root=linux(tmp_path)).gpus()
    assert (driver.problem, driver.version, gpus) == ("no_devices", "580.95.05", ())


def test_a_driver_that_cannot_count(tmp_path: Path) -> None:
    driver, gpus, unknown = Nvml(FakeNvml(count=UNKNOWN), root=linux(tmp_path)).gpus()
    assert (driver.problem, gpus) == ("failed", None)
    assert unknown["gpus"] == "NVML: Unknown Error"


def test_a_gb10_is_unified(tmp_path: Path) -> None:
    gpu, unknown = probe_one(linux(tmp_path), GB10)
    assert (gpu.memory, gpu.vram_total_bytes, gpu.vram_free_bytes) == (MemoryKind.UNIFIED, None, None)
    assert (gpu.sm, gpu.mig, gpu.ecc) == ("12.1", False, None)
    assert gpu.processes == (GpuProcess(pid=7, used_bytes=512),)
    assert unknown["gpus.0.vram_total_bytes"].startswith("unified memory")


@pytest.mark.parametrize(
    "gpu",
    [
        FakeGpu(name="NVIDIA GB10", cc=UNKNOWN, v1=NOT_SUPPORTED, v2=NOT_SUPPORTED, addressing=FUNCTION_NOT_FOUND),
        FakeGpu(name="NVIDIA Thing", cc=(11, 0), v1=NOT_SUPPORTED, v2=NOT_SUPPORTED, addressing=2),
        FakeGpu(name="NVIDIA Thing", cc=(12, 1), v1=(0, 0), v2=(0, 0, 0), addressing=NOT_SUPPORTED),
        FakeGpu(name="NVIDIA GB10", cc=(12, 1), v1=(65_000_000_000, 1), v2=(65_000_000_000, 1, 0)),
    ],
    ids=["by name", "by addressing mode", "by capability and a total of 0", "tells MemTotal"],
)
def test_signs_of_unified_memory(tmp_path: Path, gpu: FakeGpu) -> None:
    assert probe_one(linux(tmp_path), gpu)[0].memory is MemoryKind.UNIFIED


@pytest.mark.parametrize("code", [3, 999, 15])
def test_an_unknown_on_a_card_is_not_unified(tmp_path: Path, code: int) -> None:
    card = FakeGpu(v1=Refusal(code), v2=Refusal(code), addressing=FUNCTION_NOT_FOUND)
    gpu, unknown = probe_one(linux(tmp_path), card)
    assert (gpu.memory, gpu.vram_total_bytes) == (None, None)
    assert "gpus.0.memory" in unknown


def test_another_refusal_on_a_gb10_is_unknown(tmp_path: Path) -> None:
    gpu, _ = probe_one(linux(tmp_path), FakeGpu(name="NVIDIA GB10", cc=(12, 1), v1=UNKNOWN, v2=UNKNOWN))
    assert gpu.memory is None


def test_a_grace_hopper_has_memory_of_its_own(tmp_path: Path) -> None:
    gh200 = FakeGpu(name="NVIDIA GH200 480GB", cc=(9, 0), v2=(97871 * MIB, 97000 * MIB, 0), addressing=2)
    assert probe_one(linux(tmp_path), gh200)[0].memory is MemoryKind.DEDICATED


def test_a_small_carve_out_on_12_1_is_dedicated(tmp_path: Path) -> None:
    laptop = FakeGpu(name="NVIDIA RTX Spark", cc=(12, 1), v2=(16384 * MIB, 16000 * MIB, 0))
    assert probe_one(linux(tmp_path), laptop)[0].memory is MemoryKind.DEDICATED
    without_meminfo = write_tree(tmp_path / "bare", {"proc/": ""})
    assert probe_one(without_meminfo, laptop)[0].memory is MemoryKind.DEDICATED


def test_an_old_driver_tells_no_reserve(tmp_path: Path) -> None:
    gpu, unknown = probe_one(linux(tmp_path), FakeGpu(v2=FUNCTION_NOT_FOUND))
    assert (gpu.vram_total_bytes, gpu.vram_reserved_bytes) == (32607 * MIB, None)
    assert unknown["gpus.0.vram_reserved_bytes"] == "this driver does not tell what it reserves"


def test_wsl2_asks_version_1_and_trusts_no_empty_list(tmp_path: Path) -> None:
    module = FakeNvml([FakeGpu(v2=UNKNOWN)], driver="591.86", cuda=13010)
    root = wsl2(tmp_path)
    driver, gpus, unknown = Nvml(module, root=root, load=lambda path: f"opened {path}").gpus()
    assert module.nvmlLib == f"opened {root}/usr/lib/wsl/lib/libnvidia-ml.so.1"
    assert (driver.version, driver.cuda, driver.open_module) == ("591.86", "13.1", None)
    assert gpus is not None
    assert (gpus[0].vram_total_bytes, gpus[0].vram_reserved_bytes, gpus[0].processes) == (32607 * MIB, None, None)
    assert "Windows" in unknown["gpus.0.processes"]
    assert module.calls.count("nvmlDeviceGetMemoryInfo") == 1


def test_wsl2_lists_what_it_does_see(tmp_path: Path) -> None:
    gpu, _ = probe_one(wsl2(tmp_path), FakeGpu(compute=[(9, None)]))
    assert gpu.processes == (GpuProcess(pid=9),)


def test_wsl2_with_a_linux_drivers_library(tmp_path: Path) -> None:
    wrong = "7f00-7f01 r-xp 0 08:20 12  /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05\n"
    module = FakeNvml(init=Refusal(17))

    def broken(path: str) -> object:
        raise OSError(f"{path}: file too short")

    driver, gpus, _ = Nvml(module, root=wsl2(tmp_path, **{"proc/self/maps": wrong}), load=broken).gpus()
    assert (driver.problem, gpus) == ("blocked", None)
    assert "loaded /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05" in (driver.detail or "")
    assert "file too short" in (driver.detail or "")


def test_wsl2_without_a_gpu(tmp_path: Path) -> None:
    root = wsl2(tmp_path)
    (root / "dev/dxg").unlink()
    (root / "usr/lib/wsl/lib/libnvidia-ml.so.1").unlink()
    driver, gpus, _ = Nvml(FakeNvml(init=Refusal(12)), root=root).gpus()
    assert gpus is None
    assert "/dev/dxg is missing" in (driver.detail or "")


def test_a_laptop_gpu_keeps_its_whole_name_and_its_own_size(tmp_path: Path) -> None:
    laptop = FakeGpu(name="NVIDIA GeForce RTX 5090 Laptop GPU", v2=(24463 * MIB, 24000 * MIB, 400 * MIB))
    gpu, _ = probe_one(linux(tmp_path), laptop)
    assert (gpu.name, gpu.vram_total_bytes) == ("NVIDIA GeForce RTX 5090 Laptop GPU", 24463 * MIB)


def test_an_rtx_pro_6000_cut_into_slices(tmp_path: Path) -> None:
    slices = {
        0: FakeGpu(uuid="MIG-a", v1=(47616 * MIB, 47000 * MIB)),
        2: FakeGpu(uuid="MIG-b", v1=Refusal(4)),
    }
    card = FakeGpu(
        name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        v2=(97887 * MIB, 97000 * MIB, 638 * MIB),
        mig=1,
        ecc=0,
        mig_slots=slices,
    )
    gpu, _ = probe_one(linux(tmp_path), card)
    assert (gpu.mig, gpu.ecc) == (True, False)
    assert gpu.mig_devices == (
        MigDevice(uuid="MIG-a", vram_total_bytes=47616 * MIB, vram_free_bytes=47000 * MIB),
        MigDevice(uuid="MIG-b"),
    )


def test_a_binding_newer_than_the_driver_leaves_processes_unknown(tmp_path: Path) -> None:
    gpu, unknown = probe_one(linux(tmp_path), FakeGpu(compute=LibraryTooOld(), graphics=LibraryTooOld()))
    assert gpu.processes is None
    assert unknown["gpus.0.processes"] == "this driver does not know the query yet"


def test_a_process_that_computes_and_draws_is_one(tmp_path: Path) -> None:
    gpu, _ = probe_one(linux(tmp_path), FakeGpu(compute=[(5, 10), (3, 7)], graphics=[(5, 30), (3, None)]))
    assert gpu.processes == (GpuProcess(pid=3, used_bytes=7), GpuProcess(pid=5, used_bytes=30))


def test_a_lost_gpu_among_two(tmp_path: Path) -> None:
    lost = FakeGpu(name=Refusal(15), cc=Refusal(15), uuid=Refusal(15), v1=Refusal(15), v2=Refusal(15))
    _, gpus, unknown = Nvml(FakeNvml([lost, FakeGpu()]), root=linux(tmp_path)).gpus()
    assert gpus is not None
    assert [gpu.name for gpu in gpus] == [None, "NVIDIA GeForce RTX 5090"]
    assert unknown["gpus.0.name"] == "NVML: GPU is lost"
    _, gpus, unknown = Nvml(FakeNvml([Refusal(15)]), root=linux(tmp_path)).gpus()
    assert gpus == (Gpu(index=0),)
    assert unknown["gpus.0"] == "NVML: GPU is lost"


def test_an_odd_cuda_number_is_unknown(tmp_path: Path) -> None:
    driver, _, unknown = Nvml(FakeNvml([FakeGpu()], cuda=0, driver=NOT_SUPPORTED), root=linux(tmp_path)).gpus()
    assert (driver.version, driver.cuda) == (None, None)
    assert unknown["driver.cuda"] == "NVML says 0"


def test_ask_takes_each_family_of_error(tmp_path: Path) -> None:
    nvml = Nvml(FakeNvml(), root=linux(tmp_path))
    assert nvml.ask(lambda: 7).value == 7
    assert nvml.ask(b"\xff".decode).reason.startswith("NVML: unreadable text")
    for code in (1, 3, 13):
        answer = nvml.ask(_raising(pynvml.NVMLError(code)))
        assert (answer.value, answer.code) == (None, code)
    with pytest.raises(TypeError):
        hash(pynvml.NVMLError(3))


def _raising(error: Exception) -> Callable[[], int]:
    def call() -> int:
        raise error

    return call


# The process


def test_the_real_library_in_its_own_process() -> None:
    """Whatever this machine has, the child and this process say the same of it."""
    driver, gpus, unknown = NvmlProcess().gpus()
    here, gpus_here, _ = Nvml().gpus()
    assert (driver.version, driver.problem) == (here.version, here.problem)
    assert (gpus is None) == (gpus_here is None)
    assert gpus is not None or unknown["gpus"]
    assert report().startswith('{"driver":')


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("raise SystemExit('no such thing')", "exit code 1: no such thing"),
        ("print('loader chatter')", "cannot be read"),
        ("print('{\"driver\": 3}')", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_a_child_that_goes_wrong(code: str, words: str) -> None:
    driver, gpus, unknown = NvmlProcess([sys.executable, "-c", code]).gpus()
    assert (driver.problem, gpus) == ("failed", None)
    assert words in (driver.detail or "")
    assert unknown["gpus"] == driver.detail


def test_a_child_that_never_answers() -> None:
    never = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    driver, gpus, _ = NvmlProcess(never, time_limit=0.2).gpus()
    assert (driver.detail, gpus) == ("NVML gave no answer within 0.2 s", None)


def test_a_child_that_cannot_start(tmp_path: Path) -> None:
    driver, _, _ = NvmlProcess([str(tmp_path / "nothing")]).gpus()
    assert (driver.detail or "").startswith("NVML could not be asked")


def test_chatter_before_the_report_is_passed_over() -> None:
    line = '{"driver": {"version": "580.95.05"}, "gpus": [{"index": 0, "sm": "12.0"}], "unknown": {}}'
    driver, gpus, _ = NvmlProcess([sys.executable, "-c", f"print('chatter'); print('''{line}''')"]).gpus()
    assert (driver.version, gpus) == ("580.95.05", (Gpu(index=0, sm="12.0"),))
