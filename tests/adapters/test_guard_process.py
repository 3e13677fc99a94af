"""The guard against a real Docker engine and a real container that eats this machine's memory."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters import guard_process
from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.adapters.guards import GuardProcesses
from aeonctl.adapters.meminfo import SystemMemory
from aeonctl.core.container import ContainerSpec, Mount
from aeonctl.errors import HostError
from aeonctl.ports import EngineRecord, EngineStatus, GuardTask

IMAGE = "aeonctl-test/busybox:1"
MIB = 1024 * 1024
EATS = (
    "i=0; while [ $i -lt 24 ]; do dd if=/dev/zero of=/dev/shm/$i bs=1M count=64 2>/dev/null; i=$((i+1)); {pause}; done"
)


class Bench:
    """Containers under guard in one Docker engine."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.engines = DockerEngines(url, dict(os.environ), Path.home())
        self.guards = GuardProcesses(url, dict(os.environ), Path.home())
        self.name = f"aeonctl-guard-{uuid.uuid4().hex[:8]}"
        self.record = folder / f"{self.name}.json"

    def start(self, script: str, *, restart: str = "unless-stopped") -> EngineRecord:
        spec = ContainerSpec(
            name=self.name,
            image=IMAGE,
            entrypoint="sh",
            command=("-c", script),
            shm_size="2g",
            labels={"io.aeonctl.seat": "test"},
            restart=restart,
            oom_score_adj=500,
            core_dumps=False,
            mounts=(Mount(source=str(self.folder), target="/go"),),
        )
        return self.engines.start(spec, {})

    def guard(self, floor: int, *, wait: float = 10.0, restarts: int = 3) -> None:
        task = GuardTask(self.name, floor, 0.5, None, restarts, 10, self.record, wait)
        self.guards.start(task)

    def told(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads(self.record.read_text())
        except FileNotFoundError:
            return {}
        return data

    def exited(self, ident: str) -> EngineRecord | None:
        found = self.engines.find(ident)
        return found if found is not None and found.status is EngineStatus.EXITED else None

    def clear(self) -> None:
        pid = self.told().get("pid")
        if pid and Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGTERM)
        for name in (self.name, f"{self.name}-renamed"):
            subprocess.run(["docker", "-H", self.url, "rm", "-f", "-v", name], capture_output=True, check=False)


@pytest.fixture
def bench(docker_host: str, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(docker_host, tmp_path)
    yield bench
    bench.clear()


def until(look: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    message = f"waited in vain for {look}"
    raise AssertionError(message)


class Crossing:
    """When available memory first fell under a floor, seen from a process of its own every 2 ms."""

    def __init__(self, floor: int) -> None:
        code = (
            "import os,sys,time\nfloor=int(sys.argv[1])\nfd=os.open('/proc/meminfo',0)\n"
            "while True:\n t=os.pread(fd,4096,0)\n"
            " if int(t.split(b'MemAvailable:')[1].split()[0])*1024<floor: print(time.time(),flush=True); break\n"
            " time.sleep(0.002)\n"
        )
        self.process = subprocess.Popen([sys.executable, "-c", code, str(floor)], stdout=subprocess.PIPE, text=True)

    def at(self) -> float:
        return float(self.process.communicate(timeout=60)[0])


def finished_at(bench: Bench, ident: str) -> float:
    words = ["docker", "-H", bench.url, "inspect", "-f", "{{.State.FinishedAt}}", ident]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.docker
@pytest.mark.parametrize("pressure", ["calm", "busy"])
def test_the_container_dies_within_a_second_of_the_crossing(bench: Bench, pressure: str, record_property: Any) -> None:
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: bytearray(50_000_000)"]) for _ in range(4)
    ] if pressure == "busy" else []  # fmt: skip
    try:
        eats = EATS.format(pause="sleep 0.05" if pressure == "calm" else ":")
        record = bench.start(f"until [ -e /go/go ]; do sleep 0.05; done; {eats}; sleep 600")
        available = SystemMemory().available()
        assert available is not None
        floor = available - 500 * MIB
        bench.guard(floor)
        until(lambda: bench.told().get("ident"))
        crossing = Crossing(floor)
        (bench.folder / "go").touch()
        acted = until(lambda: bench.told().get("acted"))
        gone = until(lambda: bench.exited(record.ident))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    crossed = crossing.at()
    reaction = finished_at(bench, record.ident) - crossed
    sent = acted["at"] + acted["kill_ms"] / 1000 - crossed
    record_property("kill_sent_ms", round(sent * 1000))
    record_property("gone_ms", round(reaction * 1000))
    assert gone.restart_policy == "no"
    assert gone.exit_code == 137
    assert acted["policy_status"] == 200
    assert min(sent, reaction) < 1.0
    told = bench.told()
    assert told["floor_bytes"] == floor
    assert told["slowest_sample_ms"] < 1000
    assert acted["available_bytes"] < floor
    assert told["ident"] == record.ident


@pytest.mark.docker
def test_a_container_that_is_renamed_by_hand_is_still_the_one(bench: Bench) -> None:
    record = bench.start("sleep 600")
    bench.guard(0)
    until(lambda: bench.told().get("ident"))
    subprocess.run(["docker", "-H", bench.url, "rename", bench.name, f"{bench.name}-renamed"], check=True)
    pid = bench.told()["pid"]
    os.kill(pid, 0)
    subprocess.run(["docker", "-H", bench.url, "rm", "-f", record.ident], capture_output=True, check=True)
    until(lambda: not bench.record.exists())


@pytest.mark.docker
def test_a_promoted_container_that_restarts_in_vain_loses_its_policy(bench: Bench) -> None:
    record = bench.start("sleep 0.2; exit 3")
    bench.guard(0)
    cleared = until(lambda: bench.told().get("cleared"))
    assert cleared["restarts"] >= 3
    assert cleared["minutes"] == 10
    found = until(lambda: (found := bench.engines.find(record.ident)) and found.status is EngineStatus.EXITED and found)
    assert found.restart_policy == "no"


def test_a_guard_whose_container_never_comes_ends(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    task = {"name": "none", "docker": str(tmp_path / "no.sock"), "floor_bytes": 0, "stall_share": 0.5,
            "restarts": 3, "minutes": 10, "record": str(record), "wait_seconds": 0.1, "interval": 0.1}  # fmt: skip
    done = subprocess.run([sys.executable, "-I", guard_process.__file__, json.dumps(task)], check=False)
    assert done.returncode == 3
    assert not record.exists()


def test_a_guard_for_an_engine_elsewhere_is_refused(tmp_path: Path) -> None:
    guards = GuardProcesses("ssh://box", {}, tmp_path)
    with pytest.raises(HostError, match="must run on the machine"):
        guards.start(GuardTask("x", 0, 0.5, None, 3, 10, tmp_path / "r.json", 1.0))


class OneDocker:
    """A Docker that is too busy to answer, or closes: a unix socket and what was sent to it."""

    def __init__(self, path: Path, *, answers: bool) -> None:
        self.path = str(path)
        self.received: list[bytes] = []
        self._answers = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        while data := connection.recv(65536):
            self.received.append(data)
            if self._answers:
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def a_guard(docker: OneDocker, record: Path, victim: int) -> guard_process.Guard:
    guard = guard_process.Guard(
        {
            "name": "n",
            "docker": docker.path,
            "floor_bytes": 1 << 60,
            "stall_share": 0.5,
            "restarts": 3,
            "minutes": 10,
            "record": str(record),
            "wait_seconds": 1,
            "interval": 0.1,
        }
    )
    guard._take({"Id": "abc", "State": {"Pid": victim}})
    return guard


def test_between_crossing_and_kill_nothing_is_opened_and_nothing_forks(tmp_path: Path) -> None:
    docker = OneDocker(tmp_path / "docker.sock", answers=True)
    guard = a_guard(docker, tmp_path / "record.json", 0)
    events: list[str] = []
    armed = False

    def hook(event: str, _arguments: tuple[Any, ...]) -> None:
        if armed and threading.current_thread() is threading.main_thread():
            events.append(event)

    sys.addaudithook(hook)
    saved: list[list[str]] = []
    guard.save = lambda: saved.append(list(events))  # type: ignore[method-assign]
    guard._make_sure = lambda: None  # type: ignore[method-assign]
    armed = True
    guard.watch()
    armed = False
    assert saved, "the guard acted"
    assert not [event for event in saved[0] if event in {"open", "os.fork", "os.posix_spawn", "subprocess.Popen"}]
    assert not [event for event in saved[0] if event == "socket.connect"]
    first, second = docker.received[:2]
    assert b"/containers/abc/update" in first
    assert b'"Name": "no"' in first
    assert b"/containers/abc/kill?signal=KILL" in second


def test_a_docker_that_does_not_answer_does_not_save_the_container(tmp_path: Path) -> None:
    docker = OneDocker(tmp_path / "docker.sock", answers=False)
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    guard = a_guard(docker, tmp_path / "record.json", victim.pid)
    guard._make_sure = lambda: None  # type: ignore[method-assign]
    guard.watch()
    assert victim.wait(timeout=10) == -signal.SIGKILL
    acted = json.loads((tmp_path / "record.json").read_text())["acted"]
    assert (acted["policy_status"], acted["kill_status"], acted["by_pidfd"]) == (0, 0, True)


def test_stalls_count_before_the_floor_is_crossed(tmp_path: Path) -> None:
    docker = OneDocker(tmp_path / "docker.sock", answers=True)
    guard = a_guard(docker, tmp_path / "record.json", 0)
    pressure = tmp_path / "pressure"
    pressure.write_text("some avg10=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    guard._pressure = os.open(pressure, os.O_RDONLY)
    assert guard.stalled_share(0.0) == 0.0
    pressure.write_text("some avg10=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=700000\n")
    assert guard.stalled_share(1.0) == pytest.approx(0.7)


def resident_pages(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = len(mapped) // mmap.PAGESIZE
        vector = (ctypes.c_ubyte * pages)()
        view = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        assert libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(len(mapped)), vector) == 0
        del view
        return sum(page & 1 for page in vector)


def test_the_weights_cache_is_given_back_without_root(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "weights"
    blob.parent.mkdir()
    with blob.open("wb") as file:
        file.write(os.urandom(8 * MIB))
        file.flush()
        os.fsync(file.fileno())
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.safetensors").symlink_to(blob)
    (snapshot / "config.json").write_text("{}")
    blob.read_bytes()
    assert resident_pages(blob) == 8 * MIB // mmap.PAGESIZE
    assert SystemMemory().evict([snapshot, tmp_path / "nowhere"]) == 8 * MIB
    assert resident_pages(blob) == 0


def test_the_largest_users_are_named() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", "import time; b = bytearray(700_000_000); print(1, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    users = SystemMemory().users()
    holder.kill()
    holder.wait()
    assert holder.pid in [user.pid for user in users]
    assert sorted(users, key=lambda user: -user.resident_bytes) == list(users)
