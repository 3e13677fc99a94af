"""The one place where a start is decided. Pure: the same facts give the same plan, on any machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from aeonctl.core.catalog import Catalog, not_found
from aeonctl.core.compat import facts_of
from aeonctl.core.container import LABEL, ContainerSpec, Publish, spec_hash
from aeonctl.core.flags import FlagTable, check_value
from aeonctl.core.guard import GUARDED, OOM_SCORE_ADJ
from aeonctl.core.host import vram_gib
from aeonctl.core.image import pinned
from aeonctl.core.inputs import YOU, Inputs, decide
from aeonctl.core.labels import served_facts, up_words
from aeonctl.core.ladder import apply_steps, pinned_paths, steps_label
from aeonctl.core.model import unknown_revision
from aeonctl.core.options import ABSENT, Options, canonical, folded, parse_setting, show_value
from aeonctl.core.placing import Mounting, pick_gpus, place_models, publish
from aeonctl.core.plan import ADVISORY, Fit, Plan, Refusal, Remark, Request
from aeonctl.core.rows import Rule, Seat
from aeonctl.core.rules import Draft, apply_rules, as_number
from aeonctl.core.secrets import is_secret_option
from aeonctl.core.units import GIB
from aeonctl.errors import UsageError

OPTION_UNKNOWN = "option-unknown"
SECRET_IN_ARGV = "secret-in-argv"  # noqa: S105 - the id of a rule
HIDDEN = "(hidden)"
"""Stands for the value of an option that holds a secret, from the moment it is read."""


def make_plan(inputs: Inputs, catalog: Catalog) -> Plan:
    """Decide one start. Refusals are in the plan; UsageError for a setting that cannot be read,
    ConfigurationError rule_not_found for a waiver of no rule."""
    tables = catalog.flags.deciding(inputs.image.vllm)
    _check_waivers(inputs.request, catalog)
    draft = _seat_draft(inputs.choice.seat, tables[-1])
    draft = _apply_steps(draft, inputs, tables[-1])
    draft = _apply_user(draft, inputs.request, tables)
    draft, mounting = place_models(draft, inputs)
    draft, published = publish(draft, inputs)
    draft, gpus = pick_gpus(draft, inputs)
    facts = facts_of(inputs.request, inputs.choice, inputs.host, inputs.image, inputs.model, inputs.drafter)
    early, late = _by_need_of_fit(catalog.rules.values())
    draft = apply_rules(draft, early, facts, inputs.request.waive)
    fit = fit_of(inputs, draft.options)
    draft = apply_rules(
        draft,
        late,
        {**facts, "fit.fits": fit.fits, **_fit_facts(fit), **_rank_facts(draft.options, inputs)},
        inputs.request.waive,
    )
    draft = _keep_secrets_out(draft)
    draft = _check_flags(draft, tables, inputs)
    draft = _guard(draft, inputs)
    return _assemble(inputs, draft, mounting, published, gpus, fit)


def _check_waivers(request: Request, catalog: Catalog) -> None:
    known = [*catalog.rules, OPTION_UNKNOWN]
    for rule in request.waive:
        if rule not in known:
            raise not_found("rule", rule, known, hint="the ids are those that aeonctl plan prints with its refusals")


def _seat_draft(seat: Seat, table: FlagTable) -> Draft:
    env: dict[str, str | None] = dict(seat.container.env)
    env |= dict.fromkeys(seat.container.pass_env)
    container = {"restart": "no", "runtime": seat.container.runtime}
    return Draft(options=canonical(seat.options, table), env=env, container=container)


def _apply_steps(draft: Draft, inputs: Inputs, table: FlagTable) -> Draft:
    """The rungs that were taken; one whose option the user pinned is left out, and says so."""
    applied = apply_steps(draft.options, inputs.steps, pinned_paths(inputs.request.settings, table))
    remarks = tuple(
        Remark(
            rule=f"rung:{skipped.rung}",
            message=f"a rung that worked before is left out: {skipped.reason}",
            source="aeonctl",
        )
        for skipped in applied.skipped
    )
    return replace(
        draft,
        options=applied.options,
        decisions=(*draft.decisions, *applied.decisions),
        warnings=(*draft.warnings, *remarks),
    )


def _apply_user(draft: Draft, request: Request, tables: tuple[FlagTable, ...]) -> Draft:
    for text in request.settings:
        option = text.partition("=")[0].strip().partition(".")[0]
        table = next((table for table in reversed(tables) if table.find(option)), tables[-1])
        path, value = parse_setting(text, table)
        _refuse_own_option(path)
        if value is not None and is_secret_option(path):
            value = HIDDEN
        before = draft.options.look(path)
        options = draft.options.without(path) if value is None else draft.options.with_value(path, value)
        if before == value or (before is ABSENT and value is None):
            continue
        draft = decide(replace(draft, options=options), f"--{path}", show_value(before), value, "--set", YOU)
    for name, value in request.env.items():
        before = draft.env.get(name)
        shown = "(from your environment)" if value is None else value
        draft = decide(replace(draft, env={**draft.env, name: value}), name, before, shown, "--env", YOU)
    return replace(draft, options=folded(draft.options))


_OWN_OPTIONS = {"port": "--port N", "host": "--lan", "model": "--model REPO_OR_DIR"}


def _refuse_own_option(path: str) -> None:
    """An option of the engine that aeonctl sets from one of its own; set past it, the plan would contradict itself."""
    if (own := _OWN_OPTIONS.get(path)) is not None:
        raise UsageError(
            "setting_has_an_option",
            f"--set {path} would contradict the rest of the plan",
            cause="the published port, the mounts and the rules follow from aeonctl's own option",
            hint=f"use {own}",
        )


def _keep_secrets_out(draft: Draft) -> Draft:
    """An option whose value was hidden cannot be started with, whatever is waived."""
    hidden = [name for name, value in draft.options.items() if value == HIDDEN]
    if not hidden or any(refusal.rule.startswith(SECRET_IN_ARGV) for refusal in draft.refusals):
        return draft
    refusal = Refusal(
        rule=SECRET_IN_ARGV,
        why=f"--{hidden[0]} holds a secret, which is never put on a command line; this cannot be waived",
        remedy="export it and pass it on by name, --env NAME",
        source="aeonctl",
    )
    return replace(draft, refusals=(*draft.refusals, refusal))


def _guard(draft: Draft, inputs: Inputs) -> Draft:
    """What a guarded container is given, so that it and not the machine ends when memory runs out."""
    if not inputs.guarded:
        return draft
    asked = inputs.request.guard is not None
    for option, before, after, why in GUARDED:
        draft = decide(draft, option, before, after, "--guard" if asked else "memory-guard", why)
    return draft


def _by_need_of_fit(rules: Iterable[Rule]) -> tuple[list[Rule], list[Rule]]:
    """The rules that need the fit come last, because other rules change what it is computed from."""
    early: list[Rule] = []
    late: list[Rule] = []
    for rule in rules:
        needs = any(name.startswith("fit.") for condition in rule.when for name in condition)
        (late if needs else early).append(rule)
    return early, late


def fit_of(inputs: Inputs, options: Options) -> Fit:
    """Whether the weights leave room in the memory budget; the KV cache gets what is left."""
    sizes = [vram_gib(gpu, inputs.host.memory) for gpu in inputs.choice.gpus]
    usable = min((size for size in sizes if size is not None), default=None)
    parts = [inputs.model.bytes, inputs.drafter.bytes if inputs.drafter else 0]
    ranks = as_number(show_value(options.look("tensor-parallel-size"))) or 1
    weights = None if None in parts else sum(part for part in parts if part is not None) / GIB / ranks
    share = as_number(show_value(options.look("gpu-memory-utilization"))) or _DEFAULT_UTILIZATION
    if usable is None or weights is None:
        return Fit(usable_gib=_round(usable), weights_gib=_round(weights))
    budget = usable * share
    return Fit(
        fits=weights < budget,
        usable_gib=_round(usable),
        budget_gib=_round(budget),
        weights_gib=_round(weights),
        left_gib=_round(budget - weights),
    )


_DEFAULT_UTILIZATION = 0.92  # vLLM's own, in every version that has a table


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _rank_facts(options: Options, inputs: Inputs) -> dict[str, Any]:
    """How many GPUs the engine would want by its own options, and whether the seat has been given as many."""
    sizes = [
        as_number(show_value(options.look(f"{name}-parallel-size"))) or 1 for name in ("tensor", "pipeline", "data")
    ]
    ranks = int(sizes[0] * sizes[1] * sizes[2])
    short = bool(inputs.choice.gpus) and inputs.choice.seat.gpus > 0 and ranks > len(inputs.choice.gpus)
    return {"fit.gpus_wanted": f"{ranks:.0f}", "fit.gpus": "short" if short else "enough"}


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {f"fit.{name}": value for name, value in fit.model_dump().items() if name != "fits"}


def _check_flags(draft: Draft, tables: tuple[FlagTable, ...], inputs: Inputs) -> Draft:
    """Every option against the parser of the image's vLLM; what no deciding table takes is refused."""
    version = inputs.image.vllm or "an unknown version"
    exact = len(tables) == 1 and tables[0].version == inputs.image.vllm
    judged = f"vLLM {version}" if exact else f"vLLM {' and '.join(t.version for t in tables)} (the image has {version})"
    for name, value in draft.options.items():
        found = [(table, hit) for table in tables if (hit := table.find(name))]
        problems = [check_value(flag, value) for _, (_, flag) in found]
        if found and None in problems:
            continue
        near = tables[-1].nearest(name)
        if not found:
            why = f"--{name} is not an option of {judged}"
            remedy = f"did you mean {near}?" if near else f"leave it out: --set {name}="
        else:
            why = f"--{name} {value!r}: {problems[0]} ({judged})"
            remedy = f"--set {name}=VALUE with a value that it takes"
        if OPTION_UNKNOWN in inputs.request.waive:
            return replace(draft, waived=(*draft.waived, OPTION_UNKNOWN))
        refusal = Refusal(rule=OPTION_UNKNOWN, why=why, remedy=remedy, source=tables[-1].source)
        draft = replace(draft, refusals=(*draft.refusals, refusal))
    return draft


def _container(
    inputs: Inputs, draft: Draft, mounting: Mounting, published: tuple[Publish, ...], gpus: str | None
) -> ContainerSpec:
    seat, request, image = inputs.choice.seat, inputs.request, inputs.image
    model_words = (mounting.served,) if seat.model.positional else ()
    return ContainerSpec(
        name=request.name or seat.container.name,
        image=pinned(image.ref, image.digest),
        entrypoint="vllm",
        command=("serve", *model_words, *draft.options.argv()),
        env=dict(draft.env),
        mounts=mounting.mounts,
        publish=published,
        network=seat.container.network,
        ipc=seat.container.ipc,
        shm_size=seat.container.shm_size,
        gpus=gpus,
        runtime=draft.container["runtime"],
        restart=str(draft.container["restart"]),
        oom_score_adj=OOM_SCORE_ADJ if inputs.guarded else None,
        core_dumps=not inputs.guarded,
        revisions={**unknown_revision(inputs.model), **(unknown_revision(inputs.drafter) if inputs.drafter else {})},
    )


def _assemble(
    inputs: Inputs, draft: Draft, mounting: Mounting, published: tuple[Publish, ...], gpus: str | None, fit: Fit
) -> Plan:
    seat, request = inputs.choice.seat, inputs.request
    names = draft.options.look("served-model-name")
    served = tuple(names) if isinstance(names, list) else (str(names),) if isinstance(names, str) else ()
    spec = _container(inputs, draft, mounting, published, gpus)
    port = request.port or seat.container.port
    digest = spec_hash(spec)
    plan = Plan(
        seat=seat.id,
        title=seat.title,
        host=inputs.host.name,
        recorded_host=inputs.host.recorded,
        rehearsal=request.rehearsal,
        image=inputs.image,
        model=inputs.model,
        drafter=inputs.drafter,
        container=spec,
        port=port,
        served_names=served or (mounting.served,),
        max_model_len=_text(draft.options.look("max-model-len")),
        decisions=draft.decisions,
        warnings=(*_seat_remarks(seat, inputs), *draft.warnings),
        refusals=draft.refusals,
        waived=draft.waived,
        fit=fit,
        spec_hash=digest,
        thinking=draft.options.look("reasoning-parser") is not ABSENT,
        boot_seconds=dict(seat.boot_seconds),
        options=dict(draft.options),
        unified=inputs.unified,
        guarded=inputs.guarded,
    )
    labels = labels_of(plan, request) | steps_label(inputs.steps)
    return plan.model_copy(update={"container": spec.model_copy(update={"labels": labels})})


def _text(value: Any) -> str | None:
    return None if value is ABSENT else str(value)


def _seat_remarks(seat: Seat, inputs: Inputs) -> tuple[Remark, ...]:
    remarks = [Remark(rule=ADVISORY, message=text, source=seat.source) for text in seat.advisories]
    return (
        *remarks,
        *(Remark(rule="image-note", message=text, source=inputs.image.ref) for text in inputs.image.notes),
    )


def labels_of(plan: Plan, request: Request) -> dict[str, str]:
    """What a container says about itself: enough for ``status`` to speak of it without any other state."""
    summary = {
        "model": plan.model.repo or plan.model.path,
        "revision": plan.model.revision,
        "host": plan.host,
        "port": plan.port,
        "served_names": list(plan.served_names),
        "max_model_len": plan.max_model_len,
        "thinking": plan.thinking,
        **served_facts(plan.container),
        "up": up_words(plan, request),
        "unified": plan.unified,
        "guarded": plan.guarded,
    }
    labels = {
        f"{LABEL}.seat": plan.seat,
        f"{LABEL}.spec-hash": plan.spec_hash,
        f"{LABEL}.plan": json.dumps(summary, separators=(",", ":"), ensure_ascii=False),
    }
    return labels | ({f"{LABEL}.waived": ",".join(plan.waived)} if plan.waived else {})
