"""What a registry says of an image before a byte of it is pulled: its manifest, and its config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aeonctl.adapters.registry_http import Body, RegistryHttp, docker_folder, docker_login
from aeonctl.core.image import FactsFrom, ImageConfig, ImageFacts, Layer, facts_from_config, is_digest, parse_reference
from aeonctl.errors import DownloadError

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
_ATTESTATION = "vnd.docker.reference.type"


class OciRegistry:
    """ports.Registry over the OCI distribution API. ``bytes_moved`` counts the bodies read since it was made."""

    def __init__(self, environment: Mapping[str, str], *, home: Path | None = None, timeout: float = 20.0) -> None:
        """``timeout`` is in seconds, for connecting and between two pieces of an answer."""
        self.bytes_moved = 0
        self._timeout = timeout
        self._docker = docker_folder(environment, home or Path(environment.get("HOME") or Path.home()))

    def image(self, ref: str, arch: str | None) -> ImageFacts:
        """What the registry says of ``ref`` for ``linux/arch``.

        When it has no such platform, the facts are those of the platform that it has (of the first, without ``arch``,
        when there are several), and ``platforms`` says what there is. ``digest`` is what the reference resolves to.

        DownloadError image_not_found | image_denied | registry_unreachable | registry_rate_limited | registry_failed.
        """
        reference = parse_reference(ref)
        http = RegistryHttp(reference, lambda: docker_login(self._docker, reference.registry), self._timeout)
        try:
            facts = self._ask(http, ref, reference.digest, reference.tag, arch)
        finally:
            self.bytes_moved += http.bytes_moved
        return facts.model_copy(update={"bytes_moved": http.bytes_moved})

    def _ask(self, http: RegistryHttp, ref: str, digest: str | None, tag: str | None, arch: str | None) -> ImageFacts:
        top = http.document(f"manifests/{digest or tag or 'latest'}", accept=_ACCEPT, digest=digest)
        if _is_index(top):
            return self._from_index(http, ref, top, arch)
        config = _config(http, top)
        platforms = (f"{config.os or 'linux'}/{config.architecture}",) if config.architecture else None
        return _facts(ref, config, top, top.digest, platforms=platforms)

    @staticmethod
    def _from_index(http: RegistryHttp, ref: str, index: Body, arch: str | None) -> ImageFacts:
        children = _children(index)
        if not children:
            raise _unusable(ref, "its index names no image for any platform")
        platforms = tuple(dict.fromkeys(platform for platform, _ in children))
        digest = next((child for platform, child in children if platform == f"linux/{arch}"), children[0][1])
        manifest = http.document(f"manifests/{digest}", accept=_ACCEPT, digest=digest)
        if _is_index(manifest):
            raise _unusable(ref, "its index names another index")
        config = _config(http, manifest)
        if len(platforms) > 1 and f"linux/{arch}" not in platforms:
            config = config.model_copy(update={"architecture": None})
        return _facts(ref, config, manifest, index.digest, platforms=platforms)


def _is_index(body: Body) -> bool:
    kind = body.data.get("mediaType") or body.media_type.partition(";")[0].strip()
    return kind in _INDEXES or (kind not in _MANIFESTS and isinstance(body.data.get("manifests"), list))


def _children(index: Body) -> list[tuple[str, str]]:
    """The platform (``linux/arm64``) and digest of every image in an index; attestations are no images."""
    children = []
    for entry in _records(index.data.get("manifests")):
        platform = entry.get("platform")
        platform = platform if isinstance(platform, dict) else {}
        system, arch, digest = platform.get("os"), platform.get("architecture"), entry.get("digest")
        annotations = entry.get("annotations")
        if isinstance(annotations, dict) and _ATTESTATION in annotations:
            continue
        if not isinstance(system, str) or not isinstance(arch, str) or "unknown" in (system, arch):
            continue
        if isinstance(digest, str) and is_digest(digest):
            children.append((f"{system}/{arch}", digest))
    return sorted(children, key=lambda child: not child[0].startswith("linux/"))


def _config(http: RegistryHttp, manifest: Body) -> ImageConfig:
    """The image's own config, which a manifest names by digest."""
    descriptor = manifest.data.get("config")
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    if not isinstance(digest, str) or not is_digest(digest):
        raise _unusable(manifest.digest, "its manifest names no config: an old (schema 1) image, or no image at all")
    return image_config(http.document(f"blobs/{digest}", digest=digest).data, manifest.digest)


def image_config(data: Mapping[str, Any], origin: str) -> ImageConfig:
    """A config blob's JSON as our own value; what is not there or null is left out. DownloadError registry_failed."""
    inner = data.get("config")
    inner = inner if isinstance(inner, dict) else {}
    rootfs = data.get("rootfs")
    rootfs = rootfs if isinstance(rootfs, dict) else {}
    found = {
        "architecture": data.get("architecture"),
        "os": data.get("os"),
        "env": inner.get("Env"),
        "labels": inner.get("Labels"),
        "entrypoint": inner.get("Entrypoint"),
        "diff_ids": rootfs.get("diff_ids"),
    }
    try:
        return ImageConfig.model_validate(
            {key: tuple(value) if isinstance(value, list) else value for key, value in found.items() if value}
        )
    except ValidationError as error:
        raise _unusable(origin, f"its config is not an image's: {error.error_count()} wrong fields") from error


def _facts(
    ref: str, config: ImageConfig, manifest: Body, digest: str, *, platforms: tuple[str, ...] | None
) -> ImageFacts:
    listed = _records(manifest.data.get("layers"))
    sizes = [size for layer in listed if isinstance(size := layer.get("size"), int) and size >= 0]
    all_known = bool(listed) and len(sizes) == len(listed)
    inside = config.diff_ids if len(config.diff_ids) == len(sizes) else (None,) * len(sizes)
    return facts_from_config(
        ref,
        config,
        FactsFrom.REGISTRY,
        digest=digest,
        platforms=platforms,
        platform_digest=manifest.digest,
        compressed_bytes=sum(sizes) if all_known else None,
        layers=tuple(Layer(diff_id=one, size=size) for one, size in zip(inside, sizes, strict=True) if all_known),
    )


def _records(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _unusable(name: str, cause: str) -> DownloadError:
    return DownloadError(
        "registry_failed",
        f"the registry's answer for {name} cannot be used",
        cause=cause,
        hint="name an image for linux/amd64 or linux/arm64; docker manifest inspect shows what is there",
        image=name,
    )
