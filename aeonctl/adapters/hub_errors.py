"""What huggingface_hub's errors mean for a user. This module imports huggingface_hub; import it where that is paid for.

The error that comes out is often not the one that happened: "file not found in the cache" and "dry run impossible"
carry the real one as their cause, so the whole chain is searched, the most telling kind first.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx2
from huggingface_hub import errors as hub

from aeonctl.core.units import human_bytes
from aeonctl.errors import AeonError, DownloadError, HostError

HUB_ERRORS = (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL, hub.XetDownloadError)
"""Everything that a download can raise; HfHubHTTPError and its kin are OSErrors."""

_Kind = TypeVar("_Kind", bound=BaseException)


@dataclass(frozen=True)
class Asked:
    """What was asked for when it went wrong. ``needed`` is what the download had still to write, in bytes."""

    repo: str
    revision: str | None
    hub: Path
    endpoint: str
    has_token: bool
    needed: int = 0


def translated(error: BaseException, asked: Asked) -> AeonError:
    """The error to show for one that huggingface_hub raised."""
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, OSError) and link.errno in (errno.ENOSPC, errno.EDQUOT):
            return disk_full(asked.hub, asked.needed, str(link))
    if denied := _first(chain, hub.GatedRepoError):
        return _gated(asked, denied.response.status_code)
    if _first(chain, hub.RevisionNotFoundError):
        return _error(
            "model_not_found", f"{asked.repo} has no revision {asked.revision!r}", (), "leave @REV out for main"
        )
    if _first(chain, hub.DisabledRepoError):
        return _error(
            "model_not_found", f"{asked.repo} is disabled on the hub", (), f"read {asked.endpoint}/{asked.repo}"
        )
    if _first(chain, hub.RepositoryNotFoundError) or _first(chain, hub.HFValidationError):
        return _not_found(asked, chain)
    if answered := _first(chain, hub.HfHubHTTPError):
        return _answered(asked, answered)
    return _not_answered(asked, chain)


def _not_answered(asked: Asked, chain: list[BaseException]) -> AeonError:
    """No HTTP error: the network, a page that is not the hub's, a body that broke off, or the disk."""
    if metadata := _first(chain, hub.FileMetadataError) or _first(chain, json.JSONDecodeError):
        return no_hub(asked.repo, asked.endpoint, _line(metadata))
    if _first(chain, hub.OfflineModeIsEnabled):
        return offline(asked.repo, "HF_HUB_OFFLINE was set when aeonctl started")
    if network := _first(chain, httpx2.TransportError):
        if isinstance(network, httpx2.RemoteProtocolError | httpx2.ReadError):
            return incomplete(asked.repo, f"the connection broke off: {_line(network)}")
        return offline(asked.repo, f"{asked.endpoint} does not answer: {_line(network) or type(network).__name__}")
    for link in chain:
        if isinstance(link, OSError) and link.errno is not None and link.filename is not None:
            return HostError(
                "model_cache_unwritable",
                f"cannot write the model cache {asked.hub}",
                cause=str(link),
                hint="make it yours (sudo chown -R $USER), or set HF_HOME to a folder that is",
                path=str(asked.hub),
            )
    return incomplete(asked.repo, _line(chain[0]))


def _gated(asked: Asked, status: int) -> DownloadError:
    page = f"{asked.endpoint}/{asked.repo}"
    if asked.has_token or status == 403:
        cause = "your token's account has not been let in yet, or the token may not read gated repositories"
        hint = f"accept the terms at {page} with that account; some authors then answer by hand"
    else:
        cause = "no token was sent"
        hint = f"accept the terms at {page}, then: hf auth login (or set HF_TOKEN)"
    return _error("gated", f"{asked.repo} is gated: its author wants to know who downloads it", cause, hint)


def _not_found(asked: Asked, chain: list[BaseException]) -> DownloadError:
    invalid = _first(chain, hub.HFValidationError)
    if invalid is not None:
        return _error(
            "model_not_found", f"{asked.repo!r} is not a repository's name", _line(invalid), "write it as org/name"
        )
    private = "it does not exist, or it is private and " + (
        "the token may not see it" if asked.has_token else "no token was sent"
    )
    return _error(
        "model_not_found",
        f"the hub has no model {asked.repo}",
        private,
        f"check the name at {asked.endpoint}/{asked.repo}",
    )


def _answered(asked: Asked, error: hub.HfHubHTTPError) -> DownloadError:
    """An HTTP status that means no particular thing about the repository."""
    status = error.response.status_code
    words = error.response.headers.get("X-Error-Message") or f"{asked.endpoint} answered {status}"
    facts: dict[str, object] = {"status": status}
    if status in (401, 403):
        hint = "hf auth login, or set HF_TOKEN to a token that may read this repository"
        return _error("unauthorized", f"the hub refuses the token for {asked.repo}", words, hint, **facts)
    if status == 404:
        return _error("model_not_found", f"the hub has no model {asked.repo}", words, "check its name", **facts)
    if status == 429:
        wait = error.response.headers.get("Retry-After")
        cause = words + (f"; it asks to wait {wait} s" if wait else "")
        return _error(
            "hub_failed", "the hub says that you ask too often", cause, "wait; a token raises the limit", **facts
        )
    return _error(
        "hub_failed", f"the hub failed while it sent {asked.repo}", words, "run the same command again", **facts
    )


def no_hub(repo: str, endpoint: str, cause: str) -> DownloadError:
    """Something answered, and it was not a hub."""
    causes = (f"{endpoint} does not answer like a hub", cause)
    return _error("hub_failed", f"cannot download {repo}", causes, "check HF_ENDPOINT, the proxy, and any log-in page")


def incomplete(repo: str, *causes: str) -> DownloadError:
    """A download that ended before all was here."""
    hint = f"run it again: aeonctl pull-model {repo} (whole files are kept)"
    return _error("incomplete", f"{repo} has not been downloaded whole", causes, hint)


def offline(repo: str, cause: str) -> DownloadError:
    """Nobody could be asked."""
    hint = "check the network (HTTPS_PROXY, HF_ENDPOINT), or serve what is here with --offline"
    return _error("offline", f"cannot ask the hub for {repo}", cause, hint)


def disk_full(hub_folder: Path, needed: int, cause: str | None = None) -> HostError:
    """No room for the model; ``needed`` in bytes."""
    free = free_bytes(hub_folder)
    return HostError(
        "disk_full",
        f"the model needs {human_bytes(needed)} in {hub_folder}, and {human_bytes(free)} are free",
        cause=cause or (),
        hint="make room (hf cache ls; hf cache rm), or set HF_HOME to a larger disk",
        needed=needed,
        free=free,
        path=str(hub_folder),
    )


def free_bytes(folder: Path) -> int:
    """Bytes that a user may still write where ``folder`` is or will be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _error(code: str, message: str, cause: str | tuple[str, ...], hint: str, **facts: object) -> DownloadError:
    return DownloadError(code, message, cause=cause, hint=hint, **facts)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from, outermost first."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _first(chain: list[BaseException], kind: type[_Kind]) -> _Kind | None:
    return next((link for link in chain if isinstance(link, kind)), None)


def _line(error: BaseException) -> str:
    """The first line of an error's words."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
