"""Which environment variables are secrets, so that their values stay out of everything that is shown or stored."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)(?:$|_)", re.IGNORECASE
)


_SECRET_OPTION = re.compile(r"(?:^|-)(?:api-?key|key|token|secret|password)$", re.IGNORECASE)


def is_secret_option(name: str) -> bool:
    """True for an engine option whose value is a secret: ``api-key``, ``hf-token``."""
    return _SECRET_OPTION.search(name.replace("_", "-")) is not None


def is_secret(name: str) -> bool:
    """True for a variable whose name says that its value is one: ``HF_TOKEN``, ``VLLM_API_KEY``, ``DB_PASSWORD``."""
    return _SECRET.search(name) is not None
