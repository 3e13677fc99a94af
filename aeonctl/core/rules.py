"""The interpreter of rules: facts in, changed options and reasons out.

Facts are a flat mapping of dotted names to plain values; a name that is missing is not known, and a condition on it
does not hold. Options, environment and container settings are facts too (``option.…``, ``env.…``), read as they stand
when the rule's turn comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aeonctl.core.options import ABSENT, Options, OptionValue, show_value
from aeonctl.core.plan import Decision, Refusal, Remark
from aeonctl.core.rows import Bound, Named, Rule, Setting
from aeonctl.core.units import version_key

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Draft:
    """What rules may change, with everything that they said so far."""

    options: Options
    env: Mapping[str, str | None]
    container: Mapping[str, str | None]
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[Remark, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    waived: tuple[str, ...] = field(default=())


def apply_rules(draft: Draft, rules: Iterable[Rule], facts: Facts, waive: Iterable[str] = ()) -> Draft:
    """Apply each rule once, in order. A rule in ``waive`` is left out where it would have acted, which is recorded."""
    waivers = frozenset(waive)
    for rule in rules:
        if not any(_holds_all(condition, facts, draft) for condition in rule.when):
            continue
        changed = _apply(draft, rule, facts)
        if changed is draft:
            continue
        draft = replace(draft, waived=(*draft.waived, rule.id)) if rule.id in waivers else changed
    return draft


def look_up(name: str, facts: Facts, draft: Draft) -> Any:
    """The value of a fact, or ``ABSENT`` when it is unknown (or the option is not set)."""
    if name.startswith("option."):
        return draft.options.look(name.removeprefix("option."))
    if name.startswith("env."):
        return draft.env.get(name.removeprefix("env."), ABSENT)
    value = facts.get(name)
    return ABSENT if value is None else value


def fill(text: str, facts: Facts, draft: Draft) -> str:
    """``text`` with each ``{fact}`` replaced by its value."""

    def value(match: re.Match[str]) -> str:
        found = look_up(match[1], facts, draft)
        return "unknown" if found is ABSENT else str(found)

    return re.sub(r"\{([a-z][\w.\-]*)\}", value, text)


def _holds_all(condition: Mapping[str, Any], facts: Facts, draft: Draft) -> bool:
    return all(holds(test, look_up(name, facts, draft)) for name, test in condition.items())


def holds(test: Any, value: Any) -> bool:
    """Whether ``value`` passes one condition: equal, one of a list, or every operator of a mapping."""
    if isinstance(test, dict):
        return all(_operator(name, wanted, value) for name, wanted in test.items())
    if value is ABSENT:
        return False
    return _among(value, test if isinstance(test, list) else [test])


def _operator(name: str, wanted: Any, value: Any) -> bool:
    if name == "present":
        return bool(wanted) == (value is not ABSENT)
    if value is ABSENT:
        return False
    if name == "not":
        return not _among(value, wanted if isinstance(wanted, list) else [wanted])
    if name == "in":
        return _among(value, wanted)
    left, right = _comparable(value, wanted)
    if left is None or right is None:
        return False
    return bool({"lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right}[name])


def _among(value: Any, wanted: list[Any]) -> bool:
    return any(value is item if isinstance(item, bool) else _same(value, item) for item in wanted)


def _same(value: Any, item: Any) -> bool:
    """Equal as text; vLLM reads names such as a backend's in any case, so case does not tell them apart."""
    return not isinstance(value, bool) and (value == item or str(value).casefold() == str(item).casefold())


def _comparable(value: Any, wanted: Any) -> tuple[Any, Any]:
    """Both as numbers when both are; otherwise as versions; ``(None, None)`` when neither."""
    numbers = (as_number(value), as_number(wanted))
    if None not in numbers:
        return numbers
    versions = (version_key(str(value)), version_key(str(wanted)))
    return versions if all(versions) else (None, None)


_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)([kKmMgG]?)")
_FACTOR = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2, "g": 1000**3, "G": 1024**3}


def as_number(value: Any) -> float | None:
    """A number as vLLM reads one (``32k`` is 32000, ``32K`` is 32768); None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * _FACTOR[match[2]] if match else None


def _apply(draft: Draft, rule: Rule, facts: Facts) -> Draft:
    then = rule.then
    if then.cap is not None:
        return _bound(draft, rule, then.cap, facts, sign=1)
    if then.floor is not None:
        return _bound(draft, rule, then.floor, facts, sign=-1)
    if then.set is not None:
        return _set(draft, rule, then.set, facts)
    if then.forbid is not None:
        return _forbid(draft, rule, then.forbid, facts)
    if then.require is not None:
        found = look_up(_fact_name(then.require), facts, draft)
        return draft if found is not ABSENT else _refuse(draft, rule, rule.why, facts)
    if then.refuse is not None:
        return _refuse(draft, rule, then.refuse, facts)
    remedy = None if rule.remedy is None else fill(rule.remedy, facts, draft)
    remark = Remark(rule=rule.id, message=fill(str(then.warn), facts, draft), remedy=remedy, source=rule.source)
    return replace(draft, warnings=(*draft.warnings, remark))


def _bound(draft: Draft, rule: Rule, bound: Bound, facts: Facts, sign: int) -> Draft:
    before = draft.options.look(bound.option)
    limit, current = as_number(bound.value), as_number(before)
    if before is ABSENT:
        if not bound.when_unset:
            return draft
    elif current is None and before != "auto":
        return draft  # what is no number is for the check of the option to refuse, not for a limit to hide
    elif current is not None and limit is not None and sign * (current - limit) <= 0:
        return draft
    return _change_option(draft, rule, bound.option, bound.value, facts)


def _set(draft: Draft, rule: Rule, setting: Setting, facts: Facts) -> Draft:
    if setting.option is not None:
        before = draft.options.look(setting.option)
        if before == setting.value or (setting.when_unset and before is not ABSENT):
            return draft
        return _change_option(draft, rule, setting.option, setting.value, facts)
    target = draft.env if setting.env is not None else draft.container
    name = setting.env or str(setting.container)
    if target.get(name) == setting.value or (setting.when_unset and name in target):
        return draft
    decision = _decision(rule, name, target.get(name), setting.value, facts, draft)
    changed = {**target, name: setting.value}
    if setting.env is not None:
        return replace(draft, env=changed, decisions=(*draft.decisions, decision))
    return replace(draft, container=changed, decisions=(*draft.decisions, decision))


def _change_option(draft: Draft, rule: Rule, option: str, value: OptionValue | None, facts: Facts) -> Draft:
    before = draft.options.look(option)
    options = draft.options.without(option) if value is None else draft.options.with_value(option, value)
    decision = _decision(rule, f"--{option}", show_value(before), value, facts, draft)
    return replace(draft, options=options, decisions=(*draft.decisions, decision))


def _decision(rule: Rule, option: str, before: Any, after: Any, facts: Facts, draft: Draft) -> Decision:
    why = fill(rule.why, facts, draft)
    return Decision(option=option, before=before, after=after, rule=rule.id, why=why, source=rule.source)


def _forbid(draft: Draft, rule: Rule, named: Named, facts: Facts) -> Draft:
    found = look_up(_fact_name(named), facts, draft)
    if found is ABSENT or found is False:
        return draft
    return _refuse(draft, rule, rule.why, facts)


def _fact_name(named: Named) -> str:
    return f"option.{named.option}" if named.option is not None else f"env.{named.env}"


def _refuse(draft: Draft, rule: Rule, why: str, facts: Facts) -> Draft:
    remedy = None if rule.remedy is None else fill(rule.remedy, facts, draft)
    refusal = Refusal(rule=rule.id, why=fill(why, facts, draft), remedy=remedy, source=rule.source)
    return replace(draft, refusals=(*draft.refusals, refusal))
