"""How an engine that fails looks in the log: root cause in the engine core, then the API server's last words."""

import os

from aeonctl.rehearsal_engine.log import Log, traceback_lines

Frame = tuple[str, int, str, str]

_CORE_START: list[Frame] = [
    (
        "vllm/v1/engine/core.py",
        1299,
        "run_engine_core",
        "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
    ),
    ("vllm/v1/engine/core.py", 1065, "__init__", "super().__init__("),
]
_API_START: list[Frame] = [
    ("vllm/entrypoints/cli/main.py", 95, "main", "args.dispatch_function(args)"),
    ("vllm/entrypoints/cli/serve.py", 148, "cmd", "uvloop.run(run_server(args))"),
]
_WAITING: list[Frame] = [
    ("vllm/v1/engine/utils.py", 1213, "launch_core_engines", "wait_for_engine_startup("),
    ("vllm/v1/engine/utils.py", 1272, "wait_for_engine_startup", "raise RuntimeError("),
]
_OUTPUT: list[Frame] = [
    ("vllm/v1/engine/async_llm.py", 680, "output_handler", "outputs = await engine_core.get_output_async()"),
    ("vllm/v1/engine/core_client.py", 1101, "get_output_async", "raise self._format_exception(outputs) from None"),
]
_STEP: list[Frame] = [
    ("vllm/v1/engine/core.py", 1340, "run_engine_core", "engine_core.run_busy_loop()"),
    ("vllm/v1/worker/gpu_model_runner.py", 4391, "execute_model", "model_output = self._model_forward("),
]

KV_CHECK: list[Frame] = [
    ("vllm/v1/engine/core.py", 297, "_initialize_kv_caches", "kv_cache_configs = get_kv_cache_configs("),
    ("vllm/v1/core/kv_cache_utils.py", 778, "_check_enough_kv_cache_memory", "raise ValueError("),
]
LOAD: list[Frame] = [
    ("vllm/v1/executor/uniproc_executor.py", 68, "_init_executor", "self.driver_worker.load_model()"),
    (
        "vllm/v1/worker/gpu_worker.py",
        431,
        "load_model",
        "self.model_runner.load_model(load_dummy_weights=load_dummy_weights)",
    ),
]
CAPTURE: list[Frame] = [
    (
        "vllm/v1/worker/gpu_worker.py",
        720,
        "compile_or_warm_up_model",
        "cuda_graph_memory_bytes = self.model_runner.capture_model()",
    ),
    ("vllm/v1/worker/gpu_model_runner.py", 6830, "capture_model", "self._capture_cudagraphs("),
]

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."

NO_KERNEL_IMAGE = (
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
)
GRAPH_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 784.00 MiB. GPU 0 has a total capacity of "
    "31.36 GiB of "
    "which 412.56 MiB is free. Including non-PyTorch memory, this process has 30.94 GiB memory in use. Of the "
    "allocated memory "
    "29.87 GiB is allocated by PyTorch, with 318.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
    "214.50 MiB is "
    "reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
    "Management  "
    "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
DEVICE_NOT_READY = "RuntimeError: CUDA driver error: device not ready"


def kv_too_small(max_model_len: int, needed_gib: float, available_gib: float, fits_tokens: int) -> str:
    """Word the refusal of a KV cache that cannot hold one request of the full context."""
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({max_model_len}), "
        f"({needed_gib:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({available_gib:.2f} "
        f"GiB). Based on the available memory, the estimated maximum model length is {fits_tokens}. Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing "
        "`max_model_len` when "
        "initializing the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    )


def core_fails_at_start(log: Log, where: list[Frame], error: str) -> None:
    """Write the death of the engine core during start-up; the root cause comes twice, as in vLLM."""
    root = traceback_lines([*_CORE_START, *where], error)
    log.core("core.py:1330", "\n".join(["EngineCore failed to start.", *root]), "ERROR")
    log.raw("EngineCore", ["Process EngineCore:", *root])
    last = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    log.raw("APIServer", traceback_lines([*_API_START, *_WAITING], last))


def api_fails_at_start(log: Log, error: str) -> None:
    """Write the death of the API server before the engine core starts."""
    log.raw("APIServer", traceback_lines(_API_START, error))


def core_fails_at_work(log: Log, error: str) -> None:
    """Write the engine core's own traceback when a request kills it."""
    log.core(
        "core.py:1351", "\n".join(["EngineCore encountered a fatal error.", *traceback_lines(_STEP, error)]), "ERROR"
    )


def engine_dead(log: Log, *, exited: bool) -> None:
    """Write the API server's discovery that its engine core is dead; ``exited`` when the process itself is gone."""
    if exited:
        log.api(
            "core_client.py:725", "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", "WARNING"
        )
        log.api("core_client.py:693", "[shutdown] MPClient: complete")
    root = traceback_lines(_OUTPUT, f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}")
    log.api("async_llm.py:724", "\n".join(["AsyncLLM output_handler failed.", *root]), "ERROR")


def shut_down_on_signal(log: Log) -> None:
    """Write what a graceful stop prints before uvicorn's last lines."""
    for where, message in (
        ("launcher.py:100", "[shutdown] API server: shutdown triggered"),
        ("launcher.py:116", "[shutdown] API server: stopping engine client mode=abort timeout=0s"),
        ("core_client.py:686", "[shutdown] MPClient: start timeout=0s"),
        ("core_client.py:693", "[shutdown] MPClient: complete"),
        ("launcher.py:128", "[shutdown] API server: signalling HTTP server shutdown"),
    ):
        log.api(where, message)


def uvicorn_farewell(log: Log) -> None:
    """Write uvicorn's last lines."""
    for message in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
        log.uvicorn(message)
    log.uvicorn(f"Finished server process [{os.getpid()}]")
