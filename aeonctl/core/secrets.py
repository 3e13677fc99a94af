"""Which environment variables are secrets, so that their values stay out of everything that is shown or stored."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)(?:$|_)", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """True for a variable whose name says that its value is one: ``HF_TOKEN``, ``VLLM_API_KEY``, ``DB_PASSWORD``."""
    return _SECRET.search(name) is not None
