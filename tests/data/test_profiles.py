"""Every bundled row: it parses, says why and from where, refers to what exists, and its texts name known facts."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import pytest

from aeonctl.core.base import Row
from aeonctl.core.catalog import Catalog
from aeonctl.core.compat import facts_of
from aeonctl.core.flags import check_value
from aeonctl.core.host import Gpu, Host, MemoryKind
from aeonctl.core.image import ImageFacts, parse_reference
from aeonctl.core.model import ModelFacts
from aeonctl.core.options import Options, canonical_item
from aeonctl.core.phases import Phase
from aeonctl.core.plan import Fit, Request
from aeonctl.core.rows import Rule
from aeonctl.core.rules import Draft, apply_rules
from aeonctl.core.select import Choice
from aeonctl.core.units import GIB, MIB
from tests.data.profiles import DATA, PROFILES, ROOT, catalog, files, load

KINDS = ("cards", "images", "models", "seats", "rules")

_CHOICE = Choice(catalog().seats["cpu/try"], (), "none-needed")
FACTS = {
    *facts_of(
        Request(seat="a/b"),
        Choice(catalog().seats["cpu/try"], (), "none-needed"),
        Host(),
        ImageFacts(ref="x"),
        ModelFacts(path="/nowhere"),
        None,
    ),
    *(f"fit.{name}" for name in (*Fit.model_fields, "gpus", "gpus_wanted")),
}
"""What a condition or a text may ask for, beside ``option.NAME`` and ``env.NAME``."""

PHASES = {phase.value for phase in Phase}
"""The boot phases that a seat may give a budget."""

OPERATORS = {"lt", "le", "gt", "ge", "not", "in", "present"}


@pytest.fixture(scope="module")
def bundled() -> Catalog:
    return catalog()


def rows_of(known: Catalog, kind: str) -> dict[str, Row]:
    rows: dict[str, Row] = dict(getattr(known, kind))
    return rows


def is_fact(name: str) -> bool:
    return name in FACTS or re.fullmatch(r"option\.[a-z0-9-]+(\.\w+)*|env\.[A-Z0-9_]+", name) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_says_why_and_from_where(bundled: Catalog, kind: str) -> None:
    rows = rows_of(bundled, kind)
    assert rows
    for name, row in rows.items():
        assert len(row.why.split()) >= 5, name
        assert row.source.strip(), name
        assert "\n" not in row.why.strip(), name


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_a_single_row_has_its_files_name(kind: str) -> None:
    seen: list[str] = []
    for path in files(kind):
        data = load(path)
        rows = data if isinstance(data, list) else [data]
        seen += [row["id"] for row in rows]
        if not isinstance(data, list):
            assert data["id"].replace("/", "-") == path.stem
    assert sorted(seen) == sorted(set(seen))


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_names_its_schema(kind: str) -> None:
    for path in files(kind):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        assert first == f"# yaml-language-server: $schema=../schemas/{kind}.schema.json", path


def test_schemas_are_current() -> None:
    spec = importlib.util.spec_from_file_location("make_schemas", ROOT / "scripts" / "make-schemas.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    checked_in = {path.name: path.read_text(encoding="utf-8") for path in (PROFILES / "schemas").glob("*.json")}
    assert checked_in == {f"{kind}.schema.json": text for kind, text in script.texts().items()}


def test_the_seats_that_are_promised_exist(bundled: Catalog) -> None:
    assert set(bundled.seats) == {
        "rtx-5090/quality",
        "rtx-5090/speed",
        "rtx-5090/judge",
        "rtx-5090/stock",
        "rtx-5090-x2/stock",
        "rtx-pro-6000/quality",
        "rtx-pro-6000/speed",
        "rtx-pro-6000/judge",
        "dgx-spark/quality",
        "dgx-spark/daily",
        "cpu/try",
    }


def test_images_are_references_and_a_seats_image_runs_on_its_card(bundled: Catalog) -> None:
    for image in bundled.images.values():
        parse_reference(image.ref)
        assert not set(image.sm) & set(image.not_for_sm), image.id
        assert set(image.platforms) <= {"linux/amd64", "linux/arm64"}, image.id
    for seat in bundled.seats.values():
        image = bundled.images[seat.image]
        if seat.card is not None:
            assert bundled.cards[seat.card].sm in image.sm, seat.id
        assert image.cpu_only == (seat.gpus == 0), seat.id


def test_every_option_of_a_seat_is_one_of_its_images_vllm(bundled: Catalog) -> None:
    for seat in bundled.seats.values():
        tables = bundled.flags.deciding(bundled.images[seat.image].vllm)
        assert tables
        for option, value in seat.options.items():
            problems = []
            for table in tables:
                found = table.find(option)
                problems.append("unknown" if found is None else check_value(found[1], value))
                assert canonical_item(option, value, table)[0] == option, f"{seat.id}: {option} is an alias"
            assert None in problems, f"{seat.id}: {option}: {problems}"


def test_what_a_seat_says_twice_agrees(bundled: Catalog) -> None:
    for seat in bundled.seats.values():
        assert seat.options.get("port", "8000") == str(seat.container.port), seat.id
        assert int(seat.options.get("tensor-parallel-size", "1")) == max(seat.gpus, 1), seat.id
        assert seat.container.gpus == (seat.gpus > 0), seat.id
        speculative = seat.options.get("speculative-config", {})
        drafter = None if seat.drafter is None else seat.drafter.mount
        assert speculative.get("model") == drafter, seat.id
        assert bundled.models[seat.model.id].kind == "model", seat.id
        if seat.drafter is not None:
            assert bundled.models[seat.drafter.id].kind == "drafter", seat.id
        assert set(seat.boot_seconds) <= PHASES, seat.id
        if seat.model.by == "repo":
            assert "hub-home" in seat.container.volumes, seat.id
        if seat.card is not None:
            least, most = bundled.cards[seat.card].vram_gib
            assert seat.vram_gib_min is not None
            assert least <= seat.vram_gib_min <= most, seat.id


def texts_of(rule: Rule) -> Iterator[str]:
    for text in (rule.then.refuse, rule.then.warn, rule.remedy, rule.why):
        if text is not None:
            yield text


def test_rules_ask_for_known_facts_and_use_known_operators(bundled: Catalog) -> None:
    for rule in bundled.rules.values():
        for alternative in rule.when:
            for fact, wanted in alternative.items():
                assert is_fact(fact), f"{rule.id}: {fact}"
                if isinstance(wanted, dict):
                    assert set(wanted) <= OPERATORS, f"{rule.id}: {fact}"
        for text in texts_of(rule):
            for placeholder in re.findall(r"\{([^{}]*)\}", text):
                assert is_fact(placeholder), f"{rule.id}: {placeholder}"


def test_rules_name_options_that_vllm_has(bundled: Catalog) -> None:
    tables = bundled.flags.deciding(None)
    for rule in bundled.rules.values():
        then = rule.then
        named = [
            part.option for part in (then.cap, then.floor, then.set, then.forbid, then.require) if part is not None
        ]
        named += [
            fact.partition(".")[2] for alternative in rule.when for fact in alternative if fact.startswith("option.")
        ]
        for option in filter(None, named):
            assert any(table.find(option.partition(".")[0]) for table in tables), f"{rule.id}: {option}"


def test_every_refusal_says_a_way_out(bundled: Catalog) -> None:
    for rule in bundled.rules.values():
        stops = rule.then.refuse is not None or rule.then.forbid is not None or rule.then.require is not None
        assert not stops or rule.remedy, rule.id


def test_every_rule_has_facts_that_trigger_it_and_facts_that_do_not(bundled: Catalog) -> None:
    cases: list[dict[str, Any]] = load(DATA / "rules.yaml")
    assert [case["rule"] for case in cases] == list(bundled.rules)
    for case in cases:
        assert set(case) == {"rule", "triggers", "quiet"}
        for fact in (*case["triggers"], *case["quiet"]):
            assert is_fact(fact), f"{case['rule']}: {fact}"


def _said(rule: Rule, facts: dict[str, Any]) -> bool:
    """Whether the interpreter does anything with one rule under these facts."""
    options = Options()
    for fact, value in facts.items():
        if fact.startswith("option."):
            options = options.with_value(fact.removeprefix("option."), value)
    env = {fact.removeprefix("env."): value for fact, value in facts.items() if fact.startswith("env.")}
    draft = Draft(options=options, env=env, container={"restart": None, "runtime": "nvidia"})
    return apply_rules(draft, [rule], facts) is not draft


def test_the_interpreter_agrees_with_every_rules_examples(bundled: Catalog) -> None:
    for case in load(DATA / "rules.yaml"):
        rule = bundled.rules[case["rule"]]
        assert _said(rule, case["triggers"]), f"{rule.id} is silent under {case['triggers']}"
        assert not _said(rule, case["quiet"]), f"{rule.id} speaks under {case['quiet']}"


def test_a_waived_rule_does_nothing_and_is_recorded(bundled: Catalog) -> None:
    rule = bundled.rules["image-platform"]
    draft = Draft(options=Options(), env={}, container={})
    facts = {"image.platform_match": False, "image.arch": "arm64", "host.arch": "amd64", "image.ref": "x"}
    waived = apply_rules(draft, [rule], facts, ["image-platform"])
    assert (waived.refusals, waived.waived) == ((), ("image-platform",))


@pytest.mark.parametrize(
    ("name", "sm", "mib", "card"),
    [
        ("NVIDIA GeForce RTX 5090", "12.0", 32607, "rtx-5090"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "12.0", 24463, "rtx-5090-laptop"),
        ("NVIDIA GeForce RTX 5080", "12.0", 16303, "rtx-5080"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0", 97887, "rtx-pro-6000"),
        ("NVIDIA RTX PRO 5000 Blackwell", "12.0", 73415, "rtx-pro-5000-72"),
        ("NVIDIA GeForce RTX 4090", "8.9", 24564, "rtx-4090"),
        ("NVIDIA B200", "10.0", 183359, "b200"),
        ("NVIDIA B300 SXM6 AC", "10.3", 275040, "b300"),
        ("NVIDIA H200", "9.0", 143771, "h200"),
    ],
)
def test_a_reported_gpu_is_its_card(bundled: Catalog, name: str, sm: str, mib: int, card: str) -> None:
    for reserved in (0, 500 * MIB):
        gpu = Gpu(
            index=0,
            name=name,
            sm=sm,
            memory=MemoryKind.DEDICATED,
            vram_total_bytes=mib * MIB,
            vram_reserved_bytes=reserved,
        )
        found = bundled.card_of(gpu, Host(gpus=(gpu,)))
        assert found is not None
        assert (found.card.id, found.by_name) == (card, True)


@pytest.mark.parametrize("gib", [119.68, 121.69])
def test_a_gb10_is_a_spark_by_the_machines_memory(bundled: Catalog, gib: float) -> None:
    gpu = Gpu(index=0, name="NVIDIA GB10", sm="12.1", memory=MemoryKind.UNIFIED)
    host = Host.model_validate({"memory": {"total_bytes": int(gib * GIB)}})
    found = bundled.card_of(gpu, host)
    assert found is not None
    assert found.card.id == "dgx-spark"


def test_no_row_speaks_of_the_machine_it_was_written_on() -> None:
    for path in (path for kind in KINDS for path in files(kind)):
        assert not re.search(r"/home/|/root/(?!\.cache)", path.read_text(encoding="utf-8")), path
