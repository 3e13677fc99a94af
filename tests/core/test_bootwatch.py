from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core.bootwatch import BootWatch, Quiet, Stalled, TimedOut, Waiting, phase_budgets
from aeonctl.core.phases import BootProgress, Phase, PhaseBegan
from aeonctl.errors import ConfigurationError
from tests.core.logdata import LOGS, PHASE_BUDGETS, PHASE_ROWS, timed_lines_of

BUDGETS = phase_budgets(PHASE_BUDGETS, {Phase.CREATED: 100, Phase.WEIGHTS: 300})


def test_a_seat_overrides_the_rows() -> None:
    assert (BUDGETS[Phase.WEIGHTS], BUDGETS[Phase.ENGINE]) == (300, 300)
    assert phase_budgets(PHASE_BUDGETS)[Phase.MEMORY] == 1200


def test_a_phase_without_a_budget_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no time budget for the boot phases: warmup, graphs, server"):
        phase_budgets(PHASE_BUDGETS[:-3])


@pytest.mark.parametrize("name", ["qwen06-default", "llama8b-default", "gemma3-1b-default", "qwen3-32b-default"])
def test_a_healthy_boot_raises_no_alarm(name: str) -> None:
    progress, watch = BootProgress(PHASE_ROWS), BootWatch(BUDGETS)
    lines = timed_lines_of(LOGS / "timed" / f"{name}.log")
    for (at, line), (until, _) in zip(lines, [*lines[1:], lines[-1]], strict=True):
        watch.observe_line(at)
        for event in progress.feed(line, at):
            if isinstance(event, PhaseBegan):
                watch.observe_phase(event.phase, event.at)
        assert watch.verdict(until) == Waiting()
    assert progress.ready


def test_a_healthy_silence_of_78_seconds_is_no_news() -> None:
    watch = BootWatch(BUDGETS)
    watch.observe_phase(Phase.MEMORY, 40.0)
    assert watch.verdict(40.0 + 77.6) == Waiting()
    assert watch.verdict(159.9) == Waiting()
    assert watch.verdict(160.0) == Quiet(Phase.MEMORY, 120.0, cpu_moves=False)


def test_a_used_up_budget_and_two_still_minutes_are_a_stall() -> None:
    watch = BootWatch(BUDGETS)
    watch.observe_phase(Phase.WEIGHTS, 10.0)
    watch.observe_line(189.0)
    assert watch.verdict(308.9) == Waiting()
    assert watch.verdict(309.0) == Quiet(Phase.WEIGHTS, 120.0, cpu_moves=False)
    assert watch.verdict(310.0) == Stalled(Phase.WEIGHTS, 121.0, 300)


def test_a_moving_log_stretches_the_budget() -> None:
    watch = BootWatch(BUDGETS)
    for minute in range(60):
        watch.observe_line(minute * 60.0)
        assert watch.verdict(minute * 60.0 + 59) == Waiting()


def test_a_computing_engine_stretches_the_budget_but_its_silence_is_told() -> None:
    watch = BootWatch(BUDGETS)
    for tick in range(100):
        watch.observe_cpu(tick * 10.0, tick * 10.0)
    assert watch.verdict(1000.0) == Quiet(Phase.CREATED, 1000.0, cpu_moves=True)
    assert watch.verdict(1109.9) == Quiet(Phase.CREATED, 1109.9, cpu_moves=True)
    assert watch.verdict(1111.0) == Stalled(Phase.CREATED, 121.0, 100)


def test_a_trickle_of_cpu_time_is_no_work() -> None:
    watch = BootWatch(BUDGETS)
    for tick in range(30):
        watch.observe_cpu(tick * 0.1, tick * 10.0)
    assert watch.verdict(290.0) == Stalled(Phase.CREATED, 290.0, 100)


def test_a_falling_or_standing_total_is_a_new_start() -> None:
    watch = BootWatch(BUDGETS)
    watch.observe_cpu(500.0, 10.0)
    watch.observe_cpu(3.0, 20.0)
    watch.observe_cpu(3.0, 20.0)
    assert watch.verdict(130.0) == Stalled(Phase.CREATED, 130.0, 100)
    watch.observe_cpu(100.0, 140.0)
    assert watch.verdict(150.0) == Quiet(Phase.CREATED, 150.0, cpu_moves=True)


def test_a_limit_of_the_user_ends_the_wait_whatever_moves() -> None:
    watch = BootWatch(BUDGETS, started_at=1000.0, timeout=60.0)
    watch.observe_line(1059.0)
    assert watch.verdict(1059.9) == Waiting()
    assert watch.verdict(1060.0) == TimedOut(Phase.CREATED, 60.0)


def test_a_ready_boot_is_waited_for_no_more() -> None:
    watch = BootWatch(BUDGETS, timeout=10.0)
    watch.observe_phase(Phase.READY, 5.0)
    assert watch.verdict(1e6) == Waiting()


@given(st.lists(st.floats(0, 5000), max_size=20), st.floats(0, 10000))
def test_no_stall_within_two_minutes_of_any_line(times: list[float], at: float) -> None:
    watch = BootWatch(BUDGETS)
    for time in times:
        watch.observe_line(time)
    if any(at - time < 120 for time in [0.0, *times]):
        assert watch.verdict(at) == Waiting()
