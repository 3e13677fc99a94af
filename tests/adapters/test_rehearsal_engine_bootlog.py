"""The rehearsal's boot log against logs of real boots: every kind of phase line has the same shape in both."""

import re
from pathlib import Path

import pytest

from aeonctl.rehearsal_engine.argv import parse_argv
from tests.adapters.rehearsal_process import rehearse

REAL = Path(__file__).parents[1] / "data" / "boot-logs"
PREFIX = r"\((?:APIServer|EngineCore|Worker) pid=\d+\) (?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[\w+\.py:\d+\] "
NAMED = PREFIX + r"(?:\[backbone\] )?"

EVERYWHERE = {
    "banner": PREFIX + r" ▄▄ ▄█ █     █     █ ▀▄▀ █  version \d+\.\d+\.\d+$",
    "model": PREFIX + r"  █▄█▀ █     █     █     █  model   /\S+$",
    "arguments": PREFIX + r"non-default args: \{'model_tag': '/.*\}$",
    "architecture": PREFIX + r"Resolved architecture: \w+$",
    "context": PREFIX + r"Using max model len \d+$",
    "engine": PREFIX + r"Initializing a V1 LLM engine \(v\d+\.\d+\.\d+\) with config: model='/",
    "world": PREFIX + r"world_size=1 rank=0 local_rank=0 distributed_init_method=\S+ backend=(?:nccl|gloo)$",
    "rank": PREFIX + r"rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, ",
    "profiled": NAMED + r"Initial profiling/warmup run took \d+\.\d\d s$",
    "kv cache": PREFIX + r"(?:GPU|CPU) KV cache size: [\d,]+ tokens",
    "concurrency": PREFIX + r".*Maximum concurrency for [\d,]+ tokens per request: \d+\.\d\dx$",
    "initialised": PREFIX
    + r"init engine \(profile, create kv cache, warmup model\) took \d+\.\d\d s(?: \(compilation: \d+\.\d\d s\))?$",
    "tasks": PREFIX + r"Supported tasks: \['generate'\]$",
    "serving": PREFIX + r"Starting vLLM server on http://\d+\.\d+\.\d+\.\d+:\d+$",
    "routes": PREFIX + r"Available routes are:$",
    "health route": PREFIX + r"Route: /health, Methods: GET$",
    "started": r"(?:\(APIServer pid=\d+\) )?INFO:     Started server process \[\d+\]$",
    "waiting": r"(?:\(APIServer pid=\d+\) )?INFO:     Waiting for application startup\.$",
    "ready": r"(?:\(APIServer pid=\d+\) )?INFO:     Application startup complete\.$",
}
ON_A_GPU = {
    "chunks": PREFIX + r"Chunked prefill is enabled with max_num_batched_tokens=\d+\.$",
    "asynchronous": PREFIX + r"Asynchronous scheduling is enabled\.$",
    "attention": PREFIX + r"Using \w+ attention backend out of potential backends: \[.*\]\.$",
    "cache folder": NAMED + r"Using cache directory: /\S+ for vLLM's torch\.compile$",
    "dynamo": NAMED + r"Dynamo bytecode transform time: \d+\.\d\d s$",
    "compiled range": NAMED + r"Compiling a graph for compile range \(1, \d+\) takes \d+\.\d\d s$",
    "compiled": NAMED + r"torch\.compile took \d+\.\d\d s in total$",
    "available": PREFIX + r"Available KV cache memory: \d+\.\d\d GiB$",
    "captured": PREFIX + r"Graph capturing finished in \d+ secs, took \d+\.\d\d GiB$",
    "memory": PREFIX + r"Free memory on device \([\d.]+/[\d.]+ GiB\) on startup\. Desired GPU memory utilization is "
    r"\([\d.]+, [\d.]+ GiB\)\.",
}
WEIGHTS = {
    "checkpoint": PREFIX + r"Filesystem type for checkpoints: EXT4\. Checkpoint size: \d+\.\d\d GiB\.",
    "weights bar": r"Loading safetensors checkpoint shards: +\d+% Completed \| \d+/\d+ "
    r"\[\d\d:\d\d<(?:\?|\d\d:\d\d), +(?:\?it/s|\d+\.\d\dit/s)\]$",
    "weights": PREFIX + r"Loading weights took \d+\.\d\d seconds$",
}
BAR = r"\|[ █▏▎▍▌▋▊▉]{10}\| \d+/\d+ \[\d\d:\d\d<(?:\?|\d\d:\d\d), +(?:\?it/s|\d+\.\d\dit/s)\]$"
NEW_RUNNER = {
    "runner": PREFIX + r"Using V2 Model Runner$",
    "from scratch": PREFIX + r"Loading model from scratch\.\.\.$",
    "loaded": PREFIX + r"Model loading took \d+\.\d\d GiB and \d+\.\d{6} seconds$",
    "piecewise": r"Capturing CUDA graphs \(PIECEWISE\): +\d+%" + BAR,
    "full": r"Capturing CUDA graphs \(FULL\): +\d+%" + BAR,
}
OLD_RUNNER = {
    "loading": PREFIX + r"Starting to load model /\S+\.\.\.$",
    "loaded": PREFIX + r"Model loading took \d+\.\d\d GiB memory and \d+\.\d{6} seconds$",
    "piecewise": r"Capturing CUDA graphs \(mixed prefill-decode, PIECEWISE\): +\d+%" + BAR,
    "full": r"Capturing CUDA graphs \(decode, FULL\): +\d+%" + BAR,
}
TWO_LINES = {"kv alone": PREFIX + r"GPU KV cache size: [\d,]+ tokens$", "alone": PREFIX + r"Maximum concurrency for "}
ONE_LINE = {
    "kv and concurrency": PREFIX
    + r"\w+ KV cache size: [\d,]+ tokens, Maximum concurrency for [\d,]+ tokens per request: [\d.]+x$"
}


def lines(text: str) -> list[str]:
    return re.split(r"[\r\n]+", text)


def missing(text: str, shapes: dict[str, str]) -> list[str]:
    """Name the shapes that no line of the text has."""
    found = lines(text)
    return [name for name, shape in shapes.items() if not any(re.match(shape, line) for line in found)]


def boot(folder: Path, version: str, architecture: str) -> str:
    own = folder / "own"
    own.mkdir()
    (own / "config.json").write_text(f'{{"architectures": ["{architecture}"], "max_position_embeddings": 40960}}')
    with rehearse(folder, AEONCTL_REHEARSE_VLLM_VERSION=version, AEONCTL_REHEARSE_MODEL_DIR=str(own)) as engine:
        engine.wait_ready()
        return engine.log


@pytest.mark.parametrize(
    ("real", "version", "architecture", "shapes"),
    [
        (
            "vllm-0.26.0-qwen3-0.6b-h200.log",
            "0.27.1",
            "Qwen3ForCausalLM",
            EVERYWHERE | ON_A_GPU | WEIGHTS | NEW_RUNNER | TWO_LINES,
        ),
        (
            "vllm-0.26.0-qwen3.5-2b-mtp-h200.log",
            "0.27.1",
            "Qwen3_5ForConditionalGeneration",
            EVERYWHERE | ON_A_GPU | OLD_RUNNER | TWO_LINES,
        ),
        ("vllm-0.32.0-tiny-cpu.log", "0.32.0", "Qwen3ForCausalLM", EVERYWHERE | WEIGHTS | ONE_LINE),
    ],
)
def test_same_shapes_as_a_real_boot(
    tmp_path: Path, real: str, version: str, architecture: str, shapes: dict[str, str]
) -> None:
    assert missing((REAL / real).read_bytes().decode(), shapes) == []
    assert missing(boot(tmp_path, version, architecture), shapes) == []


@pytest.mark.parametrize("version", ["0.27.1", "0.32.0"])
def test_says_first_that_it_is_a_rehearsal(tmp_path: Path, version: str) -> None:
    log = boot(tmp_path, version, "Qwen3ForCausalLM")
    first = log.splitlines()[0]
    assert "This is aeonctl's rehearsal engine, not vLLM: it runs without a GPU" in first
    assert re.match(PREFIX, first)


def test_bars_are_redrawn_with_a_carriage_return(tmp_path: Path) -> None:
    log = boot(tmp_path, "0.27.1", "Qwen3ForCausalLM")
    bar = next(line for line in log.split("\n") if "Capturing CUDA graphs (FULL)" in line)
    assert bar.count("\r") > 5


def test_phases_come_in_order(tmp_path: Path) -> None:
    log = boot(tmp_path, "0.27.1", "Qwen3ForCausalLM")
    marks = [
        "rehearsal engine",
        "non-default args",
        "Resolved architecture",
        "Initializing a V1",
        "Loading weights took",
    ]
    marks += ["torch.compile took", "KV cache size", "Graph capturing finished", "init engine", "Starting vLLM server"]
    marks += ["Started server process", "Application startup complete"]
    places = [log.index(mark) for mark in marks]
    assert places == sorted(places)


def test_arguments_are_shown_typed_and_keys_redacted(tmp_path: Path) -> None:
    flags = ["--served-model-name", "a", "b", "--max-model-len", "32k", "--api-key", "sesame", "--enforce-eager"]
    flags += ["--speculative-config", '{"method": "mtp"}']
    with rehearse(tmp_path, *flags) as engine:
        engine.wait_ready()
        shown = next(line for line in lines(engine.log) if "non-default args" in line)
        assert (
            "'served_model_name': ['a', 'b'], 'max_model_len': 32000, 'api_key': '***', 'enforce_eager': True" in shown
        )
        assert "'speculative_config': {'method': 'mtp'}" in shown
        assert "Enforce eager set, disabling torch.compile and CUDAGraphs." in engine.log
        assert "Capturing CUDA graphs" not in engine.log


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (["serve", "/m", "--port", "1"], "/m"),
        (["serve", "--port=1", "--enforce-eager", "/m"], "/m"),
        (["serve", "--model", "/m", "--no-such-flag"], "/m"),
        (["serve", "--served-model-name", "a", "b", "--model", "/m"], "/m"),
        (["serve", "-tp", "2", "/m"], "/m"),
    ],
)
def test_the_model_is_found_wherever_it_stands(words: list[str], model: str) -> None:
    assert parse_argv(words).model == model
