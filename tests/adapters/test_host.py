"""Recorded machines below a folder, and the machine that runs the tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from aeonctl.adapters.host import LocalHost
from aeonctl.adapters.hostfile import dump_host
from aeonctl.adapters.nvml import Nvml
from aeonctl.adapters.nvml_process import NvmlProcess, child_environment
from aeonctl.adapters.proc import ProcTree
from aeonctl.adapters.tcp_ports import TcpPorts, is_taken
from aeonctl.core.host import Docker, DockerFlavor, Host, Memory, Platform, Port
from aeonctl.errors import HostError
from tests.fakes.machine import LINUX, NET_HEADER, linux, listening, write_tree, wsl2
from tests.fakes.nvml import FakeGpu, FakeNvml

SOCKET = "unix:///var/run/docker.sock"
NATIVE = Docker(
    reachable=True,
    endpoint=SOCKET,
    version="29.7.2",
    flavor=DockerFlavor.NATIVE,
    kernel=LINUX,
    data_root="/var/lib/docker",
    image_root="/var/lib/containerd",
)


class Engine:
    """A Docker engine that describes itself."""

    def __init__(self, docker: Docker = NATIVE) -> None:
        self.docker = docker

    def describe(self) -> Docker:
        return self.docker


def machine(root: Path, *, docker: Docker = NATIVE, **more: object) -> LocalHost:
    settings: dict[str, object] = {"machine": "x86_64", "taken": lambda port: False, **more}
    gpus = Nvml(FakeNvml([FakeGpu()]), root=root, load=str)
    return LocalHost(gpus=gpus, docker=Engine(docker), root=root, **settings)  # type: ignore[arg-type]


def mounted(*lines: str) -> dict[str, str]:
    return {"proc/self/mounts": "".join(f"{line} rw 0 0\n" for line in ("/dev/sda / ext4", *lines))}


def test_a_recorded_machine(tmp_path: Path) -> None:
    root = linux(
        tmp_path,
        **mounted("/dev/sdb /home xfs"),
        **{
            "sys/devices/system/cpu/online": "0-15\n",
            "proc/net/tcp": NET_HEADER + listening(8000, 209),
            "proc/12/comm": "python3\n",
            "proc/12/fd/4": "-> socket:[209]",
            "home/user/": "",
        },
    )
    hub = Path("/home/user/.cache/huggingface/hub")
    host = machine(root, disks={"hub-cache": hub}).probe()
    assert (host.platform, host.kernel, host.arch, host.cpus) == (Platform.LINUX, LINUX, "amd64", 16)
    assert host.memory == Memory(
        total_bytes=65536000 * 1024, available_bytes=60000000 * 1024, swap_total_bytes=0, swap_free_bytes=0
    )
    assert host.ports == (Port(port=8000, owner="process python3 (pid 12)"),)
    assert host.port_owner(8000) == "process python3 (pid 12)"
    assert host.gpus is not None
    assert host.driver.cuda == "13.0"
    disk, images = host.disk("hub-cache"), host.disk("docker")
    assert disk is not None
    assert (disk.path, disk.filesystem) == (str(hub), "xfs")
    assert images is not None
    assert (images.path, images.filesystem) == ("/var/lib/containerd", "ext4")
    assert host.docker.image_root_free_bytes == images.free_bytes
    assert set(host.unknown) == {"gpus.0.ecc", "driver.open_module"}


def test_a_wsl2_distribution_with_its_models_on_windows(tmp_path: Path) -> None:
    root = wsl2(tmp_path, **mounted("C:\\134 /mnt/c 9p"), **{"mnt/c/hub/": ""})
    desktop = NATIVE.model_copy(update={"flavor": DockerFlavor.DESKTOP})
    host = machine(root, docker=desktop, disks={"hub-cache": Path("/mnt/c/hub")}).probe()
    assert host.platform is Platform.WSL2
    assert [(disk.role, disk.filesystem) for disk in host.disks] == [("hub-cache", "9p")]
    assert host.unknown["docker.image_root_free_bytes"] == "Docker Desktop keeps its images in a virtual disk"


@pytest.mark.parametrize(
    ("docker", "reason"),
    [
        (Docker(reachable=False, problem="permission"), "Docker does not answer"),
        (Docker(), "Docker does not answer"),
        (NATIVE.model_copy(update={"endpoint": "ssh://user@gx10"}), "the Docker engine is elsewhere (ssh://user@gx10)"),
        (
            NATIVE.model_copy(update={"kernel": "6.12.5-linuxkit"}),
            "the Docker engine runs on another kernel (6.12.5-linuxkit)",
        ),
        (NATIVE.model_copy(update={"image_root": None}), "Docker does not tell where its images are"),
    ],
)
def test_dockers_disk_is_looked_at_only_here(tmp_path: Path, docker: Docker, reason: str) -> None:
    host = machine(linux(tmp_path), docker=docker).probe()
    assert host.docker == docker
    assert host.disks == ()
    assert host.unknown["docker.image_root_free_bytes"] == reason


def test_a_bare_tree_is_unknown_with_reasons(tmp_path: Path) -> None:
    host = machine(tmp_path, machine="riscv64").probe(ports=(8000,))
    assert (host.platform, host.kernel, host.arch, host.cpus, host.ports) == (None, None, None, None, None)
    assert host.memory == Memory()
    assert {"platform", "kernel", "arch", "cpus", "memory", "ports"} <= set(host.unknown)


def test_missing_lines_of_meminfo_are_named(tmp_path: Path) -> None:
    root = linux(tmp_path, **{"proc/meminfo": "MemTotal: 8 kB\n"})
    assert "memory.available_bytes" in machine(root).probe().unknown


def test_a_disk_below_a_root_that_is_not_there(tmp_path: Path) -> None:
    host = machine(tmp_path / "none", disks={"hub-cache": Path("/x")}).probe()
    assert host.unknown["disks.hub-cache"].startswith("/x is on a file system")


def test_a_folder_on_a_mount_that_may_not_be_seen(tmp_path: Path) -> None:
    """The parent's free space would be another file system's."""
    root = linux(tmp_path, **mounted("/dev/sdb /data/docker btrfs"))
    docker = NATIVE.model_copy(update={"image_root": "/data/docker"})
    host = machine(root, docker=docker).probe()
    assert host.disks[0].model_dump(exclude_none=True) == {
        "role": "docker",
        "path": "/data/docker",
        "filesystem": "btrfs",
    }
    assert host.docker.image_root_free_bytes is None


def test_a_link_to_another_disk_is_followed(tmp_path: Path) -> None:
    files = mounted("/dev/sdb /big xfs")
    root = linux(tmp_path, **files, **{"big/hub/": "", "home/hub": f"-> {tmp_path}/big/hub"})
    assert machine(root, disks={"hub-cache": Path("/home/hub")}).probe().disks[0].filesystem == "xfs"


# Ports


def ports(root: Path, published: Mapping[int, str] | None = None, *, taken: tuple[int, ...] = ()) -> TcpPorts:
    return TcpPorts(ProcTree(root), published=lambda: published or {}, taken=lambda port: port in taken)


def busy(root: Path) -> Path:
    return write_tree(
        root,
        {
            "proc/net/tcp": NET_HEADER
            + listening(8000, 11)
            + listening(9000, 12, uid=0)
            + listening(7000, 13, state="01"),
            "proc/net/tcp6": NET_HEADER + listening(8080, 14, address="0" * 32) + listening(8000, 15, address="0" * 32),
            "proc/30/comm": "gunicorn\n",
            "proc/30/fd/3": "-> socket:[11]",
            "proc/31/comm": "gunicorn\n",
            "proc/31/fd/3": "-> socket:[11]",
            "proc/32/fd/9": "-> socket:[14]",
            "proc/32/fd/1": "-> /dev/null",
            "proc/33/comm": "closed\n",
            "proc/version": "Linux\n",
        },
    )


def test_owners(tmp_path: Path) -> None:
    assert ports(busy(tmp_path)).in_use() == {
        8000: "process gunicorn (pid 30)",
        8080: "process 32",
        9000: None,
    }


def test_owner_of_one_port(tmp_path: Path) -> None:
    found = ports(busy(tmp_path), {9000: "aeon-quality", 9100: "forwarded"}, taken=(8000, 9200))
    assert [found.owner(port) for port in (8000, 9000, 9100, 9200, 7000)] == [
        "process gunicorn (pid 30)",
        "container aeon-quality",
        "container forwarded",
        "an unknown process",
        None,
    ]
    assert ports(busy(tmp_path / "again")).owner(9000) == "an unknown process"


def test_trying_adds_what_the_table_cannot_show(tmp_path: Path) -> None:
    found = ports(busy(tmp_path), {9100: "forwarded"}, taken=(8000, 9200)).in_use([8000, 9200, 9300])
    assert found is not None
    assert found[9200] is None
    assert found[8000] == "process gunicorn (pid 30)"
    assert found[9100] == "container forwarded"
    assert 9300 not in found


def test_a_file_whose_name_is_too_long_is_not_there(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    assert not tree.exists("x" * 5000)
    assert tree.text("x" * 5000) is None


def test_no_table_means_unknown(tmp_path: Path) -> None:
    assert ports(tmp_path).in_use([8000]) is None
    assert ports(tmp_path, taken=(8000,)).owner(8000) == "an unknown process"


def test_a_docker_that_fails_names_nothing(tmp_path: Path) -> None:
    def fails() -> Mapping[int, str]:
        raise HostError("docker_unreachable", "Docker does not answer")

    found = TcpPorts(ProcTree(busy(tmp_path)), published=fails, taken=lambda port: False)
    assert found.owner(8000) == "process gunicorn (pid 30)"


@pytest.fixture
def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_port_of_this_process(listener: socket.socket) -> None:
    with listener:
        port = int(listener.getsockname()[1])
        real = LocalHost(gpus=Nvml(FakeNvml()), docker=Engine(Docker()))
        assert str(real.port_owner(port)).endswith(f"(pid {os.getpid()})")
        assert is_taken(port) is True
    assert real.port_owner(port) is None
    assert is_taken(port) is False


def test_a_port_of_a_child() -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        host = LocalHost(gpus=Nvml(FakeNvml()), docker=Engine(Docker())).probe(ports=[port])
        child.communicate(b"\n")
    assert str(host.port_owner(port)).endswith(f"(pid {child.pid})")


def test_a_port_of_another_users_process(listener: socket.socket) -> None:
    """Asked as somebody else when this is root; the same user sees the name."""
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from aeonctl.adapters.proc import ProcTree\nfrom aeonctl.adapters.tcp_ports import TcpPorts\n"
        "os.geteuid() == 0 and os.setuid(65534)\nprint(TcpPorts(ProcTree()).owner(int(sys.argv[1])))"
    )
    with listener:
        command = [sys.executable, "-c", code, str(listener.getsockname()[1])]
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=child_environment()).stdout
    other = os.geteuid() == 0
    assert said.strip() == "an unknown process" if other else said.strip().endswith(f"(pid {os.getpid()})")


def test_a_connection_that_has_ended_does_not_take_its_port(listener: socket.socket) -> None:
    """The side that closes first keeps the port in TIME_WAIT, where Docker could take it all the same."""
    address = listener.getsockname()
    with socket.create_connection(address) as client:
        server_side, _ = listener.accept()
        server_side.close()
        client.recv(1)
    listener.close()
    assert is_taken(int(address[1])) is False


def test_a_port_that_one_may_not_try() -> None:
    """Port 65536 does not exist and 1 is for root: neither is an answer."""
    assert is_taken(1) in (None, False)


# This machine


def test_this_machine_as_its_kernel_tells() -> None:
    host = LocalHost(gpus=NvmlProcess(), docker=Engine(Docker()), disks={"hub-cache": Path("/tmp/none/yet")}).probe()
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert host.memory.total_bytes == int(lines["MemTotal"].split()[0]) * 1024
    assert host.kernel == os.uname().release
    assert host.cpus == os.cpu_count()
    assert host.arch in ("amd64", "arm64")
    disk = host.disk("hub-cache")
    assert disk is not None
    assert disk.total_bytes == os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize
    assert disk.filesystem
    assert host.gpus is not None or host.driver.problem
    assert Host.parse(host.model_dump(mode="json"), "this machine") == host
    assert "about:" not in dump_host(host)
