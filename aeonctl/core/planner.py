"""The one place where a start is decided. Pure: the same facts give the same plan, on any machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from aeonctl.core.catalog import Catalog, not_found
from aeonctl.core.compat import facts_of
from aeonctl.core.container import LABEL, ContainerSpec, Mount, Publish, spec_hash
from aeonctl.core.flags import FlagTable, check_value
from aeonctl.core.guard import GUARDED, OOM_SCORE_ADJ
from aeonctl.core.host import Host, MemoryKind, Platform, vram_gib
from aeonctl.core.image import ImageFacts, pinned
from aeonctl.core.ladder import Step, apply_steps, pinned_paths, steps_label
from aeonctl.core.model import ModelFacts, Mounted, mount_drafter, mount_model, unknown_revision
from aeonctl.core.options import ABSENT, Options, canonical, parse_setting, show_value
from aeonctl.core.plan import ADVISORY, Decision, Fit, Plan, Refusal, Remark, Request
from aeonctl.core.rows import Rule, Seat
from aeonctl.core.rules import Draft, apply_rules, as_number
from aeonctl.core.select import Choice
from aeonctl.core.units import GIB

LOOPBACK, ANYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only with --lan
YOU = "you asked for it"
COMMAND_LINE = "the command line"
OPTION_UNKNOWN = "option-unknown"


@dataclass(frozen=True)
class Inputs:
    """Everything that one plan depends on."""

    request: Request
    choice: Choice
    host: Host
    image: ImageFacts
    model: ModelFacts
    drafter: ModelFacts | None
    steps: tuple[Step, ...] = ()
    """Rungs of the fallback ladder that were taken so far, or that worked here before."""

    @property
    def unified(self) -> bool:
        """Whether the GPUs compute in the operating system's memory."""
        return any(gpu.memory is MemoryKind.UNIFIED for gpu in self.choice.gpus)

    @property
    def guarded(self) -> bool:
        """Whether a memory guard is to watch the engine."""
        return self.unified if self.request.guard is None else self.request.guard


def make_plan(inputs: Inputs, catalog: Catalog) -> Plan:
    """Decide one start. Refusals are in the plan; UsageError for a setting that cannot be read,
    ConfigurationError rule_not_found for a waiver of no rule."""
    tables = catalog.flags.deciding(inputs.image.vllm)
    _check_waivers(inputs.request, catalog)
    draft = _seat_draft(inputs.choice.seat, tables[-1])
    draft = _apply_steps(draft, inputs, tables[-1])
    draft = _apply_user(draft, inputs.request, tables[-1])
    draft, mounting = _mount(draft, inputs)
    draft, publish = _publish(draft, inputs)
    draft, gpus = _pick_gpus(draft, inputs)
    facts = facts_of(inputs.request, inputs.choice, inputs.host, inputs.image, inputs.model, inputs.drafter)
    early, late = _by_need_of_fit(catalog.rules.values())
    draft = apply_rules(draft, early, facts, inputs.request.waive)
    fit = fit_of(inputs, draft.options)
    draft = apply_rules(draft, late, {**facts, "fit.fits": fit.fits, **_fit_facts(fit)}, inputs.request.waive)
    draft = _check_flags(draft, tables, inputs)
    draft = _guard(draft, inputs)
    return _assemble(inputs, draft, mounting, publish, gpus, fit)


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


def _apply_user(draft: Draft, request: Request, table: FlagTable) -> Draft:
    for text in request.settings:
        path, value = parse_setting(text, table)
        before = draft.options.look(path)
        options = draft.options.without(path) if value is None else draft.options.with_value(path, value)
        if before == value or (before is ABSENT and value is None):
            continue
        draft = _decide(replace(draft, options=options), f"--{path}", show_value(before), value, "--set", YOU)
    for name, value in request.env.items():
        before = draft.env.get(name)
        shown = "(from your environment)" if value is None else value
        draft = _decide(replace(draft, env={**draft.env, name: value}), name, before, shown, "--env", YOU)
    return draft


def _decide(draft: Draft, option: str, before: Any, after: Any, rule: str, why: str) -> Draft:
    source = COMMAND_LINE if rule.startswith("--") else "aeonctl"
    decision = Decision(option=option, before=before, after=after, rule=rule, why=why, source=source)
    return replace(draft, decisions=(*draft.decisions, decision))


@dataclass(frozen=True)
class _Mounting:
    """The container's mounts, and the model as the engine is told of it: a path inside, or the hub's name."""

    mounts: tuple[Mount, ...]
    served: str


def _mount(draft: Draft, inputs: Inputs) -> tuple[Draft, _Mounting]:
    """The mounts, and the engine's options that name what is in them."""
    seat, model, drafter = inputs.choice.seat, inputs.model, inputs.drafter
    volumes = tuple(
        mount for name, target in seat.container.volumes.items() if (mount := _volume(name, target, model)) is not None
    )
    if seat.model.by == "repo" and model.repo is not None:
        return _name_model(draft, seat, model.repo), _Mounting(volumes, model.repo)
    mounted = mount_model(model, seat.model.mount)
    draft = _name_model(_explain_mount(draft, mounted, seat.model.mount), seat, mounted.path)
    mounts = mounted.mounts
    if drafter is not None and seat.drafter is not None:
        drafted = mount_drafter(drafter, seat.drafter.mount)
        draft = _point_at_drafter(draft, drafted)
        mounts += tuple(mount for mount in drafted.mounts if mount not in mounts)
    return draft, _Mounting(mounts + volumes, mounted.path)


def _volume(name: str, target: str, model: ModelFacts) -> Mount | None:
    """A named volume, or the hub's cache; None for the cache when the model is a folder of the user's own."""
    if name != "hub-home":
        return Mount(type="volume", source=name, target=target)
    if model.hub_home is not None:
        return Mount(source=model.hub_home, target=target)
    return None if model.hub_root is None else Mount(source=model.hub_root, target=f"{target}/hub")


def _name_model(draft: Draft, seat: Seat, served: str) -> Draft:
    """``--model``, for a seat whose document writes it so."""
    before = draft.options.look("model")
    if seat.model.positional or before == served:
        return draft
    changed = replace(draft, options=draft.options.with_value("model", served))
    if seat.model.by == "repo" and before is ABSENT:
        return changed
    return _decide(changed, "--model", show_value(before), served, "--model", "the folder is mounted there")


def _explain_mount(draft: Draft, mounted: Mounted, target: str) -> Draft:
    if mounted.why is None:
        return draft
    after = [mount.target for mount in mounted.mounts]
    return _decide(draft, "mounts", [target], after, "keep-links-alive", mounted.why)


def _point_at_drafter(draft: Draft, drafted: Mounted) -> Draft:
    path = "speculative-config.model"
    before = draft.options.look(path)
    if before is ABSENT or before == drafted.path:
        return draft
    options = draft.options.with_value(path, drafted.path)
    return _decide(
        replace(draft, options=options), f"--{path}", before, drafted.path, "keep-links-alive", str(drafted.why)
    )


def _publish(draft: Draft, inputs: Inputs) -> tuple[Draft, tuple[Publish, ...]]:
    """Where the engine can be reached: on this machine alone unless ``--lan``."""
    container, request = inputs.choice.seat.container, inputs.request
    port = request.port or container.port
    address = ANYWHERE if request.lan else LOOPBACK
    if container.network == "host":
        if str(draft.options.look("port")) != str(port):
            before = show_value(draft.options.look("port"))
            options = draft.options.with_value("port", str(port))
            draft = _decide(replace(draft, options=options), "--port", before, str(port), "--port", YOU)
        if request.lan or draft.options.look("host") == LOOPBACK:
            return draft, ()
        before = show_value(draft.options.look("host"))
        options = draft.options.with_value("host", LOOPBACK)
        return _decide(replace(draft, options=options), "--host", before, LOOPBACK, "loopback", _LOOPBACK_WHY), ()
    shown = f"{container.port}:{container.port}"
    if not request.lan:
        before, shown = shown, f"{address}:{shown}"
        draft = _decide(draft, "publish", before, shown, "loopback", _LOOPBACK_WHY)
    if port != container.port:
        draft = _decide(draft, "publish", shown, f"{address}:{port}:{container.port}", "--port", YOU)
    return draft, (Publish(host_ip=address, host_port=port, container_port=container.port),)


_LOOPBACK_WHY = "without --lan only this machine can reach the engine; a published port bypasses the host's firewall"


def _pick_gpus(draft: Draft, inputs: Inputs) -> tuple[Draft, str | None]:
    """All GPUs when the seat takes all there are; otherwise the chosen ones by index."""
    seat, host, gpus = inputs.choice.seat, inputs.host, inputs.choice.gpus
    if seat.gpus == 0 or not seat.container.gpus:
        return draft, None
    if host.gpus is None or len(host.gpus) <= seat.gpus:
        return draft, "all"
    indexes = ",".join(str(gpu.index) for gpu in gpus)
    why = f"the seat takes {seat.gpus} of {len(host.gpus)} GPUs, those with the most free memory"
    if host.platform is Platform.WSL2:
        env = {**draft.env, "CUDA_VISIBLE_DEVICES": indexes}
        why += "; under WSL2 a container always gets every GPU"
        return _decide(replace(draft, env=env), "CUDA_VISIBLE_DEVICES", None, indexes, "gpus", why), "all"
    return _decide(draft, "gpus", "all", f"device={indexes}", "gpus", why), f"device={indexes}"


def _guard(draft: Draft, inputs: Inputs) -> Draft:
    """What a guarded container is given, so that it and not the machine ends when memory runs out."""
    if not inputs.guarded:
        return draft
    asked = inputs.request.guard is not None
    for option, before, after, why in GUARDED:
        draft = _decide(draft, option, before, after, "--guard" if asked else "memory-guard", why)
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


def _assemble(
    inputs: Inputs, draft: Draft, mounting: _Mounting, publish: tuple[Publish, ...], gpus: str | None, fit: Fit
) -> Plan:
    seat, request, image = inputs.choice.seat, inputs.request, inputs.image
    names = draft.options.look("served-model-name")
    served = tuple(names) if isinstance(names, list) else (str(names),) if isinstance(names, str) else ()
    model_words = (mounting.served,) if seat.model.positional else ()
    spec = ContainerSpec(
        name=request.name or seat.container.name,
        image=pinned(image.ref, image.digest),
        entrypoint="vllm",
        command=("serve", *model_words, *draft.options.argv()),
        env=dict(draft.env),
        mounts=mounting.mounts,
        publish=publish,
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
    port = request.port or seat.container.port
    digest = spec_hash(spec)
    plan = Plan(
        seat=seat.id,
        title=seat.title,
        host=inputs.host.name,
        recorded_host=inputs.host.recorded,
        rehearsal=request.rehearsal,
        image=image,
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
    labels = labels_of(plan) | steps_label(inputs.steps)
    return plan.model_copy(update={"container": spec.model_copy(update={"labels": labels})})


def _text(value: Any) -> str | None:
    return None if value is ABSENT else str(value)


def _seat_remarks(seat: Seat, inputs: Inputs) -> tuple[Remark, ...]:
    remarks = [Remark(rule=ADVISORY, message=text, source=seat.source) for text in seat.advisories]
    return (
        *remarks,
        *(Remark(rule="image-note", message=text, source=inputs.image.ref) for text in inputs.image.notes),
    )


def labels_of(plan: Plan) -> dict[str, str]:
    """What a container says about itself: enough for ``status`` to speak of it without any other state."""
    summary = {
        "model": plan.model.repo or plan.model.path,
        "revision": plan.model.revision,
        "host": plan.host,
        "port": plan.port,
        "served_names": list(plan.served_names),
        "max_model_len": plan.max_model_len,
        "thinking": plan.thinking,
        "unified": plan.unified,
        "guarded": plan.guarded,
    }
    labels = {
        f"{LABEL}.seat": plan.seat,
        f"{LABEL}.spec-hash": plan.spec_hash,
        f"{LABEL}.plan": json.dumps(summary, separators=(",", ":"), ensure_ascii=False),
    }
    return labels | ({f"{LABEL}.waived": ",".join(plan.waived)} if plan.waived else {})
