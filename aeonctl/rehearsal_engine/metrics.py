"""The main families of vLLM's /metrics, in Prometheus' text format."""

from collections.abc import Iterator, Sequence

from aeonctl.rehearsal_engine.engine import Engine

_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_TOTAL = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
_REASONS = ("stop", "length", "abort", "error", "repetition")
_DRAFTED = 3
_ACCEPTED = 2


def exposition(engine: Engine) -> str:
    """Return the whole page."""
    return "\n".join(_lines(engine)) + "\n"


def _lines(engine: Engine) -> Iterator[str]:
    labels = f'engine="0",model_name="{engine.options.served_names[0]}"'
    counts = engine.counts
    yield from _family(
        "num_requests_running", "gauge", "Number of requests in model execution batches.", labels, engine.running
    )
    yield from _family("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", labels, 0)
    usage = min(1.0, engine.running * 512 / engine.kv_tokens)
    yield from _family("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", labels, usage)
    for name, help_text, value in (
        (
            "prefix_cache_queries",
            "Prefix cache queries, in terms of number of queried tokens.",
            counts["prefix_queries"],
        ),
        ("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", counts["prefix_hits"]),
        ("num_preemptions", "Cumulative number of preemption from the engine.", 0),
        ("prompt_tokens", "Number of prefill tokens processed.", counts["prompt_tokens"]),
        ("generation_tokens", "Number of generation tokens processed.", counts["generation_tokens"]),
    ):
        yield from _family(f"{name}_total", "counter", help_text, labels, value)
    if engine.options.mapping("speculative-config"):
        drafts = counts["generation_tokens"] // (_ACCEPTED + 1)
        for name, value in (
            ("drafts", drafts),
            ("draft_tokens", drafts * _DRAFTED),
            ("accepted_tokens", drafts * _ACCEPTED),
        ):
            yield from _family(
                f"spec_decode_num_{name}_total", "counter", f"Number of spec decoding {name}.", labels, value
            )
    yield "# HELP vllm:request_success_total Count of successfully processed requests."
    yield "# TYPE vllm:request_success_total counter"
    for reason in _REASONS:
        inner = labels.replace(",", f',finished_reason="{reason}",', 1)
        yield f"vllm:request_success_total{{{inner}}} {float(engine.finished[reason])}"
    latencies = engine.latencies
    yield from _histogram("time_to_first_token_seconds", labels, _FIRST, latencies["first"])
    yield from _histogram("inter_token_latency_seconds", labels, _BETWEEN, latencies["between"])
    yield from _histogram("e2e_request_latency_seconds", labels, _TOTAL, latencies["total"])
    yield from _cache_config(engine)


def _family(name: str, kind: str, help_text: str, labels: str, value: float) -> Iterator[str]:
    yield f"# HELP vllm:{name} {help_text}"
    yield f"# TYPE vllm:{name} {kind}"
    yield f"vllm:{name}{{{labels}}} {float(value)}"


def _histogram(name: str, labels: str, bounds: Sequence[float], values: Sequence[float]) -> Iterator[str]:
    yield f"# HELP vllm:{name} Histogram of {name.replace('_', ' ')}."
    yield f"# TYPE vllm:{name} histogram"
    seen = list(values)
    for bound in bounds:
        inner = labels.replace(",", f',le="{bound}",', 1)
        yield f"vllm:{name}_bucket{{{inner}}} {float(sum(value <= bound for value in seen))}"
    inner = labels.replace(",", ',le="+Inf",', 1)
    yield f"vllm:{name}_bucket{{{inner}}} {float(len(seen))}"
    yield f"vllm:{name}_count{{{labels}}} {float(len(seen))}"
    yield f"vllm:{name}_sum{{{labels}}} {sum(seen)}"


def _cache_config(engine: Engine) -> Iterator[str]:
    block = engine.options.integer("block-size", 16)
    facts = {
        "block_size": block,
        "cache_dtype": engine.options.text("kv-cache-dtype") or "auto",
        "enable_prefix_caching": engine.options.prefix_caching,
        "engine": 0,
        "gpu_memory_utilization": engine.options.given.get("gpu-memory-utilization", 0.92),
        "kv_cache_max_concurrency": f"{engine.kv_tokens / engine.max_model_len:.4f}",
        "kv_cache_size_tokens": engine.kv_tokens,
        "num_gpu_blocks": engine.kv_tokens // block,
    }
    labels = ",".join(f'{name}="{value}"' for name, value in facts.items())
    yield "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig"
    yield "# TYPE vllm:cache_config_info gauge"
    yield f"vllm:cache_config_info{{{labels}}} 1.0"
