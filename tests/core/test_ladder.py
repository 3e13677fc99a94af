"""The ladder as data and as a decision: which rung addresses a cause, and what stops one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.core.catalog import Catalog
from aeonctl.core.knowledge import boot_knowledge
from aeonctl.core.ladder import Situation, Skipped, Step, apply_steps, candidates, steps_from_label, steps_label
from aeonctl.core.options import Options
from aeonctl.core.rows import Change, Rung

PROFILES = ProfileFiles({"XDG_CONFIG_HOME": "/nonexistent", "HOME": os.environ.get("HOME", "/")})
RUNGS = tuple(Catalog(PROFILES.read).rungs.values())
KV = "kv-cache-too-small-for-max-len"
GRAPHS = "cudagraph-capture-oom"


def situation(**more: Any) -> Situation:
    values: dict[str, Any] = {
        "seat": "rtx-5090/quality",
        "cause": KV,
        "facts": {"estimated_max_len": 36_560},
        "options": Options(
            {"gpu-memory-utilization": "0.92", "max-num-seqs": "4", "max-model-len": "131072"},
        ),
        "pinned": frozenset(),
        "unified": False,
        **more,
    }
    return Situation(**values)


def taken(rung: str) -> Step:
    return Step(rung=rung, settings={}, why="", source="")


def ids(steps: list[Step]) -> list[str]:
    return [step.rung for step in steps]


def reasons(skipped: list[Skipped]) -> dict[str, str]:
    return {rung.rung: rung.reason for rung in skipped}


def test_every_cause_of_a_rung_is_a_signature() -> None:
    known = {row.id for row in boot_knowledge(PROFILES.read).log.signatures}
    assert {cause for rung in RUNGS for cause in rung.causes} <= known


def test_the_seats_own_rungs_come_first_in_the_documents_order() -> None:
    steps, _ = candidates(situation(), RUNGS)
    assert ids(steps) == ["5090-quality-utilization", "5090-quality-two-sequences", "length-that-fits"]
    assert steps[0].settings == {"gpu-memory-utilization": "0.95"}
    assert steps[1].settings == {"max-num-seqs": "2"}


def test_the_pro_6000_takes_both_of_its_settings_at_once() -> None:
    options = Options({"max-num-seqs": "12", "max-num-batched-tokens": "16384", "max-model-len": "131072"})
    steps, _ = candidates(situation(seat="rtx-pro-6000/speed", options=options), RUNGS)
    assert steps[0].settings == {"max-num-seqs": "8", "max-num-batched-tokens": "8192"}


def test_graph_capture_takes_fewer_captures_then_none() -> None:
    steps, skipped = candidates(situation(cause=GRAPHS), RUNGS)
    assert ids(steps) == ["fewer-captures", "no-captures"]
    assert skipped == []
    assert steps[1].settings == {"enforce-eager": True}


@pytest.mark.parametrize(
    ("named", "rounded"), [(36_560, "35840"), (1024, "1024"), (1000, "992"), ("36,560", None), (8, None)]
)
def test_the_length_is_the_one_that_the_engine_named_rounded_down(named: int | str, rounded: str | None) -> None:
    steps, skipped = candidates(situation(seat="cpu/try", facts={"estimated_max_len": named}), RUNGS)
    if rounded is None:
        assert ids(steps) == []
        assert "length-that-fits" in reasons(skipped)
    else:
        assert steps[0].settings == {"max-model-len": rounded}
        assert str(named) in steps[0].why


def test_a_failure_that_names_no_length_skips_that_rung() -> None:
    _, skipped = candidates(situation(seat="cpu/try", facts={}), RUNGS)
    assert reasons(skipped) == {"length-that-fits": "the engine did not name estimated_max_len"}


def test_a_cause_that_no_rung_addresses_has_neither_steps_nor_skipped_rungs() -> None:
    assert candidates(situation(cause="image-lacks-gpu-arch"), RUNGS) == ([], [])
    assert candidates(situation(cause=""), RUNGS) == ([], [])


def test_a_unified_host_never_takes_a_rung_that_raises_memory() -> None:
    steps, skipped = candidates(situation(unified=True), RUNGS)
    assert "5090-quality-utilization" not in ids(steps)
    assert "operating system" in reasons(skipped)["5090-quality-utilization"]
    raising = {rung.id for rung in RUNGS if rung.raises_memory}
    assert not raising & set(ids(steps))


@pytest.mark.parametrize(
    ("pin", "cause", "rung"),
    [
        ("max-num-seqs", KV, "5090-quality-two-sequences"),
        ("kv-cache-memory-bytes", KV, "5090-quality-utilization"),
        ("compilation-config", GRAPHS, "fewer-captures"),
        ("compilation-config.cudagraph_capture_sizes", GRAPHS, "fewer-captures"),
    ],
)
def test_a_pinned_option_skips_its_rung_and_says_so(pin: str, cause: str, rung: str) -> None:
    steps, skipped = candidates(situation(pinned=frozenset({pin}), cause=cause), RUNGS)
    assert rung not in ids(steps)
    assert reasons(skipped)[rung] == f"you set --{pin} yourself"


def test_a_limit_moves_an_option_only_its_own_way() -> None:
    options = Options({"gpu-memory-utilization": "0.97", "max-num-seqs": "1", "max-model-len": "8192"})
    steps, skipped = candidates(situation(options=options), RUNGS)
    assert ids(steps) == []
    assert set(reasons(skipped).values()) == {"it would change nothing"}


def test_a_rung_is_taken_as_often_as_its_row_says() -> None:
    steps, skipped = candidates(situation(taken=[taken("5090-quality-utilization"), taken("length-that-fits")]), RUNGS)
    assert "length-that-fits" in ids(steps)
    assert reasons(skipped) == {"5090-quality-utilization": "it was taken already"}


def test_steps_leave_decisions_and_a_pinned_one_is_left_out_whole() -> None:
    step = Step(rung="r", settings={"max-num-seqs": "2"}, why="because", source="here")
    applied = apply_steps(Options({"max-num-seqs": "4"}), [step], frozenset())
    assert applied.options.look("max-num-seqs") == "2"
    assert [(d.option, d.before, d.after, d.rule) for d in applied.decisions] == [
        ("--max-num-seqs", "4", "2", "rung:r")
    ]
    pinned = apply_steps(Options({"max-num-seqs": "4"}), [step], frozenset({"max-num-seqs"}))
    assert pinned.options.look("max-num-seqs") == "4"
    assert pinned.decisions == ()
    assert [rung.rung for rung in pinned.skipped] == ["r"]


def test_steps_survive_a_container_label_and_rubbish_is_no_step() -> None:
    step = Step(rung="r", settings={"enforce-eager": True}, why="because", source="here")
    assert steps_from_label(steps_label([step])) == (step,)
    assert steps_label([]) == {}
    for text in ("", "{", "3", '[{"rung": 1}]'):
        assert steps_from_label({"io.aeonctl.rungs": text}) == ()


def test_a_change_has_one_way() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Change(option="x", lower_to="1", raise_to="2")
    with pytest.raises(ValueError, match="change"):
        Rung(id="x", causes=("y",), change=(), why="", source="")
