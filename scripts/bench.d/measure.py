"""Measure what the design promises, and print a table.

    scripts/bench [help | plan | answer | engine | log ...]     all of them without a name

--help and --version are set against ramalama, another tool of the kind, in turns within one run. Both are installed
into folders that are gone afterwards. Times are the least of several runs, because what else a machine does only adds
to them; memory and lags are the most. ``engine`` needs what tests/engine/setup.sh exports and is left out without it.
The exit status is 1 when a figure is over its limit.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIVAL = "ramalama==0.25.0"
LOG_MEGABYTES = 100
SEAT = ("--seat", "quality", "--rehearse", "rtx-5090")


@dataclass(frozen=True)
class Row:
    """One figure with its limit, both in ``unit``."""

    what: str
    figure: float
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        return self.figure <= self.limit


@dataclass(frozen=True)
class Run:
    """One process: its seconds, and its peak resident set."""

    seconds: float
    peak_mib: float


class Bench:
    """A folder for everything that is written, with aeonctl as users have it: installed in a venv."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("AEONCTL_", "DOCKER_", "HF_"))
            },
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HF_HUB_CACHE": str(folder / "hub"),
            "NO_COLOR": "1",
        }
        self.environment.pop("PYTHONPATH", None)
        self.aeonctl = self.install("aeonctl", str(ROOT))

    def install(self, program: str, package: str) -> str:
        python = self.folder / program / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / program)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-warn-script-location"]
        subprocess.run([*pip, package], check=True)
        return str(python.with_name(program))

    def run(self, *words: str, **more: str) -> Run:
        """Run to the end; the peak is that of the process itself, as wait4 tells it."""
        began = time.perf_counter()
        with (self.folder / "told").open("w+") as told:
            process = subprocess.Popen(words, env={**self.environment, **more}, stdout=told, stderr=told)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            told.seek(0)
            if process.returncode != 0:
                raise SystemExit(f"{' '.join(words)} left with {process.returncode}:\n{told.read()}")
        return Run(seconds, usage.ru_maxrss / 1024)


def bench_help(bench: Bench) -> Iterator[Row]:
    rival = bench.install("ramalama", RIVAL)
    for option, theirs in (("--help", "--help"), ("--version", "version")):
        pairs = [(bench.run(bench.aeonctl, option).seconds, bench.run(rival, theirs).seconds) for _ in range(12)]
        ours, other = (min(times) for times in zip(*pairs, strict=True))
        yield Row(f"{option}, of ramalama's {other:.3f} s", ours, other, "s")


def bench_plan(bench: Bench) -> Iterator[Row]:
    runs = [bench.run(bench.aeonctl, "--as", "rtx-5090", "plan", "--seat", "quality") for _ in range(8)]
    yield Row("plan --as rtx-5090", min(run.seconds for run in runs), 0.6, "s")
    yield Row("plan --as rtx-5090, peak memory", max(run.peak_mib for run in runs), 80.0, "MiB")


def bench_answer(bench: Bench) -> Iterator[Row]:
    lags = [lag(bench, "aeon", "up", *SEAT) for _ in range(3)]
    yield Row("up returns after the first answer, rehearsal", max(lags), 1.0, "s")


def bench_engine(bench: Bench) -> Iterator[Row]:
    names = ("AEONCTL_TEST_DOCKER_HOST", "AEONCTL_TEST_ENGINE_IMAGE", "AEONCTL_TEST_SMALL_MODEL")
    docker_host, image, model = (os.environ.get(name, "") for name in names)
    if not (docker_host and image and model):
        print("engine: left out, it needs what tests/engine/setup.sh exports", file=sys.stderr)
        return
    seat = ("--seat", "cpu/try", "--image", image, "--model", model, "--unset", "reasoning-parser", "--offline")
    took = lag(bench, "qwen3-0.6b", "--host", docker_host, "up", *seat)
    yield Row("up returns after the first answer, real vLLM", took, 1.0, "s")


def lag(bench: Bench, model: str, *words: str) -> float:
    """Seconds from the engine's first completion, as another caller sees it, to the return of ``up``."""
    name, port = f"aeonctl-bench-{os.getpid()}", free_port()
    first = FirstAnswer(port, model)
    try:
        bench.run(bench.aeonctl, *words, "--name", name, "--port", str(port))
        return time.perf_counter() - first.wait()
    finally:
        first.stop()
        host = words[: words.index("up")]
        bench.run(bench.aeonctl, *host, "down", name)


class FirstAnswer:
    """Asks again and again, on a thread, until a completion comes."""

    def __init__(self, port: int, model: str) -> None:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        self._request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        self._at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def wait(self) -> float:
        self._thread.join(30)
        return self._at

    def stop(self) -> None:
        self._stopped.set()

    def _ask(self) -> None:
        while not self._stopped.wait(0.02):
            try:
                with urllib.request.urlopen(self._request, timeout=60) as reply:
                    if json.load(reply)["choices"]:
                        self._at = time.perf_counter()
                        return
            except OSError:
                continue


def bench_log(bench: Bench) -> Iterator[Row]:
    name, port = f"aeonctl-bench-{os.getpid()}", str(free_port())
    python = str(Path(bench.aeonctl).with_name("python"))
    words = (python, str(HERE / "up_noisy.py"), str(LOG_MEGABYTES), "up", *SEAT, "--name", name, "--port", port)
    run = bench.run(*words)
    bench.run(bench.aeonctl, "down", name)
    yield Row(f"up on a boot log of {LOG_MEGABYTES} MB, peak memory ({run.seconds:.0f} s)", run.peak_mib, 120.0, "MiB")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


BENCHES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "help": bench_help,
    "plan": bench_plan,
    "answer": bench_answer,
    "engine": bench_engine,
    "log": bench_log,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        raise SystemExit(f"no bench called {unknown[0]}; there are {', '.join(BENCHES)}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="aeonctl-bench-") as folder:
        bench = Bench(Path(folder))
        for name in names or BENCHES:
            for row in BENCHES[name](bench):
                rows.append(row)
                mark = "" if row.kept else "  OVER"
                print(f"{row.what:<55} {row.figure:8.3f} {row.unit:<4} limit {row.limit:8.3f}{mark}", flush=True)
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
