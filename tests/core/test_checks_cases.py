"""Public cases of machines that could not serve: the right check sees each, and says what to type."""

from __future__ import annotations

from typing import Any

import pytest

from aeonctl.core.checks import checks_of
from aeonctl.core.checks_own import Surroundings, host_findings
from aeonctl.core.host import Host
from tests.core.test_checks import CATALOG, ROWS, host, problem, spark, wsl2


def silent(name: str, **more: Any) -> dict[str, Any]:
    return {"docker": {"reachable": False, "problem": name, "endpoint": "unix:///var/run/docker.sock"}, **more}


NO_WAY = {"runtime": False, "hook": False, "cdi": []}

CASES: dict[str, tuple[Host, str, str, str]] = {
    "C001 no toolkit": (
        host(docker__gpu=NO_WAY, details__docker__toolkit=False),
        "docker-toolkit",
        "fail",
        "apt-get install -y nvidia-container-toolkit",
    ),
    "C002 never registered": (
        host(docker__gpu=NO_WAY, details__docker__toolkit=True),
        "docker-gpu",
        "fail",
        "nvidia-ctk runtime configure",
    ),
    "C003 no runtime on a Spark": (spark(docker__gpu={**NO_WAY, "hook": True}), "docker-runtime", "pass", ""),
    "C004 daemon not restarted": (
        host(docker__gpu=NO_WAY, details__docker__file_runtimes={"nvidia": "x"}),
        "docker-runtime",
        "warn",
        "systemctl restart docker",
    ),
    "C004 Desktop does not read it": (
        wsl2(docker__flavor="desktop", docker__gpu=NO_WAY, details__docker__file_runtimes={"nvidia": "x"}),
        "docker-runtime",
        "warn",
        "docker context ls",
    ),
    "C005 binary missing": (
        host(details__docker__runtime_found=False),
        "docker-runtime",
        "fail",
        "nvidia-container-toolkit",
    ),
    "C008 module and library differ": (host(**problem("mismatch")), "driver", "fail", "sudo reboot"),
    "C009 daemon-reload": (host(), "docker-cgroup", "warn", "aeonctl up --replace"),
    "C010 closed module": (
        host(**problem("no_devices", gpus=[], driver__open_module=False)),
        "driver",
        "fail",
        "-open",
    ),
    "C012 off the bus": (host(details__kernel_log__xids={"79": 1}), "kernel-log", "fail", "sudo reboot"),
    "C013 not in the group": (
        host(**silent("permission", details__docker={"in_group": False, "listed_in_group": False})),
        "docker",
        "fail",
        "usermod -aG docker",
    ),
    "C013 session too old": (
        host(**silent("permission", details__docker={"in_group": False, "listed_in_group": True})),
        "docker",
        "fail",
        "newgrp docker",
    ),
    "C014 podman": (host(docker__flavor="podman"), "docker-kind", "warn", "docker context use default"),
    "C014 rootless": (host(docker__flavor="rootless"), "docker-kind", "warn", "no-cgroups"),
    "C015 snap": (host(docker__flavor="snap"), "docker-kind", "warn", "HF_HOME"),
    "C021 no memory by NVML": (
        spark(memory={"total_bytes": 128 * 10**9, "available_bytes": 120 * 10**9}),
        "gpu-0",
        "pass",
        "",
    ),
    "C023 warm page cache": (
        spark(details__system={"free_bytes": 3 * 10**9, "cached_bytes": 50 * 10**9}),
        "spark-page-cache",
        "warn",
        "drop_caches",
    ),
    "C061 driver out of memory": (
        spark(details__kernel_log__no_memory=4),
        "kernel-log",
        "warn",
        "gpu-memory-utilization",
    ),
    "C072 Linux driver in WSL2": (
        wsl2(**problem("blocked", details__wsl__linux_packages=["nvidia-utils-570"])),
        "driver",
        "fail",
        "apt-get purge nvidia-utils-570",
    ),
    "C072 blocked otherwise": (
        wsl2(**problem("blocked", details__wsl__linux_packages=[])),
        "driver",
        "fail",
        "wsl --update",
    ),
    "C073 no adapter": (
        wsl2(**problem("library_missing", details__wsl__gpu_device=False)),
        "driver",
        "fail",
        "wsl --update",
    ),
    "C074 driver libraries in WSL2": (
        wsl2(details__wsl={"linux_packages": [], "foreign_libraries": ["/usr/lib/x86_64-linux-gnu/libcuda.so.1"]}),
        "wsl-driver",
        "warn",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    ),
    "C079 WSL2's memory": (
        wsl2(memory__total_bytes=16 * 1024**3, details__wsl__config={}),
        "wsl-memory",
        "warn",
        "memory=24GB",
    ),
    "C082 old WSL": (wsl2(details__wsl__version="2.5.9"), "wsl-version", "warn", "wsl --update"),
    "C084 NAT": (wsl2(details__wsl__networking="nat"), "wsl-network", "pass", ""),
    "C088 dangling links": (
        host(details__hub={"dangling": ["org/name"]}),
        "hub-links",
        "warn",
        "aeonctl pull-model org/name",
    ),
    "C091 leftovers": (host(details__hub={"leftovers": 3}), "hub-leftovers", "warn", "'*.incomplete' -delete"),
    "C095 orphan on the port": (
        host(ports=[{"port": 8000, "owner": "process VLLM::EngineCore (pid 7)"}]),
        "ports",
        "warn",
        "--port 8001",
    ),
    "C099 kernel without RoCE": (spark(kernel="7.0.0-1019-nvidia"), "kernel", "warn", "previous kernel"),
    "no socket in WSL2": (wsl2(**silent("no_socket")), "docker", "fail", "WSL integration"),
    "context gone": (host(**silent("context_not_found")), "docker", "fail", "docker context use default"),
    "stopped without systemd": (
        wsl2(**silent("not_running", details__system__init="other")),
        "docker",
        "fail",
        "sudo service docker start",
    ),
    "stale CDI": (host(details__docker__cdi_driver="570.1.2"), "docker-cdi", "warn", "nvidia-ctk cdi generate"),
    "idle shutdown": (wsl2(details__wsl__config={}), "wsl-idle", "warn", "instanceIdleTimeout=-1"),
    "restart loop": (
        host(details__own__containers=[{"name": "aeon", "restart": "always", "status": "restarting"}]),
        "own-restart",
        "fail",
        "docker update --restart=no aeon",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_public_case_is_seen_and_has_its_way_out(name: str) -> None:
    one, ident, status, remedy = CASES[name]
    around = Surroundings({g.index: CATALOG.card_of(g, one) for g in one.gpus or ()}, {8000: "rtx-5090/quality"})
    (check,) = [check for check in checks_of(host_findings(one, around, ROWS), ROWS) if check.id == ident]
    assert check.status == status
    assert remedy in (check.remedy or "")
