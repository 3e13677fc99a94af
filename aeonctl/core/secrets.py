"""Which environment variables are secrets, so that their values stay out of everything that is shown or stored."""

from __future__ import annotations

import difflib
import re

_ANYWHERE = r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|COOKIE|AUTHORIZATION|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
_AS_A_WORD = r"KEY|TOKEN|PASS|PAT|PWD|AUTH"
_SECRET = re.compile(rf"{_ANYWHERE}|TOKEN$|(?:^|_)(?:{_AS_A_WORD})(?:$|_)", re.IGNORECASE)
_LOGIN_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@")

_SECRET_OPTION = re.compile(r"(?:^|-)(?:api-?key|key|token|secret|password)$", re.IGNORECASE)
_SECRET_OPTIONS = ("api-key", "hf-token")
_TYPO = 0.8
"""How much an option must resemble a secret one to be taken for a slip of the pen."""


def is_secret_option(name: str) -> bool:
    """True for an engine option whose value is a secret (``api-key``, ``hf-token``), or for a likely typo of one."""
    bare = name.replace("_", "-").strip().lstrip("-").lower()
    typo = difflib.get_close_matches(bare, _SECRET_OPTIONS, n=1, cutoff=_TYPO)
    return bool(typo) or _SECRET_OPTION.search(bare) is not None


def is_secret(name: str, value: str = "") -> bool:
    """True for a variable whose name says that its value is a secret (``HF_TOKEN``, ``DB_PASS``), or whose value is an
    address with a password in it."""
    return _SECRET.search(name) is not None or _LOGIN_IN_URL.search(value) is not None


def without_login(text: str) -> str:
    """``text`` with the password of any address in it taken out."""
    return _LOGIN_IN_URL.sub("://(hidden)@", text)
