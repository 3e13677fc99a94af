"""The faults a rehearsal can act out on purpose, and what avoids each of them."""

from enum import StrEnum

from aeonctl.rehearsal_engine.argv import ServeOptions


class Fault(StrEnum):
    """A named misbehaviour, chosen with AEONCTL_REHEARSE_FAULT."""

    WSL2_TDR = "wsl2-tdr"
    KV_OOM = "kv-oom"
    GRAPH_OOM = "graph-oom"
    NO_KERNEL_IMAGE = "no-kernel-image"
    EXIT_ZERO = "exit-zero"
    EXIT_ZERO_BOOT = "exit-zero-boot"
    HANG = "hang"
    GARBAGE = "garbage"
    SLOW = "slow"
    HEALTH_LIES = "health-lies"


KV_OOM_FITS_TOKENS = 112_080
"""The context length that still fits when the KV cache is too small."""

TDR_PROMPT_TOKENS = 20_000
"""A prompt longer than this, in chunks above TDR_SAFE_CHUNK_TOKENS, outlasts the Windows display watchdog."""

TDR_SAFE_CHUNK_TOKENS = 2_048

_KV_ENOUGH_UTILIZATION = 0.95
_KV_ENOUGH_SEQS = 2
_CAPTURE_KEYS = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")


def kv_oom_strikes(options: ServeOptions, max_model_len: int) -> bool:
    """Tell whether kv-oom kills this boot: a shorter context, more memory or fewer sequences avoid it."""
    return (
        max_model_len > KV_OOM_FITS_TOKENS
        and float(options.given.get("gpu-memory-utilization", 0.92)) < _KV_ENOUGH_UTILIZATION
        and options.integer("max-num-seqs", 256) > _KV_ENOUGH_SEQS
    )


def graph_oom_strikes(options: ServeOptions) -> bool:
    """Tell whether graph-oom kills this boot: eager mode or fewer graphs avoid it."""
    compilation = options.mapping("compilation-config")
    return not (
        options.flag("enforce-eager")
        or "max-cudagraph-capture-size" in options.given
        or "cudagraph-capture-sizes" in options.given
        or any(key in compilation for key in _CAPTURE_KEYS)
        or str(compilation.get("cudagraph_mode", "")).upper() == "NONE"
    )


def tdr_strikes(options: ServeOptions, prompt_tokens: int) -> bool:
    """Tell whether wsl2-tdr kills the engine on a prompt of this many tokens."""
    return prompt_tokens > TDR_PROMPT_TOKENS and options.max_num_batched_tokens > TDR_SAFE_CHUNK_TOKENS
