"""``verify`` on the rehearsal engine: every seat passes, and every fault is found by the probe that is there for it."""

from __future__ import annotations

import json
import shlex
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from aeonctl.rehearsal_engine.faults import Fault
from tests.data.profiles import catalog
from tests.workflows.verify_rehearsal import Ran, rehearsed

ORDER = [
    "health", "models", "key", "chat", "served-names", "thinking", "stream", "structured", "tools", "image", "chunks",
    "long-prompt", "over-long", "concurrency", "abort",
]  # fmt: skip
SEATS = sorted(catalog().seats)
WSL2 = ("--set", "max-num-batched-tokens=8192", "--waive", "wsl2-chunk-cap")


def verified(seat: str, folder: Path) -> tuple[Ran, Ran]:
    """One seat's verification, and the status after it."""
    folder.mkdir()
    with rehearsed(folder, seat) as engine:
        return engine.verify(), engine.run("status")


@pytest.fixture(scope="module")
def every_seat(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[tuple[Ran, Ran]]]:
    """Every seat's verification, several at a time."""
    folder = tmp_path_factory.mktemp("seats")
    with ThreadPoolExecutor(4) as pool:
        return {seat: pool.submit(verified, seat, folder / seat.replace("/", "-")) for seat in SEATS}


@pytest.mark.parametrize("seat", SEATS)
def test_every_seat_passes(every_seat: dict[str, Future[tuple[Ran, Ran]]], seat: str) -> None:
    ran, status = every_seat[seat].result()
    assert ran.code == 0, ran.envelope
    assert [check["id"] for check in ran.data["checks"]] == ORDER
    assert ran.checks("fail") == ran.checks("warn") == []
    assert ran.data["passed"] is True
    assert status.data["engines"][0]["verified"] is True
    no_chunks = ("chunks",) if seat == "cpu/try" else ()  # its context is not longer than one chunk
    assert {*ran.checks("skip")} <= {"key", "tools", "image", *no_chunks}


def test_both_wordings_of_a_prompt_that_is_too_long(tmp_path: Path) -> None:
    for version in ("0.27.1", "0.32.0"):
        with rehearsed(tmp_path, "cpu/try", environment={"AEONCTL_REHEARSE_VLLM_VERSION": version}) as engine:
            assert engine.verify().check("over-long")["status"] == "pass"


FAULTS: dict[Fault, tuple[tuple[str, ...], str, str, str | None]] = {
    # fault: how the engine is started, the probe that finds it, the code, the diagnosis
    Fault.WSL2_TDR: (WSL2, "long-prompt", "engine_died_on_long_prompt", "wsl2-tdr-gpu-reset"),
    Fault.KV_OOM: ((), "health", "engine_died", "kv-cache-too-small-for-max-len"),
    Fault.GRAPH_OOM: ((), "health", "engine_died", "cudagraph-capture-oom"),
    Fault.NO_KERNEL_IMAGE: ((), "health", "engine_died", "image-lacks-gpu-arch"),
    Fault.EXIT_ZERO: ((), "chat", "engine_died_on_chat", "engine-died-at-runtime"),
    Fault.EXIT_ZERO_BOOT: ((), "health", "engine_died", None),
    Fault.GARBAGE: ((), "chat", "garbage_output", None),
    Fault.HEALTH_LIES: ((), "chat", "engine_died_on_chat", "engine-died-at-runtime"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_probe(tmp_path: Path, fault: Fault) -> None:
    words, probe, code, diagnosis = FAULTS[fault]
    host = "rtx-5090-wsl2" if fault is Fault.WSL2_TDR else "rtx-5090"
    with rehearsed(tmp_path, "rtx-5090/quality", *words, host=host, fault=fault) as engine:
        ran = engine.verify()
        record = json.loads(Path(ran.data["record"]).read_text())
    assert ran.code == 8, ran.envelope
    assert ran.checks("fail") == [probe], ran.data["checks"]
    assert ran.check(probe)["code"] == code
    assert ran.error["code"] == code
    assert ran.checks("warn") == []
    assert ran.error.get("diagnosis") == diagnosis
    assert (ran.data["passed"], record["passed"], record["spec_hash"]) == (False, False, ran.data["spec_hash"])
    after = ORDER[ORDER.index(probe) + 1 :]
    assert {check["status"] for check in ran.data["checks"] if check["id"] in after} == {"skip"}


def test_a_start_that_hangs_is_not_called_dead(tmp_path: Path) -> None:
    with rehearsed(tmp_path, "rtx-5090/quality", fault="hang", wait=False) as engine:
        ran = engine.verify()
    assert (ran.code, ran.error["code"]) == (8, "engine_not_ready")
    assert ran.checks("fail") == ["health"]


def test_every_fault_is_in_the_table() -> None:
    assert {*FAULTS, Fault.HANG, Fault.SLOW} == set(Fault)


def test_a_slow_start_verifies(tmp_path: Path) -> None:
    with rehearsed(tmp_path, "rtx-5090/quality", fault="slow", environment={"AEONCTL_REHEARSE_SLOW_S": "1"}) as engine:
        assert engine.verify().code == 0


def test_the_line_to_try_is_whole_and_cures(tmp_path: Path) -> None:
    more = (*WSL2, "--set", "max-num-seqs=2", "--env", "HF_HUB_OFFLINE=1")
    with rehearsed(tmp_path, "rtx-5090/quality", *more, host="rtx-5090-wsl2", fault="wsl2-tdr") as engine:
        code, out, err = engine.plain("verify", engine.name)
        line = err.rstrip().splitlines()[-1]
        assert code == 8
        assert line == (
            f"hint: aeonctl up --seat rtx-5090/quality --port {engine.port} --name {engine.name} "
            "--rehearse rtx-5090-wsl2 --set max-num-seqs=2 --env HF_HUB_OFFLINE=1 --waive wsl2-chunk-cap "
            "--set max-num-batched-tokens=2048 --replace"
        )
        assert "FAIL  long-prompt" in out
        assert "CUDA driver error: device not ready" in err
        again = engine.run(*shlex.split(line.removeprefix("hint: aeonctl ")))
        assert again.code == 0, again.envelope
        assert engine.verify().code == 0


def test_a_key_is_asked_for(tmp_path: Path) -> None:
    key = {"VLLM_API_KEY": "s3cret"}
    with rehearsed(tmp_path, "cpu/try", "--env", "VLLM_API_KEY", environment=key) as engine:
        keyed = engine.verify()
        wrong = engine.run("verify", "--url", f"http://127.0.0.1:{engine.port}", "--key-env", "HOME")
        missing = engine.run("verify", engine.name, "--key-env", "NOT_SET")
    assert keyed.check("key") | {"seconds": 0} == {
        "id": "key", "status": "pass", "summary": "a request without the key gets 401", "seconds": 0,
        "code": None, "detail": None, "remedy": None,
    }  # fmt: skip
    assert keyed.code == 0
    assert "s3cret" not in json.dumps(keyed.envelope) + keyed.talk
    assert (wrong.code, wrong.error["code"]) == (8, "api_key_rejected")
    assert (missing.code, missing.error["code"]) == (3, "api_key_missing")


def test_an_engine_without_the_key_that_was_meant(tmp_path: Path) -> None:
    with rehearsed(tmp_path, "cpu/try", environment={"MY_KEY": "abc"}) as engine:
        ran = engine.verify("--key-env", "MY_KEY")
    assert (ran.code, ran.error["code"]) == (8, "keyless_request_accepted")


def test_any_url(tmp_path: Path) -> None:
    with rehearsed(tmp_path, "rtx-5090/quality") as engine:
        ran = engine.run("verify", "--url", f"http://127.0.0.1:{engine.port}/v1", "--model", "aeon", "--soak")
        other = engine.run("verify", "--url", f"http://127.0.0.1:{engine.port}", "--model", "nope")
    assert ran.code == 0, ran.envelope
    assert ran.data["record"] is None
    assert ran.checks("skip") == ["key", "chunks"]
    soak = [check["id"] for check in ran.data["checks"] if check["id"].startswith("soak-")]
    assert soak == ["soak-60", "soak-71", "soak-82", "soak-92"]
    assert (other.code, other.error["code"]) == (8, "served_name_missing")


def test_a_length_of_ones_own(tmp_path: Path) -> None:
    with rehearsed(tmp_path, "cpu/try") as engine:
        short = engine.verify("--length", "137")
        long = engine.verify("--length", "9000")
    assert short.check("long-prompt")["summary"] == "the needle came back from 137 tokens"
    assert short.data["length"] == 137
    assert (long.code, long.error["code"]) == (8, "length_too_large")


@pytest.mark.parametrize(
    ("argv", "exit_code", "code"),
    [
        (["verify"], 7, "not_running"),
        (["verify", "nobody"], 7, "not_running"),
        (["verify", "a", "--url", "http://x"], 2, "usage"),
        (["verify", "--url", "ftp://x"], 2, "url_invalid"),
        (["verify", "--url", "http://127.0.0.1:1"], 8, "engine_not_ready"),
    ],
)
def test_what_cannot_be_verified(tmp_path: Path, argv: list[str], exit_code: int, code: str) -> None:
    with rehearsed(tmp_path, "cpu/try") as engine:
        pass
    ran = engine.run(*argv)
    assert (ran.code, ran.error["code"]) == (exit_code, code)
