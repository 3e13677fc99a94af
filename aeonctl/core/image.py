"""Container images: how a reference is written, and what is known of one before it is pulled."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from aeonctl.core.base import Value
from aeonctl.errors import UsageError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"\w[\w.\-]{0,127}", re.ASCII)
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_REGISTRY = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?")


class Reference(NamedTuple):
    """An image reference in its parts, as Docker reads it; ``registry`` is ``docker.io`` when none is written."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def is_loopback(self) -> bool:
        """True for a registry on this machine, which Docker speaks plain HTTP with."""
        host = self.registry.rsplit(":", 1)[0].strip("[]")
        return host == "localhost" or host.startswith("127.") or host == "::1"


def parse_reference(text: str) -> Reference:
    """Split an image reference; UsageError when Docker would not take it."""
    rest, at, digest = text.partition("@")
    colon = rest.rfind(":")
    name, tag = (rest[:colon], rest[colon + 1 :]) if colon > rest.rfind("/") else (rest, None)
    first, slash, remainder = name.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, remainder) if has_registry else ("docker.io", name)
    valid = (
        len(text) <= 4096
        and (not at or is_digest(digest))
        and (tag is None or _TAG.fullmatch(tag))
        and _REGISTRY.fullmatch(registry)
        and all(_COMPONENT.fullmatch(part) for part in path.split("/"))
    )
    if not valid:
        raise UsageError(
            "image_reference_invalid",
            f"not an image reference: {text[:200]!r}",
            cause="a reference is [registry/]name[:tag][@sha256:digest], the name in lower case",
            hint="aeonctl plan --seat SEAT --image vllm/vllm-openai:v0.33.0",
        )
    repository = path if has_registry or "/" in path else f"library/{path}"
    return Reference(registry, repository, tag, digest or None)


def pinned(ref: str, digest: str | None) -> str:
    """``ref@digest``, or ``ref`` alone when no digest is known or one is already written."""
    return ref if digest is None or "@" in ref else f"{ref}@{digest}"


class FactsFrom(StrEnum):
    """Who said it. Trust falls in this order when they disagree."""

    LOCAL = "local"
    REGISTRY = "registry"
    CATALOGUE = "catalogue"
    UNKNOWN = "unknown"


class Layer(Value):
    """One layer: the digest of what is inside (``diff_id``; None when the config does not say) and its compressed
    size in bytes."""

    diff_id: str | None
    size: int = Field(ge=0)


class ImageFacts(Value):
    """What is known of one image. ``sm`` are the compute capabilities that it has kernels for (None is unknown), and
    ``ptx`` those whose code the driver can compile for newer GPUs.

    ``arch`` is the CPU architecture (``amd64``); ``platforms`` is every platform that the registry offers under the
    reference. ``cuda`` is the CUDA version it is built for, ``needs_cuda`` the one that NVIDIA_REQUIRE_CUDA asks for.
    ``digest`` is what is run; ``platform_digest`` is the one manifest in it that is for the asked platform, and
    ``tag_digest`` what the registry has under the tag now, where that is another. ``bytes_moved`` is what asking cost.
    """

    ref: str
    facts_from: FactsFrom = FactsFrom.UNKNOWN
    digest: str | None = None
    platform_digest: str | None = None
    tag_digest: str | None = None
    platforms: tuple[str, ...] | None = None
    arch: str | None = None
    sm: tuple[str, ...] | None = None
    ptx: tuple[str, ...] = ()
    not_for: str | None = None
    not_for_sm: tuple[str, ...] = ()
    cuda: str | None = None
    needs_cuda: str | None = None
    driver_branch_min: int | None = None
    vllm: str | None = None
    cpu_only: bool = False
    compressed_bytes: int | None = Field(default=None, ge=0)
    unpacked_bytes: int | None = Field(default=None, ge=0)
    layers: tuple[Layer, ...] = ()
    bytes_moved: int = Field(default=0, ge=0)
    entrypoint: tuple[str, ...] | None = None
    family: str | None = None
    row: str | None = None
    advice: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


class ImageConfig(Value):
    """An image's own config blob, as a registry or an engine shows it."""

    architecture: str | None = None
    os: str | None = None
    env: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    entrypoint: tuple[str, ...] | None = None
    diff_ids: tuple[str, ...] = ()


def is_digest(text: str) -> bool:
    """True for ``sha256:`` and 64 hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


_SM_WORD = re.compile(r"sm_?(\d{2,3})[a-z]?\b", re.IGNORECASE)
_ARCH_WORD = re.compile(r"\b(\d{1,2}\.\d)[af]?\b")
_VERSION = re.compile(r"(?<![\d.])v?(\d+\.\d+\.\d+)")


def capabilities(text: str) -> tuple[str, ...]:
    """The compute capabilities named in a label or an arch list, in order: ``12.0;12.0a`` → ``("12.0",)``,
    ``DGX Spark GB10 sm_121a, B200 sm_100`` → ``("12.1", "10.0")``."""
    found = [f"{digits[:-1]}.{digits[-1]}" for digits in _SM_WORD.findall(text)]
    found += _ARCH_WORD.findall(_SM_WORD.sub(" ", text))
    return tuple(dict.fromkeys(found))


def facts_from_config(ref: str, config: ImageConfig, facts_from: FactsFrom, **more: object) -> ImageFacts:
    """Judge an image by its own config: platform, then TORCH_CUDA_ARCH_LIST, then labels."""
    env = dict(entry.partition("=")[::2] for entry in config.env)
    labels = config.labels
    not_for = labels.get("ai.aeon.not_for")
    arch_list = env.get("TORCH_CUDA_ARCH_LIST", "")
    required = re.search(r"cuda>=(\d+\.\d+)", env.get("NVIDIA_REQUIRE_CUDA", ""))
    built = re.match(r"\d+\.\d+", env.get("CUDA_VERSION", ""))
    version = _VERSION.search(labels.get("org.opencontainers.image.version", "")) or _VERSION.search(
        ref.partition("@")[0].rsplit("/", 1)[-1]
    )
    values: dict[str, object] = {
        "ref": ref,
        "facts_from": facts_from,
        "arch": config.architecture,
        "sm": capabilities(arch_list) or None,
        "not_for": not_for,
        "not_for_sm": capabilities(not_for or ""),
        "ptx": capabilities(" ".join(re.findall(r"\S+\+PTX", arch_list.replace(";", " ")))),
        "cuda": built[0] if built else None,
        "needs_cuda": required[1] if required else None,
        "vllm": version[1] if version else None,
        "entrypoint": config.entrypoint,
        "family": "aeon" if any(label.startswith("ai.aeon.") for label in labels) else None,
        **more,
    }
    return ImageFacts.model_validate(values)
