"""``aeonctl verify``: a real conversation with a running engine, probe by probe, and a look at it after each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aeonctl.core.checks import Status
from aeonctl.core.container import LABEL
from aeonctl.core.cures import cure_for, read_cures, up_again
from aeonctl.core.failure import Failure
from aeonctl.core.knowledge import boot_knowledge
from aeonctl.core.loglines import LineSplitter
from aeonctl.core.probes import Probed, Target, Verdict, skipped
from aeonctl.errors import ConfigurationError, EngineError, VerificationError
from aeonctl.ports import EngineRecord, Ports, Reporter
from aeonctl.workflows.find import engine_url, home_of, one_engine, summary_of
from aeonctl.workflows.verify_probes import Conversation, Probe, probes
from aeonctl.workflows.verify_watch import EngineWatch, UrlWatch, Watch

DEFAULT_KEY = "VLLM_API_KEY"
RECORD_VERSION = 1
_CHUNK_LINE = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")


@dataclass(frozen=True)
class HowVerify:
    """How ``verify`` asks: another server's ``url`` and ``model``, the variable with the key, the long prompt's length
    in tokens, and whether to walk up to 92 % of the context."""

    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    length: int | None = None
    soak: bool = False


@dataclass(frozen=True)
class Verified:
    """What came of it: every probe in order, and what the engine's log says when one failed."""

    engine: str
    checks: tuple[Probed, ...]
    spec_hash: str | None = None
    diagnosis: Failure | None = None
    try_line: str | None = None
    try_why: str | None = None
    record: str | None = None
    rehearsal: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True when no probe failed."""
        return not self.failures

    @property
    def failures(self) -> list[Probed]:
        """The probes that failed."""
        return [check for check in self.checks if check.status is Status.FAIL]

    def as_json(self) -> dict[str, Any]:
        """``data`` of ``verify --json``."""
        return {
            "checks": [check.model_dump(mode="json") for check in self.checks],
            "passed": self.passed,
            "engine": self.engine,
            "spec_hash": self.spec_hash,
            "record": self.record,
            "diagnosis": None if self.diagnosis is None else self.diagnosis.model_dump(mode="json"),
            "try": self.try_line,
            "rehearsal": self.rehearsal,
            **self.facts,
        }

    def error(self) -> VerificationError | None:
        """The error that the command ends with: the first probe that failed, and the first cause in the log."""
        if self.passed:
            return None
        first = self.failures[0]
        causes = [first.summary, *([first.detail] if first.detail else [])]
        if self.diagnosis is not None:
            causes.append(self.diagnosis.cause)
            if self.diagnosis.line and self.diagnosis.line not in self.diagnosis.cause:
                causes.append(f"log line {self.diagnosis.line_no}: {self.diagnosis.line}")
        remedy = self.diagnosis.remedy if self.diagnosis is not None else None
        return VerificationError(
            first.code or "probe_failed",
            f"{self.engine} failed the probe {first.id}",
            cause=tuple(causes),
            hint=self.try_line or first.remedy or remedy or self._where_to_look(),
            probe=first.id,
            diagnosis=None if self.diagnosis is None else self.diagnosis.id,
            try_line=self.try_line,
        )

    def _where_to_look(self) -> str:
        if "://" in self.engine:
            return "its own log says more; aeonctl reads only what the server answers"
        return f"aeonctl logs {self.engine} shows what the engine wrote"


def verify(
    name: str | None, how: HowVerify, ports: Ports, report: Reporter, on_check: Callable[[Probed], None]
) -> Verified:
    """Run every probe in order; ``on_check`` hears each as it is done. No failed probe is an exception.

    EngineError not_running when there is no engine; ConfigurationError api_key_missing when the engine asks for a key
    and the variable that should hold it is not set; HostError when the record cannot be kept.
    """
    if how.url is not None:
        return _verify_url(how.url.rstrip("/").removesuffix("/v1"), how, ports, report, on_check)
    record = one_engine(name, ports, report)
    url = engine_url(record) if record is not None else None
    if record is None or url is None:
        raise EngineError(
            "not_running",
            "there is no engine" + (f" called {name}" if name else ""),
            hint="aeonctl status lists them; verify --url URL asks a server that aeonctl did not start",
        )
    if record.rehearsal:
        report.note(f"engine {record.name} is a rehearsal: no GPU, no model")
    knowledge = boot_knowledge(ports.profiles.read)
    watch = EngineWatch(record, url, home_of(record, ports), ports, knowledge)
    try:
        checks, talk = _run(_target(record, how, ports), url, how, watch, ports, on_check)
        done = _told(record.name, checks, watch, ports, record)
    finally:
        watch.close()
    return _recorded(done, talk, record, how, ports)


def _verify_url(
    url: str, how: HowVerify, ports: Ports, report: Reporter, on_check: Callable[[Probed], None]
) -> Verified:
    """A server that aeonctl did not start: its options are found out by asking, and no record is kept."""
    report.note(f"{url}: no log and no process can be looked at, only what it answers")
    watch = UrlWatch(url, ports)
    target = Target(model=how.model or "", keyed=True if how.key_env else None)
    checks, _ = _run(target, url, how, watch, ports, on_check)
    return _told(url, checks, watch, ports, None)


def _run(
    target: Target, url: str, how: HowVerify, watch: Watch, ports: Ports, on_check: Callable[[Probed], None]
) -> tuple[tuple[Probed, ...], Conversation]:
    key = ports.environment.get(how.key_env or DEFAULT_KEY) or None
    if key is None and (how.key_env or _asks_for_key(url, ports)):
        raise _no_key(how.key_env or DEFAULT_KEY)
    seed = int(ports.clock.timestamp() * 10) % 1_000_000
    talk = Conversation(target, url, key, ports, how.length, seed)
    checks: list[Probed] = []
    pending = list(probes(soak=how.soak))
    while pending:
        probe = pending.pop(0)
        check = _one(probe, talk, watch, checks, ports)
        checks.append(check)
        on_check(check)
        pending = [*talk.take_more(), *pending]
    return tuple(checks), talk


def _one(probe: Probe, talk: Conversation, watch: Watch, before: list[Probed], ports: Ports) -> Probed:
    """One probe and the look at the engine after it."""
    began = ports.clock.now()
    verdict = _hindrance(probe, watch, before)
    if verdict is None:
        verdict = watch.look(probe.id, probe.ask(talk), expects_refusal=probe.expects_refusal)
    seconds = round(ports.clock.now() - began, 2)
    return Probed(
        id=probe.id,
        status=verdict.status,
        summary=verdict.summary,
        seconds=seconds,
        code=None if verdict.status in (Status.PASS, Status.SKIP) else verdict.code,
        detail=verdict.detail,
        remedy=verdict.remedy,
    )


def _hindrance(probe: Probe, watch: Watch, before: list[Probed]) -> Verdict | None:
    """Why a probe would say nothing new; None when it would."""
    broken = next((check for check in before if check.status is Status.FAIL), None)
    if watch.died and broken is not None:
        return skipped(f"the engine is not there any more after {broken.id}" if broken.id != "health" else "no engine")
    failed_needs = [check.id for check in before if check.id in probe.needs and check.status is Status.FAIL]
    return skipped(f"{failed_needs[0]} failed already") if failed_needs else None


def _target(record: EngineRecord, how: HowVerify, ports: Ports) -> Target:
    """What the engine's label says of it, and its log where the label does not."""
    summary = summary_of(record)
    chunk = summary.get("max_num_batched_tokens") or _chunk_in_log(record, ports)
    context = str(summary.get("max_model_len") or "")
    names = tuple(str(name) for name in summary.get("served_names") or ())
    return Target(
        model=how.model or (names[0] if names else ""),
        served_names=names,
        max_model_len=int(context) if context.isdigit() else None,
        thinking=summary.get("thinking"),
        tools=summary.get("tools"),
        vision=summary.get("vision"),
        max_num_seqs=summary.get("max_num_seqs"),
        max_num_batched_tokens=chunk,
        keyed=True if how.key_env else summary.get("keyed"),
    )


def _chunk_in_log(record: EngineRecord, ports: Ports) -> int | None:
    """The size of a prefill chunk that vLLM chose for itself, as its boot says; None when it does not."""
    splitter = LineSplitter()
    for chunk in home_of(record, ports).log(record.name, follow=False):
        for line in splitter.feed(chunk):
            if found := _CHUNK_LINE.search(line):
                return int(found[1])
    return None


def _told(name: str, checks: tuple[Probed, ...], watch: Watch, ports: Ports, record: EngineRecord | None) -> Verified:
    """The result with the log's first cause and the command to try, where a probe failed."""
    done = Verified(name, checks, rehearsal=record is not None and record.rehearsal)
    if done.passed or record is None:
        return done
    diagnosis = watch.diagnosis()
    findings = [diagnosis.id] if diagnosis is not None else []
    cure = cure_for([*findings, *(check.code or "" for check in done.failures)], read_cures(ports.profiles.read))
    summary = summary_of(record)
    words = summary.get("up") or _words(record, summary)
    line = None if cure is None else up_again(words, cure.settings, summary)
    why = None if cure is None or line is None else cure.why
    return replace(done, diagnosis=diagnosis, try_line=line, try_why=why)


def _words(record: EngineRecord, summary: Mapping[str, Any]) -> list[str]:
    """The words of ``up`` for an engine whose label does not hold them."""
    words = ["--seat", record.labels.get(f"{LABEL}.seat", ""), "--name", record.name]
    return words + (["--port", str(summary["port"])] if summary.get("port") else [])


def _recorded(done: Verified, talk: Conversation, record: EngineRecord, how: HowVerify, ports: Ports) -> Verified:
    """Keep what was found under the engine's spec hash; a failure takes the place of an earlier pass."""
    spec_hash = record.labels.get(f"{LABEL}.spec-hash")
    facts = {"length": talk.asked_length, "soak": how.soak}
    if not spec_hash:
        return replace(done, facts=facts)
    content = {
        "verification": RECORD_VERSION,
        "spec_hash": spec_hash,
        "passed": done.passed,
        "at": ports.clock.timestamp(),
        "engine": record.name,
        "seat": record.labels.get(f"{LABEL}.seat"),
        "image": record.image,
        "rehearsal": record.rehearsal,
        **facts,
        "checks": [check.model_dump(mode="json") for check in done.checks],
    }
    path = ports.records.save(spec_hash, content)
    return replace(done, spec_hash=spec_hash, record=str(path), facts=facts)


def _asks_for_key(url: str, ports: Ports) -> bool:
    reply = ports.http.get(f"{url}/v1/models", timeout=10.0)
    return reply is not None and reply.status == 401


def _no_key(variable: str) -> ConfigurationError:
    return ConfigurationError(
        "api_key_missing",
        f"the key for this engine is not here: {variable} is not set",
        cause="it was started with a key, and every request under /v1 needs it",
        hint=f"export {variable}=…, or name another variable: --key-env NAME",
    )
