"""Small values of core, by tables: sizes, versions, options, flags, rows, mounts, and what a container becomes."""

from __future__ import annotations

from typing import Any

import pytest

from aeonctl.core.base import Value
from aeonctl.core.catalog import Catalog, Document, facts_from_row
from aeonctl.core.compat import driver_match, is_unified, sm_match
from aeonctl.core.container import ContainerSpec, Mount, Publish, create_request, docker_run_lines, spec_hash
from aeonctl.core.flags import Flag, check_value
from aeonctl.core.host import Docker, DockerGpu, Driver, Gpu, Host, Memory, MemoryKind, Platform
from aeonctl.core.image import FactsFrom, ImageConfig, ImageFacts, facts_from_config, is_digest, parse_reference, pinned
from aeonctl.core.knowledge import boot_knowledge
from aeonctl.core.model import Layout, ModelFacts, mount_drafter, mount_model
from aeonctl.core.options import ABSENT, Options, parse_setting
from aeonctl.core.phases import BootProgress
from aeonctl.core.rows import Card, ImageRow, Rule, Seat, Setting
from aeonctl.core.rules import Draft, apply_rules, fill, holds
from aeonctl.core.secrets import is_secret, is_secret_option
from aeonctl.core.select import describe_gpus
from aeonctl.core.smoke import Answer, degenerate, error_text, judge_answer
from aeonctl.core.units import docker_bytes, gib, human_bytes, human_seconds, version_key
from aeonctl.errors import ConfigurationError, UsageError
from tests.core.logdata import PHASE_ROWS
from tests.data.profiles import catalog


def test_sizes() -> None:
    assert gib(8 * 1024**3 + 5 * 1024**2) == 8.0
    table = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 25_200_000_000: "25.2 GB", 2 * 10**12: "2.0 TB"}
    assert {size: human_bytes(size) for size in table} == table


def test_seconds() -> None:
    table = {0.04: "0.0 s", 9.94: "9.9 s", 10: "10 s", 59.6: "1 min 00 s", 3599: "59 min 59 s", 3900: "1 h 05 min"}
    assert {seconds: human_seconds(seconds) for seconds in table} == table


def test_versions() -> None:
    table = {"0.27.1+aeon": (0, 27, 1), "v1.2": (1, 2), "latest": (), "": (), "1" * 20: (111111111,)}
    assert {text: version_key(text) for text in table} == table


@pytest.mark.parametrize(
    ("text", "size"), [("8g", 8 * 1024**3), ("64M", 64 * 1024**2), ("1k", 1024), ("7", 7), ("7b", 7)]
)
def test_docker_sizes(text: str, size: int) -> None:
    assert docker_bytes(text) == size


@pytest.mark.parametrize("text", ["", "8gb", "-1", "8 g", "g"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size for Docker"):
        docker_bytes(text)


def test_what_is_no_plain_data() -> None:
    nested: list[Any] = []
    nested.append(nested)
    for data in ({1, 2}, nested):
        with pytest.raises(ConfigurationError) as caught:
            Value.parse(data, "x.yaml")
        assert caught.value.causes[0].startswith("not plain data: ")


def test_options_change_by_copy() -> None:
    options = Options({"a": "1", "j": {"k": {"l": 1}}})
    assert (len(options), "a" in options, options["a"]) == (2, True, "1")
    assert options.look("j.k.l") == 1
    assert options.look("a.b") is ABSENT
    assert options.with_value("j.k.m", 2)["j"] == {"k": {"l": 1, "m": 2}}
    assert options.with_value("a.b.c", 2)["a"] == {"b": {"c": 2}}
    assert options.without("j.k.l")["j"] == {"k": {}}
    assert options.without("a.b.c") == options.without("j.x.y.z") == options
    assert dict(options.without("a")) == {"j": {"k": {"l": 1}}}
    assert options["j"] == {"k": {"l": 1}}


def test_options_as_argv() -> None:
    options = Options({"on": True, "off": False, "text": "a b", "list": ["x", "y"], "json": {"é": [1, None]}})
    assert options.argv() == (
        *("--on", "--no-off", "--text", "a b", "--list", "x", "y"),
        *("--json", '{"é":[1,null]}'),
    )


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("max_model_len=1", "max-model-len", "1"),
        ("--max-model-len=", "max-model-len", None),
        ("-tp=2", "tensor-parallel-size", "2"),
        ("enable-prefix-caching", "enable-prefix-caching", True),
        ("enable-prefix-caching=False", "enable-prefix-caching", False),
        ("no-enable-prefix-caching", "enable-prefix-caching", False),
        ("served-model-name=a", "served-model-name", ["a"]),
        ("speculative-config={}", "speculative-config", {}),
        ("speculative-config=[1]", "speculative-config", "[1]"),
        ("speculative-config={", "speculative-config", "{"),
        ("speculative-config.n=3", "speculative-config.n", 3),
        ("speculative-config.n=x", "speculative-config.n", "x"),
        ("speculative-config.n=NaN", "speculative-config.n", "NaN"),
        ("nothing=1", "nothing", "1"),
        ("nothing", "nothing", True),
    ],
)
def test_a_setting(text: str, path: str, value: object) -> None:
    assert parse_setting(text, catalog().flags.deciding("0.33.0")[0]) == (path, value)


@pytest.mark.parametrize("text", ["", "=", "=1", "--", "a b=1", "a..b=1", "a.=1", ".a=1"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(UsageError, match="not a setting"):
        parse_setting(text, catalog().flags.deciding("0.33.0")[0])


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        (Flag(kind="flag"), True, None),
        (Flag(), "x", None),
        (Flag(), {"a": 1}, None),
        (Flag(kind="json"), {"a": 1}, None),
        (Flag(kind="json"), "[1]", None),
        (Flag(kind="json"), "[" * 100_000, "it needs JSON"),
        (Flag(kind="list", number="int"), ["1", "2"], None),
        (Flag(kind="list", number="int"), ["1", "x"], "'x' is not a whole number"),
        (Flag(kind="list"), {"a": 1}, "it takes plain values"),
        (Flag(number="float"), ["1"], "it takes one plain value"),
        (Flag(choices=("a", "b")), "a", None),
    ],
)
def test_values_of_flags(flag: Flag, value: object, problem: str | None) -> None:
    assert check_value(flag, value) == problem


def test_flag_tables() -> None:
    tables = catalog().flags
    assert tables.versions == ("0.27.1", "0.32.0", "0.33.0")
    found = {
        version: [table.version for table in tables.deciding(version)] for version in ("0.26.0", "0.29.0", "9.0", "x")
    }
    assert found == {
        "0.26.0": ["0.27.1"],
        "0.29.0": ["0.27.1", "0.32.0"],
        "9.0": ["0.33.0"],
        "x": ["0.27.1", "0.32.0", "0.33.0"],
    }


SPEC = ContainerSpec(
    name="n",
    image="i:1",
    entrypoint="vllm",
    command=("serve", "/model", "--a", "b c", "--d"),
    env={"A": "1", "B": None, "C": None},
    mounts=(Mount(source="/m,x", target="/model", read_only=True), Mount(type="volume", source="v", target="/v")),
    publish=(Publish(host_ip="::1", host_port=8001, container_port=8000),),
    ipc="host",
    shm_size="8g",
    gpus="device=0,2",
    runtime="nvidia",
    restart="on-failure:3",
    labels={"l": "1"},
)


def test_a_container_as_a_command() -> None:
    assert docker_run_lines(SPEC) == [
        "docker run -d --name n",
        "--gpus '\"device=0,2\"' --runtime nvidia --ipc=host --shm-size=8g --network=bridge --restart=on-failure:3",
        "-p '[::1]:8001:8000'",
        "-e A=1",
        "-e B",
        "-e C",
        "--mount 'type=bind,\"source=/m,x\",target=/model,readonly'",
        "--mount type=volume,source=v,target=/v",
        "--label l=1",
        "--entrypoint vllm i:1",
        "serve /model",
        "--a 'b c'",
        "--d",
    ]


def test_a_container_as_a_request() -> None:
    request = create_request(SPEC, {"B": "2"})
    host = request.pop("HostConfig")
    assert request == {
        "Image": "i:1",
        "Entrypoint": ["vllm"],
        "Cmd": ["serve", "/model", "--a", "b c", "--d"],
        "Env": ["A=1", "B=2", "C"],
        "Labels": {"l": "1"},
        "ExposedPorts": {"8000/tcp": {}},
    }
    assert {name: value for name, value in host.items() if value != []} == {
        "NetworkMode": "bridge",
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
        "Mounts": [
            {"Type": "bind", "Source": "/m,x", "Target": "/model", "ReadOnly": True},
            {"Type": "volume", "Source": "v", "Target": "/v"},
        ],
        "PortBindings": {"8000/tcp": [{"HostIp": "::1", "HostPort": "8001"}]},
        "IpcMode": "host",
        "ShmSize": 8 * 1024**3,
        "Runtime": "nvidia",
        "DeviceRequests": [
            {"Driver": "", "Capabilities": [["gpu"]], "Options": {}, "Count": 0, "DeviceIDs": ["0", "2"]}
        ],
    }
    bare = create_request(ContainerSpec(name="n", image="i", entrypoint="e", command=(), gpus="all"), {})["HostConfig"]
    assert bare["DeviceRequests"][0] | {"Count": -1, "DeviceIDs": None} == bare["DeviceRequests"][0]
    assert {"IpcMode", "ShmSize", "Runtime"}.isdisjoint(bare)
    nothing = create_request(ContainerSpec(name="n", image="i", entrypoint="e", command=()), {})["HostConfig"]
    assert "DeviceRequests" not in nothing


def test_the_hash_is_of_what_is_run() -> None:
    assert spec_hash(SPEC) == spec_hash(SPEC.model_copy(update={"labels": {}, "restart": "no"}))
    assert spec_hash(SPEC) != spec_hash(SPEC.model_copy(update={"image": "i:2"}))


def facts(layout: Layout, **more: Any) -> ModelFacts:
    root = "/c/hub/models--o--n"
    return ModelFacts(
        repo="o/n",
        layout=layout,
        path=f"{root}/snapshots/abc",
        repo_root=root,
        hub_root="/c/hub",
        hub_home="/c",
        **more,
    )


@pytest.mark.parametrize(
    ("layout", "model", "drafter"),
    [
        (
            Layout.PLAIN,
            ("/model", [("/c/hub/models--o--n/snapshots/abc", "/model")]),
            ("/drafter", [("/c/hub/models--o--n/snapshots/abc", "/drafter")]),
        ),
        (
            Layout.SNAPSHOT,
            ("/model", [("/c/hub/models--o--n/snapshots/abc", "/model"), ("/c/hub/models--o--n/blobs", "/blobs")]),
            ("/drafter/snapshots/abc", [("/c/hub/models--o--n", "/drafter")]),
        ),
        (
            Layout.SHARED,
            ("/hub/models--o--n/snapshots/abc", [("/c/hub", "/hub")]),
            ("/hub/models--o--n/snapshots/abc", [("/c/hub", "/hub")]),
        ),
    ],
)
def test_mounts(layout: Layout, model: Any, drafter: Any) -> None:
    for mounted, expected in (
        (mount_model(facts(layout), "/model"), model),
        (mount_drafter(facts(layout), "/drafter"), drafter),
    ):
        assert (mounted.path, [(mount.source, mount.target) for mount in mounted.mounts]) == expected
        assert all(mount.read_only for mount in mounted.mounts)
        assert (mounted.why is None) is (layout is Layout.PLAIN)


@pytest.mark.parametrize(
    ("sm", "image", "match"),
    [
        (None, {}, "unknown"),
        ("12.0", {}, "unknown"),
        ("12.0", {"sm": ("12.0",)}, "listed"),
        ("12.1", {"sm": ("12.0",)}, "unlisted"),
        ("12.0", {"sm": ("12.1",)}, "mismatch"),
        ("13.0", {"sm": ("12.0",), "ptx": ("12.0",)}, "unlisted"),
        ("9.0", {"sm": ("12.0",), "ptx": ("12.0",)}, "mismatch"),
        ("12.0", {"sm": ("12.0",), "not_for_sm": ("12.0",)}, "excluded"),
    ],
)
def test_kernels_meet_a_gpu(sm: str | None, image: dict[str, Any], match: str) -> None:
    assert sm_match(ImageFacts(ref="i", **image), sm) == match


@pytest.mark.parametrize(
    ("image", "driver", "platform", "match"),
    [
        ({"cpu_only": True, "cuda": "13.0"}, {}, Platform.LINUX, "ok"),
        ({"driver_branch_min": 580}, {"version": "575.1"}, Platform.LINUX, "old"),
        ({"driver_branch_min": 580}, {"version": "580.1"}, Platform.LINUX, "ok"),
        ({"driver_branch_min": 580}, {"version": "x"}, Platform.LINUX, "ok"),
        ({"driver_branch_min": 580, "cuda": "13.0"}, {"version": "575.1", "cuda": "13.0"}, Platform.WSL2, "ok"),
        ({"driver_branch_min": 580}, {}, Platform.LINUX, "unknown"),
        ({}, {"version": "580.1", "cuda": "13.0"}, Platform.LINUX, "unknown"),
        ({"cuda": "13.0"}, {}, Platform.LINUX, "unknown"),
        ({"cuda": "13.2"}, {"cuda": "13.0"}, Platform.LINUX, "ok"),
        ({"cuda": "13.0"}, {"cuda": "12.9"}, Platform.LINUX, "old"),
        ({"needs_cuda": "13.2"}, {"cuda": "13.0"}, Platform.LINUX, "old"),
        ({"needs_cuda": "12.8"}, {"cuda": "13.0"}, Platform.LINUX, "ok"),
    ],
)
def test_drivers(image: dict[str, Any], driver: dict[str, Any], platform: Platform, match: str) -> None:
    assert driver_match(ImageFacts(ref="i", **image), Host(platform=platform, driver=Driver(**driver))) == match


def test_unified_memory() -> None:
    assert is_unified((Gpu(index=0, memory=MemoryKind.UNIFIED),))
    assert not is_unified((Gpu(index=0), Gpu(index=1, memory=MemoryKind.DEDICATED)))


def test_gpus_in_words() -> None:
    known = catalog()
    unseen = Host(gpus=None)
    strange = Host(
        gpus=(Gpu(index=0), Gpu(index=1, sm="12.0", memory=MemoryKind.DEDICATED, vram_total_bytes=34 * 10**9))
    )
    assert describe_gpus(unseen, known) == "GPUs that cannot be seen"
    assert describe_gpus(Host(gpus=()), known) == "a machine without a GPU"
    assert describe_gpus(strange, known) == (
        "an unknown GPU (sm unknown, memory unknown), GeForce RTX 5090 (sm 12.0, 31.7 GiB)"
    )


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (401, {"error": "Unauthorized"}, Answer(False, "HTTP 401: Unauthorized")),
        (404, {"detail": "Not Found"}, Answer(False, "HTTP 404: Not Found")),
        (500, {"error": {"code": 5}}, Answer(False, "HTTP 500: {'code': 5}")),
        (502, None, Answer(False, "HTTP 502: None")),
        (200, None, Answer(False, "the answer has no message in it")),
        (200, {"choices": ["x"]}, Answer(False, "the answer has no message in it")),
        (200, {"choices": [{"message": None}]}, Answer(False, "the answer has no message in it")),
        (
            200,
            {"choices": [{"message": {"content": None}, "finish_reason": "length"}], "usage": {"completion_tokens": 9}},
            Answer(True, "it produced 9 tokens without visible text"),
        ),
        (
            200,
            {"choices": [{"message": {"content": None}, "finish_reason": "length"}]},
            Answer(False, "the answer is empty"),
        ),
        (
            200,
            {"choices": [{"message": {"reasoning": "Hm"}, "finish_reason": "length"}]},
            Answer(True, "it is still thinking", "Hm"),
        ),
        (
            200,
            {"choices": [{"message": {"reasoning": "Hm"}, "finish_reason": "stop"}]},
            Answer(True, "it answered, all of it as reasoning", "Hm"),
        ),
        (
            200,
            {"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]},
            Answer(False, "the answer's text is no text"),
        ),
    ],
)
def test_answers(status: int, body: Any, answer: Answer) -> None:
    assert judge_answer(status, body) == answer


def test_garbage() -> None:
    assert degenerate("ha" * 40) is None
    assert degenerate("!" * 39) is None
    assert degenerate("! " * 40) == "'!' repeated 40 times"
    assert degenerate("a" + "\ufffd" * 60) == "mostly replacement characters"
    assert error_text("x" * 600) == "x" * 500


def test_secrets() -> None:
    assert [
        name
        for name in ("HF_TOKEN", "VLLM_API_KEY", "db_password", "MAX_TOKENS", "TOKENIZERS", "KEYBOARD")
        if is_secret(name)
    ] == [
        "HF_TOKEN",
        "VLLM_API_KEY",
        "db_password",
    ]
    spellings = {name for version in catalog().flags.deciding(None) for name in version.spellings}
    assert {name for name in spellings if is_secret_option(name)} == {"--api-key", "--hf-token"}


ROW = {"why": "w", "source": "s"}
CARD = {"id": "c", "title": "C", "sm": "12.0", "memory": "dedicated", "vram_gib": [1, 2]}
SEAT = {
    "id": "c/s",
    "title": "S",
    "image": "i",
    "model": {"id": "m"},
    "container": {"name": "n"},
    "options": {"n": 5, "l": [1], "b": True, "j": {}},
}


@pytest.mark.parametrize(
    ("row", "data", "words"),
    [
        (Card, CARD | {"vram_gib": [2, 1]}, "vram_gib is [least, most]"),
        (Card, CARD | {"vram_gib": 5}, "vram_gib"),
        (ImageRow, {"id": "i", "family": "vllm", "ref": "r", "platforms": [], "digest": "x"}, "a digest is sha256:"),
        (Seat, SEAT | {"options": {"x": 0.9}}, "write the number in quotes"),
        (Seat, SEAT | {"options": {"x": None}}, "a switch, text, a list or a JSON object"),
        (Seat, SEAT | {"options": 5}, "options"),
        (Seat, SEAT | {"container": {"name": "n", "shm_size": "8 gigs"}}, "not a size for Docker"),
        (Rule, {"id": "r", "when": 5, "then": {"warn": "x"}}, "when"),
        (Rule, {"id": "r", "when": [], "then": {"warn": "x", "refuse": "y"}}, "exactly one of cap"),
        (Rule, {"id": "r", "when": [], "then": {"set": {"value": "1"}}}, "set exactly one of"),
    ],
)
def test_rows_that_are_wrong(row: type[Any], data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        row.parse(data | ROW, "x.yaml")
    assert words in " ".join(caught.value.causes)


def test_rows_that_are_right() -> None:
    seat = Seat.parse(SEAT | ROW, "x.yaml")
    assert (seat.card_id, seat.name, seat.options) == ("c", "s", {"n": "5", "l": ["1"], "b": True, "j": {}})
    assert Card.parse(CARD | ROW, "x.yaml").vram_gib == (1.0, 2.0)
    image = {"id": "i", "family": "vllm", "ref": "r", "platforms": [], "digest": "sha256:" + "a" * 64}
    assert is_digest(str(ImageRow.parse(image | ROW, "x.yaml").digest))
    unsized = Seat.parse(SEAT | {"container": {"name": "n", "shm_size": None}} | ROW, "x.yaml")
    assert unsized.container.shm_size is None
    assert Setting(env="A", value="1").env == "A"


def rows_of(kind: str, rows: dict[str, list[Any]]) -> Catalog:
    return Catalog(lambda asked: [Document(f"{asked}.yaml", asked, rows.get(asked, []))])


def test_references_that_lead_nowhere() -> None:
    seat = SEAT | ROW | {"card": "none", "drafter": {"id": "none"}}
    with pytest.raises(ConfigurationError) as caught:
        _ = rows_of("seats", {"seats": [seat]}).seats
    assert caught.value.causes == (
        "image: there is no 'i'",
        "model.id: there is no 'm'",
        "card: there is no 'none'",
        "drafter.id: there is no 'none'",
    )


def test_rows_of_any_kind() -> None:
    found = rows_of("cards", {"cards": [CARD | ROW]}).rows("cards", Card)
    assert [card.title for card in found.values()] == ["C"]


def test_an_image_by_its_tags() -> None:
    known = catalog()
    row = known.image_row("ghcr.io/aeon-7/aeon-vllm-ultimate-rtx:aeon-vllm-rtx-sm120@sha256:" + "a" * 64)
    assert row is not None
    assert row.id == "aeon-rtx"
    assert known.image_row("example.org/x:1") is None
    digest = "sha256:" + "b" * 64
    other = facts_from_row(row, f"{row.ref}@{digest}")
    assert (other.digest, other.facts_from) == (digest, FactsFrom.CATALOGUE)
    assert facts_from_row(row).digest == row.digest


def test_a_card_of_no_row() -> None:
    known = catalog()
    memory = Memory()
    assert known.card_of(Gpu(index=0, sm="12.0", memory=MemoryKind.DEDICATED), Host(memory=memory)) is None
    nameless = Gpu(index=0, sm="12.0", memory=MemoryKind.DEDICATED, vram_total_bytes=33 * 1024**3)
    match = known.card_of(nameless, Host(memory=memory))
    assert match is not None
    assert (match.card.id, match.by_name) == ("rtx-5090", True)


def draft(**options: Any) -> Draft:
    return Draft(options=Options(options), env={}, container={"restart": "no"})


def rule(then: dict[str, Any], when: Any = ()) -> Rule:
    return Rule.parse({"id": "r", "when": list(when) or [{}], "then": then, **ROW}, "r.yaml")


@pytest.mark.parametrize(
    ("test", "value", "expected"),
    [
        ("a", "a", True),
        (["a", 5], "5", True),
        (True, True, True),
        (True, "true", False),
        ("1", True, False),
        ("a", ABSENT, False),
        ({"present": False}, ABSENT, True),
        ({"lt": 5}, ABSENT, False),
        ({"not": "a"}, "b", True),
        ({"not": ["a", "b"]}, "b", False),
        ({"in": ["a"]}, "a", True),
        ({"ge": "0.24"}, "0.27.1", True),
        ({"lt": "0.24"}, "latest", False),
        ({"gt": 5}, True, False),
        ({"gt": 32768}, "33k", True),
        ({"le": 32768}, "32K", True),
        ({"gt": 1, "lt": 3}, 2, True),
    ],
)
def test_conditions(test: Any, value: Any, expected: bool) -> None:
    assert holds(test, value) is expected


@pytest.mark.parametrize(
    ("then", "before", "after"),
    [
        ({"floor": {"option": "a", "value": "5"}}, {"a": "3"}, {"a": "5"}),
        ({"floor": {"option": "a", "value": "5"}}, {"a": "7"}, {"a": "7"}),
        ({"cap": {"option": "a", "value": "5"}}, {}, {}),
        ({"cap": {"option": "a", "value": "5", "when_unset": True}}, {}, {"a": "5"}),
        ({"cap": {"option": "a", "value": "5"}}, {"a": "auto"}, {"a": "5"}),
        ({"set": {"option": "a", "value": "5"}}, {"a": "5"}, {"a": "5"}),
        ({"set": {"option": "a", "value": None}}, {"a": "5"}, {}),
        ({"set": {"option": "a", "value": "6", "when_unset": True}}, {"a": "5"}, {"a": "5"}),
    ],
)
def test_what_rules_do_to_options(then: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    changed = apply_rules(draft(**before), [rule(then)], {})
    assert dict(changed.options) == after
    assert bool(changed.decisions) is (before != after)


def test_what_rules_do_to_containers() -> None:
    changed = apply_rules(draft(), [rule({"set": {"container": "restart", "value": "always"}})], {})
    assert changed.container == {"restart": "always"}
    assert apply_rules(changed, [rule({"set": {"container": "restart", "value": "always"}})], {}) is changed
    assert apply_rules(draft(a=False), [rule({"forbid": {"option": "a"}})], {}).refusals == ()
    assert fill("{a.b} {option.c}", {"a.b": 5}, draft()) == "5 unknown"


def test_knowledge_that_is_no_list() -> None:
    def read(kind: str) -> list[Document]:
        return [Document(f"{kind}.yaml", kind, {"rows": 5})]

    with pytest.raises(ConfigurationError) as caught:
        boot_knowledge(read)
    assert caught.value.causes == ("rows: a list of rows is needed",)


def test_a_phase_that_does_not_exist() -> None:
    from tests.data.profiles import read

    knowledge = boot_knowledge(read)
    with pytest.raises(ConfigurationError) as caught:
        knowledge.budgets_with({"naps": 5.0})
    assert caught.value.causes == ("naps: there is no such phase",)


def test_references() -> None:
    loopback = {"localhost:5000/a": True, "127.0.0.1/a": True, "[::1]:5000/a": True, "ghcr.io/a": False, "a": False}
    assert {text: parse_reference(text).is_loopback for text in loopback} == loopback
    assert parse_reference("vllm/vllm-openai:v1@sha256:" + "a" * 64) == (
        *("docker.io", "vllm/vllm-openai", "v1", "sha256:" + "a" * 64),
    )
    assert parse_reference("ubuntu").repository == "library/ubuntu"
    assert pinned("a:1", None) == "a:1"
    assert pinned("a:1", "sha256:x") == pinned("a:1@sha256:x", "sha256:y") == "a:1@sha256:x"


def test_an_image_by_its_own_config() -> None:
    config = ImageConfig(
        architecture="arm64",
        env=(
            "TORCH_CUDA_ARCH_LIST=12.0a 12.1+PTX",
            "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=x",
            "CUDA_VERSION=13.0.1",
            "X",
        ),
        labels={"ai.aeon.not_for": "B200 sm_100", "org.opencontainers.image.version": "0.27.1+aeon"},
        entrypoint=("vllm", "serve"),
    )
    facts = facts_from_config("ghcr.io/a/b:v9.9.9", config, FactsFrom.REGISTRY, digest="sha256:x")
    assert facts.model_dump(exclude_defaults=True) == {
        "ref": "ghcr.io/a/b:v9.9.9",
        "facts_from": FactsFrom.REGISTRY,
        "digest": "sha256:x",
        "arch": "arm64",
        "sm": ("12.0", "12.1"),
        "ptx": ("12.1",),
        "not_for": "B200 sm_100",
        "not_for_sm": ("10.0",),
        "cuda": "13.0",
        "needs_cuda": "12.8",
        "vllm": "0.27.1",
        "entrypoint": ("vllm", "serve"),
        "family": "aeon",
    }
    bare = facts_from_config("vllm/vllm-openai:v0.33.0-cu129", ImageConfig(), FactsFrom.LOCAL)
    assert (bare.vllm, bare.sm, bare.family, bare.cuda) == ("0.33.0", None, None, None)


def test_a_boot_that_is_over_lasts_no_longer() -> None:
    progress = BootProgress(PHASE_ROWS)
    progress.feed("(APIServer pid=1) INFO:     Application startup complete.", 5.0)
    before = progress.durations()
    progress.finish(50.0)
    assert progress.durations() == before


def test_docker_facts_by_default() -> None:
    assert Docker().gpu == DockerGpu()
