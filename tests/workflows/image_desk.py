"""The whole program against a real registry on loopback: one command in, its envelope out."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aeonctl.adapters.real import build_ports
from aeonctl.adapters.registry import OciRegistry
from aeonctl.cli.output import Output
from aeonctl.main import main
from aeonctl.ports import Ports

NOBODY = "unix:///nonexistent/docker.sock"

RTX: dict[str, Any] = {
    "architecture": "amd64",
    "os": "linux",
    "config": {
        "Entrypoint": ["vllm"],
        "Env": ["PATH=/bin", "TORCH_CUDA_ARCH_LIST=12.0;12.0a", "CUDA_VERSION=13.0.2"],
        "Labels": {"ai.aeon.not_for": "DGX Spark GB10 sm_121a", "org.opencontainers.image.version": "0.27.1"},
    },
}
SPARK: dict[str, Any] = {
    "architecture": "arm64",
    "os": "linux",
    "config": {"Env": ["TORCH_CUDA_ARCH_LIST=12.1a"], "Labels": {"ai.aeon.hardware": "DGX Spark"}},
}
PLAIN: dict[str, Any] = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]}}


@dataclass(frozen=True)
class Said:
    """What one command ended with: its exit code, its envelope, and its talk."""

    code: int
    envelope: dict[str, Any]
    talk: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.envelope["data"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        (found,) = self.envelope["errors"]
        return dict(found)


class Desk:
    """A user with a home folder of their own. ``docker_host`` is their engine; nobody answers by default."""

    def __init__(self, home: Path, docker_host: str = NOBODY, *, timeout: float = 10.0) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.environment = {"HOME": str(home), "HF_HOME": str(home / "hf"), "PATH": "/usr/bin:/bin"}
        self.docker_host = docker_host
        built = build_ports(docker_host, self.environment)
        self.ports: Ports = replace(built, registry=OciRegistry(self.environment, home=home, timeout=timeout))

    def say(self, *words: str, ports: Ports | None = None) -> Said:
        """Run ``aeonctl --json words``."""
        out, err = io.StringIO(), io.StringIO()
        code = main(["--json", *words], ports or self.ports, Output(as_json=True, out=out, err=err))
        return Said(int(code), json.loads(out.getvalue()), err.getvalue())

    def text(self, *words: str) -> tuple[int, str, str]:
        """Run ``aeonctl words`` for a person: exit code, stdout, stderr."""
        out, err = io.StringIO(), io.StringIO()
        code = main(list(words), self.ports, Output(out=out, err=err))
        return int(code), out.getvalue(), err.getvalue()

    def log_in(self, registry: str, login: str) -> None:
        """What ``docker login`` leaves."""
        folder = self.home / ".docker"
        folder.mkdir(exist_ok=True)
        auths = {registry: {"auth": base64.b64encode(login.encode()).decode()}}
        (folder / "config.json").write_text(json.dumps({"auths": auths}))

    def profile(self, kind: str, name: str, row: Mapping[str, Any]) -> None:
        """A row of the user's own, which wins by its id."""
        folder = self.home / ".config" / "aeonctl" / "profiles" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({**row, "why": "a test", "source": "a test"}))

    def image_row(self, ref: str, **more: Any) -> None:
        """The image of the seat cpu/try."""
        row = {"id": "vllm-cpu", "family": "vllm", "ref": ref, "platforms": ["linux/amd64"], "cpu_only": True}
        self.profile("images", "vllm-cpu", {**row, "vllm": "0.29.0", **more})

    def hub_model(self, repo: str, commit: str) -> None:
        """A complete snapshot in the hub's cache, as far as files go."""
        root = self.home / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
        snapshot = root / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / "main").write_text(commit)
        (snapshot / "config.json").write_text(json.dumps({"architectures": ["Qwen3ForCausalLM"]}))
        header = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
        (snapshot / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\0\0")
