"""Every check of a host as a table: the facts, the situation they lead to, and that every situation has its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.core import checks_docker as docker
from aeonctl.core import checks_gpu as gpu
from aeonctl.core import checks_own as own
from aeonctl.core import checks_system as system
from aeonctl.core import checks_wsl as wsl
from aeonctl.core.catalog import Catalog
from aeonctl.core.checks import (
    NOT_HERE,
    UNKNOWN,
    CheckRow,
    Finding,
    Status,
    check_of,
    checks_of,
)
from aeonctl.core.host import Host
from aeonctl.core.units import GIB
from aeonctl.errors import ConfigurationError

FOLDER = Path(__file__).parents[2] / "profiles" / "checks"
ROWS: dict[str, CheckRow] = {
    row["id"]: CheckRow.parse(row, file.name)
    for file in sorted(FOLDER.glob("*.yaml"))
    for row in yaml.safe_load(file.read_text())
}
CATALOG = Catalog(ProfileFiles({}, home=Path("/nonexistent")).read)

CARD = {
    "index": 0,
    "name": "NVIDIA GeForce RTX 5090",
    "sm": "12.0",
    "memory": "dedicated",
    "vram_total_bytes": 34190917632,
    "vram_free_bytes": 33668726784,
    "mig": False,
    "ecc": False,
    "processes": [],
}
SPARK = {"index": 0, "name": "NVIDIA GB10", "sm": "12.1", "memory": "unified", "mig": False, "processes": []}
DRIVER = {"version": "580.95.05", "cuda": "13.0", "open_module": True}
ENGINE = {
    "reachable": True,
    "endpoint": "unix:///var/run/docker.sock",
    "version": "28.5.1",
    "flavor": "native",
    "kernel": "6.14.0",
    "cgroup_driver": "systemd",
    "image_root": "/var/lib/docker",
    "image_root_free_bytes": 900 * 10**9,
    "gpu": {"runtime": True, "runtime_path": "nvidia-container-runtime", "hook": True, "cdi": []},
}
MEMORY = {"total_bytes": 64 * GIB, "available_bytes": 60 * GIB, "swap_total_bytes": 8 * GIB, "swap_free_bytes": 0}
BASE: dict[str, Any] = {
    "platform": "linux",
    "kernel": "6.14.0",
    "arch": "amd64",
    "memory": MEMORY,
    "driver": DRIVER,
    "gpus": [CARD],
    "docker": ENGINE,
    "ports": [{"port": 22}],
}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with dotted keys of ``change`` set; a value None takes the key out."""
    result = {key: merged(value, {}) if isinstance(value, dict) else value for key, value in base.items()}
    for path, value in change.items():
        *parents, last = path.split(".")
        place = result
        for part in parents:
            place = place.setdefault(part, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def host(**change: Any) -> Host:
    return Host.parse(merged(BASE, {key.replace("__", "."): value for key, value in change.items()}), "a test")


def wsl2(**change: Any) -> Host:
    return host(platform="wsl2", **change)


def spark(**change: Any) -> Host:
    return host(gpus=[SPARK], arch="arm64", **change)


def with_kernel(one: Host) -> Finding:
    return gpu.kernel(one, ROWS["kernel"].table)


def with_log(one: Host) -> Finding:
    return gpu.kernel_log(one, ROWS["kernel-log"].table)


def with_cards(one: Host) -> Finding:
    return gpu.gpus(one, {g.index: CATALOG.card_of(g, one) for g in one.gpus or ()})[0]


def with_ports(one: Host) -> Finding:
    return system.ports(one, {8000: "rtx-5090/quality"}, frozenset({8000} if one.name == "ours" else ()))


def profiles(one: Host) -> Finding:
    return own.own_profiles(
        {
            "broken": own.Surroundings(broken=("x.yaml is not valid: id: missing", "more")),
            "unread": own.Surroundings(overrides=None),
            "overrides": own.Surroundings(overrides=("rtx-5090/quality",)),
        }.get(one.name, own.Surroundings())
    )


def problem(name: str, **change: Any) -> dict[str, Any]:
    """A driver that does not answer."""
    return {"driver": {"problem": name, "detail": "as NVML says it"}, "gpus": None, **change}


def user(**change: Any) -> dict[str, Any]:
    return {"gpus": [{**CARD, "processes": [{"pid": 7, "name": "python3", **change}]}]}


FULL_SPARK = {"memory": {"total_bytes": 121 * GIB, "available_bytes": 40 * GIB, "swap_total_bytes": 0}}

Table = list[tuple[Callable[[Host], Finding], Host, str]]

GPU: Table = [
    (gpu.platform, host(), "linux"),
    (gpu.platform, wsl2(), "wsl2"),
    (gpu.platform, host(platform=None), UNKNOWN),
    (gpu.platform, host(arch=None), UNKNOWN),
    (with_kernel, host(), "fine"),
    (with_kernel, host(kernel="7.0.0-1019-nvidia"), "faulty"),
    (with_kernel, host(kernel=None), UNKNOWN),
    (gpu.driver, host(), "answers"),
    (gpu.driver, wsl2(), "windows"),
    (gpu.driver, host(driver={}), UNKNOWN),
    (gpu.driver, host(gpus=[]), "no-devices"),
    (gpu.driver, host(**problem("library_missing", gpus=[])), "no-card"),
    (gpu.driver, host(**problem("library_missing", details__driver__pci_cards=0)), "no-card"),
    (gpu.driver, host(**problem("library_missing", details__driver__pci_cards=1)), "missing"),
    (gpu.driver, host(**problem("library_missing")), "missing-perhaps"),
    (gpu.driver, host(**problem("not_loaded")), "not-loaded"),
    (gpu.driver, host(**problem("not_loaded", details__driver__nouveau=True)), "nouveau"),
    (gpu.driver, host(**problem("not_loaded", details__driver__secure_boot=True)), "secure-boot"),
    (gpu.driver, host(**problem("mismatch", details__driver__module="580.82.07")), "mismatch"),
    (gpu.driver, host(**problem("no_devices", driver__open_module=False, gpus=[])), "closed-module"),
    (gpu.driver, host(**problem("no_devices", details__kernel_log__open_module_needed=True)), "closed-module"),
    (gpu.driver, host(**problem("no_devices", details__kernel_log__no_memory=0)), "no-devices"),
    (gpu.driver, host(**problem("no_devices")), "no-devices"),
    (gpu.driver, host(**problem("no_permission")), "no-permission"),
    (gpu.driver, host(**problem("blocked")), "blocked"),
    (gpu.driver, host(**problem("failed")), "failed"),
    (gpu.driver, wsl2(**problem("failed")), "wsl-failed"),
    (gpu.driver, wsl2(**problem("blocked")), "wsl-blocked"),
    (gpu.driver, wsl2(**problem("library_missing")), "wsl-missing"),
    (gpu.driver, wsl2(**problem("blocked", details__wsl__linux_packages=["nvidia-utils-570"])), "wsl-linux-driver"),
    (gpu.driver, wsl2(**problem("library_missing", details__wsl__gpu_device=False)), "wsl-no-gpu-device"),
    (with_cards, host(), "known"),
    (with_cards, spark(**FULL_SPARK), "known"),
    (with_cards, host(gpus=[]), "none"),
    (with_cards, host(gpus=None), UNKNOWN),
    (with_cards, host(gpus=[{**CARD, "name": "NVIDIA GeForce RTX 5090 D"}]), "alike"),
    (with_cards, host(gpus=[{**CARD, "sm": "9.9"}]), "unknown-card"),
    (with_cards, host(gpus=[{"index": 0}]), "unread"),
    (gpu.gpu_users, host(), "none"),
    (gpu.gpu_users, host(**user(used_bytes=2 * GIB)), "some"),
    (gpu.gpu_users, host(**user()), "some"),
    (gpu.gpu_users, host(**user(used_bytes=GIB // 4)), "desktop"),
    (gpu.gpu_users, host(gpus=[{"index": 0}]), UNKNOWN),
    (gpu.gpu_users, host(gpus=[]), NOT_HERE),
    (gpu.gpu_users, host(gpus=None), UNKNOWN),
    (gpu.gpu_users, wsl2(), "windows-little"),
    (gpu.gpu_users, wsl2(gpus=[{**CARD, "vram_free_bytes": 20 * GIB}]), "windows-much"),
    (gpu.gpu_users, wsl2(gpus=[{"index": 0}]), UNKNOWN),
    (gpu.gpu_mig, host(), "off"),
    (gpu.gpu_mig, host(gpus=[{**CARD, "mig": True, "mig_devices": [{}]}]), "on"),
    (gpu.gpu_mig, host(gpus=[{"index": 0}], unknown={"gpus.0.mig": "no"}), UNKNOWN),
    (gpu.gpu_mig, host(gpus=[]), NOT_HERE),
    (gpu.gpu_ecc, host(), "off"),
    (gpu.gpu_ecc, host(gpus=[{**CARD, "ecc": True}]), "on"),
    (gpu.gpu_ecc, host(gpus=[{"index": 0}]), UNKNOWN),
    (gpu.gpu_ecc, host(gpus=[]), NOT_HERE),
    (with_log, host(), UNKNOWN),
    (with_log, host(details__kernel_log={}), "clean"),
    (with_log, host(details__kernel_log__xids={"79": 1, "31": 4}), "lost"),
    (with_log, host(details__kernel_log__xids={"48": 1, "31": 4}), "hardware"),
    (with_log, host(details__kernel_log__xids={"9999": 1}), "program"),
    (with_log, host(details__kernel_log__no_memory=3), "no-memory"),
    (with_log, host(details__kernel_log__oom_kills=1), "oom"),
]

SYSTEM: Table = [
    (system.memory, host(), "enough"),
    (system.memory, host(memory__available_bytes=4 * GIB), "little"),
    (system.memory, host(memory={}), UNKNOWN),
    (system.spark_memory, host(), NOT_HERE),
    (system.spark_memory, spark(), "enough"),
    (system.spark_memory, spark(**FULL_SPARK), "little"),
    (system.spark_memory, spark(memory={}), UNKNOWN),
    (system.spark_page_cache, host(), NOT_HERE),
    (system.spark_page_cache, spark(), UNKNOWN),
    (
        system.spark_page_cache,
        spark(details__system__free_bytes=60 * GIB, details__system__cached_bytes=GIB),
        "small",
    ),
    (
        system.spark_page_cache,
        spark(details__system__free_bytes=3 * GIB, details__system__cached_bytes=50 * GIB),
        "large",
    ),
    (system.spark_swap, host(), NOT_HERE),
    (system.spark_swap, spark(), "on"),
    (system.spark_swap, spark(**FULL_SPARK), "off"),
    (system.spark_swap, spark(memory={}), UNKNOWN),
    (system.spark_earlyoom, host(), NOT_HERE),
    (system.spark_earlyoom, spark(), UNKNOWN),
    (system.spark_earlyoom, spark(details__system__earlyoom=True), "running"),
    (system.spark_earlyoom, spark(details__system__earlyoom=False), "absent"),
    (system.spark_os, host(), NOT_HERE),
    (system.spark_os, spark(), UNKNOWN),
    (system.spark_os, spark(details__system__dgx={"DGX_OTA_VERSION": "7.5.0"}), "known"),
    (system.spark_os, spark(details__system__firmware="5.36"), "known"),
    (system.hub_token, host(), UNKNOWN),
    *((system.hub_token, host(details__hub__token=w), w) for w in ("environment", "file", "unreadable", "none")),
    (system.hub_token, host(details__hub={"token": "file", "token_exposed": True}), "exposed"),
    (system.hub_endpoint, host(), UNKNOWN),
    (system.hub_endpoint, host(details__hub__endpoint="https://huggingface.co"), "usual"),
    (system.hub_endpoint, host(details__hub__endpoint="https://mirror.test"), "other"),
    (system.hub_endpoint, host(details__hub__endpoint="http://mirror.test"), "plain-http"),
    (system.hub_endpoint, host(details__hub__endpoint="invalid"), "invalid"),
    (system.hub_endpoint, host(details__hub={"endpoint": "https://huggingface.co", "offline": True}), "offline"),
    *(
        (system.hub_cache, one, words)
        for one, words in (
            (host(), UNKNOWN),
            (host(disks=[{"role": "hub-cache", "path": "/c", "free_bytes": 10**12}]), "enough"),
            (host(disks=[{"role": "hub-cache", "path": "/c", "free_bytes": 10**9}]), "little"),
            (
                wsl2(disks=[{"role": "hub-cache", "path": "/mnt/c", "filesystem": "9p", "free_bytes": 10**12}]),
                "windows",
            ),
        )
    ),
    (system.hub_owner, host(), UNKNOWN),
    (system.hub_owner, host(details__hub={"writable": True, "foreign_files": 0}), "own"),
    (system.hub_owner, host(details__hub={"writable": True, "foreign_files": 3}), "foreign"),
    (system.hub_owner, host(details__hub__writable=False), "read-only"),
    (system.hub_links, host(), UNKNOWN),
    (system.hub_links, host(details__hub={"dangling": [], "scanned": False}), UNKNOWN),
    (system.hub_links, host(details__hub={"dangling": [], "scanned": True}), "whole"),
    (system.hub_links, host(details__hub={"dangling": ["o/m"], "scanned": False}), "dangling"),
    (system.hub_leftovers, host(), UNKNOWN),
    (system.hub_leftovers, host(details__hub={"leftovers": 0, "scanned": False}), UNKNOWN),
    (system.hub_leftovers, host(details__hub={"leftovers": 0, "scanned": True}), "none"),
    (system.hub_leftovers, host(details__hub={"leftovers": 2, "leftover_bytes": 5}), "some"),
    (
        system.hub_leftovers,
        host(details__hub={"leftovers": 2}, disks=[{"role": "hub-cache", "path": "/c"}]),
        "some",
    ),
    (with_ports, host(), "free"),
    (with_ports, host(ports=None), UNKNOWN),
    (with_ports, host(ports=[{"port": 8000, "owner": "process python3 (pid 7)"}]), "taken"),
    (with_ports, host(ports=[{"port": 8000}], name="ours"), "ours"),
]

WSL: Table = [
    *((check, host(), NOT_HERE) for check in (wsl.wsl_memory, wsl.wsl_swap, wsl.wsl_driver, wsl.wsl_nvidia_smi)),
    *((check, host(), NOT_HERE) for check in (wsl.wsl_tdr, wsl.wsl_idle, wsl.wsl_network, wsl.wsl_version)),
    (wsl.wsl_disk, host(), NOT_HERE),
    (wsl.wsl_memory, wsl2(), "enough"),
    (wsl.wsl_memory, wsl2(memory__total_bytes=15 * GIB), "little"),
    (wsl.wsl_memory, wsl2(memory={}), UNKNOWN),
    (wsl.wsl_swap, wsl2(), "enough"),
    (wsl.wsl_swap, wsl2(memory={"total_bytes": 15 * GIB, "swap_total_bytes": GIB}), "little"),
    (wsl.wsl_swap, wsl2(memory={"total_bytes": 15 * GIB, "swap_total_bytes": 0}), "none"),
    (wsl.wsl_swap, wsl2(memory={}), UNKNOWN),
    (wsl.wsl_driver, wsl2(), UNKNOWN),
    (wsl.wsl_driver, wsl2(details__wsl={"linux_packages": [], "foreign_libraries": []}), "clean"),
    (wsl.wsl_driver, wsl2(details__wsl__linux_packages=["nvidia-utils-570"]), "packages"),
    (wsl.wsl_driver, wsl2(details__wsl__foreign_libraries=["/usr/lib/x86_64-linux-gnu/libcuda.so.1"]), "libraries"),
    (wsl.wsl_nvidia_smi, wsl2(), UNKNOWN),
    *((wsl.wsl_nvidia_smi, wsl2(details__wsl__nvidia_smi=w), w) for w in ("on-path", "off-path", "absent")),
    (wsl.wsl_tdr, wsl2(), "untold"),
    (wsl.wsl_tdr, wsl2(details__wsl__tdr_seconds=2), "short"),
    (wsl.wsl_tdr, wsl2(details__wsl__tdr_seconds=60), "long"),
    (wsl.wsl_idle, wsl2(docker__flavor="desktop"), "desktop"),
    (wsl.wsl_idle, wsl2(), "untold"),
    (wsl.wsl_idle, wsl2(details__wsl__config={}), "ends"),
    (wsl.wsl_idle, wsl2(details__wsl__config={"general.instanceidletimeout": "-1"}), "kept"),
    (wsl.wsl_network, wsl2(), UNKNOWN),
    (wsl.wsl_network, wsl2(details__wsl__networking="nat"), "nat"),
    (
        wsl.wsl_network,
        wsl2(details__wsl={"networking": "nat", "config": {"wsl2.localhostforwarding": "false"}}),
        "nat-closed",
    ),
    (wsl.wsl_network, wsl2(details__wsl__networking="mirrored"), "mirrored"),
    (wsl.wsl_network, wsl2(details__wsl__networking="none"), "none"),
    (wsl.wsl_network, wsl2(details__wsl__networking="virtioproxy"), "other"),
    (wsl.wsl_version, wsl2(), UNKNOWN),
    (wsl.wsl_version, wsl2(details__wsl__version="2.6.1"), "old"),
    (wsl.wsl_version, wsl2(details__wsl__version="2.7.0"), "fine"),
    (wsl.wsl_version, wsl2(details__wsl__version="2.6.1", gpus=[SPARK]), "fine"),
    (wsl.wsl_disk, wsl2(), UNKNOWN),
    (wsl.wsl_disk, wsl2(details__wsl__windows_free_bytes=10**9), "little"),
    (wsl.wsl_disk, wsl2(details__wsl__windows_free_bytes=10**12), "enough"),
]


def silent(name: str, **change: Any) -> dict[str, Any]:
    return {"docker": {"reachable": False, "problem": name, "detail": "its words"}, **change}


NO_WAY = {"docker__gpu": {"runtime": False, "hook": False, "cdi": []}}
CDI = ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]
GROUP = "details__docker"
DOCKER: Table = [
    (docker.docker, host(), "answers"),
    (docker.docker, host(docker={}), UNKNOWN),
    (docker.docker, host(**silent("not_running")), "not-running"),
    (docker.docker, host(**silent("not_running", details__system__init="other")), "not-running"),
    (docker.docker, host(**silent("context_not_found")), "context-not-found"),
    (docker.docker, host(**silent("failed")), "failed"),
    (docker.docker, host(**silent("no_socket")), "no-socket"),
    (docker.docker, wsl2(**silent("no_socket")), "wsl-no-socket"),
    (docker.docker, host(**silent("permission")), "permission"),
    (docker.docker, host(**silent("permission", details__docker={"in_group": True})), "permission"),
    (
        docker.docker,
        host(**silent("permission", details__docker={"in_group": True, "listed_in_group": True})),
        "permission",
    ),
    (
        docker.docker,
        host(**silent("permission", details__docker={"in_group": False, "listed_in_group": True})),
        "old-session",
    ),
    (
        docker.docker,
        host(**silent("permission", details__docker={"in_group": False, "listed_in_group": False})),
        "not-in-group",
    ),
    (docker.docker_kind, host(), "native"),
    (docker.docker_kind, host(**silent("failed")), UNKNOWN),
    *((docker.docker_kind, host(docker__flavor=w), w) for w in ("desktop", "rootless", "snap", "podman")),
    (docker.docker_kind, host(docker__flavor="desktop", docker__kernel="6.12.5-linuxkit"), "desktop-without-gpu"),
    (docker.docker_kind, host(docker__endpoint="ssh://user@gx10"), "elsewhere"),
    (docker.docker_kind, host(docker__flavor=None), UNKNOWN),
    (docker.docker_engines, host(), UNKNOWN),
    (docker.docker_engines, host(details__docker__engines=["Docker from a package"]), "one"),
    (docker.docker_engines, host(details__docker__engines=["Docker from a package", "Docker from a snap"]), "several"),
    *(
        (check, host(gpus=gpus), words)
        for check in (
            docker.docker_toolkit,
            docker.docker_runtime,
            docker.docker_gpu,
            docker.docker_cdi,
            docker.docker_cgroup,
        )
        for gpus, words in (([], NOT_HERE), (None, UNKNOWN))
    ),
    (docker.docker_toolkit, host(**silent("failed")), UNKNOWN),
    (docker.docker_toolkit, host(), UNKNOWN),
    (docker.docker_toolkit, host(docker__flavor="desktop"), NOT_HERE),
    (docker.docker_toolkit, host(details__docker__toolkit=True), "installed"),
    (docker.docker_toolkit, host(details__docker__toolkit=False), "absent"),
    (docker.docker_runtime, host(), "registered"),
    (docker.docker_runtime, host(docker__gpu={}), UNKNOWN),
    (docker.docker_runtime, host(details__docker__runtime_found=False), "missing"),
    (docker.docker_runtime, host(**NO_WAY), "not-registered"),
    (docker.docker_runtime, host(**NO_WAY, details__docker__file_runtimes={"nvidia": "x"}), "not-restarted"),
    (
        docker.docker_runtime,
        host(**NO_WAY, docker__flavor="desktop", details__docker__file_runtimes={"nvidia": "x"}),
        "desktop-not-read",
    ),
    (docker.docker_gpu, host(), "able"),
    (docker.docker_gpu, host(**NO_WAY), "unable"),
    (docker.docker_gpu, host(docker__gpu={}), UNKNOWN),
    (docker.docker_gpu, host(docker__gpu={"runtime": False, "hook": False, "cdi": CDI}), "cdi-only"),
    (
        docker.docker_gpu,
        host(docker__gpu={"runtime": False, "hook": False, "cdi": CDI}, docker__version="29.7.2"),
        "able",
    ),
    (
        docker.docker_gpu,
        host(docker__gpu={"runtime": True, "hook": False}, details__docker__runtime_found=False),
        "unable",
    ),
    (docker.docker_cdi, host(), UNKNOWN),
    (docker.docker_cdi, wsl2(), NOT_HERE),
    (docker.docker_cdi, host(details__docker__cdi_driver="580.95.05"), "current"),
    (docker.docker_cdi, host(details__docker__cdi_driver="575.57.08"), "stale"),
    (docker.docker_cgroup, host(), "at-risk"),
    (docker.docker_cgroup, host(docker__cgroup_driver="cgroupfs"), "safe"),
    (docker.docker_cgroup, host(docker__version="29.7.2", docker__gpu__cdi=CDI), "safe"),
    (docker.docker_cgroup, host(docker__cgroup_driver=None), UNKNOWN),
    (docker.docker_cgroup, host(docker__flavor="snap"), NOT_HERE),
    (docker.docker_disk, host(), "enough"),
    (docker.docker_disk, host(docker__image_root_free_bytes=30 * 10**9), "little"),
    (docker.docker_disk, host(docker__image_root_free_bytes=10**9), "full"),
    (docker.docker_disk, host(docker__image_root_free_bytes=None), UNKNOWN),
    (docker.docker_data, host(), NOT_HERE),
    (docker.docker_data, host(disks=[{"role": "docker-data", "path": "/d"}]), UNKNOWN),
    (docker.docker_data, host(disks=[{"role": "docker-data", "path": "/d", "free_bytes": 10**9}]), "full"),
    (docker.docker_data, host(disks=[{"role": "docker-data", "path": "/d", "free_bytes": 10**12}]), "enough"),
]

CONTAINER = {"name": "aeon", "restart": "unless-stopped", "status": "running"}
OWN: Table = [
    (own.own_state, host(), UNKNOWN),
    (own.own_state, host(details__own__writable=True), "writable"),
    (own.own_state, host(details__own__writable=False), "read-only"),
    (own.own_locks, host(), UNKNOWN),
    (own.own_locks, host(details__own={"held": [], "stale": []}), "free"),
    (own.own_locks, host(details__own={"held": ["up"], "stale": []}), "held"),
    (own.own_locks, host(details__own={"held": [], "stale": ["up"]}), "stale"),
    (own.own_restart, host(), UNKNOWN),
    (own.own_restart, host(details__own__containers=[]), "fine"),
    (own.own_restart, host(details__own__containers=[CONTAINER]), "unproven"),
    (own.own_restart, host(details__own__containers=[{**CONTAINER, "verified": True}]), "fine"),
    (own.own_restart, host(details__own__containers=[{**CONTAINER, "restart": "no"}]), "fine"),
    (own.own_restart, host(details__own__containers=[CONTAINER, {**CONTAINER, "status": "restarting"}]), "looping"),
    (profiles, host(), "plain"),
    (profiles, host(name="broken"), "broken"),
    (profiles, host(name="unread"), UNKNOWN),
    (profiles, host(name="overrides"), "overrides"),
]

EVERY = [*GPU, *SYSTEM, *WSL, *DOCKER, *OWN]


@pytest.mark.parametrize(("check", "one", "situation"), EVERY)
def test_the_facts_decide_the_situation(check: Callable[[Host], Finding], one: Host, situation: str) -> None:
    finding = check(one)
    assert finding.situation == situation
    shown = check_of(finding, ROWS)
    assert shown.summary
    assert "{" not in shown.summary
    if situation in (NOT_HERE, UNKNOWN):
        assert shown.status is Status.SKIP
        assert shown.applies == (situation == UNKNOWN)
    else:
        assert shown.status is ROWS[finding.check].situations[situation].status


def test_every_situation_of_a_host_is_reached() -> None:
    reached = {(check(one).check, situation) for check, one, situation in EVERY}
    elsewhere = {"docker-gpu-test"}
    wanted = {
        (row.id, name)
        for row in ROWS.values()
        for name in row.situations
        if row.id not in elsewhere and not row.id.startswith("seat")
    }
    assert wanted - reached == set()


def test_what_is_wrong_has_something_to_type() -> None:
    for row in ROWS.values():
        for name, situation in row.situations.items():
            if situation.status in (Status.WARN, Status.FAIL):
                assert situation.remedy, f"{row.id}.{name}"
        assert row.why
        assert row.source


def test_nobody_is_told_to_open_the_socket_to_all() -> None:
    text = "".join(file.read_text() for file in FOLDER.glob("*.yaml"))
    assert "chmod 666" not in text
    assert "chmod 777" not in text


def test_a_host_of_which_nothing_is_known_fails_nowhere() -> None:
    found = checks_of(own.host_findings(Host(), own.Surroundings(), ROWS), ROWS)
    assert {check.status for check in found} == {Status.SKIP, Status.PASS}
    assert [check.id for check in found if check.status is Status.PASS] == ["own-profiles"]


def test_a_catalogue_without_tables_is_no_reason_to_stop() -> None:
    assert own.host_findings(host(), own.Surroundings(), {})


def test_ids_are_unique_and_each_check_comes_once() -> None:
    for one in (host(), wsl2(), spark(), host(gpus=[])):
        ids = [check.id for check in checks_of(own.host_findings(one, own.Surroundings(), ROWS), ROWS)]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("rows", [{}, {"docker": ROWS["docker"].model_copy(update={"situations": {}})}])
def test_a_situation_without_words_is_a_broken_row(rows: dict[str, CheckRow]) -> None:
    with pytest.raises(ConfigurationError, match="check docker"):
        check_of(Finding("docker", "answers"), rows)


def test_words_that_name_an_unknown_fact_are_a_broken_row() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_of(Finding("docker", "answers"), ROWS)
    assert "version" in caught.value.causes[0]


@pytest.mark.parametrize(
    ("total", "config", "lines"),
    [
        (15.5, {}, ["[wsl2]", "memory=24GB", "swap=8GB"]),
        (7.7, {}, ["[wsl2]", "memory=10GB", "swap=8GB"]),
        (31.3, {}, ["[wsl2]", "memory=48GB", "swap=12GB"]),
        (8, {"wsl2.memory": "8GB"}, ["[wsl2]", "memory=24GB", "swap=8GB"]),
        (15.5, None, ["[wsl2]", "memory=24GB", "swap=8GB"]),
    ],
)
def test_wslconfig_is_for_this_machine(total: float, config: dict[str, str] | None, lines: list[str]) -> None:
    assert wsl.wslconfig_lines(int(total * GIB), config) == lines


@pytest.mark.parametrize(
    ("one", "command"),
    [
        (host(), "sudo systemctl restart docker"),
        (host(details__system__init="other"), "sudo service docker restart"),
        (host(docker__flavor="snap"), "sudo snap restart docker"),
        (host(docker__flavor="rootless"), "systemctl --user restart docker"),
        (host(docker__flavor="desktop"), "docker desktop restart"),
    ],
)
def test_the_restart_is_of_the_docker_that_answers(one: Host, command: str) -> None:
    assert docker.restart_command(one) == command


def test_the_mismatch_names_both_versions() -> None:
    one = host(**problem("mismatch", details__driver={"module": "580.82.07", "library": "580.95.05"}))
    shown = check_of(gpu.driver(one), ROWS)
    assert "580.82.07" in shown.summary
    assert "580.95.05" in shown.summary
    assert shown.remedy == "sudo reboot"
