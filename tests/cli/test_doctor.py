"""``aeonctl doctor`` through ``main``: whole outputs for recorded machines, public cases, and what must never stop it.

AEONCTL_UPDATE_GOLDEN=1 writes the goldens anew; look at the difference before keeping it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.core.catalog import Catalog
from aeonctl.core.host import Host
from aeonctl.core.image import ImageFacts, pinned
from aeonctl.errors import HostError
from aeonctl.main import main
from aeonctl.ports import Engines, Ports
from tests.core.test_checks import ENGINE, host, spark, wsl2
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script

GOLDEN = Path(__file__).parents[1] / "golden" / "doctor"


class Ran(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)["data"]
        return found

    def check(self, ident: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = [check for check in self.data["checks"] if check["id"] == ident]
        assert len(found) == 1, [check["id"] for check in self.data["checks"]]
        return found[0]


@dataclass(frozen=True)
class Recorded:
    """An inspection that knows its host."""

    host: Host
    words: tuple[str, ...] = ()

    def probe(self, *, ports: Iterable[int] = ()) -> Host:
        return self.host

    def private_words(self) -> tuple[str, ...]:
        return self.words

    def port_owner(self, port: int) -> str | None:
        return self.host.port_owner(port)


def world(tmp_path: Path, one: Host | None = None, docker: Engines | None = None, **environment: str) -> Ports:
    """The real profiles and cache below a folder, with a recorded machine in the place of this one."""
    real = build_ports("unix:///nonexistent/docker.sock", {"HOME": str(tmp_path), **environment})
    clock = FakeClock()
    return replace(
        real,
        clock=clock,
        docker=docker or FakeEngines(clock),
        inspection=None if one is None else Recorded(one),
    )


def run(ports: Ports, *argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    code = main(["doctor", *argv], ports, Output(as_json="--json" in argv, verbose="-v" in argv, out=out, err=err))
    return Ran(int(code), out.getvalue(), err.getvalue())


def golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("AEONCTL_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", ["rtx-5090", "rtx-5090-wsl2", "dgx-spark", "no-gpu"])
def test_the_whole_output(tmp_path: Path, name: str) -> None:
    ran = run(world(tmp_path), "--as", name)
    golden(name, f"{ran.out}---\n{ran.err}exit {ran.code}\n")
    assert ran.code == 0


def test_the_whole_output_for_a_seat_of_a_machine_in_trouble(tmp_path: Path) -> None:
    one = wsl2(
        memory={"total_bytes": 16 * 1024**3, "available_bytes": 15 * 1024**3, "swap_total_bytes": 0},
        docker={**ENGINE, "kernel": "6.14.0", "gpu": {"runtime": False, "hook": False, "cdi": []}},
        disks=[{"role": "hub-cache", "path": "/mnt/c/hf/hub", "filesystem": "9p", "free_bytes": 10**10}],
        ports=[{"port": 8000, "owner": "process python3 (pid 7)"}],
        details__wsl={
            "version": "2.6.1",
            "networking": "nat",
            "gpu_device": True,
            "linux_packages": ["nvidia-utils-570"],
            "foreign_libraries": [],
            "nvidia_smi": "off-path",
            "tdr_seconds": 2,
            "config": {},
            "windows_free_bytes": 10**10,
        },
        details__hub={"token": "none", "endpoint": "https://huggingface.co", "dangling": ["org/name"], "leftovers": 1},
        details__own={"held": [], "stale": [], "containers": [{"name": "aeon", "restart": "always"}], "writable": True},
    )
    ran = run(world(tmp_path, one), "--seat", "quality")
    golden("wsl2-in-trouble", f"{ran.out}---\n{ran.err}exit {ran.code}\n")
    assert ran.code == 4


def silent(name: str, **more: Any) -> dict[str, Any]:
    return {"docker": {"reachable": False, "problem": name, "endpoint": "unix:///var/run/docker.sock"}, **more}


def test_the_json_is_the_contracts_and_a_failure_ends_with_4(tmp_path: Path) -> None:
    ran = run(world(tmp_path, host(**silent("context_not_found"))), "--json")
    assert ran.code == 4
    assert set(ran.check("docker")) == {"id", "status", "summary", "detail", "remedy"}
    assert json.loads(ran.out)["errors"][0]["failed"] == ["docker"]


def test_every_check_comes_to_its_end_whatever_fails(tmp_path: Path) -> None:
    healthy = {check["id"] for check in run(world(tmp_path, host()), "--json").data["checks"]}
    broken = {check["id"] for check in run(world(tmp_path, Host()), "--json").data["checks"]}
    assert healthy - {"gpu-0", "docker-gpu-test"} == broken - {"gpu"}


def user_profile(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / ".config/aeonctl/profiles" / kind / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("seats", "id: [unclosed"),
        ("cards", "id: mine\nnew_key: 1\n"),
        ("rules", "- id: mine\n"),
        ("checks", "id: docker\nnew_key: 1\n"),
        ("checks", "id: [unclosed"),
        ("checks", "{id: docker, title: t, why: w, source: s, situations: {}}"),
    ],
)
def test_a_broken_profile_is_a_failed_check_and_stops_nothing(tmp_path: Path, kind: str, text: str) -> None:
    user_profile(tmp_path, kind, text)
    ran = run(world(tmp_path, host()), "--json", "--seat", "quality")
    assert ran.code == 4
    check = ran.check("own-profiles")
    assert check["status"] == "fail"
    assert "mine.yaml" in check["summary"]
    assert ran.check("docker")["status"] == "pass"


def test_a_profile_that_replaces_a_bundled_one_is_named(tmp_path: Path) -> None:
    bundled = Path(__file__).parents[2] / "profiles/cards/rtx-5090.yaml"
    user_profile(tmp_path, "cards", bundled.read_text())
    check = run(world(tmp_path, host()), "--json").check("own-profiles")
    assert check["status"] == "warn"
    assert "rtx-5090" in check["summary"]


def test_words_of_a_check_can_be_ones_own(tmp_path: Path) -> None:
    row = next(
        row
        for row in yaml.safe_load((Path(__file__).parents[2] / "profiles/checks/40-docker.yaml").read_text())
        if row["id"] == "docker"
    )
    row["situations"]["answers"]["says"] = "the whale is awake"
    user_profile(tmp_path, "checks", json.dumps(row))
    assert run(world(tmp_path, host()), "--json").check("docker")["summary"] == "the whale is awake"


def test_what_nobody_could_tell_is_one_line_and_whole_with_v(tmp_path: Path) -> None:
    short, long = run(world(tmp_path, host())), run(world(tmp_path, host()), "-v")
    assert "could not be told here (-v says why): " in short.out
    assert "skip  wsl-memory" not in short.out
    assert "skip  wsl-memory       the memory that Windows gives to WSL2: does not apply to this machine" in long.out


def test_the_host_is_saved_with_its_details_and_gives_the_same_checks(tmp_path: Path) -> None:
    one = spark(details__system={"earlyoom": False}, details__kernel_log__xids={"79": 1})
    path = tmp_path / "host.yaml"
    first = run(world(tmp_path, one), "--json", "--save", str(path))
    again = run(world(tmp_path), "--json", "--as", str(path))
    assert again.check("spark-earlyoom") == first.check("spark-earlyoom")
    assert again.check("kernel-log") == first.check("kernel-log")


def test_a_report_has_no_secret_of_the_environment(tmp_path: Path) -> None:
    one = host(**silent("failed", docker__detail="zqalice used hunter2hunter2"))
    ports = world(tmp_path, one, MY_API_KEY="hunter2hunter2")
    ports = replace(ports, inspection=Recorded(one, ("zqalice",)))
    ran = run(ports, "--report")
    assert ran.out.startswith("### aeonctl doctor\n")
    assert "hunter2" not in ran.out
    assert "zqalice" not in ran.out
    data = run(ports, "--report", "--json").data
    assert data["report"] == ran.out


# A seat


def test_a_seat_that_does_not_exist_is_a_failed_check(tmp_path: Path) -> None:
    ran = run(world(tmp_path, host()), "--json", "--seat", "nonsense")
    assert ran.code == 4
    assert ran.check("seat")["status"] == "fail"


def test_a_seats_needs_on_a_healthy_machine(tmp_path: Path) -> None:
    one = host(disks=[{"role": "hub-cache", "path": "/c", "free_bytes": 10**12}])
    ran = run(world(tmp_path, one), "--json", "--seat", "rtx-5090/stock")
    parts = ("seat", "seat-image", "seat-model", "seat-port", "seat-memory", "seat-token", "seat-gate")
    assert [ran.check(part)["status"] for part in parts] == ["pass", "skip", "warn", "pass", "pass", "pass", "pass"]


def test_a_silent_engine_leaves_the_image_unknown(tmp_path: Path) -> None:
    one = host(**silent("not_running"))
    assert run(world(tmp_path, one), "--json", "--seat", "rtx-5090/stock").check("seat-image")["status"] == "skip"


def test_an_engine_that_fails_in_between_stops_nothing(tmp_path: Path) -> None:
    gone = FakeEngines(FakeClock(), silence=HostError("docker_unreachable", "it is gone"))
    ran = run(world(tmp_path, host(), gone), "--json", "--seat", "rtx-5090/stock", "--gpu-test")
    assert ran.check("seat-image")["status"] == "skip"
    assert ran.check("docker-gpu-test")["status"] == "fail"


# A GPU in a container


def gpu_test(tmp_path: Path, script: Script, *argv: str, **more: Any) -> tuple[dict[str, Any], FakeEngines]:
    """The check, and the engine that it was tried on; every known image is there."""
    clock = FakeClock()
    rows = Catalog(world(tmp_path).profiles.read).images.values()
    refs = [pinned(row.ref, row.digest) for row in rows]
    images = {ref: ImageFacts(ref=ref) for ref in refs}
    engines = FakeEngines(clock, script=lambda _spec, _environment: script, images=images, **more)
    ports = replace(world(tmp_path, host(), engines), clock=clock)
    return run(ports, "--json", *argv).check("docker-gpu-test"), engines


@pytest.mark.parametrize("seat", [(), ("--seat", "rtx-5090/stock")])
def test_a_container_that_sees_the_gpu(tmp_path: Path, seat: tuple[str, ...]) -> None:
    check, engines = gpu_test(tmp_path, Script(exit_at=2.0, exit_code=0), "--gpu-test", *seat)
    assert check["status"] == "pass"
    ((spec, _),) = engines.started
    assert (spec.gpus, spec.mounts, spec.publish, spec.restart) == ("all", (), (), "no")
    assert engines.find("aeonctl-gpu-test") is None
    assert engines.pulled == []


def test_a_container_that_sees_none(tmp_path: Path) -> None:
    check, engines = gpu_test(
        tmp_path, Script(lines=[(1.0, b"CUDA error 100\n")], exit_at=2.0, exit_code=1), "--gpu-test"
    )
    assert (check["status"], check["detail"]) == ("fail", "CUDA error 100")
    assert "nvidia-ctk" in check["remedy"]
    assert engines.find("aeonctl-gpu-test") is None


def test_a_container_that_gives_no_answer_is_ended(tmp_path: Path) -> None:
    check, engines = gpu_test(tmp_path, Script(), "--gpu-test")
    assert check["status"] == "warn"
    assert 20.0 <= engines.clock.now() - FakeClock().now() < 30.0
    assert engines.find("aeonctl-gpu-test") is None


def test_a_start_that_is_refused(tmp_path: Path) -> None:
    refuse = [HostError("nvidia_runtime_missing", "no", cause="could not select device driver")]
    check, _ = gpu_test(tmp_path, Script(), "--gpu-test", refuse=refuse)
    assert check["status"] == "fail"
    assert check["detail"] == "no; could not select device driver"


def test_nothing_is_started_unasked_and_nothing_pulled(tmp_path: Path) -> None:
    check, engines = gpu_test(tmp_path, Script())
    assert (check["status"], check["remedy"]) == ("skip", "aeonctl doctor --gpu-test")
    assert engines.started == []
    engines = FakeEngines(FakeClock())
    check = run(world(tmp_path, host(), engines), "--json", "--gpu-test").check("docker-gpu-test")
    assert check["status"] == "skip"
    assert (engines.started, engines.pulled) == ([], [])


# The real thing


def test_this_machine_without_docker(tmp_path: Path) -> None:
    ran = run(build_ports("unix:///nonexistent/docker.sock", {"HOME": str(tmp_path)}), "--json")
    assert ran.code == 4
    assert ran.check("docker")["status"] == "fail"
    assert ran.check("own-profiles")["status"] == "pass"


@pytest.mark.docker
def test_this_machine_with_docker(tmp_path: Path, docker_host: str) -> None:
    ports = build_ports(docker_host, {"HOME": str(tmp_path)})
    ran = run(ports, "--json", "--seat", "cpu/try")
    assert ran.check("docker")["status"] == "pass"
    assert ran.check("own-restart")["status"] in ("pass", "warn")
    report = run(ports, "--report").out
    assert str(tmp_path) not in report
