"""What the planner decided: one value from which everything shown and everything done is derived."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.core.container import ContainerSpec, docker_run_lines
from aeonctl.core.image import ImageFacts
from aeonctl.core.model import ModelFacts

_CONTAINER_FIELDS = {"name", "env", "network", "ipc", "shm_size", "gpus", "runtime", "oom_score_adj", "core_dumps"}


class Request(Value):
    """What the user asked for, parsed but not judged.

    ``env`` are ``NAME=VALUE`` words or bare names; a value that is secret is not in here but in the caller's hands.
    """

    seat: str
    settings: tuple[str, ...] = ()
    env: dict[str, str | None] = Field(default_factory=dict)
    model: str | None = None
    drafter: str | None = None
    image: str | None = None
    port: int | None = None
    lan: bool = False
    name: str | None = None
    waive: tuple[str, ...] = ()
    rehearsal: bool = False
    guard: bool | None = None
    """``--guard`` or ``--no-guard``; None leaves it to the host: on where memory is unified."""


class Decision(Value):
    """A value that a rule, the host or the user changed, and why."""

    option: str
    before: Any = None
    after: Any = None
    rule: str
    why: str
    source: str


ADVISORY = "seat-advisory"
"""The rule of a remark that is a seat's own advice, true for everyone."""


class Remark(Value):
    """Something that the user should know before the start."""

    rule: str
    message: str
    remedy: str | None = None
    source: str


class Refusal(Value):
    """A reason not to start. ``rule`` is the id that ``--waive`` takes."""

    rule: str
    why: str
    remedy: str | None = None
    source: str


class Fit(Value):
    """Whether the weights leave room in the engine's memory budget, in GiB; None where a size is unknown."""

    fits: bool | None = None
    usable_gib: float | None = None
    budget_gib: float | None = None
    weights_gib: float | None = None
    left_gib: float | None = None


class Plan(Value):
    """One decided start of one seat on one host."""

    seat: str
    title: str
    host: str
    recorded_host: bool
    rehearsal: bool
    image: ImageFacts
    model: ModelFacts
    drafter: ModelFacts | None
    container: ContainerSpec
    port: int
    served_names: tuple[str, ...]
    max_model_len: str | None
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[Remark, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    waived: tuple[str, ...] = ()
    fit: Fit = Fit()
    spec_hash: str
    thinking: bool = False
    boot_seconds: dict[str, float] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    """The engine's options as they were decided, by canonical name."""
    unified: bool = False
    """Whether the engine lives in the memory of the operating system: a GPU with unified memory."""
    guarded: bool = False
    """Whether a memory guard watches the engine."""

    @property
    def url(self) -> str:
        """Where the engine answers, seen from this machine."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def published_on(self) -> str:
        """The address that others reach the engine on."""
        return self.container.publish[0].host_ip if self.container.publish else "127.0.0.1"

    @property
    def image_ref(self) -> str:
        """What is run: the reference with its digest."""
        return self.container.image

    def missing_models(self) -> tuple[ModelFacts, ...]:
        """The model and the drafter, as far as they are not on the disk."""
        parts = (self.model, self.drafter)
        return tuple(part for part in parts if part is not None and not part.present)

    def run_lines(self) -> list[str]:
        """The printed ``docker run``, line by line."""
        return docker_run_lines(self.container)

    def as_json(self) -> dict[str, Any]:
        """The plan as ``plan --json`` shows it; no secret is in it, since none is in the plan."""
        spec = self.container
        container = spec.model_dump(mode="json", include=_CONTAINER_FIELDS)
        container |= {
            "mounts": [
                {"type": m.type, "source": m.source, "target": m.target, "read_only": m.read_only} for m in spec.mounts
            ],
            "publish": [f"{p.host_ip}:{p.host_port}:{p.container_port}" for p in spec.publish],
            "restart": spec.restart,
            "entrypoint": spec.entrypoint,
            "labels": dict(spec.labels),
        }
        return {
            "seat": self.seat,
            "title": self.title,
            "host": self.host,
            "recorded_host": self.recorded_host,
            "rehearsal": self.rehearsal,
            "image": {
                "ref": self.image.ref,
                "digest": self.image.digest,
                "platform": f"linux/{self.image.arch}" if self.image.arch else None,
                "facts_from": self.image.facts_from,
                "vllm": self.image.vllm,
                "sm": self.image.sm,
                "row": self.image.row,
                "tag_digest": self.image.tag_digest,
                "platforms": self.image.platforms,
                "compressed_bytes": self.image.compressed_bytes,
                "unpacked_bytes": self.image.unpacked_bytes,
                "bytes_moved": self.image.bytes_moved,
            },
            "model": self._model_json(self.model),
            "drafter": None if self.drafter is None else self._model_json(self.drafter),
            "container": container,
            "command": list(spec.command),
            "decisions": [decision.model_dump(mode="json") for decision in self.decisions],
            "warnings": [remark.model_dump(mode="json") for remark in self.warnings],
            "refusals": [refusal.model_dump(mode="json") for refusal in self.refusals],
            "waived": list(self.waived),
            "fit": self.fit.model_dump(mode="json"),
            "spec_hash": self.spec_hash,
        }

    @staticmethod
    def _model_json(facts: ModelFacts) -> dict[str, Any]:
        return facts.model_dump(
            mode="json", include={"repo", "revision", "present", "layout", "path", "bytes", "quantization", "gated"}
        )
