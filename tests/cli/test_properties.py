"""What holds for any input: what is printed survives bash, and what is malformed is named, never a traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aeonctl.core.container import ContainerSpec, Mount, Publish, docker_run_lines, mount_text, publish_words
from aeonctl.core.options import Options
from tests.data.profiles import PROFILES, load
from tests.fakes.ports import Ran, World, run

FAST = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NASTY = st.one_of(
    TEXT, st.sampled_from(["'", '"', "\\", "$(date)", "`id`", "a\nb", "!!", "*", "~", "", " ", "\t", "-x", "é"])
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NASTY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.dictionaries(
    st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True),
    st.booleans() | NASTY | st.lists(NASTY, max_size=3) | st.dictionaries(NASTY, JSON, max_size=3),
    max_size=5,
)
SPECS = st.builds(
    lambda options, env, mounts, labels, name, positional: ContainerSpec(
        name=name,
        image="example.org/vllm:1",
        entrypoint="vllm",
        command=("serve", positional, *Options(options).argv()),
        env=env,
        mounts=mounts,
        labels=labels,
        publish=(Publish(host_ip="127.0.0.1", host_port=8000, container_port=8000),),
    ),
    OPTIONS,
    st.dictionaries(NAMES, st.none() | NASTY, max_size=4),
    st.lists(st.builds(Mount, source=NASTY, target=NASTY, read_only=st.booleans()), max_size=2).map(tuple),
    st.dictionaries(NAMES, NASTY, max_size=2),
    NASTY,
    NASTY,
)

SHOW = "docker() { printf '%s\\0' \"$@\"; printf '\\0\\0END\\0'; }\n"


def expected_words(spec: ContainerSpec) -> list[str]:
    words = ["run", "-d", "--name", spec.name, f"--network={spec.network}", f"--restart={spec.restart}"]
    words += [word for entry in spec.publish for word in ("-p", publish_words(entry))]
    for name, value in spec.env.items():
        words += ["-e", name if value is None else f"{name}={value}"]
    words += [word for mount in spec.mounts for word in ("--mount", mount_text(mount))]
    words += [word for name, value in spec.labels.items() for word in ("--label", f"{name}={value}")]
    return [*words, "--entrypoint", spec.entrypoint, spec.image, *spec.command]


@given(st.lists(SPECS, min_size=20, max_size=20))
@settings(FAST, max_examples=8)
def test_what_is_printed_survives_bash(specs: list[ContainerSpec]) -> None:
    script = SHOW + "\n".join(" \\\n  ".join(docker_run_lines(spec)) for spec in specs) + "\n"
    ran = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True, timeout=60)
    assert ran.stderr == b""
    shown = ran.stdout.decode().split("\0\0\0END\0")[:-1]
    assert [text.split("\0") for text in shown] == [expected_words(spec) for spec in specs]


@pytest.mark.parametrize("value", ["it's", "$HOME", "a\nb", '{"a": "b c"}', "\\", "!x", "--flag", "#no"])
def test_a_setting_survives_from_the_command_line_to_bash(tmp_path: Path, value: str) -> None:
    ran = run(["plan", "--seat", "quality", "--set", f"chat-template={value}", "--env", f"A={value}"], World(tmp_path))
    assert ran.code == 0
    shown = subprocess.run(
        ["bash", "-s"], input=(SHOW + ran.out).encode(), capture_output=True, check=True, timeout=60
    ).stdout.decode()
    words = shown.split("\0")
    if value.startswith("-"):
        assert f"--chat-template={value}" in words
    else:
        assert words[words.index("--chat-template") + 1] == value
    assert f"A={value}" in words


def named(ran: Ran, *codes: int) -> None:
    """The answer is whole: a code of the contract, an error with a name, and no traceback."""
    assert ran.code in (0, *codes), ran.err
    assert "Traceback" not in ran.err
    if ran.code:
        assert ran.error["code"] not in ("", "internal_error")
        assert ran.error["message"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


ANY = st.text(max_size=30) | NASTY | st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))
OPTION_NAMES = st.sampled_from(
    ["max-model-len", "speculative-config", "served-model-name", "limit-mm-per-prompt", "trust-remote-code", "port"]
)


@given(
    st.one_of(
        ANY,
        st.builds(lambda name, value: f"{name}={value}", OPTION_NAMES, ANY),
        st.builds(lambda name, key, value: f"{name}.{key}={value}", OPTION_NAMES, ANY, ANY),
        st.builds(lambda name, value: f"{name}={json.dumps(value)}", OPTION_NAMES, JSON),
    )
)
@settings(FAST, max_examples=100)
def test_any_setting(world: World, text: str) -> None:
    named(run(["plan", "--json", "--seat", "quality", f"--set={text}"], world), 2, 5)


@pytest.mark.parametrize(
    "text",
    [
        "speculative-config=" + "[" * 900 + "]" * 900,
        "speculative-config=" + '{"a":' * 400 + "1" + "}" * 400,
        "speculative-config.a=" + "[" * 90 + "]" * 90,
        "speculative-config=" + "[" * 100_000,
        "gpu-memory-utilization=" + "9" * 5000,
        "gpu-memory-utilization=v" + "9" * 5000,
        "max-num-seqs=" + "9" * 5000,
        "limit-mm-per-prompt=NaN",
        "limit-mm-per-prompt.image=NaN",
        "limit-mm-per-prompt.image=1e999",
        "tensor-parallel-size=0",
        "tensor-parallel-size=-1",
        "=x",
        ".x=1",
        "-",
        "--=",
    ],
)
def test_extreme_settings(world: World, text: str) -> None:
    named(run(["plan", "--json", "--seat", "quality", "--set", text], world), 2, 5)


@given(ANY)
@FAST
@pytest.mark.parametrize(
    ("option", "codes"),
    [
        ("--env", (2,)),
        ("--model", (2, 3)),
        ("--drafter", (2, 3)),
        ("--image", (2, 6)),
        ("--waive", (2, 3)),
        ("--seat", (2, 3)),
        ("--name", (2,)),
        ("--port", (2,)),
        ("--unset", (2, 5)),
        ("--as", (2, 3)),
        ("--rehearse", (2, 3)),
    ],
)
def test_any_value(world: World, option: str, codes: tuple[int, ...], text: str) -> None:
    seat = [] if option == "--seat" else ["--seat", "quality"]
    named(run(["plan", "--json", *seat, f"{option}={text}"], world), *codes)


WORDS = ["plan", "up", "--seat", "quality", "--json", "--as", "rtx-5090", "-v", "--", "--help", "--version", "seats"]


@given(words=st.lists(ANY | st.sampled_from(WORDS)))
@settings(FAST, max_examples=100)
def test_any_command_line(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    ran = run(words, World(tmp_path_factory.mktemp("any")))
    assert ran.code in (0, 2, 3, 4, 5, 6)
    assert "Traceback" not in ran.err


PLAIN: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths_of(data: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [prefix, *(path for key, value in items for path in paths_of(value, (*prefix, key)))]


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = replaced(data[path[0]], path[1:], value)
    return copy


def mutated(path: Path) -> st.SearchStrategy[Any]:
    data = load(path)
    return st.builds(lambda place, value: replaced(data, place, value), st.sampled_from(paths_of(data)), PLAIN)


@given(mutated(PROFILES / "hosts" / "rtx-5090-x2.yaml"))
@settings(FAST, max_examples=40)
def test_any_host_file(world: World, tmp_path: Path, data: Any) -> None:
    path = tmp_path / "host.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    for argv in (["plan", "--seat", "rtx-5090/quality"], ["doctor"], ["seats"]):
        named(run([*argv, "--as", str(path), "--json"], world), 3, 4, 5)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@FAST
def test_any_bytes_as_a_host_file(world: World, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "host.yaml"
    path.write_bytes(data)
    ran = run(["plan", "--seat", "quality", "--as", str(path), "--json"], world)
    assert (ran.code, ran.error["code"]) in ((3, "host_invalid"), (4, "driver_failed"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("seats", "rtx-5090-quality.yaml"),
        ("seats", "dgx-spark-daily.yaml"),
        ("cards", "rtx-5090.yaml"),
        ("images", "aeon-rtx.yaml"),
        ("models", "qwen3.8-27b-aeon-nvfp4-mixed.yaml"),
        ("rules", "10-wsl2.yaml"),
        ("rules", "30-speculation.yaml"),
        ("phases", "vllm.yaml"),
        ("signatures", "memory.yaml"),
        ("life", "vllm.yaml"),
    ],
)
@given(data=st.data())
@settings(FAST, max_examples=12)
def test_any_profile(kind: str, name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    from aeonctl.core.catalog import Document

    world = World(tmp_path_factory.mktemp("profile"))
    world.profiles.more = {kind: [Document("my.yaml", "my", data.draw(mutated(PROFILES / kind / name)))]}
    named(run(["plan", "--seat", "quality", "--json"], world), 2, 3, 5)
    if kind in ("phases", "signatures", "life"):
        named(run(["up", "--seat", "quality", "--json", "--timeout", "100"], world), 2, 3, 5, 7)
