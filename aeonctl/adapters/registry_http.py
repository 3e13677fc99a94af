"""How a registry is spoken to: tokens, credentials, redirects to a CDN, digests, and what its refusals mean."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import parse_http_list, parse_keqv_list

from aeonctl.core.image import Reference
from aeonctl.errors import DownloadError

if TYPE_CHECKING:
    import requests

_LARGEST = 16 * 1024 * 1024
_DOCKER_HUB = "registry-1.docker.io"


class Credentials(NamedTuple):
    """What ``docker login`` kept for a registry: a name and a password, or an identity token."""

    username: str
    password: str
    identity_token: str | None = None


class Body(NamedTuple):
    """A document from a registry: its media type, its digest (of the bytes that came) and its JSON."""

    media_type: str
    digest: str
    data: dict[str, Any]


class RegistryHttp:
    """One repository of one registry. ``bytes_moved`` counts the bodies that were read, tokens included."""

    def __init__(self, reference: Reference, login: Callable[[], Credentials | None], timeout: float) -> None:
        self.bytes_moved = 0
        self._reference = reference
        self._login = login
        self._timeout = timeout
        self._authorization: str | None = None
        self._logged_in = False
        self._name = f"{reference.registry}/{reference.repository}"
        host = _DOCKER_HUB if reference.registry == "docker.io" else reference.registry
        scheme = "http" if reference.is_loopback else "https"
        self._base = f"{scheme}://{host}/v2/{reference.repository}"

    def document(self, path: str, *, accept: str = "*/*", digest: str | None = None) -> Body:
        """The JSON under ``path`` of the repository (``manifests/TAG``, ``blobs/DIGEST``), checked against ``digest``.

        DownloadError image_not_found | image_denied | registry_unreachable | registry_rate_limited | registry_failed.
        """
        import requests

        with requests.Session() as session:
            session.trust_env = not self._reference.is_loopback
            response, content = self._answer(session, f"{self._base}/{path}", accept)
        self._check_status(response, path)
        actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if digest is not None and actual != digest:
            raise self._failed(f"what came for {digest} has the digest {actual}")
        return Body(response.headers.get("Content-Type", ""), actual, self._json(content))

    def _answer(self, session: requests.Session, url: str, accept: str) -> tuple[requests.Response, bytes]:
        """GET; on 401 with what the challenge asks for: first as the user who is logged in, then as anyone."""
        headers = {"Accept": accept}
        response, content = self._get(session, url, headers)
        if response.status_code != 401:
            return response, content
        challenge = response.headers.get("WWW-Authenticate", "")
        stored = self._login()
        self._logged_in = stored is not None
        logins = [login for login in (stored, None) if login is not None or _is_bearer(challenge)]
        for login in logins:
            self._authorization = self._authorize(session, challenge, login)
            if self._authorization is not None:
                response, content = self._get(session, url, headers)
                if response.status_code not in (401, 403):
                    break
        return response, content

    def _get(self, session: requests.Session, url: str, headers: Mapping[str, str]) -> tuple[requests.Response, bytes]:
        authorization = self._authorization

        def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
            """Also keeps netrc out; requests takes the header off again when a redirect leaves the host."""
            if authorization is not None:
                request.headers["Authorization"] = authorization
            return request

        return self._read(session, "GET", url, headers=headers, auth=sign)

    def _read(self, session: requests.Session, method: str, url: str, **more: Any) -> tuple[requests.Response, bytes]:
        import requests

        headers = {"Accept-Encoding": "identity", **more.pop("headers", {})}
        content = bytearray()
        try:
            with session.request(method, url, headers=headers, timeout=self._timeout, stream=True, **more) as response:
                for piece in response.iter_content(65536):
                    content += piece
                    if len(content) > _LARGEST:
                        raise self._failed(f"{url} is larger than {_LARGEST} bytes, which no manifest is")
        except requests.exceptions.ChunkedEncodingError as error:
            raise self._failed(f"the answer broke off: {_reason(error)}") from error
        except (requests.ConnectionError, requests.Timeout) as error:
            raise self._unreachable(error) from error
        except requests.RequestException as error:
            raise self._failed(f"{type(error).__name__}: {_reason(error)}") from error
        finally:
            self.bytes_moved += len(content)
        return response, bytes(content)

    def _authorize(self, session: requests.Session, challenge: str, login: Credentials | None) -> str | None:
        """The Authorization header that a ``WWW-Authenticate`` challenge asks for; None when it is not granted."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and login is not None:
            return f"Basic {base64.b64encode(f'{login.username}:{login.password}'.encode()).decode()}"
        if not _is_bearer(challenge):
            return None
        try:
            asked = parse_keqv_list(parse_http_list(rest))
        except ValueError as error:
            raise self._failed(f"its challenge cannot be read: {challenge[:200]}") from error
        realm = asked.get("realm") or ""
        if not realm.startswith("https://") and not self._reference.is_loopback:
            raise self._failed(f"it sends logins to {realm!r}, which is not https")
        query = {"service": asked.get("service") or "", "scope": asked.get("scope") or self._scope()}
        return self._token(session, realm, query, login)

    def _token(
        self, session: requests.Session, realm: str, query: dict[str, str], login: Credentials | None
    ) -> str | None:
        def unsigned(request: requests.PreparedRequest) -> requests.PreparedRequest:
            return request

        if login is not None and login.identity_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "client_id": "aeonctl",
                "refresh_token": login.identity_token,
            }
            response, content = self._read(session, "POST", realm, data=form, auth=unsigned)
        else:
            auth = (login.username, login.password) if login is not None else unsigned
            response, content = self._read(session, "GET", realm, params=query, auth=auth)
        if response.status_code in (400, 401, 403, 404):
            return None
        self._check_status(response, "token")
        data = self._json(content)
        token = data.get("token") or data.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise self._failed(f"{realm} answered without a token")
        return f"Bearer {token}"

    def _scope(self) -> str:
        return f"repository:{self._reference.repository}:pull"

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._failed("the answer is not JSON; does a proxy or a log-in page answer in its place?") from error
        if not isinstance(data, dict):
            raise self._failed("the answer is JSON, but not an object")
        return data

    def _check_status(self, response: requests.Response, path: str) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == 404:
            raise DownloadError(
                "image_not_found",
                f"the registry has no image {self._name}, or not under {path.rpartition('/')[2]}",
                cause=f"{self._base}/{path} answered 404",
                hint=f"check the tag; a private image needs: docker login {self._reference.registry}",
                registry=self._reference.registry,
            )
        if status in (401, 403):
            raise self._denied(status)
        if status == 429:
            wait = response.headers.get("Retry-After")
            raise DownloadError(
                "registry_rate_limited",
                f"{self._reference.registry} says that this address has asked too often",
                cause=f"it answered 429{f', and to come back in {wait} s' if wait else ''}",
                hint=f"wait, or raise the limit with: docker login {self._reference.registry}",
                registry=self._reference.registry,
            )
        if status >= 500:
            raise DownloadError(
                "registry_failed",
                f"{self._reference.registry} has trouble of its own",
                cause=f"{response.url.partition('?')[0]} answered {status}",
                hint="try again in some minutes; nothing was pulled, and nothing here is at fault",
                registry=self._reference.registry,
            )
        raise self._failed(f"{self._base}/{path} answered {status}")

    def _denied(self, status: int) -> DownloadError:
        """401: nobody, or not known to the registry. 403: known, and not allowed."""
        registry = self._reference.registry
        if status == 403:
            message = f"the registry knows who asks, and does not let them read {self._name}"
            hint = f"ask its owner for access, or log in as somebody else: docker login {registry}"
        elif self._logged_in:
            message = f"the registry does not take the stored log-in, and without one {self._name} is not readable"
            hint = f"check the name; then docker logout {registry}, and docker login {registry}"
        else:
            message = f"the registry does not let everybody read {self._name}"
            hint = f"check the name, then: docker login {registry}"
        return DownloadError(
            "image_denied",
            message,
            cause=f"it answered {status}; for an image that does not exist many registries answer the same",
            hint=hint,
            registry=registry,
            status=status,
        )

    def _unreachable(self, error: Exception) -> DownloadError:
        reason = _reason(error)
        slow = "timed out" in reason
        return DownloadError(
            "registry_unreachable",
            f"{self._reference.registry} does not answer in time"
            if slow
            else f"nothing answers at {self._reference.registry}",
            cause=f"no byte came for {self._timeout:g} s" if slow else reason,
            hint="check the network and HTTPS_PROXY; with an image that is here already, add --offline",
            registry=self._reference.registry,
        )

    def _failed(self, cause: str) -> DownloadError:
        return DownloadError(
            "registry_failed",
            f"the registry's answer for {self._name} cannot be used",
            cause=cause,
            hint=f"try again later; docker manifest inspect {self._name} asks the same question",
            registry=self._reference.registry,
        )


def _is_bearer(challenge: str) -> bool:
    return challenge.partition(" ")[0].lower() == "bearer"


def _reason(error: BaseException) -> str:
    """The innermost words of a chain of wrapped network errors."""
    inner: BaseException = error
    while True:
        wrapped = getattr(inner, "reason", None)
        following = (
            wrapped
            if isinstance(wrapped, BaseException)
            else next((value for value in inner.args if isinstance(value, BaseException)), None)
        )
        if following is None:
            return re.sub(r"^.*?(?:>|\)): ", "", str(inner)) or type(inner).__name__
        inner = following


def docker_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where Docker's client keeps its configuration: ``$DOCKER_CONFIG``, by default ``~/.docker``."""
    named = environment.get("DOCKER_CONFIG")
    return Path(named) if named else home / ".docker"


def engine_login(folder: Path, registry: str) -> dict[str, str]:
    """``docker_login`` as an engine takes it with a pull; empty for anyone."""
    login = docker_login(folder, registry)
    if login is None:
        return {}
    if login.identity_token:
        return {"identitytoken": login.identity_token}
    return {"username": login.username, "password": login.password}


def docker_login(folder: Path, registry: str) -> Credentials | None:
    """What ``docker login`` stored for ``registry`` under Docker's configuration folder, its credential helpers
    included; None when there is nothing, or nothing that can be read (the registry then says whether it matters)."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    from docker import auth
    from docker.errors import DockerException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a helper that is not installed; the answer is the same
            found = auth.load_config(str(path)).resolve_authconfig(registry)
    except (DockerException, OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    words = {str(key).lower(): value for key, value in (found or {}).items()}
    if token := words.get("identitytoken"):
        return Credentials("", "", str(token))
    if words.get("username") and words.get("password"):
        return Credentials(str(words["username"]), str(words["password"]))
    return None
