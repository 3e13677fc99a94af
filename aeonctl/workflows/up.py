"""``aeonctl up``: decide, check, fetch, start, watch the boot, ask one question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aeonctl.core.catalog import Catalog
from aeonctl.core.container import LABEL
from aeonctl.core.failure import FailureScan
from aeonctl.core.inputs import Inputs
from aeonctl.core.knowledge import BootKnowledge, boot_knowledge
from aeonctl.core.ladder import steps_from_label
from aeonctl.core.plan import Plan
from aeonctl.core.planner import make_plan
from aeonctl.core.smoke import Answer, judge_answer, smoke_request
from aeonctl.errors import AeonError, DownloadError, EngineError, HostError, RefusedError
from aeonctl.ports import EngineRecord, Engines, EngineStatus, Ports, Reporter
from aeonctl.workflows.ask import Asked, engines_for, gather, hub_for, plan_for, refuse
from aeonctl.workflows.boot import Boot, BootFollower, death_error
from aeonctl.workflows.climb import Climb
from aeonctl.workflows.down import stop_engine
from aeonctl.workflows.guard import check_memory, guarded_death, start_guard
from aeonctl.workflows.hosts import catalog_of
from aeonctl.workflows.image_pull import pull_watched, settle_image
from aeonctl.workflows.learned import forget, learn, learned_steps
from aeonctl.workflows.lockfiles import record_start
from aeonctl.workflows.makeway import check_port, keep_log, make_way, same_spec
from aeonctl.workflows.pull import ask_first

_ALIVE = (EngineStatus.RUNNING, EngineStatus.RESTARTING)
_SMOKE_TIMEOUT = 300.0
"""Seconds for the first completion, which may still compile kernels."""


@dataclass(frozen=True)
class HowUp:
    """How ``up`` behaves, beside what it starts."""

    detach: bool = False
    replace: bool = False
    timeout: float | None = None
    ladder: bool = True
    """Whether a failed allocation leads to the next rung."""
    from_top: bool = False
    """Whether to forget the rung that worked before."""
    floor_gib: float | None = None
    """Available memory in GiB under which the guard acts; None for the machine's own."""


@dataclass(frozen=True)
class Up:
    """An engine that runs: ``phase`` is ``ready``, or ``starting`` when nobody waited for it."""

    plan: Plan
    phase: str
    already: bool = False
    boot: Boot | None = None
    answer: Answer | None = None
    kv_tokens: int | None = None
    rungs_taken: tuple[str, ...] = ()
    phases: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """``data`` of ``up --json``."""
        plan = self.plan
        return {
            "plan": plan.as_json(),
            "engine": {
                "name": plan.container.name,
                "url": plan.url,
                "served_names": list(plan.served_names),
                "spec_hash": plan.spec_hash,
                "phase": self.phase,
                "rungs_taken": list(self.rungs_taken),
                "already_running": self.already,
                "rehearsal": plan.rehearsal,
                "max_model_len": plan.max_model_len,
                "kv_tokens": self.kv_tokens,
                "answer": None if self.answer is None else self.answer.text,
            },
            "boot": self.phases,
        }


def up(asked: Asked, how: HowUp, ports: Ports, report: Reporter) -> Up:
    """Start the seat's engine and wait until it answered, or say at once that it already does.

    RefusedError before anything is fetched; HostError for this machine's reasons; DownloadError; EngineError when the
    engine fails. Whatever this call started is gone again after an error or Ctrl-C before the answer.
    """
    ports = replace(ports, environment={**ports.environment, **asked.secrets})
    with _only_one(ports):
        ports.step("up:locked")
        catalog = catalog_of(ports)
        inputs, plan = _first_plan(asked, how, ports, catalog, report)
        refuse(plan)
        asked = replace(asked, steps=inputs.steps)
        plan, asked = settle_image(plan, asked, ports, catalog)
        report.planned(plan)
        if plan.recorded_host and not plan.rehearsal:
            report.warn(f"this is planned for the recorded host {plan.host}, and started on this machine")
        engines = engines_for(asked, ports)
        existing = engines.find(plan.container.name)
        same = _plan_that_runs(existing, plan, inputs, catalog)
        if same is not None:
            return _join(same, how, engines, ports, report)
        make_way(existing, plan, how.replace, engines, ports, report)
        check_port(plan, engines, ports)
        plan = fetch_missing(plan, asked, ports, catalog, report, how.timeout)
        ports.step("up:fetched")
        climb = Climb(gather(asked, ports, catalog), plan, catalog)
        return _climb(climb, how, engines, ports, report)


def _first_plan(asked: Asked, how: HowUp, ports: Ports, catalog: Catalog, report: Reporter) -> tuple[Inputs, Plan]:
    """The plan to begin with: on the rungs that worked here before, unless they are to be forgotten."""
    inputs = gather(asked, ports, catalog)
    if how.from_top:
        forget(inputs, ports)
    steps = () if how.from_top or not how.ladder else learned_steps(inputs, ports)
    if steps:
        started = replace(inputs, steps=steps)
        plan = make_plan(started, catalog)
        if not plan.refusals:
            report.note(f"starting on the rung that worked here: {', '.join(step.rung for step in steps)}")
            return started, plan
    return inputs, make_plan(inputs, catalog)


def _plan_that_runs(existing: EngineRecord | None, plan: Plan, inputs: Inputs, catalog: Catalog) -> Plan | None:
    """The plan that the engine of this name runs, when it is this one, or this one some rungs further down."""
    if existing is None:
        return None
    if _same(existing, plan):
        return plan
    steps = steps_from_label(existing.labels)
    other = make_plan(replace(inputs, steps=steps), catalog) if steps and existing.ours else plan
    return other if _same(existing, other) else None


def _climb(climb: Climb, how: HowUp, engines: Engines, ports: Ports, report: Reporter) -> Up:
    """Start; where memory could not be allocated, start again one rung further down, as long as there is one."""
    knowledge = boot_knowledge(ports.profiles.read)
    while True:
        try:
            done = _attempt(climb, how, engines, ports, report, knowledge)
        except EngineError as error:
            by_guard = guarded_death(climb.plan, ports) if error.code in _DEATHS else None
            if by_guard is not None:
                by_guard.causes += error.causes
                raise by_guard from error
            if not how.ladder or error.code != "exited_at_start":
                raise
            climb.step_down(error, report)
            ports.step("up:rung")
            continue
        rungs = tuple(step.rung for step in climb.inputs.steps)
        if done.phase == "ready" and climb.taken:
            learn(climb.inputs, climb.plan, ports)
        ports.step("up:learned")
        return replace(done, rungs_taken=rungs)


_DEATHS = ("exited_at_start", "not_running", "smoke_failed")


def _attempt(
    climb: Climb, how: HowUp, engines: Engines, ports: Ports, report: Reporter, knowledge: BootKnowledge
) -> Up:
    """One start, watched to its answer."""
    plan, host, catalog = climb.plan, climb.inputs.host, climb.catalog
    check_memory(plan, host, how.floor_gib, ports, catalog, report)
    start_guard(plan, host, how.floor_gib, ports, catalog, report)
    ports.step("up:guarded")
    with _undone_on_failure(plan, engines, ports, report):
        engines.start(plan.container, ports.environment)
        ports.step("up:started")
        record_start(plan, ports)
        if how.detach:
            return Up(plan, "starting")
        return _watch(plan, how, engines, ports, report, knowledge)


@contextmanager
def _only_one(ports: Ports) -> Iterator[None]:
    with ports.locks.hold("up", "aeonctl up") as holder:
        if holder is not None:
            raise HostError(
                "up_in_progress",
                "another aeonctl up is at work on this machine",
                cause=holder,
                hint="wait for it, or stop it with Ctrl-C where it runs; aeonctl status shows what it started",
            )
        yield


def _same(existing: EngineRecord, plan: Plan) -> bool:
    """Whether the engine that is there is running what this plan would start."""
    return existing.ours and existing.status in _ALIVE and existing.labels.get(f"{LABEL}.spec-hash") == plan.spec_hash


def _join(plan: Plan, how: HowUp, engines: Engines, ports: Ports, report: Reporter) -> Up:
    """The same engine runs already: follow its boot to the end, without owning it."""
    report.note(f"engine {plan.container.name} already runs this very plan")
    if how.detach:
        reply = ports.http.get(f"{plan.url}/health", timeout=2.0)
        return Up(plan, "ready" if reply is not None and reply.status == 200 else "starting", already=True)
    watched = _watch(plan, how, engines, ports, report, boot_knowledge(ports.profiles.read))
    return Up(watched.plan, watched.phase, already=True, answer=watched.answer, kv_tokens=watched.kv_tokens)


def fetch_missing(
    plan: Plan, asked: Asked, ports: Ports, catalog: Catalog, report: Reporter, timeout: float | None = None
) -> Plan:
    """Pull the image and download the models that are not here, then decide again with what is now known."""
    engines, hub = engines_for(asked, ports), hub_for(asked, ports)
    if not asked.rehearsal and engines.image(plan.image_ref) is None:
        pull_watched(plan.image_ref, plan.image, ports, report, timeout)
    missing = plan.missing_models()
    for facts in missing:
        _need_network(asked, f"model {facts.repo}", f"aeonctl pull-model {facts.repo}")
    ask_first([(facts, facts.to_fetch) for facts in missing], hub, report)
    for facts in missing:
        repo = str(facts.repo)
        report.note(f"making a stand-in for {repo}" if asked.rehearsal else f"downloading {repo}")
        hub.fetch(repo, facts.to_fetch, lambda step, repo=repo: report.fetching(repo, step))  # type: ignore[misc]
    report.settle()
    if not missing:
        return plan
    plan = plan_for(asked, ports, catalog)
    refuse(plan)
    return plan


def _need_network(asked: Asked, what: str, command: str) -> None:
    if asked.offline and not asked.rehearsal:
        raise DownloadError(
            "offline", f"{what} is not on this machine", cause="--offline forbids fetching it", hint=f"first: {command}"
        )


@contextmanager
def _undone_on_failure(plan: Plan, engines: Engines, ports: Ports, report: Reporter) -> Iterator[None]:
    """Stop and remove what was started if it does not come to an answer; its log is kept in a file."""
    try:
        yield
    except BaseException as error:
        ports.step("up:failed")
        told = _undo(plan, engines, ports, report)
        if isinstance(error, AeonError):
            error.causes = (*error.causes, *told)
        else:
            for words in told:
                report.note(words)
        raise


def _undo(plan: Plan, engines: Engines, ports: Ports, report: Reporter) -> list[str]:
    """Stop and remove what this start has made, and say what became of it; a failure of that is said too."""
    name = plan.container.name
    kept: Path | None = None
    told: list[str] = []
    try:
        record = engines.find(name)
        if record is None or not same_spec(record, plan):
            return told
        kept = keep_log(name, engines, ports)
        ports.step("up:undo")
        try:
            stop_engine(record, engines, ports, report, grace=0.0)
        except KeyboardInterrupt:  # an impatient second Ctrl-C must not leave it half-stopped
            stop_engine(record, engines, ports, report, grace=0.0)
        told.append(f"engine {name} was stopped and removed")
    except AeonError as error:
        told.append(f"engine {name} could not be cleared away: {'; '.join((error.message, *error.causes))}")
    if kept is not None:
        told.append(f"its log is kept in {kept}")
    return told


def _watch(plan: Plan, how: HowUp, engines: Engines, ports: Ports, report: Reporter, knowledge: BootKnowledge) -> Up:
    """Follow the boot, then ask the first question: ready means that a completion came back."""
    boot = BootFollower(plan, engines, ports, report, knowledge, how.timeout).follow()
    before = ports.clock.now()
    ports.step("up:healthy")
    report.booting("first answer", "", boot.seconds)
    answer = smoke(plan, engines, ports, knowledge)
    report.settle()
    phases = {**boot.phases, "first answer": round(ports.clock.now() - before, 2)}
    tokens = boot.facts.kv_tokens or kv_tokens(plan, ports)
    return Up(plan, "ready", boot=boot, answer=answer, kv_tokens=tokens, phases=phases)


def smoke(plan: Plan, engines: Engines, ports: Ports, knowledge: BootKnowledge) -> Answer:
    """One chat completion. EngineError exited_at_start when the engine dies of it, smoke_failed for a bad answer."""
    key = _api_key(plan, ports)
    request = smoke_request(plan.served_names[0])
    reply = ports.http.post(f"{plan.url}/v1/chat/completions", request, timeout=_SMOKE_TIMEOUT, key=key)
    answer = None if reply is None else judge_answer(reply.status, reply.json)
    if answer is not None and answer.ok:
        return answer
    name = plan.container.name
    may_be_dying = reply is None or reply.status >= 500
    record = _settled(name, engines, ports) if may_be_dying else engines.find(name)
    if record is None or record.status is EngineStatus.EXITED:
        failure = None if record is None else scan_log(name, engines, knowledge)
        raise death_error(name, record, failure, "at the first question")
    words = "no answer came" if answer is None else answer.words
    failure = scan_log(name, engines, knowledge)
    raise EngineError(
        "smoke_failed",
        f"engine {name} is up, but does not answer",
        cause=(words,) if failure is None else (words, failure.cause),
        hint="a port that answers is not health; read the kept log, named above",
        diagnosis=None if failure is None else failure.id,
    )


def _settled(name: str, engines: Engines, ports: Ports) -> EngineRecord | None:
    """The engine a moment later: a dying one needs some seconds to be gone."""
    record = engines.find(name)
    for _ in range(10):
        if record is None or record.status is EngineStatus.EXITED:
            break
        ports.clock.sleep(0.5)
        record = engines.find(name)
    return record


def scan_log(name: str, engines: Engines, knowledge: BootKnowledge) -> Any:
    """The first cause of failure in an engine's whole log, or None."""
    scan = FailureScan(knowledge.log)
    for chunk in engines.log(name, follow=False):
        scan.read(chunk)
    scan.finish()
    return scan.result()


def _api_key(plan: Plan, ports: Ports) -> str | None:
    return ports.environment.get("VLLM_API_KEY") if "VLLM_API_KEY" in plan.container.env else None


def kv_tokens(plan: Plan, ports: Ports) -> int | None:
    """The size of the KV cache in tokens, as the engine's own metrics tell it."""
    reply = ports.http.get(f"{plan.url}/metrics", timeout=5.0)
    for line in reply.text.splitlines() if reply is not None and reply.status == 200 else ():
        if line.startswith("vllm:cache_config_info{") and 'kv_cache_size_tokens="' in line:
            digits = line.split('kv_cache_size_tokens="', 1)[1].split('"', 1)[0]
            return int(digits) if digits.isdigit() else None
    return None


__all__ = ["HowUp", "RefusedError", "Up", "up"]
