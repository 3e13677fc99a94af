"""Which rungs of the ladder worked here: one file per seat, an entry per host, so that the next start begins there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from aeonctl.core.host import Host
from aeonctl.core.inputs import Inputs
from aeonctl.core.ladder import Step, steps_of
from aeonctl.core.plan import Plan
from aeonctl.ports import Ports
from aeonctl.workflows.records import read_record, write_record


def fingerprint(host: Host, *, rehearsal: bool) -> str:
    """Sixteen digits that change with what decides how much fits: GPUs and their memory, platform, architecture."""
    gpus = [[gpu.name, gpu.sm, gpu.memory, gpu.vram_total_bytes] for gpu in host.gpus or ()]
    content = [host.platform, host.arch, gpus, host.memory.total_bytes, rehearsal]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def learned_steps(inputs: Inputs, ports: Ports) -> tuple[Step, ...]:
    """The rungs on which this seat became ready here with this image and model; none when it never needed any."""
    record = read_record(_file(inputs.choice.seat.id, ports)) or {}
    entry = _hosts(record).get(fingerprint(inputs.host, rehearsal=inputs.request.rehearsal), {})
    if entry.get("image") != inputs.image.ref or entry.get("model") != _model(inputs):
        return ()
    return steps_of(entry.get("steps"))


def learn(inputs: Inputs, plan: Plan, ports: Ports) -> None:
    """Keep the rungs that this start was ready on. HostError state_unwritable."""
    key = fingerprint(inputs.host, rehearsal=inputs.request.rehearsal)
    path = _file(plan.seat, ports)
    hosts = _hosts(read_record(path) or {})
    if not inputs.steps:
        return
    entry = {
        "host": f"{plan.host} (rehearsal)" if plan.rehearsal else plan.host,
        "image": inputs.image.ref,
        "model": _model(inputs),
        "at": ports.clock.timestamp(),
        "steps": [step.model_dump(mode="json") for step in inputs.steps],
    }
    write_record(path, {"seat": plan.seat, "hosts": {**hosts, key: entry}}, ports.step)


def forget(inputs: Inputs, ports: Ports) -> None:
    """Forget what was learned of this seat on this host. HostError state_unwritable."""
    path = _file(inputs.choice.seat.id, ports)
    hosts = _hosts(read_record(path) or {})
    if hosts.pop(fingerprint(inputs.host, rehearsal=inputs.request.rehearsal), None) is not None:
        write_record(path, {"seat": inputs.choice.seat.id, "hosts": hosts}, ports.step)


def learned_of(seat: str, ports: Ports) -> dict[str, Any] | None:
    """What was learned of a seat, by host, for ``show``; None when nothing was."""
    entries = _hosts(read_record(_file(seat, ports)) or {}).values()
    shown: dict[str, Any] = {}
    for entry in entries:
        steps = steps_of(entry.get("steps"))
        shown[str(entry.get("host"))] = {
            "rungs": [step.rung for step in steps],
            "settings": {name: value for step in steps for name, value in step.settings.items()},
            "image": entry.get("image"),
            "model": entry.get("model"),
        }
    return shown or None


def _hosts(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    hosts = record.get("hosts")
    entries = hosts.items() if isinstance(hosts, dict) else ()
    return {str(key): entry for key, entry in entries if isinstance(entry, dict)}


def _model(inputs: Inputs) -> str:
    return inputs.model.repo or inputs.model.path


def _file(seat: str, ports: Ports) -> Path:
    return ports.state / "learned" / f"{seat}.json"
