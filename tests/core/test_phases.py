from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.loglines import parse_line
from aeonctl.core.phases import Bar, BarMoved, BootFacts, BootProgress, FactRead, Phase, PhaseBegan, PhaseRow
from aeonctl.errors import ConfigurationError
from tests.core.logdata import LOGS, PHASE_BUDGETS, PHASE_ROWS, lines_of, timed_lines_of


def progress_of(lines: list[str]) -> BootProgress:
    progress = BootProgress(PHASE_ROWS)
    for number, line in enumerate(lines):
        progress.feed(line, float(number))
    return progress


# name: context, backend, weights GiB and s, compile s, free for KV GiB, KV tokens, concurrency, graphs s and GiB,
# init s, block; as a program of its own read them from the same boots and from the engine's metrics.
# With a drafter two models are compiled, and what counts is their sum, which the engine's last line tells.
BOOTS = {
    "gemma3-1b-default": (32768, "FLASH_ATTN", 1.96, 1.384721, 26.19, 125.84, 8052316, 245.74, 4, 0.46, 40.64, None),
    "qwen06-fp8kv": (40960, "FLASH_ATTN", 1.12, 1.816211, 32.01, 126.93, 2376704, 58.02, 4, 0.50, 39.00, None),
    "qwen06-seqs32": (40960, "FLASH_ATTN", 1.12, 1.526946, 14.94, 126.95, 1188528, 29.02, 1, 0.14, 18.24, None),
    "qwen06-kvbytes-8g": (40960, "FLASH_ATTN", 1.12, 1.714223, 3.73, None, 74896, 1.83, 3, 0.50, 8.70, None),
    "q36-27b-bf16kv": (131072, "FLASH_ATTN", 50.22, 0.983943, 28.24, 73.62, 1178881, 8.99, 9, 1.14, 46.48, 784),
    "llama8b-b32768-s256": (131072, "FLASH_ATTN", 15.0, 1.726859, 17.68, 109.92, 900480, 6.87, 4, 0.59, 24.86, None),
    "llama8b-debug": (131072, "FLASH_ATTN", 15.0, 1.424210, 12.78, 112.28, 919824, 7.02, 4, 0.98, 18.84, None),
    "q35-2b-util0.5": (262144, "FLASH_ATTN", 3.63, 0.587196, 2.48, 62.16, 5396382, 20.59, 5, 0.44, 12.27, 544),
    "q35-2b-triton-default": (
        262144,
        "FLASH_ATTN",
        3.63,
        0.732451,
        15.94,
        120.87,
        10493867,
        40.03,
        4,
        0.44,
        25.12,
        544,
    ),
    "q35-2b-triton-mtp3-warm": (
        262144,
        "FLASH_ATTN",
        3.74,
        0.544405,
        5.4,
        116.97,
        8525947,
        32.52,
        7,
        0.46,
        19.04,
        560,
    ),
    "qwen3-32b-default": (40960, "FLASH_ATTN", 61.03, 1.866840, 35.32, 65.75, 269312, 6.58, 7, 1.87, 46.34, None),
}
FIELDS = (
    "max_model_len",
    "attention_backend",
    "weights_gib",
    "weights_seconds",
    "compile_seconds",
    "kv_available_gib",
    "kv_tokens",
    "max_concurrency",
    "graph_seconds",
    "graph_gib",
    "init_engine_seconds",
    "block_size",
)
ALL_PHASES = [phase for phase in Phase if phase is not Phase.CREATED]


@pytest.mark.parametrize("name", BOOTS)
def test_a_real_boot_on_a_gpu_is_read_whole(name: str) -> None:
    progress = progress_of(lines_of(LOGS / "healthy" / f"{name}.log"))
    facts = progress.facts
    assert tuple(getattr(facts, field) for field in FIELDS) == BOOTS[name]
    assert facts.vllm_version == "0.26.0"
    assert facts.model is not None
    assert facts.model.startswith("/models/")
    assert facts.architecture is not None
    assert facts.server_url is not None
    assert facts.server_url.startswith("http://0.0.0.0:")
    assert progress.ready
    assert list(progress.began) == list(Phase)
    assert progress.progress(Phase.GRAPHS) == 1.0


@pytest.mark.parametrize(
    ("name", "version", "weights_seconds", "kv_tokens", "concurrency", "skipped"),
    [
        ("startup", "0.32.0", 0.01, 2097152, 64.0, {Phase.GRAPHS}),
        ("startup-warm", "0.32.0", 0.0, 2097152, 64.0, {Phase.GRAPHS}),
        ("startup-docker", "0.32.0", None, 2097152, 64.0, {Phase.GRAPHS}),
        ("startup-0.27.1", "0.27.1", 0.01, 2097152, 64.0, {Phase.COMPILE, Phase.GRAPHS}),
    ],
)
def test_a_real_boot_on_a_cpu_is_read_whole(
    name: str, version: str, weights_seconds: float | None, kv_tokens: int, concurrency: float, skipped: set[Phase]
) -> None:
    progress = progress_of(lines_of(LOGS / "healthy" / f"{name}.log"))
    facts = progress.facts
    assert (facts.vllm_version, facts.kv_tokens, facts.max_concurrency) == (version, kv_tokens, concurrency)
    assert facts.kv_available_gib == 1.0
    assert weights_seconds is None or facts.weights_seconds == weights_seconds
    assert progress.ready
    assert set(Phase) - set(progress.began) == skipped


@pytest.mark.parametrize(
    ("name", "first", "engine", "loaded", "compiled", "sized", "up", "ready"),
    [
        ("qwen06-default", 16.7, 31.4, 35.0, 59.4, 60.6, 74.5, 75.2),
        ("qwen06-default-warm", 15.5, 30.6, 34.1, 37.8, 38.8, 43.0, 43.9),
        ("llama8b-default", 16.5, 31.0, 34.7, 54.5, 57.2, 74.5, 75.2),
    ],
)
def test_a_timed_boot_gives_the_measured_time_line(
    name: str, first: float, engine: float, loaded: float, compiled: float, sized: float, up: float, ready: float
) -> None:
    progress = BootProgress(PHASE_ROWS)
    for at, line in timed_lines_of(LOGS / "timed" / f"{name}.log"):
        progress.feed(line, at)
    began = progress.began
    asked = (Phase.IMPORTS, Phase.ENGINE, Phase.COMPILE, Phase.MEMORY, Phase.WARMUP, Phase.SERVER, Phase.READY)
    assert [began[phase] for phase in asked] == pytest.approx(
        [first, engine, loaded, compiled, sized, up, ready], abs=0.1
    )
    assert sum(progress.durations().values()) == pytest.approx(ready, abs=0.1)
    assert "ready" not in progress.durations()


def test_an_eager_boot_has_no_graphs() -> None:
    progress = BootProgress(PHASE_ROWS)
    for at, line in timed_lines_of(LOGS / "timed" / "qwen06-eager.log"):
        progress.feed(line, at)
    assert progress.ready
    assert Phase.GRAPHS not in progress.began
    assert progress.facts.graph_gib is None
    assert progress.durations()["memory"] == pytest.approx(0.0, abs=0.1)


def test_a_boot_that_was_cut_off_stands_where_it_stood() -> None:
    progress = progress_of(lines_of(LOGS / "cut" / "gptoss-20b-mxfp4.log"))
    assert progress.phase is Phase.GRAPHS
    assert not progress.ready
    name = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)"
    assert progress.bars[name] == Bar(name, 83, 69, 83, Phase.GRAPHS)
    assert progress.progress(Phase.GRAPHS) == pytest.approx(69 / 83)
    assert progress.facts.kv_tokens == 4341772
    assert list(progress.durations())[-1] == "graphs"


def test_every_bar_has_its_name() -> None:
    bars = progress_of(lines_of(LOGS / "died" / "qwen06-default.log")).bars
    assert list(bars) == [
        "Loading safetensors checkpoint shards",
        "Capturing CUDA graphs (PIECEWISE)",
        "Capturing CUDA graphs (FULL)",
    ]
    assert {bar.percent for bar in bars.values()} == {100}
    assert [(bar.phase, bar.done) for bar in bars.values()] == [
        (Phase.WEIGHTS, 4),
        (Phase.GRAPHS, 51),
        (Phase.GRAPHS, 51),
    ]
    bars = progress_of(lines_of(LOGS / "healthy" / "q36-27b-bf16kv.log")).bars
    assert "Capturing CUDA graphs (decode, FULL)" in bars


def test_lines_become_events() -> None:
    progress = BootProgress(PHASE_ROWS, started_at=5.0)
    assert progress.feed("", 6.0) == []
    assert progress.feed("== CUDA ==", 7.0) == [PhaseBegan(Phase.IMPORTS, 7.0)]
    line = "(EngineCore pid=1) INFO 11-30 21:44:45 [x.py:305] Model loading took 1.12 GiB memory and 1.5 seconds"
    loaded = [FactRead("weights_gib", 1.12), FactRead("weights_seconds", 1.5)]
    assert progress.feed(line, 9.0) == [PhaseBegan(Phase.COMPILE, 9.0), *loaded]
    assert progress.feed(line, 10.0) == []
    bar = Bar("model.safetensors", 45, 1.2e9, 2.5e9, Phase.COMPILE)
    assert progress.feed("model.safetensors:  45%|████▌     | 1.2G/2.5G [00:10<00:12, 99MB/s]", 11.0) == [BarMoved(bar)]
    assert progress.durations() == {"created": 2.0, "imports": 2.0, "compile": 2.0}


def test_phases_never_go_backwards() -> None:
    progress = BootProgress(PHASE_ROWS)
    progress.feed("Capturing CUDA graphs (FULL):   8%|▊         | 4/51 [00:00<00:01, 38.45it/s]", 1.0)
    events = progress.feed(
        "(Worker_TP1 pid=9) INFO 11-30 21:44:45 [x.py:5] Model loading took 2.5 GiB and 7.0 seconds", 2.0
    )
    assert progress.phase is Phase.GRAPHS
    assert events == [FactRead("weights_gib", 2.5), FactRead("weights_seconds", 7.0)]


@given(st.data())
def test_interleaved_processes_give_the_same_boot(data: st.DataObject) -> None:
    lines = lines_of(LOGS / "healthy" / "qwen06-fp8kv.log")
    server = [line for line in lines if "APIServer" in line]
    engine = [line for line in lines if "APIServer" not in line]
    # the engine's lines up to its last come before the server is ready; how the two mix until then is chance
    mixed: list[str] = []
    config, after = server[:14], server[14:]
    order = data.draw(st.permutations([0] * len(config) + [1] * 12))
    left, right = iter(config), iter(engine[:12])
    mixed += [next(left) if side == 0 else next(right) for side in order]
    progress = progress_of(mixed + engine[12:] + after)
    assert progress.ready
    assert progress.facts == progress_of(lines).facts


def test_ranks_follow_the_order() -> None:
    assert [phase.rank for phase in Phase] == list(range(len(Phase)))


def test_warnings_are_counted_and_the_word_alone_is_none() -> None:
    progress = progress_of(
        ["(A pid=1) WARNING 11-30 21:44:26 [x.py:1] one", "INFO 11-30 21:44:26 [x.py:1] no WARNING", "WARNING:  two"]
    )
    assert progress.warnings == 2


def test_after_ready_nothing_is_read() -> None:
    progress = progress_of(lines_of(LOGS / "cases" / "case118-error-text-inside-prompt-healthy.log"))
    assert progress.ready
    assert progress.feed("WARNING:  Using max model len 5", 9e9) == []
    assert progress.facts.max_model_len is None


def test_a_line_that_only_looks_like_a_row_or_a_bar_tells_nothing() -> None:
    progress = BootProgress(PHASE_ROWS)
    progress.feed("x", 0.0)
    assert progress.feed("Model loading took a while", 1.0) == []
    assert progress.feed("100% Completed", 1.0) == []
    assert progress.progress(Phase.WEIGHTS) is None


def test_the_names_of_bars_are_bounded() -> None:
    progress = BootProgress(PHASE_ROWS)
    for number in range(100):
        progress.feed(f"file-{number}:  50%|█    | 1/2 [00:00<00:00, 1it/s]", 0.0)
    assert len(progress.bars) == 64


def test_a_bar_without_a_total_has_no_share() -> None:
    progress = BootProgress(PHASE_ROWS)
    progress.feed("x:   0%|          | 0/0 [00:00<?, ?it/s]", 0.0)
    assert progress.progress(Phase.IMPORTS) is None


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("GPU KV cache size: 1,188,352 tokens", 1188352),
        ("XPU KV cache size: 5 tokens", 5),
        ("GPU + host KV cache size: 2,048 tokens, Maximum concurrency for 32 tokens per request: 64.00x", 2048),
    ],
)
def test_every_form_of_the_kv_line(line: str, tokens: int) -> None:
    assert progress_of([line]).facts.kv_tokens == tokens


def test_a_row_cannot_tell_a_fact_that_does_not_exist() -> None:
    row = PhaseRow(id="x", contains="some", pattern=r"some (?P<thing>\d)", why="a", source="b", sample="some 1")
    with pytest.raises(ConfigurationError, match="phase row 'x' tells facts that do not exist: thing") as raised:
        BootProgress([row])
    assert raised.value.code == "profile_invalid"


@pytest.mark.parametrize("row", PHASE_ROWS, ids=lambda row: row.id)
def test_a_sample_begins_its_own_phase_and_no_other(row: PhaseRow) -> None:
    progress = progress_of([row.sample])
    assert progress.phase is (row.phase or Phase.IMPORTS) or row.id == "kv-size"
    others = [other.id for other in PHASE_ROWS if other is not row and recognises(other, row.sample)]
    assert others == (["kv-concurrency"] if row.id == "kv-size" else [])


def recognises(row: PhaseRow, line: str) -> bool:
    return row.contains in line and row.pattern.search(parse_line(line).message) is not None


def test_every_phase_has_one_budget_and_can_begin() -> None:
    waiting = [phase for phase in Phase if phase is not Phase.READY]
    assert [budget.phase for budget in PHASE_BUDGETS] == waiting
    assert {row.phase for row in PHASE_ROWS} >= {phase for phase in ALL_PHASES if phase is not Phase.IMPORTS}


def test_every_fact_is_told_by_some_row() -> None:
    told = {name for row in PHASE_ROWS for name in row.pattern.groupindex}
    assert told == set(BootFacts.model_fields)
