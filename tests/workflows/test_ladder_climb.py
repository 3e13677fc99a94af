"""``up`` on its ladder, with rehearsal engines that fail to allocate until a rung is taken."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.errors import ExitCode
from aeonctl.main import main


class Cli:
    """The program with a state folder of its own; ``faults`` are what its rehearsal engines act out."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(state),
            "AEONCTL_REHEARSE_SPEED": "0",
            "DOCKER_HOST": f"unix://{state}/no-docker.sock",
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])

    def __call__(self, *words: str, fault: str = "") -> tuple[ExitCode, dict[str, Any]]:
        ports = build_ports(None, {**self.environment, "AEONCTL_REHEARSE_FAULT": fault})
        out = io.StringIO()
        code = main([*words, "--json"], ports, Output(as_json=True, out=out, err=io.StringIO()))
        return code, json.loads(out.getvalue())

    def up(self, host: str, seat: str, *more: str, fault: str) -> tuple[ExitCode, dict[str, Any]]:
        return self("up", "--seat", seat, "--rehearse", host, "--port", self.port, *more, fault=fault)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli("down", "--all")


def rungs(data: dict[str, Any]) -> list[str]:
    taken: list[str] = data["data"]["engine"]["rungs_taken"]
    return taken


def decided(data: dict[str, Any]) -> dict[str, Any]:
    rows = data["data"]["plan"]["decisions"]
    return {row["option"]: row["after"] for row in rows if row["rule"].startswith("rung:")}


def test_too_small_a_kv_cache_climbs_and_the_next_start_begins_there(cli: Cli) -> None:
    code, data = cli.up("rtx-5090", "quality", fault="kv-oom")
    assert code == 0
    assert rungs(data) == ["5090-quality-utilization"]
    assert decided(data) == {"--gpu-memory-utilization": "0.95"}
    again, joined = cli.up("rtx-5090", "quality", fault="kv-oom")
    assert again == 0
    assert joined["data"]["engine"]["already_running"] is True
    _, shown = cli("show", "rtx-5090/quality")
    assert shown["data"]["learned"]["rtx-5090 (rehearsal)"]["rungs"] == ["5090-quality-utilization"]
    cli("down", "--all")
    code, data = cli.up("rtx-5090", "quality", fault="")
    assert (code, rungs(data)) == (0, ["5090-quality-utilization"])
    cli("down", "--all")
    code, data = cli.up("rtx-5090", "quality", "--from-top", fault="")
    assert (code, rungs(data)) == (0, [])
    _, shown = cli("show", "rtx-5090/quality")
    assert shown["data"]["learned"] is None


def test_graph_capture_climbs_to_fewer_captures(cli: Cli) -> None:
    code, data = cli.up("rtx-5090", "quality", fault="graph-oom")
    assert (code, rungs(data)) == (0, ["fewer-captures"])


def test_a_setting_beside_the_captures_pins_nothing_and_pinned_rungs_leave_the_length(cli: Cli) -> None:
    code, data = cli.up("rtx-5090", "quality", "--set", "compilation-config.cudagraph_mode=FULL", fault="graph-oom")
    assert (code, rungs(data)) == (0, ["fewer-captures"])
    cli("down", "--all")
    pins = ("--set", "gpu-memory-utilization=0.92", "--set", "max-num-seqs=4", "--from-top")
    code, data = cli.up("rtx-5090", "quality", *pins, fault="kv-oom")
    assert (code, rungs(data)) == (0, ["length-that-fits"])
    assert decided(data) == {"--max-model-len": "111616"}


def test_everything_pinned_exhausts_the_ladder(cli: Cli) -> None:
    pins = [
        word
        for pin in ("gpu-memory-utilization=0.92", "max-num-seqs=4", "max-model-len=131072")
        for word in ("--set", pin)
    ]
    code, data = cli.up("rtx-5090", "quality", *pins, fault="kv-oom")
    error = data["errors"][0]
    assert (code, error["code"]) == (7, "ladder_exhausted")
    assert "you set --max-num-seqs yourself" in json.dumps(error)


def test_a_unified_host_lowers_and_never_raises(cli: Cli) -> None:
    code, data = cli.up("dgx-spark", "quality", fault="kv-oom")
    assert (code, rungs(data)) == (0, ["length-that-fits"])


def test_no_ladder_and_a_cause_without_a_rung_stop_at_once(cli: Cli) -> None:
    code, data = cli.up("rtx-5090", "quality", "--no-ladder", fault="kv-oom")
    assert (code, data["errors"][0]["code"]) == (7, "exited_at_start")
    code, data = cli.up("rtx-5090", "quality", fault="no-kernel-image")
    assert (code, data["errors"][0]["code"]) == (7, "exited_at_start")
    assert not list((cli.state / "aeonctl" / "learned").rglob("*.json"))
