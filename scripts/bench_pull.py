#!/usr/bin/env python3
"""aeonctl pull-model against hf download, on one hub on loopback: bytes per second, an idle second run, and memory.

usage: bench_pull.py [--mib 2048] [--files 40] [--rounds 3]

The hub is a process of its own (tests/fakes/hub_server.py). Each round downloads the same snapshot with both programs,
into fresh caches and in alternating order, then runs both in turn with nothing to do. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPO = "bench/model"
LEAST_RATIO = 0.95
MOST_MIB = 150
IDLE_RUNS = 7


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds, and the most memory in MiB that the process had."""
    timer = (
        "import resource, subprocess, sys, time; before = time.perf_counter();"
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE);"
        "took = time.perf_counter() - before; sys.stderr.buffer.write(code.stderr);"
        "print(code.returncode, took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", timer, *command], env=environment, capture_output=True, text=True, check=True
    )
    code, seconds, mib = ran.stdout.split()
    if code != "0":
        sys.exit(f"{command} failed:\n{ran.stderr}")
    return float(seconds), float(mib)


def programs() -> dict[str, list[str]]:
    folder = Path(sys.executable).parent
    return {
        "aeonctl": [sys.executable, "-m", "aeonctl", "pull-model", REPO],
        "hf": [str(folder / "hf"), "download", REPO],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    seconds: dict[str, list[float]] = {"aeonctl": [], "hf": []}
    again: dict[str, list[float]] = {"aeonctl": [], "hf": []}
    memory: dict[str, float] = {"aeonctl": 0.0, "hf": 0.0}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.hub_server", REPO, str(asked.mib), str(asked.files)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        for number in range(asked.rounds):
            order = list(programs().items())
            order = order if number % 2 == 0 else order[::-1]
            with tempfile.TemporaryDirectory(prefix="bench-pull-") as folder:
                homes = {name: surroundings(endpoint, f"{folder}/{name}") for name, _ in order}
                for name, command in order:
                    took, mib = run(command, homes[name])
                    seconds[name].append(took)
                    memory[name] = max(memory[name], mib)
                for _ in range(IDLE_RUNS):
                    for name, command in order:
                        again[name].append(run(command, homes[name])[0])
    finally:
        server.terminate()
        server.wait()
    report(asked, seconds, again, memory)


def surroundings(endpoint: str, home: str) -> dict[str, str]:
    more = {"HF_HOME": home, "HF_ENDPOINT": endpoint, "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {**os.environ, **more}


def report(
    asked: argparse.Namespace,
    seconds: dict[str, list[float]],
    again: dict[str, list[float]],
    memory: dict[str, float],
) -> None:
    for name in seconds:
        rate = asked.mib / statistics.median(seconds[name])
        print(f"{name:8} {rate:7.0f} MiB/s  again {statistics.median(again[name]):5.2f} s  {memory[name]:4.0f} MiB")
    figures = {
        "ratio": round(statistics.median(seconds["hf"]) / statistics.median(seconds["aeonctl"]), 3),
        "again_ratio": round(statistics.median(again["hf"]) / statistics.median(again["aeonctl"]), 3),
        "memory_mib": round(memory["aeonctl"], 1),
        "seconds": {name: [round(value, 3) for value in values] for name, values in seconds.items()},
        "again_seconds": {name: [round(value, 3) for value in values] for name, values in again.items()},
    }
    figures["passed"] = bool(
        figures["ratio"] >= LEAST_RATIO  # type: ignore[operator]
        and figures["again_ratio"] >= LEAST_RATIO  # type: ignore[operator]
        and memory["aeonctl"] < MOST_MIB
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
