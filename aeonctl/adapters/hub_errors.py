"""What huggingface_hub's errors mean for a user. This module imports huggingface_hub; import it where that is paid for.

The error that comes out is often not the one that happened: "file not found in the cache" and "dry run impossible"
carry the real one as their cause, so the whole chain is searched, the most telling kind first.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx2
from huggingface_hub import errors as hub

from aeonctl.adapters.hub_access import disk_full, unwritable
from aeonctl.errors import AeonError, DownloadError

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
    if refused := _first(chain, httpx2.ProxyError):
        return proxy_failed(asked.repo, _line(refused))
    if network := _first(chain, httpx2.TransportError):
        if "CERTIFICATE_VERIFY_FAILED" in str(network):
            return tls_untrusted(asked.repo, asked.endpoint, _line(network))
        if isinstance(network, httpx2.RemoteProtocolError | httpx2.ReadError):
            return incomplete(asked.repo, f"the connection broke off: {_line(network)}")
        return offline(asked.repo, f"{asked.endpoint} does not answer: {_line(network) or type(network).__name__}")
    for link in chain:
        if isinstance(link, OSError) and link.errno is not None and link.filename is not None:
            return unwritable(asked.hub, Path(os.fsdecode(link.filename)).parent, str(link))
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
    if status == 407:
        return proxy_failed(asked.repo, words)
    if status == 404:
        return _error("model_not_found", f"the hub has no model {asked.repo}", words, "check its name", **facts)
    if status == 429:
        wait = error.response.headers.get("Retry-After")
        cause = words + (f"; it asks to wait {wait} s" if wait else "")
        return _error(
            "rate_limited", "the hub says that you ask too often", cause, "wait; a token raises the limit", **facts
        )
    return _error(
        "hub_failed", f"the hub failed while it sent {asked.repo}", words, "run the same command again", **facts
    )


def no_hub(repo: str, endpoint: str, cause: str) -> DownloadError:
    """Something answered, and it was not a hub."""
    causes = (f"{endpoint} does not answer like a hub", cause)
    hint = "check HF_ENDPOINT; a hotel's or company's log-in page may stand in between: open the address in a browser"
    return _error("not_a_hub", f"cannot download {repo}", causes, hint)


def proxy_failed(repo: str, cause: str) -> DownloadError:
    """The proxy is the trouble, not the hub."""
    hint = "check HTTPS_PROXY and its user and password, or leave the hub out of it: NO_PROXY=huggingface.co,hf.co"
    return _error("proxy_failed", f"the proxy does not let us ask the hub for {repo}", cause, hint)


def tls_untrusted(repo: str, endpoint: str, cause: str) -> DownloadError:
    """Somebody else's certificate: a company's proxy reads along, or the clock is wrong."""
    hint = "add your company's root certificate: SSL_CERT_FILE=/path/to/roots.pem; and check this machine's clock"
    return _error("tls_untrusted", f"cannot ask the hub for {repo}", (f"{endpoint} is not trusted", cause), hint)


def incomplete(repo: str, *causes: str) -> DownloadError:
    """A download that ended before all was here."""
    hint = f"run it again: aeonctl pull-model {repo} (whole files are kept)"
    return _error("incomplete", f"{repo} has not been downloaded whole", causes, hint)


def offline(repo: str, cause: str) -> DownloadError:
    """Nobody could be asked."""
    hint = "check the network (HTTPS_PROXY, HF_ENDPOINT), or serve what is here with --offline"
    return _error("offline", f"cannot ask the hub for {repo}", cause, hint)


def stalled(repo: str, seconds: float) -> DownloadError:
    """A download in which nothing moves any more."""
    return _error(
        "stalled",
        f"the download of {repo} stands still",
        f"not a byte came for {seconds:.0f} s, nor over plain HTTP",
        f"run it again: aeonctl pull-model {repo} (whole files are kept); HF_HUB_DISABLE_XET=1 avoids the Xet store",
    )


def corrupt(repo: str, wrong: Mapping[str, str], discarded: bool) -> DownloadError:
    """Files whose content is not the listed one."""
    words = "they are taken out of the cache; " if discarded else "take them out of the cache (hf cache rm); "
    return _error(
        "corrupt",
        f"{len(wrong)} of the files of {repo} are corrupt",
        tuple(f"{name}: {reason}" for name, reason in wrong.items())[:8],
        f"{words}fetch them again: aeonctl pull-model {repo}",
        files=list(wrong),
    )


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
