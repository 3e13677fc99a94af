"""What the host's facts mean for serving a model: one check each, with a way out."""

from __future__ import annotations

from enum import StrEnum

from aeonctl.core.base import Value
from aeonctl.core.host import DockerFlavor, Host, MemoryKind, Platform, vram_gib
from aeonctl.core.select import driver_error
from aeonctl.core.units import GIB, human_bytes


class Status(StrEnum):
    """How a check came out. ``skip`` is for what does not apply, or what nobody could tell."""

    PASS = "pass"  # noqa: S105 - a check that passed
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Check(Value):
    """One answer of ``doctor``: an id, how it came out, one sentence, and what to do about it."""

    id: str
    status: Status
    summary: str
    detail: str | None = None
    remedy: str | None = None


def host_checks(host: Host) -> list[Check]:
    """Every check that one host's facts allow; none stops the others, and an unknown is neither pass nor fail."""
    return [
        _platform(host),
        _driver(host),
        *(_gpu(host)),
        _memory(host),
        _docker(host),
        _docker_gpu(host),
        _docker_disk(host),
        _hub_disk(host),
    ]


def _platform(host: Host) -> Check:
    if host.platform is None or host.arch is None:
        return Check(id="platform", status=Status.SKIP, summary="the platform could not be told")
    words = {Platform.LINUX: "Linux", Platform.WSL2: "Linux inside Windows (WSL2)"}[host.platform]
    return Check(id="platform", status=Status.PASS, summary=f"{words}, {host.arch}", detail=host.kernel)


def _driver(host: Host) -> Check:
    driver = host.driver
    if driver.problem is not None:
        error = driver_error(host)
        no_gpu_here = driver.problem == "library_missing" and not host.unknown.get("gpus")
        status = Status.WARN if no_gpu_here or host.gpus == () else Status.FAIL
        return Check(id="driver", status=status, summary=error.message, detail=driver.detail, remedy=error.hint)
    if driver.version is None:
        return Check(id="driver", status=Status.SKIP, summary="no NVIDIA driver was seen")
    whose = "the Windows driver" if host.platform is Platform.WSL2 else "driver"
    cuda = f", CUDA {driver.cuda}" if driver.cuda else ", CUDA version unknown"
    return Check(id="driver", status=Status.PASS, summary=f"{whose} {driver.version}{cuda}")


def _gpu(host: Host) -> list[Check]:
    if host.gpus is None:
        return [Check(id="gpu", status=Status.SKIP, summary="GPUs could not be seen", detail=host.unknown.get("gpus"))]
    if not host.gpus:
        remedy = "without a GPU: aeonctl up --seat cpu/try, or aeonctl up --seat quality --rehearse rtx-5090"
        return [Check(id="gpu", status=Status.WARN, summary="this machine has no NVIDIA GPU", remedy=remedy)]
    checks = []
    for gpu in host.gpus:
        size = vram_gib(gpu, host.memory)
        kind = "memory shared with the system" if gpu.memory is MemoryKind.UNIFIED else "of its own memory"
        memory = f"{size:.1f} GiB {kind}" if size is not None else "memory unknown"
        words = f"GPU {gpu.index}: {gpu.name or 'unnamed'}, sm {gpu.sm or 'unknown'}, {memory}"
        users = [f"{p.name or 'process'} ({p.pid})" for p in gpu.processes or ()]
        status = Status.WARN if users or gpu.mig else Status.PASS
        detail = f"in use by {', '.join(users)}" if users else "MIG is on" if gpu.mig else None
        checks.append(Check(id=f"gpu-{gpu.index}", status=status, summary=words, detail=detail))
    return checks


def _memory(host: Host) -> Check:
    total, available = host.memory.total_bytes, host.memory.available_bytes
    if total is None or available is None:
        return Check(id="memory", status=Status.SKIP, summary="the system's memory could not be read")
    words = f"{available / GIB:.1f} of {total / GIB:.1f} GiB available"
    if host.platform is Platform.WSL2 and total < 24 * GIB:
        return Check(
            id="memory",
            status=Status.WARN,
            summary=f"{words}: little for loading a large model inside WSL2",
            remedy="in %UserProfile%\\.wslconfig under [wsl2] write memory=24GB or more, then wsl --shutdown",
        )
    return Check(id="memory", status=Status.PASS, summary=words)


_DOCKER_REMEDY = {
    "not_running": "start it: sudo systemctl start docker (without systemd: sudo service docker start)",
    "permission": "sudo usermod -aG docker $USER, then log out and in again",
    "no_socket": "install Docker; under WSL2 with Docker Desktop, switch on the integration for this distribution",
    "context_not_found": "docker context ls lists the contexts; docker context use default goes back",
}


def _docker(host: Host) -> Check:
    docker = host.docker
    if docker.reachable is None:
        return Check(id="docker", status=Status.SKIP, summary="nobody asked Docker")
    if not docker.reachable:
        remedy = _DOCKER_REMEDY.get(docker.problem or "", "docker version shows what is wrong")
        return Check(
            id="docker", status=Status.FAIL, summary="Docker does not answer", detail=docker.detail, remedy=remedy
        )
    words = f"Docker {docker.version} ({docker.flavor or 'unknown kind'}) at {docker.endpoint}"
    if docker.flavor is DockerFlavor.PODMAN:
        return Check(id="docker", status=Status.WARN, summary=f"{words}: Podman is not tested with aeonctl")
    return Check(id="docker", status=Status.PASS, summary=words)


def _docker_gpu(host: Host) -> Check:
    gpu = host.docker.gpu
    if not host.docker.reachable or not host.gpus:
        return Check(id="docker-gpu", status=Status.SKIP, summary="no GPU to hand to a container, or no Docker")
    signs = [
        name
        for name, there in (
            ("runtime nvidia", gpu.runtime),
            ("nvidia-container-runtime-hook", gpu.hook),
            ("CDI", bool(gpu.cdi) or None),
        )
        if there
    ]
    if signs:
        summary = f"Docker should be able to hand out GPUs ({', '.join(signs)}); only a container proves it"
        return Check(id="docker-gpu", status=Status.PASS, summary=summary)
    if None in (gpu.runtime, gpu.hook):
        return Check(id="docker-gpu", status=Status.SKIP, summary="whether Docker can hand out GPUs could not be told")
    return Check(
        id="docker-gpu",
        status=Status.FAIL,
        summary="Docker cannot hand out GPUs: the NVIDIA container toolkit is missing or not registered",
        remedy="install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker "
        "and sudo systemctl restart docker",
    )


def _docker_disk(host: Host) -> Check:
    free = host.docker.image_root_free_bytes
    if free is None:
        return Check(id="docker-disk", status=Status.SKIP, summary="the room for images could not be told")
    words = f"{human_bytes(free)} free for images in {host.docker.image_root}"
    if free < 60 * 10**9:
        remedy = "an image needs 25 to 50 GB unpacked: docker system df shows what can go"
        return Check(id="docker-disk", status=Status.WARN, summary=words, remedy=remedy)
    return Check(id="docker-disk", status=Status.PASS, summary=words)


def _hub_disk(host: Host) -> Check:
    disk = host.disk("hub-cache")
    if disk is None or disk.free_bytes is None:
        return Check(id="hub-cache", status=Status.SKIP, summary="the room for models could not be told")
    words = f"{human_bytes(disk.free_bytes)} free for models in {disk.path}"
    if disk.filesystem in ("9p", "drvfs", "virtiofs"):
        remedy = "keep the cache on the Linux disk: export HF_HOME=$HOME/.cache/huggingface"
        return Check(id="hub-cache", status=Status.WARN, summary=f"{words}, a slow Windows mount", remedy=remedy)
    if disk.free_bytes < 40 * 10**9:
        remedy = "a seat's model needs 24 to 31 GB: hf cache ls shows what can go"
        return Check(id="hub-cache", status=Status.WARN, summary=words, remedy=remedy)
    return Check(id="hub-cache", status=Status.PASS, summary=words)
