"""The real outside, put together. Nothing here talks to anybody yet; each part does so when it is first asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aeonctl.adapters.clock import SystemClock
from aeonctl.adapters.crash import crash_points
from aeonctl.adapters.details import LocalDetails
from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.adapters.guards import GuardProcesses
from aeonctl.adapters.host import LocalHost
from aeonctl.adapters.http import RequestsHttp
from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.adapters.hub_cache import hub_folder
from aeonctl.adapters.locks import FileLocks
from aeonctl.adapters.meminfo import SystemMemory
from aeonctl.adapters.nvml_process import NvmlProcess
from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.adapters.records import FileRecords
from aeonctl.adapters.registry import OciRegistry
from aeonctl.adapters.rehearsal import Rehearsal
from aeonctl.adapters.rehearsal_hub import RehearsalHub
from aeonctl.adapters.ssh import SshShell
from aeonctl.errors import AeonError
from aeonctl.ports import EngineStatus, Ports

_INSPECTION_DOCKER_SECONDS = 2.5
_INSPECTION_NVML_SECONDS = 4.0
"""Doctor answers within five seconds, also where Docker or the driver hangs."""


def build_ports(docker_host: str | None, environment: Mapping[str, str]) -> Ports:
    """Everything outside for one run. ``docker_host`` is ``--host``; without it Docker's own rules decide."""
    home = Path(environment.get("HOME") or Path.home())
    state = state_folder(environment, home)
    step = crash_points(environment)
    docker = DockerEngines(docker_host, environment, home, step)
    clock = SystemClock()

    def published() -> dict[int, str]:
        """Ports that containers publish, so that their owner has a name."""
        try:
            engines = docker.ours()
        except AeonError:
            return {}
        running = (engine for engine in engines if engine.status is EngineStatus.RUNNING)
        return {port: engine.name for engine in running for port in engine.published}

    hub = hub_folder(environment, home)
    host = LocalHost(gpus=NvmlProcess(), docker=docker, published=published, disks={"hub-cache": hub})
    inspection = LocalHost(
        gpus=NvmlProcess(time_limit=_INSPECTION_NVML_SECONDS),
        docker=docker,
        published=published,
        disks={"hub-cache": hub},
        details=LocalDetails(environment, home=home, hub=hub, state=state, engines=docker),
        docker_seconds=_INSPECTION_DOCKER_SECONDS,
    )
    return Ports(
        clock=clock,
        profiles=ProfileFiles(environment, home=home),
        host=host,
        docker=docker,
        rehearsal=Rehearsal(state, step=step),
        registry=OciRegistry(environment, home=home),
        hub=HuggingFaceHub(environment, home=home),
        rehearsal_hub=RehearsalHub(state),
        http=RequestsHttp(),
        locks=FileLocks(state, clock),
        environment=environment,
        state=state,
        step=step,
        remote=SshShell(environment),
        memory=SystemMemory(),
        guards=GuardProcesses(docker_host, environment, home),
        inspection=inspection,
        records=FileRecords(state),
    )


def state_folder(environment: Mapping[str, str], home: Path) -> Path:
    """``$XDG_STATE_HOME/aeonctl``, by default ``~/.local/state/aeonctl``."""
    base = environment.get("XDG_STATE_HOME")
    absolute = base is not None and Path(base).is_absolute()  # a relative one is to be ignored, says the specification
    return (Path(str(base)) if absolute else home / ".local" / "state") / "aeonctl"
