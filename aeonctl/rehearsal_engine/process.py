"""The life of the process: arguments, boot, serving, and the way it ends."""

import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from aeonctl.rehearsal_engine import failures
from aeonctl.rehearsal_engine.argv import ServeOptions, UsageError, parse_argv
from aeonctl.rehearsal_engine.bootlog import Boot, BootDied
from aeonctl.rehearsal_engine.engine import STOPPED, Engine
from aeonctl.rehearsal_engine.log import Log
from aeonctl.rehearsal_engine.model import BootError, read_model
from aeonctl.rehearsal_engine.server import Server
from aeonctl.rehearsal_engine.settings import Settings, SettingsError, read_settings

_DEATH_NOTICED_S = 0.5
"""How long /health answers 503 between the engine core's death and the API server's exit."""

_ABORT_GRACE_S = 0.3
_STATS_EVERY_S = 10.0


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the engine until it is stopped or dies; returns the exit code.

    During start-up SIGTERM is ignored, as a real engine ignores it; once ready it ends the process with 0. An engine
    that dies while serving also leaves with 0, as vLLM does.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        settings = read_settings(environment)
        options = parse_argv(argv)
    except (SettingsError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    log = Log(speed=settings.speed, modern=settings.modern)
    try:
        return _boot_and_serve(options, settings, log)
    except BootDied as death:
        return death.exit_code
    except KeyboardInterrupt:
        return 130


def _boot_and_serve(options: ServeOptions, settings: Settings, log: Log) -> int:
    boot = Boot(options, settings, log)
    boot.announce()
    if options.flag("enable-auto-tool-choice") and not options.text("tool-call-parser"):
        failures.api_fails_at_start(log, "TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")
        return 1
    try:
        server = Server(options.host, options.port)
        model = read_model(options, settings)
    except OSError as error:
        failures.api_fails_at_start(log, f"OSError: {error}")
        return 1
    except BootError as error:
        failures.api_fails_at_start(log, f"{error.kind}: {error}")
        return 1
    kv_tokens = boot.start_engine(model)
    boot.announce_server()
    return _serve(server, Engine(options, settings, model, kv_tokens, log))


def _serve(server: Server, engine: Engine) -> int:
    signal.signal(signal.SIGTERM, lambda _number, _frame: engine.ends.put(STOPPED))
    signal.signal(signal.SIGINT, lambda _number, _frame: engine.ends.put(STOPPED))
    try:
        server.open(engine)
    except OSError as error:
        failures.api_fails_at_start(engine.log, f"OSError: {error}")
        return 1
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    engine.log.uvicorn("Application startup complete.")
    end = _wait_for_the_end(engine)
    if end == STOPPED:
        engine.aborting.set()
        failures.shut_down_on_signal(engine.log)
        _until_idle(engine)
    else:
        time.sleep(_DEATH_NOTICED_S)
    server.shutdown()
    server.server_close()
    failures.uvicorn_farewell(engine.log)
    return 0


def _wait_for_the_end(engine: Engine) -> str:
    counted = engine.counts.copy()
    while True:
        try:
            return engine.ends.get(timeout=_STATS_EVERY_S)
        except queue.Empty:
            now = engine.counts.copy()
            if now != counted:
                _log_statistics(
                    engine,
                    now["prompt_tokens"] - counted["prompt_tokens"],
                    now["generation_tokens"] - counted["generation_tokens"],
                )
            counted = now


def _log_statistics(engine: Engine, prompt_tokens: int, generated: int) -> None:
    queried = engine.counts["prefix_queries"]
    hit_rate = 100 * engine.counts["prefix_hits"] / queried if queried else 0.0
    usage = min(100.0, 100 * engine.running * 512 / engine.kv_tokens)
    engine.log.api(
        "loggers.py:259",
        f"Engine 000: Avg prompt throughput: {prompt_tokens / _STATS_EVERY_S:.1f} tokens/s, Avg generation throughput: "
        f"{generated / _STATS_EVERY_S:.1f} tokens/s, Running: {engine.running} reqs, Waiting: 0 reqs, GPU KV cache "
        "usage: "
        f"{usage:.1f}%, Prefix cache hit rate: {hit_rate:.1f}%",
    )


def _until_idle(engine: Engine) -> None:
    deadline = time.monotonic() + _ABORT_GRACE_S
    while engine.running and time.monotonic() < deadline:
        time.sleep(0.01)
