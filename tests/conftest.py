"""What real things the tests may use, and whether their absence is a failure."""

from __future__ import annotations

import os

import pytest

from tests.real import STRICT, require


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-real",
        action="store_true",
        help=f"fail, instead of skip, when a real Docker engine or vLLM image is missing (also {STRICT}=1)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-real"):
        os.environ[STRICT] = "1"


@pytest.fixture(scope="session")
def docker_host() -> str:
    """The URL of a Docker engine that tests may create containers in (it has the image aeonctl-test/busybox:1)."""
    url = os.environ.get("AEONCTL_TEST_DOCKER_HOST", "")
    require(url, "AEONCTL_TEST_DOCKER_HOST is not set: no Docker engine for tests")
    return url
