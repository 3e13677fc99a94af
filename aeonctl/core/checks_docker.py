"""Checks of Docker: whether it answers, which one it is, whether it can hand out GPUs, and its disk."""

from __future__ import annotations

from aeonctl.core.checks import Finding, not_here, unknown
from aeonctl.core.host import DockerFlavor, Host, Platform
from aeonctl.core.units import human_bytes, version_key

_CDI_BY_GPUS = (29, 2)
"""From this release on, ``--gpus`` is answered from CDI devices too."""

_FULL_BYTES = 5 * 10**9
_IMAGE_BYTES = 60 * 10**9


def restart_command(host: Host) -> str:
    """What restarts the Docker that answers here, to be typed."""
    flavor = host.docker.flavor
    if flavor is DockerFlavor.DESKTOP:
        return "docker desktop restart"
    if flavor is DockerFlavor.SNAP:
        return "sudo snap restart docker"
    if flavor is DockerFlavor.ROOTLESS:
        return "systemctl --user restart docker"
    if host.details.system.init == "other":
        return "sudo service docker restart"
    return "sudo systemctl restart docker"


def is_elsewhere(host: Host) -> bool:
    """True when the engine is another computer's or a virtual machine's, so that files here say nothing of it."""
    docker = host.docker
    if docker.endpoint is not None and not docker.endpoint.startswith("unix://"):
        return True
    other_kernel = docker.kernel is not None and host.kernel is not None and docker.kernel != host.kernel
    return docker.flavor is DockerFlavor.DESKTOP or other_kernel


def docker(host: Host) -> Finding:
    """Whether it answers, and if not, why."""
    found = host.docker
    if found.reachable is None:
        return unknown("docker")
    start = restart_command(host).replace(" restart", " start")
    if host.details.system.init == "other":
        start = "sudo service docker start"
    facts = {
        "version": found.version or "of unknown version",
        "endpoint": found.endpoint or "its usual socket",
        "context": found.context or "",
        "start": start,
    }
    if found.reachable:
        return Finding("docker", "answers", facts)
    return Finding("docker", _silence(host), facts, found.detail)


def _silence(host: Host) -> str:
    setup, problem = host.details.docker, host.docker.problem
    if problem == "permission":
        if setup.in_group is False and setup.listed_in_group:
            return "old-session"
        return "not-in-group" if setup.listed_in_group is False else "permission"
    if problem == "no_socket":
        return "wsl-no-socket" if host.platform is Platform.WSL2 else "no-socket"
    if problem in ("not_running", "context_not_found"):
        return problem.replace("_", "-")
    return "failed"


def docker_kind(host: Host) -> Finding:
    """Which Docker it is, and what follows from that."""
    found = host.docker
    if not found.reachable:
        return unknown("docker-kind", "Docker does not answer")
    if found.flavor is DockerFlavor.DESKTOP and "linuxkit" in (found.kernel or ""):
        return Finding("docker-kind", "desktop-without-gpu", {"kernel": found.kernel})
    if found.flavor is not None and found.flavor is not DockerFlavor.NATIVE:
        return Finding("docker-kind", str(found.flavor))
    if is_elsewhere(host):
        return Finding("docker-kind", "elsewhere", {"endpoint": found.endpoint or "an engine"})
    return unknown("docker-kind") if found.flavor is None else Finding("docker-kind", "native")


def docker_engines(host: Host) -> Finding:
    """Whether two engines are at odds over this machine."""
    engines = host.details.docker.engines
    if engines is None:
        return unknown("docker-engines", host.unknown.get("details.docker.engines"))
    return Finding("docker-engines", "several" if len(engines) > 1 else "one", {"engines": ", ".join(engines)})


def _without_gpu(host: Host, check: str) -> Finding | None:
    """The finding of a check about GPUs in containers where there is nothing to check."""
    if host.gpus == ():
        return not_here(check)
    if host.gpus is None:
        return unknown(check, "no GPU can be seen")
    return None if host.docker.reachable else unknown(check, "Docker does not answer")


def docker_toolkit(host: Host) -> Finding:
    """Whether the NVIDIA container toolkit is installed here."""
    if nothing := _without_gpu(host, "docker-toolkit"):
        return nothing
    if is_elsewhere(host):
        return not_here("docker-toolkit")
    there = host.details.docker.toolkit
    if there is None:
        return unknown("docker-toolkit", host.unknown.get("details.docker.toolkit"))
    return Finding("docker-toolkit", "installed" if there else "absent", {"restart": restart_command(host)})


def docker_runtime(host: Host) -> Finding:
    """Whether the runtime named nvidia is registered in the daemon that answers, and exists."""
    if nothing := _without_gpu(host, "docker-runtime"):
        return nothing
    setup, gpu = host.details.docker, host.docker.gpu
    facts = {"restart": restart_command(host), "path": gpu.runtime_path or "nvidia-container-runtime"}
    if gpu.runtime is None:
        return unknown("docker-runtime", "the engine does not list its runtimes")
    if gpu.runtime and not is_elsewhere(host) and setup.runtime_found is False:
        return Finding("docker-runtime", "missing", facts)
    if gpu.runtime:
        return Finding("docker-runtime", "registered", facts)
    if setup.file_runtimes and "nvidia" in setup.file_runtimes:
        return Finding("docker-runtime", "desktop-not-read" if is_elsewhere(host) else "not-restarted", facts)
    return Finding("docker-runtime", "not-registered", facts)


def docker_gpu(host: Host) -> Finding:
    """Whether ``--gpus all`` can be answered, by every sign there is. Only a container proves it."""
    if nothing := _without_gpu(host, "docker-gpu"):
        return nothing
    gpu, found = host.docker.gpu, host.docker
    cdi = [name for name in gpu.cdi or () if name.startswith("nvidia.com/")]
    by_cdi = bool(cdi) and version_key(found.version or "") >= _CDI_BY_GPUS
    signs = [
        name
        for name, there in (
            ("runtime nvidia", gpu.runtime and host.details.docker.runtime_found is not False),
            ("nvidia-container-runtime-hook", gpu.hook),
            ("CDI", by_cdi),
        )
        if there
    ]
    facts = {"signs": ", ".join(signs), "restart": restart_command(host), "version": found.version or "unknown"}
    if signs:
        return Finding("docker-gpu", "able", facts)
    if cdi:
        return Finding("docker-gpu", "cdi-only", facts)
    if gpu.runtime is None or gpu.hook is None:
        return unknown("docker-gpu", "the engine is elsewhere, or does not tell")
    return Finding("docker-gpu", "unable", facts)


def docker_cdi(host: Host) -> Finding:
    """Whether the CDI specification was made for the driver that is loaded."""
    if nothing := _without_gpu(host, "docker-cdi"):
        return nothing
    made_for, loaded = host.details.docker.cdi_driver, host.driver.version
    if host.platform is Platform.WSL2 or is_elsewhere(host):
        return not_here("docker-cdi")
    if made_for is None or loaded is None:
        return unknown("docker-cdi", host.unknown.get("details.docker.cdi_driver"))
    facts = {"made_for": made_for, "loaded": loaded}
    return Finding("docker-cdi", "current" if made_for == loaded else "stale", facts)


def docker_cgroup(host: Host) -> Finding:
    """Whether ``systemctl daemon-reload`` can take the GPU from running containers."""
    if nothing := _without_gpu(host, "docker-cgroup"):
        return nothing
    if host.platform is Platform.WSL2 or host.docker.flavor is not DockerFlavor.NATIVE:
        return not_here("docker-cgroup")
    driver, found = host.docker.cgroup_driver, host.docker
    if driver is None:
        return unknown("docker-cgroup", "the engine does not tell its cgroup driver")
    nvidia = any(name.startswith("nvidia.com/") for name in found.gpu.cdi or ())
    by_cdi = nvidia and version_key(found.version or "") >= _CDI_BY_GPUS
    return Finding("docker-cgroup", "at-risk" if driver == "systemd" and not by_cdi else "safe", {"driver": driver})


def docker_disk(host: Host) -> Finding:
    """Whether there is room where image layers lie."""
    free = host.docker.image_root_free_bytes
    if free is None:
        return unknown("docker-disk", host.unknown.get("docker.image_root_free_bytes"))
    facts = {"free": human_bytes(free), "path": host.docker.image_root}
    situation = "full" if free < _FULL_BYTES else "little" if free < _IMAGE_BYTES else "enough"
    return Finding("docker-disk", situation, facts)


def docker_data(host: Host) -> Finding:
    """Whether there is room where containers write, when that is another disk than the images'."""
    disk = host.disk("docker-data")
    if disk is None:
        return not_here("docker-data")
    if disk.free_bytes is None:
        return unknown("docker-data", host.unknown.get("disks.docker-data"))
    facts = {"free": human_bytes(disk.free_bytes), "path": disk.path}
    return Finding("docker-data", "full" if disk.free_bytes < _FULL_BYTES else "enough", facts)


def all_docker(host: Host) -> list[Finding]:
    """Every check that is about Docker."""
    parts = (docker, docker_kind, docker_engines, docker_toolkit, docker_runtime, docker_gpu, docker_cdi)
    return [part(host) for part in (*parts, docker_cgroup, docker_disk, docker_data)]
