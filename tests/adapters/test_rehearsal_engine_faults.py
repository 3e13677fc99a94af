"""Every way a rehearsal ends: signals, and each fault with what avoids it."""

import signal
import threading
from pathlib import Path

import pytest

from aeonctl.rehearsal_engine.faults import Fault
from tests.adapters.rehearsal_process import poll, rehearse

LONG_PROMPT = {"prompt": [7] * 24_000, "max_tokens": 4}
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
NEVER_STARTED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def test_sigterm_when_ready_exits_zero(tmp_path: Path) -> None:
    with rehearse(tmp_path) as engine:
        assert engine.health() is None
        engine.wait_ready()
        engine.process.send_signal(signal.SIGTERM)
        assert engine.exit_code() == 0
        assert "Application shutdown complete." in engine.log


def test_sigterm_cuts_a_running_request_short(tmp_path: Path) -> None:
    with rehearse(tmp_path, AEONCTL_REHEARSE_SPEED="0.2") as engine:
        engine.wait_ready()
        body = {"prompt": "Hi", "max_tokens": 20_000, "ignore_eos": True, "stream": True}
        replies: list[str] = []
        asking = threading.Thread(target=lambda: replies.append(engine.request("/v1/completions", body).text))
        asking.start()
        engine.wait_log("POST /v1/completions")
        engine.process.send_signal(signal.SIGTERM)
        assert engine.exit_code() == 0
        asking.join()
        assert '"finish_reason": "abort"' in replies[0]
        assert replies[0].endswith("data: [DONE]\n\n")


def test_hang_ignores_sigterm_and_writes_no_more(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="hang") as engine:
        engine.wait_log("Model loading took")
        written = engine.log
        engine.process.send_signal(signal.SIGTERM)
        poll(lambda: _blocked_signals_seen(engine.process.pid), "the signal delivered")
        assert engine.process.poll() is None
        assert engine.health() is None
        assert engine.log == written
        engine.process.kill()
        assert engine.exit_code() == -signal.SIGKILL


def _blocked_signals_seen(pid: int) -> bool:
    """Tell whether the process ignores SIGTERM and none is pending any more."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    bit = 1 << (signal.SIGTERM - 1)
    pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return bool(int(status["SigIgn"], 16) & bit) and not pending & bit


def test_wsl2_tdr_dies_on_a_long_prompt(tmp_path: Path) -> None:
    with rehearse(tmp_path, "--max-num-batched-tokens", "8192", fault="wsl2-tdr") as engine:
        engine.wait_ready()
        assert engine.chat("Say OK.").status == 200
        answer = engine.request("/v1/completions", LONG_PROMPT)
        assert (answer.status, answer.error) == (500, DEAD)
        assert answer.json["error"]["type"] == "InternalServerError"
        assert engine.health() == 503
        assert engine.exit_code() == 0
        for line in ("RuntimeError: CUDA driver error: device not ready", f"EngineDeadError: {DEAD}"):
            assert line in engine.log
        assert engine.log.index("device not ready") < engine.log.index("AsyncLLM output_handler failed.")


def test_wsl2_tdr_is_avoided_by_small_chunks(tmp_path: Path) -> None:
    with rehearse(tmp_path, "--max-num-batched-tokens", "2048", fault="wsl2-tdr") as engine:
        engine.wait_ready()
        assert engine.request("/v1/completions", LONG_PROMPT).status == 200
        assert engine.health() == 200


def test_kv_oom(tmp_path: Path) -> None:
    with rehearse(tmp_path, "--max-model-len", "131072", "--max-num-seqs", "4", fault="kv-oom") as engine:
        assert engine.exit_code() == 1
        log = engine.log
        assert log.count("ValueError: To serve at least one request with the model's max seq len (131072)") == 2
        assert "(7.25 GiB KV cache is needed, which is" in log
        assert "larger than the available KV cache memory (6.20 GiB)" in log
        assert "the estimated maximum model length is 112080." in log
        assert log.rstrip().endswith(NEVER_STARTED)


@pytest.mark.parametrize(
    "cure",
    [
        ["--max-model-len", "112080"],
        ["--max-model-len", "131072", "--gpu-memory-utilization", "0.95"],
        ["--max-model-len", "131072", "--max-num-seqs", "2"],
    ],
)
def test_kv_oom_is_cured_by_each_rung(tmp_path: Path, cure: list[str]) -> None:
    with rehearse(tmp_path, *cure, fault="kv-oom") as engine:
        engine.wait_ready()


def test_a_kv_cache_of_a_given_size_must_hold_the_context(tmp_path: Path) -> None:
    with rehearse(tmp_path, "--max-model-len", "8192", AEONCTL_REHEARSE_KV_TOKENS="4,096") as engine:
        assert engine.exit_code() == 1
        assert "the estimated maximum model length is 4096." in engine.log


def test_graph_oom(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="graph-oom") as engine:
        assert engine.exit_code() == 1
        assert engine.log.count("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 784.00 MiB.") == 2
        assert engine.log.index("Capturing CUDA graphs") < engine.log.index("torch.OutOfMemoryError")
        assert engine.log.rstrip().endswith(NEVER_STARTED)


@pytest.mark.parametrize(
    "cure",
    [
        ["--enforce-eager"],
        ["--compilation-config", '{"cudagraph_capture_sizes": [1, 2, 4]}'],
        ["--max-cudagraph-capture-size", "16"],
        ["--cudagraph-capture-sizes", "1", "2"],
    ],
)
def test_graph_oom_is_cured(tmp_path: Path, cure: list[str]) -> None:
    with rehearse(tmp_path, *cure, fault="graph-oom") as engine:
        engine.wait_ready()


def test_no_kernel_image(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="no-kernel-image") as engine:
        assert engine.exit_code() == 1
        assert "CUDA error: no kernel image is available for execution on the device" in engine.log
        assert engine.log.rstrip().endswith(NEVER_STARTED)


def test_exit_zero_after_the_first_answer(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="exit-zero") as engine:
        engine.wait_ready()
        assert engine.chat("Say OK.").json["choices"][0]["message"]["content"] == "OK"
        assert engine.exit_code() == 0
        assert "MPClient: engine core exited unexpectedly; starting cleanup" in engine.log


def test_exit_zero_during_the_boot(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="exit-zero-boot") as engine:
        assert engine.exit_code() == 0
        assert "Starting vLLM server" not in engine.log


def test_garbage(tmp_path: Path) -> None:
    with rehearse(tmp_path, "--reasoning-parser", "qwen3", fault="garbage") as engine:
        engine.wait_ready()
        thinking = engine.chat("What is the capital of France?", max_tokens=32).json["choices"][0]
        assert thinking["message"]["content"] is None
        assert thinking["message"]["reasoning"] == "!" * 32
        plain = engine.chat("Say OK.", max_tokens=32, chat_template_kwargs={"enable_thinking": False}).json["choices"][
            0
        ]
        assert (plain["message"]["content"], plain["finish_reason"]) == ("!" * 32, "length")
        completed = engine.request("/v1/completions", {"prompt": "Say OK.", "max_tokens": 8}).json
        assert completed["choices"][0]["text"] == "!" * 8


def test_slow_becomes_healthy_after_a_silent_gap(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="slow", AEONCTL_REHEARSE_SPEED="0.01", AEONCTL_REHEARSE_SLOW_S="20") as engine:
        engine.wait_log("torch.compile took")
        engine.wait_ready()
        assert "Initial profiling/warmup run took 20.00 s" in engine.log


def test_health_lies(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="health-lies") as engine:
        engine.wait_ready()
        for _ in range(2):
            assert (engine.chat("Say OK.").status, engine.health()) == (500, 200)
        assert engine.log.count("EngineDeadError") == 1
        assert engine.process.poll() is None


def test_unknown_fault_names_the_known_ones(tmp_path: Path) -> None:
    with rehearse(tmp_path, fault="gremlins") as engine:
        assert engine.exit_code() == 2
        assert "AEONCTL_REHEARSE_FAULT='gremlins'" in engine.log
        assert all(name in engine.log for name in Fault)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AEONCTL_REHEARSE_SPEED", "fast"),
        ("AEONCTL_REHEARSE_SPEED", "-1"),
        ("AEONCTL_REHEARSE_KV_TOKENS", "nan"),
        ("AEONCTL_REHEARSE_VLLM_VERSION", "latest"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(tmp_path: Path, name: str, value: str) -> None:
    with rehearse(tmp_path, **{name: value}) as engine:
        assert engine.exit_code() == 2
        assert f"{name}={value!r}" in engine.log


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--port", "notanint"], 2, "vllm serve: error: argument --port: invalid int value: 'notanint'"),
        (
            ["--speculative-config", "{not json"],
            2,
            "argument --speculative-config: Value {not json cannot be converted",
        ),
        (["--max-model-len", "many"], 2, "argument --max-model-len: invalid"),
        (["--enable-auto-tool-choice"], 1, "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser"),
        (["--max-model-len", "1000000"], 1, "User-specified max_model_len (1000000) is greater than the derived"),
        (["--model", "/nowhere/at/all"], 1, "HFValidationError: Repo id must be in the form"),
        (["--model", "org/name"], 1, "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder"),
    ],
)
def test_a_command_line_that_vllm_refuses(tmp_path: Path, flags: list[str], code: int, said: str) -> None:
    with rehearse(tmp_path, *flags) as engine:
        assert engine.exit_code() == code
        assert said in engine.log


def test_an_empty_model_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with rehearse(tmp_path, "--model", str(tmp_path / "empty")) as engine:
        assert engine.exit_code() == 1
        assert "ensure the presence of a 'config.json'" in engine.log


def test_a_container_path_stands_for_a_folder_elsewhere(tmp_path: Path) -> None:
    elsewhere = {"AEONCTL_REHEARSE_MODEL_DIR": str(tmp_path / "model"), "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    with rehearse(tmp_path, "--model", "/model", "--max-model-len", "1M", **elsewhere) as engine:
        engine.wait_ready()
        card = engine.request("/v1/models").json["data"][0]
        assert (card["root"], card["max_model_len"]) == ("/model", 1_048_576)


def test_port_in_use(tmp_path: Path) -> None:
    with rehearse(tmp_path) as first:
        first.wait_ready()
        with rehearse(tmp_path, "--port", str(first.port)) as second:
            assert second.exit_code() == 1
            assert "OSError: [Errno 98] Address already in use" in second.log
