"""Runs the rehearsal engine as the process it is: a free port, a small model folder, polls with deadlines."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 15.0
CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "text_config": {"max_position_embeddings": 262144, "layer_types": ["linear_attention", "full_attention"]},
}


def poll(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; fails with ``what`` when the deadline passes first."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


@dataclass
class Answer:
    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])


@dataclass
class Rehearsal:
    process: "subprocess.Popen[bytes]"
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_bytes().decode()

    def request(self, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as reply:
                return Answer(reply.status, reply.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())

    def chat(self, text: str, **more: object) -> Answer:
        return self.request("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})

    def events(self, text: str, **more: object) -> list[Any]:
        lines = self.chat(text, stream=True, **more).text.strip().split("\n\n")
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def health(self) -> int | None:
        """Return /health's status, or None while connections are refused."""
        try:
            return self.request("/health").status
        except (urllib.error.URLError, ConnectionError):
            return None

    def wait_ready(self) -> None:
        poll(lambda: self.health() == 200 or self.process.poll() is not None, "healthy")
        assert self.process.poll() is None, self.log

    def wait_log(self, text: str) -> None:
        poll(lambda: text in self.log, f"{text!r} in the log")

    def exit_code(self) -> int:
        return self.process.wait(timeout=DEADLINE_S)


def model_folder(parent: Path) -> Path:
    folder = parent / "model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(1024))
    (folder / "model-00002-of-00002.safetensors").write_bytes(bytes(1024))
    return folder


@contextmanager
def rehearse(folder: Path, *flags: str, fault: str = "", **environment: str) -> Iterator[Rehearsal]:
    """Start an engine at speed 0; it is gone when the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    model = model_folder(folder)
    log_file = folder / f"engine-{port}.log"
    settings = {"AEONCTL_REHEARSE_SPEED": "0", "AEONCTL_REHEARSE_FAULT": fault, "PATH": os.environ.get("PATH", "")}
    argv = ["serve", str(model), "--host", "127.0.0.1", "--port", str(port), *flags]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aeonctl.rehearsal_engine", *argv],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**settings, **environment},
            cwd=Path(__file__).parents[2],
        )
    try:
        yield Rehearsal(process, port, log_file)
    finally:
        process.kill()
        process.wait()
