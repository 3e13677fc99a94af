"""What doctor asks of a machine: recorded trees, real files and permissions, and the machine that runs the tests."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from aeonctl.adapters.details import LocalDetails, read_kmsg
from aeonctl.adapters.details_hub import hub_details
from aeonctl.adapters.details_own import own_state
from aeonctl.adapters.details_wsl import wsl_details
from aeonctl.adapters.host import LocalHost
from aeonctl.adapters.nvml import Nvml
from aeonctl.adapters.nvml_process import child_environment
from aeonctl.adapters.proc import ProcTree
from aeonctl.adapters.real import build_ports
from aeonctl.adapters.within import Pending
from aeonctl.core.checks_docker import docker as docker_check
from aeonctl.core.checks_docker import docker_engines, docker_runtime
from aeonctl.core.checks_gpu import driver
from aeonctl.core.host import Docker, DockerGpu, Host, Platform
from aeonctl.core.hostdetails import HostDetails, OwnContainer
from aeonctl.errors import HostError
from aeonctl.ports import EngineRecord, EngineStatus
from tests.fakes.machine import linux, write_tree, wsl2
from tests.fakes.nvml import FakeGpu, FakeNvml, Refusal

ENGINE = Docker(
    reachable=True, endpoint="unix:///var/run/docker.sock", gpu=DockerGpu(runtime=True, runtime_path="/usr/bin/x")
)
KMSG = "4,900,1,-;NVRM: Xid (PCI:0000:01:00): 79, pid=7, GPU has fallen off the bus.\n"


class Records:
    """Our containers."""

    def __init__(self, records: Sequence[EngineRecord] = (), error: HostError | None = None) -> None:
        self._records = records
        self._error = error

    def ours(self) -> Sequence[EngineRecord]:
        if self._error is not None:
            raise self._error
        return self._records


def details(root: Path, *, found: Sequence[str] = (), **environment: str) -> LocalDetails:
    return LocalDetails(
        environment,
        home=root / "home",
        hub=root / "hub",
        state=root / "state",
        engines=Records(),
        root=root,
        which=lambda name: f"/usr/bin/{name}" if name in found else None,
    )


def gathered(root: Path, platform: Platform = Platform.LINUX, docker: Docker = ENGINE, **more: object) -> HostDetails:
    return details(root, **more).gather(platform, lambda: docker, {})  # type: ignore[arg-type]


def test_a_machine_with_a_torn_driver(tmp_path: Path) -> None:
    root = linux(
        tmp_path,
        **{
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Release\n",
            "proc/modules": "nvidia 1 0\n",
            "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05": "",
            "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "-> libnvidia-ml.so.580.95.05",
            "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
            "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
            "dev/kmsg": KMSG,
        },
    )
    nvml = Nvml(FakeNvml(init=Refusal(18)), root=root, load=str)
    host = LocalHost(gpus=nvml, docker=Fixed(ENGINE), root=root, machine="x86_64", details=details(root)).probe()
    files = host.details.driver
    assert (files.pci_cards, files.module, files.library) == (1, "580.82.07", "580.95.05")
    assert (files.nouveau, files.secure_boot) == (False, None)
    assert host.details.kernel_log is not None
    assert host.details.kernel_log.xids == {"79": 1}
    finding = driver(host)
    assert (finding.situation, finding.facts["module"], finding.facts["library"]) == (
        "mismatch",
        "580.82.07",
        "580.95.05",
    )


class Fixed:
    """A Docker engine that describes itself."""

    def __init__(self, docker: Docker) -> None:
        self.docker = docker

    def describe(self) -> Docker:
        return self.docker


def test_a_blackwell_card_with_the_closed_module(tmp_path: Path) -> None:
    root = linux(
        tmp_path,
        **{
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release\n",
            "dev/kmsg": "3,1,1,-;NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
        },
    )
    nvml = Nvml(FakeNvml([]), root=root, load=str)
    host = LocalHost(gpus=nvml, docker=Fixed(ENGINE), root=root, machine="x86_64", details=details(root)).probe()
    assert driver(host).situation == "closed-module"


def test_secure_boot_and_nouveau(tmp_path: Path) -> None:
    root = linux(tmp_path, **{"proc/modules": "nouveau 1 0 - Live 0x0\n"})
    path = root / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x06\0\0\0\x01")
    files = gathered(root).driver
    assert (files.nouveau, files.secure_boot) == (True, True)


def test_a_spark(tmp_path: Path) -> None:
    root = linux(
        tmp_path,
        **{
            "proc/meminfo": "MemTotal: 127600748 kB\nMemFree: 100 kB\nCached: 200 kB\n",
            "proc/1/comm": "systemd\n",
            "proc/77/comm": "earlyoom\n",
            "etc/dgx-release": 'DGX_NAME="DGX Spark"\nDGX_SERIAL_NUMBER="1650000000000"\nDGX_OTA_VERSION="7.5.0"\n',
            "sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark\n",
            "sys/class/dmi/id/bios_version": "5.36_0ACUM018\n",
            "sys/class/dmi/id/product_serial": "1650000000000\n",
        },
    )
    found = gathered(root)
    system = found.system
    assert (system.free_bytes, system.cached_bytes, system.earlyoom, system.init) == (102400, 204800, True, "systemd")
    assert system.dgx == {"DGX_NAME": "DGX Spark", "DGX_OTA_VERSION": "7.5.0"}
    assert (system.product, system.firmware) == ("NVIDIA_DGX_Spark", "5.36_0ACUM018")
    assert "1650000000000" not in found.model_dump_json()


def test_a_bare_tree_is_unknown(tmp_path: Path) -> None:
    unknown: dict[str, str] = {}
    found = details(tmp_path).gather(None, lambda: Docker(reachable=False), unknown)
    assert found.kernel_log is None
    assert found.driver.library is None
    assert found.system.init is None
    assert found.system.earlyoom is None
    assert found.docker.toolkit is None
    assert {"details.kernel_log", "details.system.dgx", "details.own.containers"} <= set(unknown)


# WSL2


def windows_program(root: Path, name: str, script: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


WSLINFO = 'case "$1" in --version) echo 2.6.1;; --networking-mode) echo mirrored;; esac'


def test_wsl2_with_a_linux_driver_inside(tmp_path: Path) -> None:
    root = wsl2(
        tmp_path,
        **{
            "var/lib/dpkg/status": "Package: nvidia-utils-570\nStatus: install ok installed\n",
            "usr/lib/x86_64-linux-gnu/libcuda.so.1": "a Linux driver's",
            "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "-> ../wsl/lib/libnvidia-ml.so.1",
            "usr/lib/wsl/lib/nvidia-smi": "",
            "mnt/c/Users/Alice/.wslconfig": "[wsl2]\nmemory=16GB\n[general]\ninstanceIdleTimeout=-1\n",
            "mnt/c/Users/Public/": "",
        },
    )
    (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").unlink()
    (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to(root / "usr/lib/wsl/lib/libnvidia-ml.so.1")
    windows_program(root, "bin/wslinfo", WSLINFO)
    windows_program(root, "mnt/c/Windows/System32/reg.exe", "printf '    TdrDelay    REG_DWORD    0x3c\\r\\n'")
    wsl = gathered(root, Platform.WSL2).wsl
    assert (wsl.version, wsl.networking, wsl.gpu_device) == ("2.6.1", "mirrored", True)
    assert wsl.linux_packages == ("nvidia-utils-570",)
    assert wsl.foreign_libraries == ("/usr/lib/x86_64-linux-gnu/libcuda.so.1",)
    assert (wsl.nvidia_smi, wsl.tdr_seconds) == ("off-path", 60)
    assert wsl.config == {"wsl2.memory": "16GB", "general.instanceidletimeout": "-1"}
    assert wsl.windows_free_bytes is not None


@pytest.mark.parametrize(
    ("script", "delay"), [("exit 1", 2), ("echo what", None), ("exec sleep 60", None)], ids=["unset", "odd", "hangs"]
)
def test_the_watchdogs_delay_is_asked_of_windows_with_a_limit(tmp_path: Path, script: str, delay: int | None) -> None:
    root = wsl2(tmp_path)
    windows_program(root, "mnt/c/Windows/System32/reg.exe", script)
    assert wsl_details(ProcTree(root), lambda _: None, 0.3, {}).tdr_seconds == delay


def test_wsl2_of_which_little_can_be_read(tmp_path: Path) -> None:
    unknown: dict[str, str] = {}
    found = wsl_details(ProcTree(wsl2(tmp_path)), lambda _: "/usr/bin/nvidia-smi", 1.0, unknown)
    assert (found.version, found.networking, found.tdr_seconds, found.config) == (None, None, None, None)
    assert (found.linux_packages, found.foreign_libraries, found.nvidia_smi) == (None, (), "on-path")
    parts = ("version", "networking", "tdr_seconds", "config", "linux_packages", "windows_free_bytes")
    assert {f"details.wsl.{part}" for part in parts} == set(unknown)


def test_wslconfig_of_nobody_and_of_several(tmp_path: Path) -> None:
    root = wsl2(tmp_path, **{"mnt/c/Users/A/": "", "mnt/c/Users/B/": ""})
    assert wsl_details(ProcTree(root), lambda _: None, 1.0, {}).config == {}
    write_tree(root, {"mnt/c/Users/A/.wslconfig": "[wsl2]\n", "mnt/c/Users/B/.wslconfig": "[wsl2]\n"})
    assert wsl_details(ProcTree(root), lambda _: None, 1.0, {}).config is None


# Docker


def test_registered_in_the_file_and_unknown_to_the_daemon(tmp_path: Path) -> None:
    runtimes = json.dumps({"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})
    root = linux(
        tmp_path,
        **{
            "etc/docker/daemon.json": runtimes,
            "var/lib/dpkg/status": "Package: nvidia-container-toolkit\nStatus: install ok installed\n",
            "var/run/cdi/nvidia.yaml": "hostPath: /usr/lib/libcuda.so.580.95.05\n",
            "usr/bin/dockerd": "",
            "snap/docker/current/": "",
        },
    )
    docker = ENGINE.model_copy(update={"gpu": DockerGpu(runtime=False)})
    setup = gathered(root, docker=docker).docker
    assert setup.file_runtimes == {"nvidia": "nvidia-container-runtime"}
    assert (setup.toolkit, setup.cdi_driver, setup.runtime_found) == (True, "580.95.05", None)
    host = Host(docker=docker, gpus=HOST_GPUS, details=HostDetails(docker=setup))
    assert docker_runtime(host).situation == "not-restarted"
    assert docker_engines(host).situation == "several"


HOST_GPUS = Nvml(FakeNvml([FakeGpu()]), root=Path("/nonexistent"), load=str).gpus()[1]


@pytest.mark.parametrize(
    ("path", "found", "there"),
    [
        ("/usr/bin/nvidia-container-runtime", (), False),
        ("nvidia-container-runtime", (), False),
        ("nvidia-container-runtime", ("nvidia-container-runtime",), True),
    ],
)
def test_a_registered_runtime_whose_program_is_missing(
    tmp_path: Path, path: str, found: Sequence[str], *, there: bool
) -> None:
    docker = ENGINE.model_copy(update={"gpu": DockerGpu(runtime=True, runtime_path=path)})
    setup = gathered(linux(tmp_path), docker=docker, found=found).docker
    assert setup.runtime_found is there
    host = Host(docker=docker, gpus=HOST_GPUS, details=HostDetails(docker=setup))
    assert docker_runtime(host).situation == ("registered" if there else "missing")


def test_a_daemon_json_that_is_broken(tmp_path: Path) -> None:
    unknown: dict[str, str] = {}
    root = linux(tmp_path, **{"etc/docker/daemon.json": "{"})
    found = details(root, found=("nvidia-ctk",)).gather(Platform.LINUX, lambda: ENGINE, unknown)
    assert (found.docker.file_runtimes, found.docker.toolkit) == (None, True)
    assert "details.docker.file_runtimes" in unknown


@pytest.mark.parametrize(
    ("group", "in_group", "listed"),
    [
        ("docker:x:987654:{user}\n", False, True),
        ("docker:x:987654:somebody\n", False, False),
        ("docker:x:{gid}:\n", True, True),
        ("users:x:100:\n", False, False),
        ("docker:nonsense\n", None, None),
        (None, None, None),
    ],
)
def test_the_group_of_this_session_and_of_the_database(
    tmp_path: Path, group: str | None, in_group: bool | None, listed: bool | None
) -> None:
    import pwd

    me = pwd.getpwuid(os.getuid())
    text = {} if group is None else {"etc/group": group.format(user=me.pw_name, gid=me.pw_gid)}
    setup = gathered(linux(tmp_path, **text)).docker
    assert (setup.in_group, setup.listed_in_group) == (in_group, listed)


_PROBE = """
import os, sys
import docker, pynvml
from aeonctl.adapters import docker_client, docker_errors
from aeonctl.adapters.real import build_ports
os.setgroups([]); os.setgid(65534); os.setuid(65534)
host = build_ports(sys.argv[1], {"HOME": "/nonexistent"}).inspection.probe()
sys.stdout.write(host.model_dump_json())
"""


def probed_as_nobody(socket_url: str) -> Host:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, socket_url], capture_output=True, check=True, env=child_environment()
    )
    return Host.model_validate_json(done.stdout)


@pytest.mark.docker
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_told_about_the_group(docker_host: str) -> None:
    host = probed_as_nobody(docker_host)
    assert host.docker.problem == "permission"
    assert docker_check(host).situation == "not-in-group"


@pytest.mark.docker
def test_a_context_that_does_not_exist(tmp_path: Path, docker_host: str) -> None:
    environment = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "no-such-context"}
    inspection = build_ports(None, environment).inspection
    assert inspection is not None
    host = inspection.probe()
    assert docker_check(host).situation == "context-not-found"


def test_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    import socket

    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    inspection = build_ports(f"unix://{path}", {"HOME": str(tmp_path)}).inspection
    assert inspection is not None
    assert docker_check(inspection.probe()).situation == "not-running"


@contextmanager
def silent_daemon(path: Path) -> Iterator[None]:
    """Something that takes connections and says nothing."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        yield


def test_a_daemon_that_takes_the_connection_and_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    root = linux(tmp_path / "root")
    with silent_daemon(path):
        engines = build_ports(f"unix://{path}", {"HOME": str(tmp_path)}).docker
        nvml = Nvml(FakeNvml([FakeGpu()]), root=root, load=str)
        host = LocalHost(gpus=nvml, docker=engines, root=root, details=details(root), docker_seconds=0.3).probe()
    assert host.docker.reachable is False
    assert host.docker.detail == "no answer within 0.3 s"
    assert host.details.system.dgx is None


# The hub


def cache(tmp_path: Path) -> Path:
    blobs = tmp_path / "hub/models--org--name/blobs"
    snapshot = tmp_path / "hub/models--org--name/snapshots/abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "whole").write_text("x")
    (blobs / "part.1234abcd.incomplete").write_text("12345")
    (snapshot / "good").symlink_to("../../blobs/whole")
    (snapshot / "bad").symlink_to("../../blobs/gone")
    return tmp_path / "hub"


def test_a_cache_with_links_to_nowhere_and_leftovers(tmp_path: Path) -> None:
    found = hub_details({}, tmp_path, cache(tmp_path), 5.0)
    assert found.dangling == ("org/name",)
    assert (found.leftovers, found.leftover_bytes, found.scanned, found.writable) == (1, 5, True, True)
    assert (found.token, found.endpoint, found.offline) == ("none", "https://huggingface.co", False)


def test_a_cache_that_is_too_large_for_the_time(tmp_path: Path) -> None:
    assert hub_details({}, tmp_path, cache(tmp_path), -1.0).scanned is False


def test_a_cache_that_is_not_there_yet(tmp_path: Path) -> None:
    found = hub_details({}, tmp_path, tmp_path / "none/hub", 1.0)
    assert (found.dangling, found.leftovers, found.scanned, found.writable) == ((), 0, True, True)


@pytest.mark.parametrize(
    ("environment", "token", "exposed"),
    [
        ({"HF_TOKEN": "hf_secretsecretsecret"}, "environment", None),
        ({"HUGGING_FACE_HUB_TOKEN": "hf_secretsecretsecret"}, "environment", None),
        ({}, "file", False),
        ({"HF_TOKEN_PATH": "/nonexistent"}, "none", None),
    ],
)
def test_where_the_token_is_from_and_nothing_more(
    tmp_path: Path, environment: dict[str, str], token: str, exposed: bool | None
) -> None:
    path = tmp_path / ".cache/huggingface/token"
    path.parent.mkdir(parents=True)
    path.write_text("hf_secretsecretsecret")
    path.chmod(0o600)
    found = hub_details(environment, tmp_path, tmp_path / "hub", 1.0)
    assert (found.token, found.token_exposed) == (token, exposed)
    assert "secret" not in found.model_dump_json()


def test_a_token_that_others_can_reach_and_read(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    path = tmp_path / "token"
    path.write_text("hf_secretsecretsecret")
    path.chmod(0o644)
    found = hub_details({"HF_HOME": str(tmp_path)}, tmp_path, tmp_path / "hub", 1.0)
    assert (found.token, found.token_exposed) == ("file", True)


def test_an_empty_token_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("")
    assert hub_details({"HF_HOME": str(tmp_path)}, tmp_path, tmp_path / "hub", 1.0).token == "none"


_AS_NOBODY = """
import os, sys
from pathlib import Path
from aeonctl.adapters.details_hub import hub_details
os.setgid(65534); os.setuid(65534)
found = hub_details({"HF_TOKEN_PATH": sys.argv[2]}, Path("/nonexistent"), Path(sys.argv[1]), 5.0)
sys.stdout.write(found.model_dump_json())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_cache_of_somebody_else(tmp_path: Path) -> None:
    """As after a container that downloaded as root."""
    hub = cache(tmp_path)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    token = tmp_path / "token"
    token.write_text("hf_secretsecretsecret")
    token.chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(hub), str(token)],
        capture_output=True,
        check=True,
        env=child_environment(),
    )
    found = json.loads(done.stdout)
    assert found["writable"] is False
    assert found["foreign_files"] >= 6
    assert found["token"] == "unreadable"


# aeonctl's own


def record(name: str, policy: str, spec_hash: str) -> EngineRecord:
    labels = {"io.aeonctl.spec-hash": spec_hash}
    return EngineRecord(name, EngineStatus.RUNNING, ours=True, labels=labels, restart_policy=policy)


def test_a_container_that_restarts_needs_its_verification(tmp_path: Path) -> None:
    write_tree(tmp_path, {"verifications/abc.json": "{}"})
    engines = Records([record("proven", "unless-stopped", "abc"), record("unproven", "always", "def")])
    found = own_state(tmp_path, engines, {}).containers
    assert found == (
        OwnContainer(name="proven", restart="unless-stopped", status="running", verified=True),
        OwnContainer(name="unproven", restart="always", status="running", verified=False),
    )


def test_an_engine_that_fails_leaves_the_containers_unknown(tmp_path: Path) -> None:
    unknown: dict[str, str] = {}
    assert own_state(tmp_path, Records(error=HostError("docker_unreachable", "it is gone")), unknown).containers is None
    assert unknown == {"details.own.containers": "it is gone"}


def test_locks_held_left_and_free(tmp_path: Path) -> None:
    note = json.dumps({"who": "up aeon", "pid": 7, "since": 0})
    write_tree(tmp_path, {"locks/held.lock": note, "locks/left.lock": note, "locks/free.lock": ""})
    with (tmp_path / "locks/held.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = own_state(tmp_path, None, {})
    assert found.held == ("held: up aeon (pid 7, since 1970-01-01 00:00:00 UTC)",)
    assert found.stale == ("left: up aeon (pid 7, since 1970-01-01 00:00:00 UTC)",)
    assert found.writable is True


def test_a_state_folder_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert own_state(tmp_path / "file/aeonctl", None, {}).writable is False


# The rest


def test_the_kernels_log_is_read_without_waiting_for_more(tmp_path: Path) -> None:
    assert read_kmsg(tmp_path / "none") is None
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR)
    os.write(keep, KMSG.encode())
    assert read_kmsg(pipe) == KMSG
    os.close(keep)


def test_a_call_that_never_returns_and_one_that_raises() -> None:
    never = threading.Event()
    assert Pending(never.wait).result(0.01) is None
    never.set()
    with pytest.raises(HostError, match="no"), _quiet_threads():
        Pending(_fail).result(5.0)
    started = time.monotonic()
    assert Pending(lambda: 7).result(60.0) == 7
    assert started <= time.monotonic()


@contextmanager
def _quiet_threads() -> Iterator[None]:
    before, threading.excepthook = threading.excepthook, lambda _: None
    try:
        yield
    finally:
        threading.excepthook = before


def _fail() -> None:
    raise HostError("x", "no")


def test_private_words_are_names_and_secrets(tmp_path: Path) -> None:
    words = details(tmp_path, USER="zqalice", HF_TOKEN="hf_secretsecretsecret", PATH="/bin").private_words()
    assert {"zqalice", "hf_secretsecretsecret", str(tmp_path / "home")} <= set(words)
    assert "/bin" not in words


def test_this_machine_whole(tmp_path: Path) -> None:
    """Whatever this machine is: nothing raises, and the host can be written and read."""
    inspection = build_ports("unix:///nonexistent/docker.sock", {"HOME": str(tmp_path)}).inspection
    assert inspection is not None
    host = inspection.probe()
    assert Host.model_validate_json(host.model_dump_json()) == host
    assert host.docker.reachable is False
