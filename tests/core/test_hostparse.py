"""Kernel texts and Docker answers, as captured or as reported, and any text at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.host import Docker, DockerFlavor, DockerGpu, Memory, Platform
from aeonctl.core.hostparse import (
    KernelModule,
    Listener,
    Mount,
    architecture,
    cpu_count,
    docker_facts,
    kernel_module,
    listeners,
    mapped_library,
    memory_of,
    mount_of,
    platform_of,
    process_name,
    socket_inode,
)


def platform(osrelease: str | None, *signs: str) -> Platform | None:
    names = ("run_wsl", "interop", "wslinfo", "wsl_library")
    return platform_of(osrelease, **{name: name in signs for name in names}).platform


@pytest.mark.parametrize(
    "osrelease",
    [
        "6.6.87.2-microsoft-standard-WSL2",
        "6.6.114.1-microsoft-standard-WSL2\n",
        "5.10.102.1-microsoft-standard",
        "6.1.38-microsoft-standard",
        "6.12.9-xanmod1-WSL2",
    ],
)
@pytest.mark.parametrize("sign", ["run_wsl", "interop", "wslinfo", "wsl_library"])
def test_wsl2_is_the_kernels_name_and_one_sign(osrelease: str, sign: str) -> None:
    assert platform(osrelease, sign) is Platform.WSL2


@pytest.mark.parametrize(
    ("osrelease", "signs"),
    [
        ("6.6.87.2-microsoft-standard-WSL2", ()),  # a container, or Docker Desktop's own machine
        ("6.8.0-1031-azure", ()),
        ("6.6.96.2-2.azl3", ()),
        ("6.14.0-36-generic", ("wsl_library",)),  # a Hyper-V machine with a GPU partition
        ("6.11.0-1016-nvidia", ()),
        ("6.18.44", ()),
    ],
)
def test_what_is_not_wsl2(osrelease: str, signs: tuple[str, ...]) -> None:
    assert platform(osrelease, *signs) is Platform.LINUX


@pytest.mark.parametrize("osrelease", ["4.4.0-19041-Microsoft", "", "\n", None])
def test_a_platform_that_is_unknown_says_why(osrelease: str | None) -> None:
    facts = platform_of(osrelease, run_wsl=True, interop=True, wslinfo=True, wsl_library=True)
    assert facts.platform is None
    assert facts.reason


def test_architecture() -> None:
    assert [architecture(word) for word in ("x86_64", "aarch64", "amd64", "riscv64", "", None)] == [
        "amd64",
        "arm64",
        "amd64",
        None,
        None,
        None,
    ]


def test_memory_of_a_spark() -> None:
    text = (
        "MemTotal:       127600748 kB\nMemFree:         2904568 kB\nMemAvailable:   54525952 kB\nHugePages_Total:  0\n"
    )
    assert memory_of(text) == Memory(total_bytes=127600748 * 1024, available_bytes=54525952 * 1024)


def test_memory_with_swap_and_noise() -> None:
    text = "MemTotal: many kB\nSwapTotal: 16777212 kB\nSwapFree: 0 kB\nMemTotal: 8 kB\n"
    assert memory_of(text) == Memory(total_bytes=8192, swap_total_bytes=16777212 * 1024, swap_free_bytes=0)


@pytest.mark.parametrize(("online", "count"), [("0-31\n", 32), ("0", 1), ("0-3,8,10-11", 7), ("", None), ("x", None)])
def test_cpu_count(online: str, count: int | None) -> None:
    assert cpu_count(online) == count


NET_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 209 1 00000000a6d9c125 100 0
   1: 020200C0:8E58 507100CB:0050 06 00000000:00000000 03:000010FF 00000000     0        0 0 3 0000000090b8d7ed
   2: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51234 1 0000000000000000 100
   3: 0100007F:0000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 5 1 0000000000000000 100 0
   4: cut short
"""
NET_TCP6 = (
    "   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000"
    " 00:00000000 00000000     0        0 777 1 0000000000000000 100 0 0 10 0\n"
)


def test_listeners() -> None:
    assert list(listeners(NET_TCP)) == [Listener(2024, 209), Listener(8000, 51234)]
    assert list(listeners(NET_TCP6)) == [Listener(8080, 777)]


def test_socket_inode() -> None:
    assert [socket_inode(link) for link in ("socket:[209]", "pipe:[209]", "/dev/null")] == [209, None, None]


MOUNTS = """\
/dev/sdc / ext4 rw,relatime 0 0
C:\\134 /mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=1000 0 0
/dev/sdd /home ext4 rw 0 0
/dev/sde /home/user/my\\040models xfs rw 0 0
overlay /home/user/my\\040models btrfs rw 0 0
cut short
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/var/lib/docker", Mount("/", "ext4")),
        ("/mnt/c/Users/me/hub", Mount("/mnt/c", "9p")),
        ("/mnt/cdrom", Mount("/", "ext4")),
        ("/home", Mount("/home", "ext4")),
        ("/home/user/my models/hub", Mount("/home/user/my models", "btrfs")),
    ],
)
def test_mount_of(path: str, mount: Mount) -> None:
    assert mount_of(MOUNTS, path) == mount


def test_mount_of_nothing() -> None:
    assert mount_of("", "/home") is None


@pytest.mark.parametrize(
    ("line", "module"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n",
            KernelModule("580.159.04", True),
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 02:16:05 UTC 2025\nGCC: 12\n",
            KernelModule("570.124.06", False),
        ),
        ("NVRM version: something new\n", KernelModule(None, None)),
        ("", KernelModule(None, None)),
    ],
)
def test_kernel_module(line: str, module: KernelModule) -> None:
    assert kernel_module(line) == module


def test_mapped_library() -> None:
    maps = (
        "7f1 r--p 0 08:20 1 /usr/lib/x86_64-linux-gnu/libc.so.6\n7f2 rw-p 0 00:00 0 [heap]\n"
        "7f3 r-xp 0 00:30 9 /usr/lib/wsl/drivers/nv_dispi.inf_amd64_1/libnvidia-ml.so.1\n"
    )
    assert mapped_library(maps, "libnvidia-ml") == "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1/libnvidia-ml.so.1"
    assert mapped_library(maps, "libcuda") is None


@pytest.mark.parametrize(
    ("comm", "cmdline", "name"),
    [
        ("python3\n", "/usr/bin/python3\0-m\0vllm\0", "python3"),
        ("VLLM::EngineCor\n", "VLLM::EngineCore\0", "VLLM::EngineCore"),
        ("exactly-fifteen\n", "/bin/other\0", "exactly-fifteen"),
        ("exactly-fifteen\n", "", "exactly-fifteen"),
        (None, "/usr/sbin/nginx\0", "nginx"),
        (None, None, None),
    ],
)
def test_process_name(comm: str | None, cmdline: str | None, name: str | None) -> None:
    assert process_name(comm, cmdline) == name


# Docker

NATIVE_VERSION = {
    "Version": "29.7.2",
    "ApiVersion": "1.55",
    "Arch": "amd64",
    "Platform": {"Name": "Docker Engine - Community"},
}
NATIVE_INFO: dict[str, Any] = {
    "ServerVersion": "29.7.2",
    "OperatingSystem": "Ubuntu 24.04.3 LTS",
    "Name": "box",
    "KernelVersion": "6.14.0-36-generic",
    "Architecture": "x86_64",
    "Driver": "overlayfs",
    "CgroupDriver": "systemd",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "DockerRootDir": "/var/lib/docker",
    "Containerd": {"Address": "/run/containerd/containerd.sock"},
    "Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}},
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin"],
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "cdi", "ID": "nvidia.com/gpu=all"}],
    "Warnings": None,
}
SOCKET = "unix:///var/run/docker.sock"


def facts(version: dict[str, Any] | None = None, info: dict[str, Any] | None = None) -> Docker:
    return docker_facts(
        {**NATIVE_VERSION, **(version or {})},
        {**NATIVE_INFO, **(info or {})},
        endpoint=SOCKET,
        context=None,
        hook_present=True,
    )


def test_a_native_engine_with_the_containerd_store() -> None:
    assert facts() == Docker(
        reachable=True,
        endpoint=SOCKET,
        version="29.7.2",
        api_version="1.55",
        flavor=DockerFlavor.NATIVE,
        arch="amd64",
        kernel="6.14.0-36-generic",
        storage_driver="overlayfs",
        data_root="/var/lib/docker",
        image_root="/var/lib/containerd",
        cgroup_driver="systemd",
        gpu=DockerGpu(
            runtime=True,
            runtime_path="nvidia-container-runtime",
            hook=True,
            cdi=("nvidia.com/gpu=0", "nvidia.com/gpu=all"),
        ),
    )


@pytest.mark.parametrize(
    ("info", "root"),
    [
        ({"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}, "/var/lib/docker"),
        ({"Driver": "overlay2", "DriverStatus": None, "DockerRootDir": "/data/docker"}, "/data/docker"),
        ({"DockerRootDir": "/data/docker"}, "/var/lib/containerd"),
        (
            {"DockerRootDir": "/data/docker/", "Containerd": {"Address": "/run/docker/containerd/containerd.sock"}},
            "/data/docker/containerd",
        ),
        ({"Containerd": None}, None),
    ],
)
def test_where_images_lie(info: dict[str, Any], root: str | None) -> None:
    assert facts(info=info).image_root == root


@pytest.mark.parametrize(
    ("version", "info", "flavor"),
    [
        ({}, {"OperatingSystem": "Docker Desktop", "Name": "docker-desktop"}, DockerFlavor.DESKTOP),
        ({"Platform": {"Name": "Docker Desktop 4.61.0 (211111)"}}, {}, DockerFlavor.DESKTOP),
        ({}, {"Labels": ["com.docker.desktop.address=unix:///var/run/docker-cli.sock"]}, DockerFlavor.DESKTOP),
        ({}, {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}, DockerFlavor.ROOTLESS),
        ({}, {"DockerRootDir": "/var/snap/docker/common/var-lib-docker"}, DockerFlavor.SNAP),
        ({"Components": [{"Name": "Podman Engine"}]}, {"SecurityOptions": ["name=rootless"]}, DockerFlavor.PODMAN),
        ({"Platform": {"Name": ""}}, {"SecurityOptions": ["name=userns"]}, DockerFlavor.NATIVE),
        ({}, {"OperatingSystem": "OrbStack"}, None),
        ({}, {"Name": "colima"}, None),
        ({}, {"OperatingSystem": "Rancher Desktop WSL Distribution"}, None),
        ({}, {"DockerRootDir": ""}, None),
    ],
)
def test_which_docker(version: dict[str, Any], info: dict[str, Any], flavor: DockerFlavor | None) -> None:
    assert facts(version, info).flavor is flavor


def test_an_old_engine_knows_nothing_of_cdi() -> None:
    old = {key: value for key, value in NATIVE_INFO.items() if key not in ("DiscoveredDevices", "Containerd")}
    docker = docker_facts(
        {"Version": "20.10.24+dfsg1", "ApiVersion": "1.41"},
        {**old, "Runtimes": {"runc": {}}, "Driver": "overlay2", "DriverStatus": []},
        endpoint=SOCKET,
        context="work",
        hook_present=None,
    )
    assert docker.gpu == DockerGpu(runtime=False, hook=None, cdi=None)
    assert (docker.context, docker.image_root) == ("work", "/var/lib/docker")


def test_a_new_engine_without_devices_has_none() -> None:
    new = {key: value for key, value in NATIVE_INFO.items() if key != "DiscoveredDevices"}
    assert docker_facts(NATIVE_VERSION, new, endpoint=SOCKET, context=None, hook_present=False).gpu.cdi == ()


def test_desktops_old_socket_names_the_right_one() -> None:
    label = {"Labels": ["com.docker.desktop.address=unix:///var/run/docker-cli.sock"], "ServerVersion": ""}
    docker = docker_facts({}, label, endpoint=SOCKET, context=None, hook_present=None)
    assert (docker.reachable, docker.problem) == (False, "failed")
    assert "unix:///var/run/docker-cli.sock" in (docker.detail or "")


def test_an_answer_without_an_engine() -> None:
    docker = docker_facts({}, {}, endpoint=SOCKET, context=None, hook_present=None)
    assert docker.detail == "the answer carries no engine version"


# Any text at all

LINES = st.lists(
    st.one_of(st.text(max_size=40), st.sampled_from([*NET_TCP.splitlines(), *MOUNTS.splitlines(), "MemTotal: 1 kB"])),
    max_size=8,
).map("\n".join)


@given(LINES, st.text(max_size=20))
def test_no_text_makes_a_parser_raise(text: str, other: str) -> None:
    platform_of(text, run_wsl=True, interop=False, wslinfo=False, wsl_library=False)
    architecture(text)
    memory_of(text)
    assert (cpu_count(text) or 0) >= 0
    assert all(1 <= listener.port <= 65535 for listener in listeners(text))
    socket_inode(text)
    mount_of(text, f"/{other}")
    kernel_module(text)
    mapped_library(text, other or "libnvidia-ml")
    process_name(text, other)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)
KEYS = sorted({*NATIVE_INFO, *NATIVE_VERSION, "Labels", "Components"})


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_answer_of_docker_makes_the_parser_raise(version: dict[str, Any], info: dict[str, Any]) -> None:
    assert isinstance(docker_facts(version, info, endpoint=SOCKET, context=None, hook_present=None), Docker)
    odd = docker_facts(
        {**NATIVE_VERSION, **version}, {**NATIVE_INFO, **info}, endpoint="", context="", hook_present=None
    )
    assert Docker.model_validate(odd.model_dump()) == odd
