"""The engine's HTTP API through requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aeonctl.ports import Reply, ReplyStream

if TYPE_CHECKING:
    import requests

_CONNECT_SECONDS = 5.0


class RequestsHttp:
    """ports.EngineHttp. Every call has its own connection: one kept from before an engine's restart would read as
    "nothing answers". Proxies and netrc are left out, since an engine is reached directly; a redirect is an answer."""

    def get(self, url: str, *, timeout: float, key: str | None = None) -> Reply | None:
        """GET; None when nothing answers. ``timeout`` is in seconds, for connecting and between two pieces."""
        return _whole(_send("GET", url, None, timeout, key))

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None) -> Reply | None:
        """POST ``body`` as JSON; None when nothing answers."""
        return _whole(_send("POST", url, dict(body), timeout, key))

    def stream(
        self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None
    ) -> ReplyStream | None:
        """POST ``body`` as JSON and read the answer line by line. ``timeout`` counts between two pieces."""
        response = _send("POST", url, dict(body), timeout, key)
        return None if response is None else _Stream(response)


class _Stream:
    """ports.ReplyStream over one connection."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def lines(self) -> Iterator[str]:
        """A connection that breaks off ends the lines."""
        import requests

        with suppress(requests.RequestException):
            for line in self._response.iter_lines(chunk_size=None):
                if line:
                    yield line.decode("utf-8", "replace")

    def close(self) -> None:
        """Hang up."""
        self._response.close()


def _send(
    method: str, url: str, body: dict[str, Any] | None, timeout: float, key: str | None
) -> requests.Response | None:
    """The answer's head, its body still to be read; None when nothing answers."""
    import requests

    headers: dict[str, str | bytes] = {"Connection": "close"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key.strip()}".encode()
    with requests.Session() as session:
        session.trust_env = False
        try:
            return session.request(
                method,
                url,
                json=body,
                headers=headers,
                timeout=(min(timeout, _CONNECT_SECONDS), timeout),
                allow_redirects=False,
                stream=True,
            )
        except (requests.ConnectionError, requests.Timeout):
            return None


def _whole(response: requests.Response | None) -> Reply | None:
    """The answer with its body; None when that breaks off."""
    import requests
    from requests.exceptions import ChunkedEncodingError, ContentDecodingError

    if response is None:
        return None
    try:
        with response:
            response.content  # noqa: B018 - reads the body
    except (requests.ConnectionError, requests.Timeout, ChunkedEncodingError, ContentDecodingError):
        return None
    return _reply(response)


def _reply(response: requests.Response) -> Reply:
    if response.encoding is None:
        response.encoding = "utf-8"
    try:
        data = response.json()
    except (ValueError, RecursionError):
        data = None
    return Reply(response.status_code, data, response.text)
