"""What real things the tests may use, and whether their absence is a failure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-real",
        action="store_true",
        default=os.environ.get("AEONCTL_TEST_STRICT") == "1",
        help="fail, instead of skip, when a real Docker engine or vLLM image is missing (also AEONCTL_TEST_STRICT=1)",
    )


@pytest.fixture(scope="session")
def missing(pytestconfig: pytest.Config) -> Callable[[str], NoReturn]:
    """What a fixture calls when the real thing is not there: the one place that decides between skip and failure."""

    def decide(what: str) -> NoReturn:
        if pytestconfig.getoption("--strict-real"):
            pytest.fail(what)
        pytest.skip(what)

    return decide


@pytest.fixture(scope="session")
def docker_host(missing: Callable[[str], NoReturn]) -> str:
    """The URL of a Docker engine that tests may create containers in (it has the image aeonctl-test/busybox:1)."""
    url = os.environ.get("AEONCTL_TEST_DOCKER_HOST")
    if not url:
        missing("AEONCTL_TEST_DOCKER_HOST is not set: no Docker engine for tests")
    return url
