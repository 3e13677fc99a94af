"""How long work is shown: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aeonctl.cli.output import Output
from aeonctl.core.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from aeonctl.core.plan import Plan
    from aeonctl.ports import FetchProgress, PullProgress

_STEP = 10
"""Percent between two lines of a download where there is no terminal."""


def say_plan(plan: Plan, output: Output, *, explain: bool = False, advice: bool = True) -> None:
    """What was changed and why, what to know, and what is waived; the seat's own advice only where it is looked for."""
    from aeonctl.core.plan import ADVISORY

    if explain:
        output.say(f"{plan.seat}: {plan.title}")
    for decision in plan.decisions:
        before, after = short_value(decision.before), short_value(decision.after)
        output.say(f"{output.style('changed', 'bold')}: {decision.option}: {before} -> {after} [{decision.rule}]")
        output.say(f"         {decision.why}" + (f" ({decision.source})" if explain else ""))
    for remark in plan.warnings:
        if remark.rule == ADVISORY:
            if advice:
                output.say(f"{output.style('note', 'hint')}: {remark.message}")
            continue
        output.warn(f"{remark.message} [{remark.rule}]")
        if remark.remedy:
            output.say(f"         {remark.remedy}")
    for rule in plan.waived:
        output.warn(f"rule {rule} is waived")


def short_value(value: object) -> str:
    """A value in a line: text as it is, ``not set`` for nothing, the rest as JSON."""
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_OWN_BAR_BYTES = 64 * 1024 * 1024
"""A file of so many bytes has a bar of its own while it comes; the others are over before one reads their names."""


class LineReporter:
    """Plain lines: one per boot phase, one per ten percent of a download."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._last: dict[str, int] = {}
        self._phase = ""

    def note(self, text: str) -> None:
        """See Reporter."""
        self._output.note(text)

    def warn(self, text: str) -> None:
        """See Reporter."""
        self._output.warn(text)

    def planned(self, plan: Plan) -> None:
        """See Reporter."""
        say_plan(plan, self._output, advice=False)

    def pulling(self, ref: str, step: PullProgress) -> None:
        """See Reporter."""
        self._percent(f"{step.phase} {ref}", step.done, step.total)

    def fetching(self, repo: str, step: FetchProgress) -> None:
        """See Reporter."""
        self._percent(f"download {repo}", step.bytes_done, step.bytes_total)

    def booting(self, phase: str, detail: str, elapsed: float) -> None:
        """See Reporter."""
        if phase != self._phase:
            self._phase = phase
            self._output.note(f"{human_seconds(elapsed):>12}  {phase}" + (f"  ({detail})" if detail else ""))

    def settle(self) -> None:
        """See Reporter."""
        self._last.clear()

    def _percent(self, what: str, done: int, total: int) -> None:
        if total <= 0:
            return
        percent = min(100, 100 * done // total) // _STEP * _STEP
        if percent > self._last.get(what, -1):
            self._last[what] = percent
            self._output.note(f"{what}: {percent}% of {human_bytes(total)}")


class TerminalReporter(LineReporter):
    """Bars and a moving line. A phase that is over stays on the screen as a line."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._began = 0.0
        self._elapsed = 0.0

    def note(self, text: str) -> None:
        """See Reporter; printed above what moves."""
        self._above(lambda: self._output.note(text))

    def warn(self, text: str) -> None:
        """See Reporter; printed above what moves."""
        self._above(lambda: self._output.warn(text))

    def pulling(self, ref: str, step: PullProgress) -> None:
        """See Reporter."""
        self._bar(f"{step.phase} {_short(ref)}", step.done, step.total)

    def fetching(self, repo: str, step: FetchProgress) -> None:
        """See Reporter."""
        files = f" ({step.files_done}/{step.files_total} files)" if step.files_total else ""
        self._bar(f"download {repo}", step.bytes_done, step.bytes_total, f"download {_short(repo)}{files}")
        if step.file is not None and step.file_total >= _OWN_BAR_BYTES:
            self._bar(step.file, step.file_done, step.file_total, f"  {_short(step.file)}")
            if step.file_done >= step.file_total and self._bars is not None:
                self._bars.remove_task(self._tasks.pop(step.file))

    def booting(self, phase: str, detail: str, elapsed: float) -> None:
        """See Reporter."""
        if phase != self._phase:
            if self._phase:
                self._finish_phase(elapsed)
            self._phase, self._began = phase, elapsed
        words = f"{phase}  {detail}" if detail else phase
        self._spin(self._output.style("rehearsal  ", "warning") + words if self._output.rehearsal else words, elapsed)
        self._elapsed = elapsed

    def settle(self) -> None:
        """See Reporter."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
        self._tasks.clear()
        if self._phase and self._phase != "ready":
            self._finish_phase(self._elapsed)
        self._phase = ""

    def _finish_phase(self, elapsed: float) -> None:
        phase, took = self._phase, elapsed - self._began
        done = self._output.style("done", "good")
        self._above(lambda: self._output.say(f"  {done}  {phase:<10} {human_seconds(took)}"))

    def _above(self, print_it: object) -> None:
        bars, self._bars = self._bars, None
        if bars is not None:
            bars.stop()
            self._tasks.clear()
        if callable(print_it):
            print_it()

    def _bar(self, key: str, done: int, total: int, words: str | None = None) -> None:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        bars = self._start(columns)
        if key not in self._tasks:
            self._tasks[key] = bars.add_task(words or key, total=total or None)
        bars.update(self._tasks[key], completed=done, total=total or None, description=words or key)

    def _spin(self, words: str, elapsed: float) -> None:
        from rich.progress import SpinnerColumn, TextColumn

        bars = self._start((SpinnerColumn(), TextColumn("{task.description}", markup=False)))
        text = f"{human_seconds(elapsed):>10}  {words}"
        if "boot" not in self._tasks:
            self._tasks["boot"] = bars.add_task(text, total=None)
        bars.update(self._tasks["boot"], description=text)

    def _start(self, columns: tuple[object, ...]) -> Progress:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)  # type: ignore[arg-type]
            self._bars.start()
        return self._bars


def _short(name: str, limit: int = 44) -> str:
    """A long reference without its digest, cut in the middle."""
    name = name.partition("@")[0]
    return name if len(name) <= limit else f"{name[: limit // 2 - 1]}…{name[-limit // 2 :]}"


def reporter_for(output: Output) -> LineReporter:
    """Bars where a person looks, lines elsewhere."""
    return TerminalReporter(output) if output.is_terminal else LineReporter(output)
