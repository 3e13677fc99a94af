"""What a log means together with what is known beside it: a verdict, and findings, the root cause first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.failure import Failure, FailureScan
from aeonctl.core.judgements import Judgement, first_true
from aeonctl.core.knowledge import DiagnosisKnowledge
from aeonctl.core.phases import Phase
from aeonctl.core.signatures import Rung, Severity

_LEAST_GRAPHS_GIB = 1.0
"""An estimate for CUDA graphs below this is what every start sets aside."""


class Verdict(StrEnum):
    """What the log shows."""

    FAILED = "failed"
    HEALTHY = "healthy"
    UNCLEAR = "unclear"


class Finding(Value):
    """One thing that the log says. ``severity`` is fatal | benign | info; ``line_no`` is 0 when no line says it."""

    id: str
    severity: str
    line_no: int
    line: str
    cause: str
    remedy: str
    source: str
    command: str = ""
    """What to type, where aeonctl can do something about it."""
    because: tuple[str, ...] = ()
    """Why it is believed."""
    details: tuple[str, ...] = ()
    facts: dict[str, str | int | float] = Field(default_factory=dict)
    rung: Rung = Rung.NONE
    count: int = 1


class Diagnosis(Value):
    """The whole answer. ``would_help`` is what an unclear one lacks, or what would decide between causes."""

    verdict: Verdict
    summary: str
    phase: Phase
    lines: int
    findings: tuple[Finding, ...] = ()
    would_help: tuple[str, ...] = ()

    @property
    def root(self) -> Finding | None:
        """The root cause of a failure."""
        first = next(iter(self.findings), None)
        return first if first is not None and self.verdict is Verdict.FAILED else None


def diagnose(
    scan: FailureScan, knowledge: DiagnosisKnowledge, host: Mapping[str, Any], seat: str | None = None
) -> Diagnosis:
    """Judge a log that was read to its end. ``host`` are facts by their names; an absent one is unknown."""
    failure = scan.result()
    if failure is None and _known_to_have_ended(host, scan):
        failure = scan.leftover()
    facts = _facts(scan, failure, host)
    judged = first_true(knowledge.judgements, facts)
    fatal = [] if failure is None else [_found(failure, scan, seat)]
    if judged is not None:
        fatal = [_judged(judged, scan, facts, seat), *fatal]
    if fatal:
        fatal[0] = fatal[0].model_copy(update={"because": (*fatal[0].because, *_beside(fatal[0].id, host))})
        named = {finding.id for finding in fatal}
        fatal += [_found(cause, scan, seat) for cause in scan.causes if cause.id not in named]
    verdict = _verdict(bool(fatal), scan, host)
    offers = _offers(knowledge.judgements, facts, {finding.id for finding in fatal}) if verdict is not _OK else []
    return Diagnosis(
        verdict=verdict,
        summary=_summary(verdict, fatal, scan, host),
        phase=scan.phase,
        lines=scan.lines,
        findings=(*_distinct(fatal), *(_offered(offer, seat) for offer in offers), *_remarks(scan, seat)),
        would_help=_would_help(verdict, offers, host),
    )


_OK = Verdict.HEALTHY


def _known_to_have_ended(host: Mapping[str, Any], scan: FailureScan) -> bool:
    return host.get("exit_code") not in (None, 0) and not scan.stopping


def _verdict(failed: bool, scan: FailureScan, host: Mapping[str, Any]) -> Verdict:
    if failed:
        return Verdict.FAILED
    code = host.get("exit_code")
    stopped = scan.stopping or code in (None, 0) or host.get("container_running")
    if (scan.ready and stopped) or (scan.stopping and code in (None, 0)):
        return Verdict.HEALTHY
    return Verdict.UNCLEAR


def _facts(scan: FailureScan, failure: Failure | None, host: Mapping[str, Any]) -> dict[str, Any]:
    healthy = failure is None and (scan.ready or scan.stopping)
    ended = "failed" if failure is not None else "healthy" if healthy else "silent"
    if failure is None and scan.ready and _known_to_have_ended(host, scan):
        ended = "silent"
    return {
        **{f"log.{name}": value for name, value in scan.facts.items()},
        "log.cause": "none" if failure is None else failure.id,
        "log.phase": scan.phase.value,
        "log.ready": scan.ready,
        "log.healthy": healthy and ended != "silent",
        "log.ended": ended,
        "log.seconds": scan.seconds,
        "log.nccl_last": "nccl" in scan.facts and scan.phase.rank <= Phase.ENGINE.rank,
        "log.graphs_take_what_is_missing": _graphs_are_the_gap(scan, failure),
        **{f"host.{name}": value for name, value in host.items()},
    }


def _graphs_are_the_gap(scan: FailureScan, failure: Failure | None) -> bool:
    """Whether the KV cache would have had what it lacks without what is set aside for CUDA graphs."""
    graphs, kv = scan.facts.get("graphs_gib"), scan.facts.get("kv_gib")
    if failure is None or not isinstance(graphs, int | float) or graphs < _LEAST_GRAPHS_GIB:
        return False
    needed, available = failure.facts.get("needed_gib"), failure.facts.get("available_gib", kv)
    if isinstance(needed, int | float) and isinstance(available, int | float):
        return graphs >= needed - available
    return not isinstance(available, int | float) or available + graphs > 0


def _found(failure: Failure, scan: FailureScan, seat: str | None) -> Finding:
    because = [f"line {failure.line_no} says it"] if failure.line_no else []
    first = failure.id not in {"engine-died-at-runtime", "engine-exited-without-cause"}
    if first and "Engine core initialization failed" not in failure.line:
        because.append(f"nothing above it in this start is a cause; the start had come to phase {scan.phase.value}")
    return Finding(
        id=failure.id,
        severity=Severity.FATAL.value,
        line_no=failure.line_no,
        line=failure.line,
        cause=failure.cause,
        remedy=_remedy(failure.command, failure.remedy, failure.facts, seat),
        source=failure.source,
        command=_filled(failure.command, failure.facts, seat),
        because=tuple(because),
        details=failure.details,
        facts=dict(failure.facts),
        rung=failure.rung,
    )


def _judged(judgement: Judgement, scan: FailureScan, facts: Mapping[str, Any], seat: str | None) -> Finding:
    return Finding(
        id=judgement.id,
        severity=Severity.FATAL.value,
        line_no=scan.lines if facts["log.ended"] == "silent" else 0,
        line=scan.last_line if facts["log.ended"] == "silent" else "",
        cause=judgement.cause,
        remedy=_remedy(judgement.command, judgement.remedy, {}, seat),
        source=judgement.source,
        command=_filled(judgement.command, {}, seat),
        because=judgement.reasons(facts),
        rung=judgement.rung,
    )


def _beside(ident: str, host: Mapping[str, Any]) -> tuple[str, ...]:
    """What the host's facts add to a cause that the log names."""
    words = []
    if isinstance(count := host.get("restart_count"), int) and count > 1:
        words.append(
            f"it was restarted {count} times (policy {host.get('restart_policy', 'unknown')}): stop that first"
        )
    if ident == "port-in-use" and "port_owner" in host:
        words.append(f"the port is held by {host['port_owner']}")
    if ident == "checkpoint-file-corrupt-or-partial" and "tiny_file" in host:
        words.append(f"{host['tiny_file']} is far too small to be weights")
    return tuple(words)


def _offers(judgements: Sequence[Judgement], facts: Mapping[str, Any], named: set[str]) -> list[Judgement]:
    """Other causes that the text allows, while what decides is unknown."""
    offers: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.offer and judgement.id not in named and judgement.judge(facts) is None:
            offers.setdefault(judgement.id, judgement)
    return list(offers.values())


def _offered(judgement: Judgement, seat: str | None) -> Finding:
    return Finding(
        id=judgement.id,
        severity=Severity.INFO.value,
        line_no=0,
        line="",
        cause=f"Possible too: {judgement.cause}",
        remedy=_remedy(judgement.command, judgement.remedy, {}, seat),
        source=judgement.source,
        because=(f"what decides: {judgement.decides}",),
        rung=judgement.rung,
    )


def _remarks(scan: FailureScan, seat: str | None) -> list[Finding]:
    findings = [
        Finding(
            id=remark.row.id,
            severity=(Severity.BENIGN if remark.row.severity is Severity.BENIGN else Severity.INFO).value,
            line_no=remark.line_no,
            line=remark.line,
            cause=remark.row.cause,
            remedy=_remedy(remark.row.command, remark.row.remedy, {}, seat),
            source=remark.row.source,
            because=("it only says that something failed, never why",)
            if remark.row.severity is Severity.CONSEQUENCE
            else (),
            count=remark.count,
        )
        for remark in scan.remarks.values()
    ]
    return sorted(findings, key=lambda finding: (finding.severity != Severity.INFO.value, finding.line_no))


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    return list({finding.id: finding for finding in reversed(findings)}.values())[::-1]


def _remedy(command: str, words: str, facts: Mapping[str, Any], seat: str | None) -> str:
    filled = _filled(command, facts, seat)
    return f"{filled}  # {words}" if filled and words else filled or words


def _filled(command: str, facts: Mapping[str, Any], seat: str | None) -> str:
    """The command line with its facts; empty when one of them is not known."""
    wanted = re.findall(r"\{(\w+)\}", command)
    if any(name not in facts for name in wanted):
        return ""
    for name in wanted:
        command = command.replace(f"{{{name}}}", str(facts[name]))
    return re.sub(r"\bSEAT\b", seat, command) if seat else command


def _summary(verdict: Verdict, fatal: Sequence[Finding], scan: FailureScan, host: Mapping[str, Any]) -> str:
    if fatal:
        return fatal[0].cause
    if verdict is Verdict.HEALTHY:
        return "It was stopped on request." if scan.stopping else "The engine started and serves."
    code = host.get("exit_code")
    ended = f", and it ended with exit code {code}" if code is not None else ""
    return (
        f"The log holds no cause: it stops in phase {scan.phase.value}{ended}." if scan.lines else "The log is empty."
    )


def _would_help(verdict: Verdict, offers: Sequence[Judgement], host: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = [offer.decides for offer in offers if offer.decides]
    if verdict is Verdict.UNCLEAR:
        if host.get("exit_code") is None:
            wanted.append("how it ended: docker inspect -f '{{.State.ExitCode}} {{.State.OOMKilled}}' NAME")
        wanted.append("the kernel's log of that time: journalctl -k | grep -iE 'oom|NVRM|dxg'")
        wanted.append("the log from its first line, and its last lines if it still grows")
        wanted.append("facts like these in a file: aeonctl diagnose LOG --host-facts FILE")
    return tuple(dict.fromkeys(wanted))
