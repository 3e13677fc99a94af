"""One question to the hub, with the standard library alone."""

from __future__ import annotations

import json
from http.client import HTTPException
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

_SECONDS = 10.0
_LARGEST = 32 * 1024 * 1024


def commit_at_hub(endpoint: str, repo: str, revision: str, token: str | None) -> str | None:
    """The commit that a branch or tag means on the hub now; None for any other answer, and for none."""
    url = f"{endpoint}/api/models/{quote(repo)}/revision/{quote(revision, safe='')}?expand=sha"
    if not url.startswith(("http://", "https://")):
        return None
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=_SECONDS) as reply:  # noqa: S310 - http(s), seen above
            data = json.loads(reply.read(_LARGEST))
    except (OSError, URLError, HTTPException, ValueError):
        return None
    commit = data.get("sha") if isinstance(data, dict) else None
    return commit if isinstance(commit, str) else None
