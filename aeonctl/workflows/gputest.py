"""The one proof that a container gets a GPU: a container. Never pulls, never outlives its few seconds."""

from __future__ import annotations

from collections.abc import Sequence

from aeonctl.core.checks import Finding
from aeonctl.core.checks_docker import restart_command
from aeonctl.core.container import ContainerSpec
from aeonctl.core.host import Host
from aeonctl.errors import AeonError
from aeonctl.ports import EngineStatus, Ports

SECONDS = 20.0
NAME = "aeonctl-gpu-test"

_ASK = """
import ctypes, sys
count = ctypes.c_int(0)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(f"no driver inside: {error}")
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
sys.exit(0 if code == 0 and count.value else f"CUDA error {code}, {count.value} devices")
"""
"""Asks the driver's library itself: nvidia-smi is not in every container that has a GPU (snap's Docker)."""


def gpu_test(host: Host, images: Sequence[str], ports: Ports, *, try_gpu: bool) -> Finding:
    """Start a container of the first image that is here, and ask for a GPU in it."""
    if not try_gpu:
        return Finding("docker-gpu-test", "not-asked")
    facts = {"restart": restart_command(host)}
    try:
        image = next((image for image in images if ports.docker.image(image) is not None), None)
    except AeonError as error:
        return Finding("docker-gpu-test", "failed", facts | {"image": images[0]}, error.message)
    if image is None:
        return Finding("docker-gpu-test", "no-image")
    facts["image"] = image
    spec = ContainerSpec(
        name=NAME, image=image, entrypoint="python3", command=("-c", _ASK), gpus="all", network="bridge"
    )
    try:
        ports.docker.start(spec, {})
        return _wait(facts, ports)
    except AeonError as error:
        return Finding("docker-gpu-test", "failed", facts, "; ".join((error.message, *error.causes)))
    finally:
        _remove(ports)


def _wait(facts: dict[str, str], ports: Ports) -> Finding:
    end = ports.clock.now() + SECONDS
    while ports.clock.now() < end:
        record = ports.docker.find(NAME)
        if record is None or record.status is EngineStatus.EXITED:
            code = None if record is None else record.exit_code
            if code == 0:
                return Finding("docker-gpu-test", "works", facts)
            words = b"".join(ports.docker.log(NAME, follow=False, tail=3)).decode("utf-8", "replace").strip()
            return Finding("docker-gpu-test", "no-gpu", facts, words or None)
        ports.clock.sleep(0.2)
    return Finding("docker-gpu-test", "slow", facts)


def _remove(ports: Ports) -> None:
    try:
        ports.docker.signal(NAME, "SIGKILL")
        ports.docker.remove(NAME)
    except AeonError:
        return
