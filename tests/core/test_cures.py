"""Labels that say what serves and how it was started, and the command that a failed verification proposes."""

from __future__ import annotations

import pytest

from aeonctl.core.catalog import Document
from aeonctl.core.container import ContainerSpec
from aeonctl.core.cures import Cure, cure_for, read_cures, up_again
from aeonctl.core.labels import option_value, served_facts
from aeonctl.errors import ConfigurationError
from tests.data.profiles import files, load


def spec(*command: str, **env: str | None) -> ContainerSpec:
    return ContainerSpec(name="a", image="a", entrypoint="vllm", command=("serve", *command), env=env)


def test_what_the_command_line_says_of_the_engine() -> None:
    told = served_facts(
        spec(
            *("--max-num-seqs", "4", "--max-num-batched-tokens=8k", "--enable-auto-tool-choice"),
            *("--tool-call-parser", "qwen3_coder", "--limit-mm-per-prompt", '{"image":2}'),
            VLLM_API_KEY=None,
        )
    )
    assert told == {
        "max_num_seqs": 4,
        "max_num_batched_tokens": 8000,
        "tools": True,
        "vision": True,
        "keyed": True,
    }
    assert served_facts(spec()) == {
        "max_num_seqs": None,
        "max_num_batched_tokens": None,
        "tools": False,
        "vision": None,
        "keyed": False,
    }


@pytest.mark.parametrize(
    ("words", "vision"),
    [
        (("--language-model-only", "--limit-mm-per-prompt", '{"image":2}'), False),
        (("--limit-mm-per-prompt", '{"image":0}'), False),
        (("--limit-mm-per-prompt", '{"video":1}'), None),
        (("--limit-mm-per-prompt", "{"), None),
    ],
)
def test_vision(words: tuple[str, ...], vision: bool | None) -> None:
    assert served_facts(spec(*words))["vision"] is vision


def test_the_last_value_of_an_option_holds() -> None:
    assert option_value(("--a", "1", "--a=2"), "a") == "2"
    assert option_value(("--a", "1"), "b") is None


def test_bundled_rows_are_read_and_met() -> None:
    cures = read_cures(lambda kind: [Document(str(path), path.stem, load(path)) for path in files(kind)])
    found = cure_for(["wsl2-tdr-gpu-reset", "engine_died_on_long_prompt"], cures)
    assert found is not None
    assert found.settings == {"max-num-batched-tokens": "2048"}
    assert cure_for(["gpu-oom-at-runtime"], cures) is not None
    assert cure_for(["", "needle_lost"], cures) is None


def test_a_bad_file_is_named() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_cures(lambda _kind: [Document("profiles/cures/x.yaml", "x", [])])
    assert refusal.value.causes == ("rows: a list of rows is needed",)


def test_the_command_changes_what_it_must_alone() -> None:
    words = ["--seat", "a/b", "--env", "X=a b", "--set", "c=1", "--set", "d=2"]
    assert up_again(words, {"c": "9"}, {}) == "aeonctl up --seat a/b --env 'X=a b' --set d=2 --set c=9 --replace"
    assert up_again(words, {"c-d": "9"}, {"c_d": 9}) is None
    assert Cure(against="ab-c", settings={"a": "1"}, why="x", source="y").meets("ab-c-d")
