"""Restart policies and the way out, on rehearsals, on a private Docker engine, and over a real sshd."""

from __future__ import annotations

import getpass
import io
import json
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.docker_engine import DockerEngines
from aeonctl.adapters.real import build_ports
from aeonctl.adapters.ssh import ssh_words
from aeonctl.cli.output import Output
from aeonctl.core.container import ContainerSpec
from aeonctl.main import main
from aeonctl.ports import EngineStatus
from aeonctl.workflows.rescue import remote_script
from tests.real import require

IMAGE = "aeonctl-test/busybox:1"


def run(words: list[str], state: Path, **environment: str) -> tuple[int, dict[str, Any], str]:
    given = {
        **os.environ,
        "XDG_STATE_HOME": str(state),
        "DOCKER_HOST": f"unix://{state}/no-docker.sock",
        "AEONCTL_REHEARSE_SPEED": "0",
        **environment,
    }
    out, err = io.StringIO(), io.StringIO()
    host = words[words.index("--host") + 1] if "--host" in words else None
    code = main([*words, "--json"], build_ports(host, given), Output(as_json=True, out=out, err=err))
    return code, json.loads(out.getvalue()), err.getvalue()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[dict[str, Any]]:
    words = ["up", "--seat", "quality", "--rehearse", "dgx-spark", "--port", free_port()]
    code, data, _ = run(words, tmp_path)
    assert code == 0
    yield {**data["data"]["engine"], "state": tmp_path}
    run(["down", "--all"], tmp_path)


def verified(spark: dict[str, Any], **more: Any) -> None:
    folder = spark["state"] / "aeonctl" / "verifications"
    folder.mkdir(parents=True, exist_ok=True)
    record = {"spec_hash": spark["spec_hash"], "passed": True, "at": 0, "checks": [], **more}
    (folder / f"{spark['spec_hash']}.json").write_text(json.dumps(record))


def policy(state: Path) -> str:
    _, data, _ = run(["status"], state)
    return str(data["data"]["engines"][0]["restart_policy"])


def test_promote_needs_a_passed_verification_of_this_very_spec(spark: dict[str, Any]) -> None:
    state = spark["state"]
    code, data, _ = run(["promote"], state)
    assert (code, data["errors"][0]["code"]) == (5, "not_verified")
    for wrong in ({"passed": False}, {"passed": "true"}, {"spec_hash": "another"}):
        verified(spark, **wrong)
        assert run(["promote"], state)[0] == 5
    (state / "aeonctl" / "verifications" / f"{spark['spec_hash']}.json").write_text('{"passed": tru')
    assert run(["promote"], state)[0] == 5
    assert policy(state) == "no"


def test_promote_warns_on_unified_memory_and_demote_undoes_it(spark: dict[str, Any]) -> None:
    verified(spark)
    code, data, err = run(["promote", spark["name"]], spark["state"])
    assert code == 0
    assert data["data"]["restart_policy"] == "unless-stopped"
    assert "unified" in err
    assert policy(spark["state"]) == "unless-stopped"
    code, data, _ = run(["demote", spark["name"]], spark["state"])
    assert (code, data["data"]["before"]) == (0, "unless-stopped")
    assert policy(spark["state"]) == "no"


def test_there_is_nothing_to_promote(tmp_path: Path) -> None:
    words = ["up", "--seat", "quality", "--rehearse", "dgx-spark", "--port", free_port(), "--name", "one"]
    assert run(words, tmp_path)[0] == 0
    code, data, _ = run(["demote", "other"], tmp_path)
    run(["down", "--all"], tmp_path)
    assert (code, data["errors"][0]["code"]) == (7, "not_running")


def test_the_remote_script_is_one_sh_program_that_bash_and_sh_can_read() -> None:
    for everything in (False, True):
        script = remote_script("ssh://me@box:22/run/docker.sock", everything)
        for shell in ("sh", "bash"):
            assert subprocess.run([shell, "-n", "-c", script], check=False).returncode == 0
    words = ssh_words("ssh://me@box:2222", "echo 'a b'")
    assert words[-2:] == ["box", "sh -c 'echo '\"'\"'a b'\"'\"''"]
    assert {"BatchMode=yes", "ConnectTimeout=5"} <= set(words)


# --- Docker -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_docker(docker_host: str) -> Iterator[str]:
    """A Docker engine that belongs to this test alone, since rescue kills everything in one."""
    if os.environ.get("AEONCTL_TEST_RESCUE_DOCKER_HOST"):
        yield os.environ["AEONCTL_TEST_RESCUE_DOCKER_HOST"]
        return
    require(os.geteuid() == 0 and shutil.which("dockerd"), "a Docker engine of its own needs root and dockerd")
    folder = f"/tmp/aeonctl-r{uuid.uuid4().hex[:6]}"
    script = Path(__file__).parents[1] / "engine" / "dockerd.sh"
    started = subprocess.run([script, "start", folder], capture_output=True, text=True, check=True)
    url = started.stdout.strip()
    image = subprocess.run(["docker", "-H", docker_host, "save", IMAGE], capture_output=True, check=True).stdout
    subprocess.run(["docker", "-H", url, "load"], input=image, capture_output=True, check=True)
    yield url
    subprocess.run([script, "stop", folder], capture_output=True, check=True)
    shutil.rmtree(folder, ignore_errors=True)


class Fleet:
    """Containers in the private engine: some ours, one foreign, one that keeps failing."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engines = DockerEngines(url, dict(os.environ), Path.home())
        self.names: dict[str, str] = {}

    def start(self, kind: str, command: str, *, ours: bool = True) -> str:
        name = f"aeonctl-rescue-{kind}-{uuid.uuid4().hex[:6]}"
        labels = {"io.aeonctl.seat": "test"} if ours else {}
        spec = ContainerSpec(
            name=name, image=IMAGE, entrypoint="sh", command=("-c", command), labels=labels, restart="unless-stopped"
        )
        self.engines.start(spec, {})
        self.names[kind] = name
        return name

    def status(self, kind: str) -> tuple[str, str]:
        record = self.engines.find(self.names[kind])
        assert record is not None
        return record.status, record.restart_policy

    def clear(self) -> None:
        for name in self.names.values():
            subprocess.run(["docker", "-H", self.url, "rm", "-f", "-v", name], capture_output=True, check=False)


@pytest.fixture
def fleet(own_docker: str) -> Iterator[Fleet]:
    fleet = Fleet(own_docker)
    fleet.start("lives", "trap '' TERM; sleep 600")
    fleet.start("fails", "exit 3")
    fleet.start("foreign", "sleep 600", ours=False)
    yield fleet
    fleet.clear()


DEAD, ALIVE = (EngineStatus.EXITED, "no"), (EngineStatus.RUNNING, "unless-stopped")


@pytest.mark.docker
@pytest.mark.parametrize("everything", [False, True])
def test_rescue_clears_policies_then_kills(fleet: Fleet, tmp_path: Path, everything: bool) -> None:
    words = ["rescue", "--host", fleet.url, *(["--all-containers"] if everything else [])]
    code, data, _ = run(words, tmp_path)
    assert code == 0
    assert fleet.names["lives"] in data["data"]["killed"]
    assert fleet.status("lives") == DEAD
    assert fleet.status("fails") == DEAD
    assert fleet.status("foreign") == (DEAD if everything else ALIVE)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A real sshd on loopback with its own keys, and an ``ssh`` on PATH that uses the test's configuration."""
    require(Path("/usr/sbin/sshd").exists() and shutil.which("ssh"), "openssh-server is not installed")
    require(os.geteuid() == 0, "sshd needs root to let somebody in")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    port = free_port()
    Path("/run/sshd").mkdir(exist_ok=True)
    (tmp_path / "authorized").write_text((tmp_path / "user.pub").read_text())
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\n"
        f"PasswordAuthentication no\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile {tmp_path}/pid\n"
        f"LogLevel VERBOSE\n"
    )
    (tmp_path / "ssh_config").write_text(
        f"IdentityFile {tmp_path}/user\nUserKnownHostsFile {tmp_path}/known\nStrictHostKeyChecking accept-new\n"
    )
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    wrapper = bin_folder / "ssh"
    wrapper.write_text(
        f'#!/bin/sh\necho try >> {tmp_path}/tries\nexec {shutil.which("ssh")} -F {tmp_path}/ssh_config "$@"\n'
    )
    wrapper.chmod(0o755)
    yield {"port": port, "folder": tmp_path, "path": f"{bin_folder}:{os.environ['PATH']}"}
    pid = tmp_path / "pid"
    if pid.exists():
        os.kill(int(pid.read_text()), 15)


def start_sshd(folder: Path) -> None:
    arguments = ["/usr/sbin/sshd", "-f", str(folder / "sshd_config"), "-E", str(folder / "sshd.log")]
    subprocess.run(arguments, check=True)


@pytest.mark.docker
def test_rescue_over_ssh_tries_until_the_first_session_lands(fleet: Fleet, sshd: dict[str, Any]) -> None:
    folder: Path = sshd["folder"]
    socket_path = fleet.url.removeprefix("unix://")
    url = f"ssh://{getpass.getuser()}@127.0.0.1:{sshd['port']}{socket_path}"
    environment = {**os.environ, "PATH": sshd["path"], "XDG_STATE_HOME": str(folder)}
    ports = build_ports(url, environment)
    tries = 0
    naps: list[float] = []

    class Clock:
        """Time in which the machine comes up after the third try."""

        def now(self) -> float:
            return float(len(naps))

        def timestamp(self) -> float:
            return 0.0

        def sleep(self, seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 3:
                start_sshd(folder)

    from dataclasses import replace

    out = io.StringIO()
    words = ["rescue", "--host", url, "--attempts", "60", "--interval", "0.2", "--json"]
    code = main(words, replace(ports, clock=Clock()), Output(as_json=True, out=out, err=io.StringIO()))
    data = json.loads(out.getvalue())
    assert code == 0, data
    tries = len((folder / "tries").read_text().splitlines())
    assert data["data"]["attempt"] == tries
    assert tries >= 4
    assert fleet.names["lives"] in data["data"]["killed"]
    assert fleet.status("lives") == DEAD
    assert fleet.status("fails") == DEAD
    assert fleet.status("foreign") == ALIVE
    log = (folder / "sshd.log").read_text()
    assert log.count("Accepted publickey") == 1
    assert log.count("Starting session: command") == 1


def test_rescue_over_ssh_ends_when_nothing_lands(sshd: dict[str, Any]) -> None:
    url = f"ssh://root@127.0.0.1:{sshd['port']}"
    words = ["rescue", "--host", url, "--attempts", "2", "--interval", "0"]
    code, data, _ = run(words, sshd["folder"], PATH=sshd["path"])
    assert (code, data["errors"][0]["code"]) == (4, "ssh_unreachable")
    assert "refused" in json.dumps(data["errors"][0])


def test_a_changed_host_key_stops_the_tries_at_once(sshd: dict[str, Any]) -> None:
    folder: Path = sshd["folder"]
    start_sshd(folder)
    other = (folder / "user.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{sshd['port']} {other[0]} {other[1]}\n")
    url = f"ssh://root@127.0.0.1:{sshd['port']}"
    code, data, _ = run(["rescue", "--host", url], folder, PATH=sshd["path"])
    assert (code, data["errors"][0]["facts"]["attempts"] if "facts" in data["errors"][0] else 1) == (4, 1)
