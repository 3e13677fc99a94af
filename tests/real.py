"""What a test needs from the machine, and what happens when it is missing."""

from __future__ import annotations

import os

import pytest

STRICT = "AEONCTL_TEST_STRICT"


def require(condition: object, reason: str) -> None:
    """Skip for ``reason`` unless ``condition`` holds; fail instead when AEONCTL_TEST_STRICT is 1."""
    if condition:
        return
    if os.environ.get(STRICT) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
