"""The recorded hosts under profiles/hosts/: each is a Host, says where it is from, and survives being written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from aeonctl.adapters.host import LocalHost
from aeonctl.adapters.hostfile import dump_host
from aeonctl.adapters.nvml import Nvml
from aeonctl.core.catalog import recorded_host
from aeonctl.core.host import Docker, Host, Memory, MemoryKind, Platform, usable_bytes, vram_gib
from aeonctl.errors import ConfigurationError
from tests.fakes.machine import write_tree
from tests.fakes.nvml import FakeGpu, FakeNvml

FOLDER = Path(__file__).parents[2] / "profiles" / "hosts"
FILES = sorted(FOLDER.glob("*.yaml"))
BUNDLED = {
    "rtx-5090",
    "rtx-5090-wsl2",
    "rtx-5090-x2",
    "rtx-5090-laptop",
    "rtx-5080",
    "rtx-pro-6000",
    "rtx-pro-6000-wsl2",
    "dgx-spark",
    "dgx-spark-x2",
    "rtx-4090",
    "b200",
    "h200",
    "no-gpu",
}


def load(name: str) -> Host:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return recorded_host(data, f"profiles/hosts/{name}.yaml", name)


def test_all_are_there() -> None:
    assert {file.stem for file in FILES} == BUNDLED


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_host_parses_says_where_it_is_from_and_survives_a_round_trip(file: Path) -> None:
    host = load(file.stem)
    assert host.recorded
    assert host.about
    assert host.source
    assert host.source.startswith(("constructed", "recorded on a real machine"))
    again = recorded_host(yaml.safe_load(dump_host(host)), file.name, file.stem)
    assert again == host


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_as_the_program_would_write_it(file: Path) -> None:
    host = load(file.stem)
    plain = host.model_copy(update={"recorded": False, "name": "this machine"})
    assert file.read_text() == dump_host(plain)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_unknown_of_a_gpu_has_its_reason(file: Path) -> None:
    host = load(file.stem)
    for gpu in host.gpus or ():
        for name, value in gpu:
            if value is None:
                assert host.unknown[f"gpus.{gpu.index}.{name}"]


SIZES = {
    "rtx-5090": ("12.0", 31.36, 1),
    "rtx-5090-x2": ("12.0", 31.36, 2),
    "rtx-5090-wsl2": ("12.0", 31.84, 1),
    "rtx-5090-laptop": ("12.0", 23.89, 1),
    "rtx-5080": ("12.0", 15.92, 1),
    "rtx-pro-6000": ("12.0", 94.97, 1),
    "rtx-pro-6000-wsl2": ("12.0", 95.59, 1),
    "dgx-spark": ("12.1", 121.69, 1),
    "dgx-spark-x2": ("12.1", 121.69, 1),
    "rtx-4090": ("8.9", 23.99, 1),
    "b200": ("10.0", 179.06, 1),
    "h200": ("9.0", 139.80, 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_that_owners_report(name: str) -> None:
    sm, size, count = SIZES[name]
    host = load(name)
    assert host.gpus is not None
    assert len(host.gpus) == count
    for gpu in host.gpus:
        assert gpu.sm == sm
        assert vram_gib(gpu, host.memory) == pytest.approx(size, abs=0.01)
        if gpu.vram_free_bytes is not None:
            assert gpu.vram_free_bytes <= (usable_bytes(gpu, host.memory) or 0)


def test_platforms_and_memory_kinds() -> None:
    hosts = {name: load(name) for name in BUNDLED}
    assert {name for name, host in hosts.items() if host.platform is Platform.WSL2} == {
        "rtx-5090-wsl2",
        "rtx-pro-6000-wsl2",
    }
    unified = {name for name, host in hosts.items() if any(g.memory is MemoryKind.UNIFIED for g in host.gpus or ())}
    assert unified == {"dgx-spark", "dgx-spark-x2"}
    assert hosts["dgx-spark"].arch == "arm64"
    assert hosts["no-gpu"].gpus == ()


class NoDocker:
    """Docker was not asked."""

    def describe(self) -> Docker:
        return Docker()


def test_the_h200_is_what_the_probe_makes_of_what_nvml_said(tmp_path: Path) -> None:
    """NVML's answers as recorded on the machine, asked again through the adapter."""
    record = json.loads((Path(__file__).parent / "h200-nvml.json").read_text())
    cards = [
        FakeGpu(
            name=card["Name"],
            cc=tuple(card["CudaComputeCapability"]),
            v1=(card["v1"]["total"], card["v1"]["free"]),
            v2=(card["v2"]["total"], card["v2"]["free"], card["v2"]["reserved"]),
            addressing=card["AddressingMode"],
            mig=card["MigMode"][0],
            ecc=card["EccMode"][0],
            uuid=None,
        )
        for card in record["gpus"]
    ]
    root = write_tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": record["proc_nvidia_version"],
            "proc/meminfo": record["meminfo"],
            "proc/sys/kernel/osrelease": record["osrelease"],
            "sys/devices/system/cpu/online": record["cpus"],
        },
    )
    nvml = Nvml(FakeNvml(cards, driver=record["driver"], cuda=record["cuda_driver"]), root=root)
    probed = LocalHost(gpus=nvml, docker=NoDocker(), root=root, machine="x86_64").probe()
    recorded = load("h200")
    for fact in ("platform", "kernel", "arch", "cpus", "memory", "driver", "gpus"):
        assert getattr(probed, fact) == getattr(recorded, fact), fact
    assert recorded.gpus is not None
    assert {usable_bytes(gpu, recorded.memory) for gpu in recorded.gpus} == {record["cuda_mem_get_info_total"]}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=50)
@given(about=TEXT, owner=TEXT, total=st.integers(0, 2**60), reason=TEXT)
def test_any_text_survives_a_round_trip(about: str, owner: str, total: int, reason: str) -> None:
    host = Host.parse(
        {
            "about": about,
            "memory": {"total_bytes": total},
            "gpus": [{"index": 0, "sm": "12.0", "name": owner}],
            "ports": [{"port": 8000, "owner": owner}],
            "unknown": {"platform": reason, owner: about},
        },
        "a test",
    )
    assert Host.parse(yaml.safe_load(dump_host(host)), "the same") == host
    assert host.memory == Memory(total_bytes=total)


@pytest.mark.parametrize(
    "text",
    [
        "gpus: [{index: 0, sm: 12.0}]",
        "platform: windows",
        "kernel: 6.14",
        "extra: 1",
        "- a list",
        "null",
        "arch: riscv64",
    ],
)
def test_a_bad_file_is_a_named_error(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        recorded_host(yaml.safe_load(text), "host.yaml", "host")
    assert caught.value.code == "host_invalid"
    assert caught.value.causes
