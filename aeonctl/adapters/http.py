"""The engine's HTTP API through requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aeonctl.ports import Reply

if TYPE_CHECKING:
    import requests

_CONNECT_SECONDS = 5.0


class RequestsHttp:
    """ports.EngineHttp. Every call has its own connection: one kept from before an engine's restart would read as
    "nothing answers". Proxies and netrc are left out, since an engine is reached directly; a redirect is an answer."""

    def get(self, url: str, *, timeout: float, key: str | None = None) -> Reply | None:
        """GET; None when nothing answers. ``timeout`` is in seconds, for connecting and between two pieces."""
        return self._send("GET", url, None, timeout, key)

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None) -> Reply | None:
        """POST ``body`` as JSON; None when nothing answers."""
        return self._send("POST", url, dict(body), timeout, key)

    @staticmethod
    def _send(method: str, url: str, body: dict[str, Any] | None, timeout: float, key: str | None) -> Reply | None:
        import requests
        from requests.exceptions import ChunkedEncodingError, ContentDecodingError

        headers: dict[str, str | bytes] = {"Connection": "close"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.strip()}".encode()
        with requests.Session() as session:
            session.trust_env = False
            try:
                response = session.request(
                    method,
                    url,
                    json=body,
                    headers=headers,
                    timeout=(min(timeout, _CONNECT_SECONDS), timeout),
                    allow_redirects=False,
                )
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
