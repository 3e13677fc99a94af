"""A rehearsal engine, started and verified through the command line with real processes and real HTTP."""

from __future__ import annotations

import io
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.main import main
from aeonctl.ports import Ports
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines

HOSTS = {
    "rtx-5090": "rtx-5090",
    "rtx-5090-x2": "rtx-5090-x2",
    "rtx-pro-6000": "rtx-pro-6000",
    "dgx-spark": "dgx-spark",
    "cpu": "no-gpu",
}
"""The recorded host of each group of seats."""


class QuickClock:
    """Real time, five times as fast: what waits a second for an engine at full speed waits a fifth."""

    def now(self) -> float:
        return 5 * time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 5)

    def timestamp(self) -> float:
        return time.time()


@dataclass(frozen=True)
class Ran:
    """One command line's outcome."""

    code: int
    envelope: dict[str, Any]
    talk: str

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.envelope["data"]
        return data

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.envelope["errors"][0]
        return error

    def checks(self, status: str) -> list[str]:
        """The ids of the probes that came out so."""
        return [check["id"] for check in self.data["checks"] if check["status"] == status]

    def check(self, name: str) -> dict[str, Any]:
        return next(check for check in self.data["checks"] if check["id"] == name)


@dataclass(frozen=True)
class Rehearsed:
    """One engine under one name and port."""

    ports: Ports
    name: str
    port: int

    def run(self, *argv: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        code = main(["--json", *argv], self.ports, Output(as_json=True, out=out, err=err))
        return Ran(int(code), json.loads(out.getvalue()), err.getvalue())

    def plain(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr as a person sees them."""
        out, err = io.StringIO(), io.StringIO()
        code = main(list(argv), self.ports, Output(out=out, err=err))
        return int(code), out.getvalue(), err.getvalue()

    def verify(self, *more: str) -> Ran:
        return self.run("verify", self.name, *more)

    def wait(self) -> None:
        """Until it answers on /health, or has ended."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            reply = self.ports.http.get(f"http://127.0.0.1:{self.port}/health", timeout=2)
            record = self.ports.rehearsal.find(self.name)
            if reply is not None or record is None or record.status == "exited":
                return
            time.sleep(0.02)
        message = "the rehearsal neither answers nor ends"
        raise AssertionError(message)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def rehearsed(
    folder: Path,
    seat: str,
    *more: str,
    host: str = "",
    fault: str = "",
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Iterator[Rehearsed]:
    """The seat's engine at full speed, with a fault or none; it is gone when the block ends."""
    settings = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "AEONCTL_REHEARSE_SPEED": "0",
        "AEONCTL_REHEARSE_FAULT": fault,
        **(environment or {}),
    }
    ports = build_ports("unix:///nowhere.sock", settings)
    ports = replace(ports, environment=settings, clock=QuickClock(), docker=FakeEngines(FakeClock()))
    engine = Rehearsed(ports, f"verify-{seat.replace('/', '-')}", free_port())
    where = ("--rehearse", host or HOSTS[seat.partition("/")[0]], "--name", engine.name, "--port", str(engine.port))
    started = engine.run("up", "--seat", seat, *where, "--detach", *more)
    assert started.code == 0, started.envelope
    try:
        if wait:
            engine.wait()
        yield engine
    finally:
        engine.run("down", engine.name, "--grace", "0")
