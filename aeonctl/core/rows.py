"""The kinds of row under profiles/: cards, images, models, seats and rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from aeonctl.core.base import Row, Value
from aeonctl.core.host import SM, MemoryKind
from aeonctl.core.image import is_digest
from aeonctl.core.units import docker_bytes

Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.\-]*(/[a-z0-9][a-z0-9.\-]*)?$")]


class Card(Row):
    """A GPU product class. A GPU is of this class when ``sm``, memory kind and VRAM range agree; names only confirm."""

    id: Id
    title: str
    names: tuple[str, ...] = ()
    sm: SM
    memory: MemoryKind
    vram_gib: tuple[float, float]
    bandwidth_gb_s: float | None = None
    notes: tuple[str, ...] = ()

    @field_validator("vram_gib", mode="before")
    @classmethod
    def _range(cls, value: object) -> object:
        return tuple(float(v) for v in value) if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.vram_gib[0] > self.vram_gib[1]:
            message = "vram_gib is [least, most]"
            raise ValueError(message)
        return self


class ImageRow(Row):
    """An image that the catalogue knows. ``advice`` maps a compute capability to what its owner should be told."""

    id: Id
    family: Literal["aeon", "vllm"]
    ref: str
    digest: str | None = None
    also: tuple[str, ...] = ()
    platforms: tuple[str, ...]
    sm: tuple[SM, ...] = ()
    ptx: tuple[SM, ...] = ()
    not_for: str | None = None
    not_for_sm: tuple[SM, ...] = ()
    cuda: str | None = None
    driver_branch_min: int | None = None
    vllm: str | None = None
    cpu_only: bool = False
    pull_bytes: int | None = None
    local_bytes: int | None = None
    entrypoint: tuple[str, ...] | None = None
    advice: dict[str, str] = Field(default_factory=dict)

    @field_validator("digest")
    @classmethod
    def _digest(cls, value: str | None) -> str | None:
        if value is not None and not is_digest(value):
            message = "a digest is sha256: and 64 hexadecimal digits"
            raise ValueError(message)
        return value


class ModelRow(Row):
    """A model (or a drafter) on the hub. ``bytes`` is the size of its weights; rules ask for ``quantization``."""

    id: Id
    repo: str
    revision: str | None = None
    bytes: int | None = None
    quantization: str | None = None
    architecture: str | None = None
    context: int | None = None
    vision: bool = False
    thinking: bool = False
    mtp: bool = False
    gated: bool = False
    kind: Literal["model", "drafter"] = "model"


class SeatContainer(Value):
    """The container around the engine. ``volumes`` maps a named volume or ``hub-home`` to a writable mount point;
    ``port`` is where the engine listens inside; ``pass_env`` are variables handed on by name, never by value."""

    name: str
    ipc: Literal["host"] | None = None
    shm_size: str | None = None
    network: Literal["bridge", "host"] = "bridge"
    runtime: str | None = None
    gpus: bool = True
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    env: dict[str, str] = Field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    volumes: dict[str, str] = Field(default_factory=dict)

    @field_validator("shm_size")
    @classmethod
    def _size(cls, value: str | None) -> str | None:
        if value is not None:
            docker_bytes(value)
        return value


class SeatModel(Value):
    """Which model a seat serves, and how the engine is told: by the mount point (``/model``) or by the hub's name,
    found in the mounted cache (``by: repo``). ``mount`` is where a folder given by the user goes, too."""

    id: Id
    by: Literal["mount", "repo"] = "mount"
    mount: str = "/model"
    positional: bool = True


class SeatDrafter(Value):
    """The drafter of a seat: its row, and the mount point that the speculative config names."""

    id: Id
    mount: str = "/drafter"


class Seat(Row):
    """A named operating point for a card: model + image + engine options.

    ``vram_gib_min`` is the least memory (usable, per GPU) that the seat was made for. ``boot_seconds`` are budgets per
    phase; ``advisories`` are shown on every plan.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.\-]*/[a-z0-9][a-z0-9.\-]*$")]
    title: str
    card: Id | None = None
    gpus: Annotated[int, Field(ge=0, le=16)] = 1
    image: Id
    model: SeatModel
    drafter: SeatDrafter | None = None
    vram_gib_min: float | None = None
    container: SeatContainer
    options: dict[str, Any]
    boot_seconds: dict[str, float] = Field(default_factory=dict)
    advisories: tuple[str, ...] = ()
    reported: dict[str, Any] = Field(default_factory=dict)

    @field_validator("options", mode="before")
    @classmethod
    def _writable(cls, value: object) -> object:
        """Numbers are written as text, so that ``0.90`` stays ``0.90``; a list holds text."""
        if not isinstance(value, dict):
            return value
        return {str(name).removeprefix("--"): _option(str(name), item) for name, item in value.items()}

    @property
    def card_id(self) -> str:
        """The part before the slash."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The part after the slash: what ``--seat quality`` means."""
        return self.id.partition("/")[2]


def _option(name: str, value: object) -> object:
    if isinstance(value, float):
        message = f"option {name}: write the number in quotes, so that its digits stay"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns ValueError into a named error
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, str | bool | dict):
        return value
    message = f"option {name}: a switch, text, a list or a JSON object"
    raise ValueError(message)


class Bound(Value):
    """A limit on a numeric option; ``when_unset`` also applies it where nobody set the option."""

    option: str
    value: str
    when_unset: bool = False


class Setting(Value):
    """A value for exactly one of: an option, an environment variable, a container setting."""

    option: str | None = None
    env: str | None = None
    container: Literal["restart", "runtime"] | None = None
    value: str | None
    when_unset: bool = False

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(part is not None for part in (self.option, self.env, self.container)) != 1:
            message = "set exactly one of option, env, container"
            raise ValueError(message)
        return self


class Named(Value):
    """An option (dotted path) or an environment variable that must, or must not, be set."""

    option: str | None = None
    env: str | None = None


class Then(Value):
    """What a rule does: exactly one verb of the closed vocabulary."""

    cap: Bound | None = None
    floor: Bound | None = None
    set: Setting | None = None
    forbid: Named | None = None
    require: Named | None = None
    refuse: str | None = None
    warn: str | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> Self:
        if len(self.model_fields_set) != 1:
            message = "a rule does exactly one of cap, floor, set, forbid, require, refuse, warn"
            raise ValueError(message)
        return self


Condition = bool | int | float | str | list[Any] | dict[str, Any] | None


class Rule(Row):
    """When the facts are so, then this; with its reason, its source and a way out.

    ``when`` maps dotted facts (``host.platform``, ``option.kv-cache-dtype``, ``image.family``) to what they must be:
    a value, a list of values, or operators (``lt le gt ge not in present``). A list of such maps means any of them. A
    condition on an unknown fact does not hold.
    """

    id: Id
    when: list[dict[str, Any]]
    then: Then
    remedy: str | None = None

    @field_validator("when", mode="before")
    @classmethod
    def _alternatives(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value


class Change(Value):
    """What a rung does to one option: exactly one of ``lower_to``, ``raise_to``, ``lower_to_fact``, ``switch_on``.

    A limit only ever moves the option in its own direction; an option that nobody set counts as above ``lower_to`` and
    below ``raise_to``. ``lower_to_fact`` names a fact of the failure, rounded down to a multiple of ``multiple``.
    ``same_as`` are other spellings of the same choice: who set one of them has pinned this option too.
    """

    option: str
    lower_to: str | None = None
    raise_to: str | None = None
    lower_to_fact: str | None = None
    switch_on: bool = False
    multiple: Annotated[int, Field(ge=1)] = 1
    same_as: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = (self.lower_to, self.raise_to, self.lower_to_fact)
        if sum(way is not None for way in ways) + self.switch_on != 1:
            message = "a change has exactly one of lower_to, raise_to, lower_to_fact, switch_on"
            raise ValueError(message)
        return self


class Rung(Row):
    """One step of a fallback ladder, taken when the engine failed for one of ``causes`` (ids of signatures).

    ``seats`` are the seats that it is for; none means any. A rung may be taken ``times`` times in one climb.
    """

    id: Id
    seats: tuple[str, ...] = ()
    causes: Annotated[tuple[str, ...], Field(min_length=1)]
    change: Annotated[tuple[Change, ...], Field(min_length=1)]
    times: Annotated[int, Field(ge=1, le=5)] = 1

    @property
    def raises_memory(self) -> bool:
        """Whether the engine takes more of the memory afterwards; such a rung is never taken on a unified host."""
        return any(change.raise_to is not None for change in self.change)
