"""A process that watches this machine's memory for one container, and kills the container before the machine stalls.

Run as a file (``python guard_process.py TASK_JSON [READY_FD]``) with the standard library alone. Whatever it needs to
act is there beforehand: its memory is locked, /proc is open, two connections to Docker are open, both requests are
written; between crossing the floor and the kill it neither forks nor opens anything. What it did it writes to a record.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import http.client
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

_MCL_CURRENT, _MCL_FUTURE = 1, 2
_POLICY_SECONDS, _KILL_SECONDS = 0.25, 0.25
"""How long to wait for Docker's answer before going on without it."""
_LOOK_SECONDS = 1.0
_STALL_WINDOW = 1.0


class Wire:
    """One open connection to Docker, and the request that waits to go over it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.request = b""
        self._socket: socket.socket | None = None
        self._buffer = bytearray(4096)

    def ready(self) -> bool:
        """Open the connection unless it is; a look costs one system call. False when Docker does not answer."""
        if self._socket is not None:
            try:
                if self._socket.recv_into(self._buffer, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == 0:
                    self._drop()
            except BlockingIOError:
                return True
            except OSError:
                self._drop()
        if self._socket is None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            opened.settimeout(1.0)
            try:
                opened.connect(self.path)
            except OSError:
                opened.close()
                return False
            opened.setblocking(False)  # with a time limit Python would wait for data before it looks
            self._socket = opened
        return True

    def send(self) -> None:
        """Send the request; the connection is used up."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(self.request)

    def status(self, wait: float) -> int:
        """The answer's status: 0 when none came within ``wait`` seconds."""
        connection = self._socket
        if connection is None:
            return 0
        try:
            if not select.select([connection], [], [], wait)[0]:
                return 0
            count = connection.recv_into(self._buffer)
            return int(self._buffer[9:12]) if count >= 12 else 0
        except (OSError, ValueError):
            return 0

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _UnixHttp(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=5.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5.0)
        self.sock.connect(self._path)


def ask(path: str, method: str, url: str, body: str | None = None) -> tuple[int, Any]:
    """One question to Docker outside of an emergency: status (0 when it does not answer) and JSON."""
    connection = _UnixHttp(path)
    try:
        connection.request(method, url, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


_NO_RESTART = json.dumps({"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}})


class Guard:
    """One container under guard."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.docker: str = task["docker"]
        self.floor: int = task["floor_bytes"]
        self.ident = ""
        self.pidfd = -1
        self.pid = 0
        self.over = threading.Event()
        self.policy, self.kill = Wire(self.docker), Wire(self.docker)
        self.record: dict[str, Any] = {
            "name": task["name"],
            "ident": "",
            "pid": os.getpid(),
            "floor_bytes": self.floor,
            "since": time.time(),
            "lowest_bytes": None,
            "slowest_sample_ms": 0.0,
        }
        self._meminfo = os.open(task.get("meminfo", "/proc/meminfo"), os.O_RDONLY)
        self._pressure = _opened(task.get("pressure", "/proc/pressure/memory"))
        self._page = bytearray(8192)
        self._restarts: list[float] = []
        self._seen_restarts = 0
        self._stalls: list[tuple[float, int]] = []

    def prepare(self) -> None:
        """Lock memory, keep the kernel's OOM killer off and other processes behind, as far as this user may."""
        self.available()
        self.stalled_share(time.monotonic())
        for adjust in ("-900", "-500"):
            with contextlib.suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(adjust, encoding="ascii")
                break
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        gc.collect()
        gc.freeze()
        gc.disable()
        libc = ctypes.CDLL(None, use_errno=True)
        self.record["locked"] = libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) == 0

    def find(self) -> bool:
        """Wait for the container; False when it does not come in time."""
        deadline = time.monotonic() + self.task["wait_seconds"]
        while not self.over.is_set():
            status, data = ask(self.docker, "GET", f"/containers/{self.task['name']}/json")
            if status == 200 and data["State"]["Status"] in ("running", "restarting"):
                self._take(data)
                return True
            if time.monotonic() >= deadline:
                return False
            self.over.wait(0.05 if deadline - time.monotonic() > self.task["wait_seconds"] - 30 else 1.0)
        return False

    def _take(self, data: dict[str, Any]) -> None:
        self.ident = self.record["ident"] = data["Id"]
        self._seen_restarts = data.get("RestartCount", 0)
        self._follow_pid(data)
        head = f"POST /containers/{self.ident}"
        body = _NO_RESTART
        self.policy.request = (
            f"{head}/update HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        self.kill.request = f"{head}/kill?signal=KILL HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n\r\n".encode()
        self.policy.ready()
        self.kill.ready()

    def _follow_pid(self, data: dict[str, Any]) -> None:
        pid = data["State"].get("Pid", 0)
        if pid == self.pid:
            return
        old, self.pid, self.pidfd = self.pidfd, pid, -1
        if old >= 0:
            os.close(old)
        if pid > 0:
            with contextlib.suppress(OSError):
                self.pidfd = os.pidfd_open(pid)

    def available(self) -> int:
        """MemAvailable in bytes, read without opening anything."""
        count = os.preadv(self._meminfo, [self._page], 0)
        start = self._page.find(b"MemAvailable:", 0, count) + 13
        return int(self._page[start : self._page.find(b"kB", start, count)]) * 1024

    def stalled_share(self, now: float) -> float:
        """The share of about the last second in which every process waited for memory; 0 where PSI is off."""
        if self._pressure < 0:
            return 0.0
        count = os.preadv(self._pressure, [self._page], 0)
        start = self._page.find(b"total=", self._page.find(b"full", 0, count), count)
        if start < 0:
            return 0.0
        self._stalls.append((now, int(self._page[start + 6 : count].split()[0])))
        while len(self._stalls) > 2 and now - self._stalls[1][0] >= _STALL_WINDOW:
            self._stalls.pop(0)
        then, before = self._stalls[0]
        if now - then < _STALL_WINDOW / 2:
            return 0.0
        return (self._stalls[-1][1] - before) / 1e6 / (now - then)

    def watch(self) -> None:
        """Sample until the container is gone or was killed."""
        interval, last = self.task["interval"], time.monotonic()
        lowest = 1 << 62
        while not self.over.is_set():
            now = time.monotonic()
            self.record["slowest_sample_ms"] = max(self.record["slowest_sample_ms"], round((now - last) * 1000, 1))
            last = now
            available = self.available()
            share = self.stalled_share(now)
            if available < lowest:
                lowest = self.record["lowest_bytes"] = available
            if self.floor and self.ident:
                if available < self.floor:
                    self.act("floor", available, share, now)
                    return
                if available < 2 * self.floor and share > self.task["stall_share"]:
                    self.act("stalled", available, share, now)
                    return
            self.policy.ready()
            self.kill.ready()
            self.over.wait(interval)

    def act(self, reason: str, available: int, share: float, seen: float) -> None:
        """Restart policy off, SIGKILL; then tell."""
        self.policy.send()
        policy = self.policy.status(_POLICY_SECONDS)
        told = time.monotonic()
        self.kill.send()
        by_pidfd = False
        if self.pidfd >= 0:  # whoever may kill the process need not wait for Docker to do so
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
                by_pidfd = True
        done = time.monotonic()
        killed = self.kill.status(_KILL_SECONDS)
        self.record["acted"] = {
            "at": time.time() - (time.monotonic() - seen),
            "reason": reason,
            "available_bytes": available,
            "stalled_share": round(share, 3),
            "policy_status": policy,
            "kill_status": killed,
            "by_pidfd": by_pidfd,
            "policy_ms": round((told - seen) * 1000, 2),
            "kill_ms": round((done - seen) * 1000, 2),
        }
        self.save()
        self._make_sure()
        self.over.set()

    def _make_sure(self) -> None:
        """Until the policy is off and nothing runs: Docker may have been too busy for either."""
        for _ in range(200):
            status, data = ask(self.docker, "GET", f"/containers/{self.ident}/json")
            if status == 404:
                return
            if status == 200:
                off = data["HostConfig"]["RestartPolicy"]["Name"] in ("no", "")
                if off and data["State"]["Status"] not in ("running", "restarting"):
                    return
                if not off:
                    ask(self.docker, "POST", f"/containers/{self.ident}/update", _NO_RESTART)
                if data["State"]["Status"] in ("running", "restarting"):
                    ask(self.docker, "POST", f"/containers/{self.ident}/kill?signal=KILL")
            time.sleep(0.1)

    def follow(self) -> None:
        """In a thread of its own: whether the container is still there, and whether it restarts in vain."""
        while not self.over.wait(_LOOK_SECONDS):
            status, data = ask(self.docker, "GET", f"/containers/{self.ident}/json")
            if status == 404:
                self.over.set()
            elif status == 200:
                self._follow_pid(data)
                policy = data["HostConfig"]["RestartPolicy"]["Name"] or "no"
                if data["State"]["Status"] in ("exited", "dead") and policy == "no":
                    self.over.set()
                self._count(data.get("RestartCount", 0), policy)

    def _count(self, restarts: int, policy: str) -> None:
        now = time.monotonic()
        self._restarts += [now] * max(0, restarts - self._seen_restarts)
        self._seen_restarts = restarts
        if self._restarts and self._healthy():
            self._restarts.clear()
        self._restarts = [at for at in self._restarts if now - at <= self.task["minutes"] * 60]
        if policy == "no" or len(self._restarts) < self.task["restarts"]:
            return
        for _ in range(100):
            if ask(self.docker, "POST", f"/containers/{self.ident}/update", _NO_RESTART)[0] in (200, 404):
                break
            time.sleep(0.05)
        cleared = {"at": time.time(), "restarts": len(self._restarts), "minutes": self.task["minutes"]}
        self.record["cleared"] = cleared
        self._restarts.clear()
        self.save()

    def _healthy(self) -> bool:
        port = self.task.get("health_port")
        connection = http.client.HTTPConnection("127.0.0.1", port or 0, timeout=1.0)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def save(self) -> None:
        """Write the record whole."""
        path = Path(self.task["record"])
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(self.record, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)

    def end(self) -> None:
        """Keep the record of a guard that did something, and forget the others."""
        if "acted" in self.record or "cleared" in self.record:
            self.save()
        else:
            with contextlib.suppress(OSError):
                Path(self.task["record"]).unlink()


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1


def main(task: dict[str, Any], ready: int) -> int:
    """Guard one container; 0 when it ended by itself, 7 when it was killed, 3 when it never came."""
    threading.stack_size(256 * 1024)
    guard = Guard(task)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: guard.over.set())
    guard.prepare()
    guard.save()
    if ready >= 0:
        os.write(ready, b"ready")
        os.close(ready)
    found = guard.find()
    if found:
        guard.save()
        threading.Thread(target=guard.follow, daemon=True).start()
        guard.watch()
    guard.end()
    return 7 if "acted" in guard.record else 0 if found else 3


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1))
