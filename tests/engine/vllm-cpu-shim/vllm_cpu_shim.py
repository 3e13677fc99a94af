# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, unused-ignore"
"""A vLLM general plugin: lets the command line of a GPU recipe start on a CPU, to test the launch of it.

vLLM's own parser still checks every flag. Only then, and only with VLLM_CPU_SHIM=1 in the environment, are the settings
that need a GPU, or several, replaced before the engine's configuration is built; each replacement is logged. What an
engine started this way does says nothing about the features that were replaced.
"""

import os
from typing import Any

CPU_KV_CACHE_DTYPES = ("auto", "bfloat16", "float16")
GPU_LOAD_FORMATS = ("fastsafetensors", "instanttensor", "runai_streamer")

# an argument of vLLM's engine, and the value it gets on a CPU
REPLACEMENTS: dict[str, str | int | None] = {
    "speculative_config": None,
    "spec_method": None,
    "spec_model": None,
    "spec_tokens": None,
    "quantization": None,
    "distributed_executor_backend": None,
    "attention_backend": None,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "nnodes": 1,
    "node_rank": 0,
    "moe_backend": "auto",
    "linear_backend": "auto",
}


def replace_gpu_settings(arguments: Any) -> dict[str, object]:
    """Replace in vLLM's engine arguments what needs a GPU; returns the replaced values by name."""
    replacements = dict(REPLACEMENTS)
    if str(arguments.kv_cache_dtype) not in CPU_KV_CACHE_DTYPES:
        replacements["kv_cache_dtype"] = "auto"
    if str(arguments.load_format) in GPU_LOAD_FORMATS:
        replacements["load_format"] = "auto"
    replaced: dict[str, object] = {}
    for name, value in replacements.items():
        before = getattr(arguments, name, value)
        if before != value:
            replaced[name] = before
            setattr(arguments, name, value)
    return replaced


def register() -> None:
    """Wrap the step that turns vLLM's arguments into its configuration; vLLM calls this in each of its processes."""
    if os.environ.get("VLLM_CPU_SHIM", "0") != "1":
        return
    from vllm.engine.arg_utils import EngineArgs
    from vllm.logger import init_logger

    if hasattr(EngineArgs, "cpu_shim"):
        return
    EngineArgs.cpu_shim = True
    create_engine_config = EngineArgs.create_engine_config

    def create_cpu_engine_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        replaced = replace_gpu_settings(self)
        if replaced:
            init_logger("vllm.cpu_shim").warning("CPU SHIM overrode: %s", replaced)
        return create_engine_config(self, *args, **kwargs)

    EngineArgs.create_engine_config = create_cpu_engine_config
