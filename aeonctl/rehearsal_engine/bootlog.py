"""A boot: the phases of vLLM's start-up written line by line, or the fault that ends it."""

import os
import time
from typing import NoReturn

from aeonctl.rehearsal_engine import failures
from aeonctl.rehearsal_engine.argv import ServeOptions
from aeonctl.rehearsal_engine.faults import KV_OOM_FITS_TOKENS, Fault, graph_oom_strikes, kv_oom_strikes
from aeonctl.rehearsal_engine.log import Log
from aeonctl.rehearsal_engine.model import ModelFacts
from aeonctl.rehearsal_engine.settings import DEFAULT_KV_TOKENS, Settings

_KV_GIB_PER_TOKEN = 14.5 / 262_144
_DEVICE_GIB = 31.36
_GRAPHS = 51
ROUTES = (
    ("/load", "GET"),
    ("/version", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
    ("/tokenize", "POST"),
    ("/v1/models", "GET"),
    ("/ping", "GET"),
    ("/ping", "POST"),
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
)


class BootDied(Exception):  # noqa: N818  a boot that ended is an outcome, not a mistake of this program
    """The boot ended before the server was ready; ``exit_code`` is what the process leaves with."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Boot:
    """Writes one boot log. Waits add up to about three seconds at speed 1.0."""

    def __init__(self, options: ServeOptions, settings: Settings, log: Log) -> None:
        self._options = options
        self._settings = settings
        self._log = log
        self._began = time.monotonic()

    def announce(self) -> None:
        """Say that this is a rehearsal, then vLLM's banner and the arguments."""
        log, version = self._log, self._settings.version
        log.api(
            "rehearsal.py:1",
            "This is aeonctl's rehearsal engine, not vLLM: it runs without a GPU and loads no model. "
            f"It imitates vLLM {version}; every line below is part of the rehearsal.",
            "WARNING",
        )
        log.wait(0.2)
        banner = (
            "",
            "       █     █     █▄   ▄█",
            f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
            f"  █▄█▀ █     █     █     █  model   {self._options.model}",
            "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
            "",
        )
        log.api("api_utils.py:345", "\n".join(banner))
        log.api("api_utils.py:273", f"non-default args: {self._options.non_default_args()}")

    def start_engine(self, model: ModelFacts) -> int:
        """Write everything up to a ready engine and return the size of the KV cache in tokens.

        Raises BootDied when a fault ends the boot.
        """
        self._configure(model)
        self._load(model)
        self._compile()
        tokens = self._size_kv_cache(model)
        self._capture(model)
        return tokens

    def announce_server(self) -> None:
        """Write the API server's last lines before it listens."""
        log, pid = self._log, os.getpid()
        where = "entry.py" if self._settings.modern else "api_server.py"
        log.api(f"{where}:678", "Supported tasks: ['generate']")
        if self._options.flag("enable-auto-tool-choice"):
            log.api("parser_manager.py:38", '"auto" tool choice has been enabled.')
        log.api(f"{where}:682", f"Starting vLLM server on http://{self._options.host}:{self._options.port}")
        log.api("launcher.py:37", "Available routes are:")
        for path, method in ROUTES:
            log.api("launcher.py:46", f"Route: {path}, Methods: {method}")
        log.uvicorn(f"Started server process [{pid}]")
        log.uvicorn("Waiting for application startup.")
        log.wait(0.05)

    def _configure(self, model: ModelFacts) -> None:
        log, options = self._log, self._options
        log.api("model.py:645", f"Resolved architecture: {model.architecture}")
        log.api("model.py:1883", f"Using max model len {model.max_model_len}")
        log.api(
            "scheduler.py:252",
            f"Chunked prefill is enabled with max_num_batched_tokens={options.max_num_batched_tokens}.",
        )
        log.api("vllm.py:1109", "Asynchronous scheduling is enabled.")
        if options.flag("enforce-eager"):
            log.api(
                "vllm.py:1194",
                "Enforce eager set, disabling torch.compile and CUDAGraphs. "
                "This is equivalent to setting -cc.mode=none -cc.cudagraph_mode=none",
                "WARNING",
            )
        log.wait(0.4)
        if self._settings.fault is Fault.EXIT_ZERO_BOOT:
            raise BootDied(0)
        log.core(
            "core.py:121",
            f"Initializing a V1 LLM engine (v{self._settings.version}) with config: model={options.model!r}, "
            f"max_seq_len={model.max_model_len}, tensor_parallel_size={options.integer('tensor-parallel-size', 1)}, "
            f"kv_cache_dtype={options.text('kv-cache-dtype') or 'auto'}, served_model_name={options.served_names[0]}",
        )
        log.core(
            "parallel_state.py:1640",
            "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:0 backend=nccl",
        )
        log.core(
            "parallel_state.py:1977",
            "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, "
            "EP rank N/A, EPLB rank N/A",
        )
        log.wait(0.3)

    def _load(self, model: ModelFacts) -> None:
        log, backend = self._log, self._options.text("attention-backend") or "FLASH_ATTN"
        if model.hybrid or self._settings.modern:
            log.core("gpu_model_runner.py:5308", f"Starting to load model {self._options.model}...")
        else:
            log.core("gpu_worker.py:378", "Using V2 Model Runner")
            log.core("model_runner.py:308", "Loading model from scratch...")
        log.core("cuda.py:482", f"Using {backend} attention backend out of potential backends: ['{backend}'].")
        if self._settings.fault is Fault.NO_KERNEL_IMAGE:
            log.wait(0.2)
            self._core_dies(failures.LOAD, failures.NO_KERNEL_IMAGE)
        log.core(
            "weight_utils.py:867",
            f"Filesystem type for checkpoints: EXT4. Checkpoint size: {model.weights_gib:.2f} GiB. "
            "Available RAM: 24.00 GiB.",
        )
        log.bar("Loading safetensors checkpoint shards", model.shards, seconds=0.4, unit_style="weights")
        log.core("default_loader.py:430", "Loading weights took 0.40 seconds")
        took = (
            f"{model.weights_gib:.2f} GiB memory"
            if model.hybrid or self._settings.modern
            else f"{model.weights_gib:.2f} GiB"
        )
        log.core("gpu_model_runner.py:5405", f"Model loading took {took} and 0.412345 seconds")
        if self._settings.fault is Fault.HANG:
            while True:
                time.sleep(3600)

    def _compile(self) -> None:
        log, prefix = self._log, "[backbone] " if self._settings.modern else ""
        gap = self._settings.slow_s if self._settings.fault is Fault.SLOW else 0.4
        if self._options.flag("enforce-eager"):
            if self._settings.fault is Fault.SLOW:
                log.wait(gap)
            return
        cache = "/root/.cache/vllm/torch_compile_cache/3631850492/rank_0_0/backbone"
        if self._settings.modern:
            log.core("monitor.py:40", f"{prefix}Starting torch.compile")
        log.core("backends.py:1094", f"{prefix}Using cache directory: {cache} for vLLM's torch.compile")
        log.wait(0.1)
        log.core("backends.py:1155", f"{prefix}Dynamo bytecode transform time: 0.10 s")
        compile_range = f"(1, {self._options.max_num_batched_tokens})"
        log.core("backends.py:378", f"{prefix}Cache the graph of compile range {compile_range} for later use")
        log.core("backends.py:393", f"{prefix}Compiling a graph for compile range {compile_range} takes 0.30 s")
        log.core("monitor.py:53", f"{prefix}torch.compile took 0.40 s in total")
        log.wait(gap)
        log.core("monitor.py:81", f"{prefix}Initial profiling/warmup run took {gap:.2f} s")

    def _size_kv_cache(self, model: ModelFacts) -> int:
        log, settings, context = self._log, self._settings, model.max_model_len
        if settings.fault is Fault.KV_OOM and kv_oom_strikes(self._options, context):
            tokens = KV_OOM_FITS_TOKENS
        else:
            tokens = settings.kv_tokens or (
                DEFAULT_KV_TOKENS if context <= DEFAULT_KV_TOKENS else context + context // 16
            )
        available = tokens * _KV_GIB_PER_TOKEN
        log.core("gpu_worker.py:560", f"Available KV cache memory: {available:.2f} GiB")
        if tokens < context:
            self._core_dies(
                failures.KV_CHECK, failures.kv_too_small(context, context * _KV_GIB_PER_TOKEN, available, tokens)
            )
        size = f"GPU KV cache size: {tokens:,} tokens"
        concurrency = f"Maximum concurrency for {context:,} tokens per request: {tokens / context:.2f}x"
        if settings.modern:
            log.core("kv_cache_utils.py:2327", f"{size}, {concurrency}")
        else:
            log.core("kv_cache_utils.py:2235", size)
            log.core("kv_cache_utils.py:2236", concurrency)
        return tokens

    def _capture(self, model: ModelFacts) -> None:
        log, options = self._log, self._options
        if not options.flag("enforce-eager"):
            long_names = model.hybrid or self._settings.modern
            kinds = ("mixed prefill-decode, PIECEWISE", "decode, FULL") if long_names else ("PIECEWISE", "FULL")
            for kind in kinds:
                log.bar(f"Capturing CUDA graphs ({kind})", _GRAPHS, seconds=0.4, unit_style="graphs")
                if self._settings.fault is Fault.GRAPH_OOM and graph_oom_strikes(options):
                    self._core_dies(failures.CAPTURE, failures.GRAPH_OOM)
            log.core("gpu_model_runner.py:6913", "Graph capturing finished in 1 secs, took 0.44 GiB")
        share = float(options.given.get("gpu-memory-utilization", 0.92))
        log.core(
            "gpu_worker.py:857",
            f"Free memory on device ({_DEVICE_GIB - 0.51:.2f}/{_DEVICE_GIB} GiB) on startup. Desired GPU memory "
            "utilization is "
            f"({share}, {_DEVICE_GIB * share:.2f} GiB). Actual usage is {model.weights_gib:.2f} GiB for weight, 1.92 "
            "GiB for peak "
            "activation, 0.23 GiB for non-torch memory, and 0.44 GiB for CUDAGraph memory.",
        )
        log.wait(0.2)
        took = time.monotonic() - self._began
        log.core("core.py:355", f"init engine (profile, create kv cache, warmup model) took {took:.2f} s")

    def _core_dies(self, where: list[failures.Frame], error: str) -> NoReturn:
        failures.core_fails_at_start(self._log, where, error)
        raise BootDied(1)
