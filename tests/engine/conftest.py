"""What tests/engine/setup.sh prepares, and the command line as a user types it."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.command_line import CommandLine
from tests.real import require


@pytest.fixture
def aeonctl(docker_host: str, tmp_path: Path) -> Iterator[CommandLine]:
    """``python -m aeonctl`` with a home of its own. Containers that it named are gone after the test."""
    require(shutil.which("docker"), "there is no docker command here")
    command_line = CommandLine(docker_host, tmp_path, f"aeonctl-e2e-{uuid.uuid4().hex[:8]}")
    yield command_line
    command_line.docker("rm", "--force", command_line.name, check=False)


@pytest.fixture(scope="session")
def engine_image(docker_host: str) -> str:
    """A real vLLM for the CPU."""
    return image_of("AEONCTL_TEST_ENGINE_IMAGE", docker_host)


@pytest.fixture(scope="session")
def shim_image(docker_host: str) -> str:
    """The same, which replaces what needs a GPU after vLLM's own parser has taken it."""
    return image_of("AEONCTL_TEST_SHIM_IMAGE", docker_host)


@pytest.fixture(scope="session")
def small_model() -> Path:
    """A folder with a small real chat model."""
    return folder_of("AEONCTL_TEST_SMALL_MODEL")


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """A folder with a model of random weights."""
    return folder_of("AEONCTL_TEST_TINY_MODEL")


@pytest.fixture(scope="session")
def tiny_hub() -> Path:
    """A hub cache that holds the same as test/tiny: a snapshot of links into blobs."""
    return folder_of("AEONCTL_TEST_TINY_HUB")


def image_of(variable: str, docker_host: str) -> str:
    ref = os.environ.get(variable, "")
    require(ref, f"{variable} is not set: no vLLM image (tests/engine/setup.sh makes one)")
    looked = subprocess.run(["docker", "-H", docker_host, "image", "inspect", ref], capture_output=True, check=False)
    require(looked.returncode == 0, f"image {ref} is not in the engine at {docker_host} (tests/engine/setup.sh)")
    return ref


def folder_of(variable: str) -> Path:
    text = os.environ.get(variable, "")
    require(text and Path(text).is_dir(), f"{variable} is not a folder: no model (tests/engine/setup.sh makes one)")
    return Path(text)
