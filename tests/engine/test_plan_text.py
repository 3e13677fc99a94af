"""``plan`` prints what ``up`` starts: pasted into bash, it makes a container that ``docker inspect`` cannot tell from
``up``'s. The containers start vLLM and are removed at once; nobody waits for a boot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine.command_line import CommandLine
from tests.inspected import compared

pytestmark = [pytest.mark.docker, pytest.mark.engine]

CASES = {
    # a GPU, the host's ipc, shared memory, a published port, variables with and without a value, JSON options
    "rtx-5090": ("--as", "rtx-5090", "--seat", "quality", "--env", "HF_TOKEN", "--env", 'NOTE=it\'s "a" $b'),
    # the machine's network, a named volume, a drafter of its own mount, the memory guard's settings; the share is small
    # because the guard holds a Spark's memory against what this machine has free
    "dgx-spark": (
        *("--as", "dgx-spark", "--seat", "daily", "--waive", "image-platform", "--lan"),
        *("--set", "gpu-memory-utilization=0.02"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_printed_command_makes_the_container_that_up_makes(
    aeonctl: CommandLine, shim_image: str, tiny_model: Path, case: str
) -> None:
    aeonctl.environment["HF_TOKEN"] = "hf_not-a-real-one"
    words = aeonctl.here(
        *CASES[case], "--image", shim_image, "--model", str(tiny_model), "--env", "VLLM_CPU_SHIM=1", "--offline"
    )
    if case == "dgx-spark":
        words += ("--drafter", str(tiny_model))
    text = aeonctl.succeed("plan", *words)
    assert "hf_not-a-real-one" not in text

    aeonctl.succeed("up", *words, "--detach")
    by_up = inspected_then_removed(aeonctl)
    pasted = subprocess.run(["bash"], input=text, env=aeonctl.environment, capture_output=True, text=True, check=False)
    assert pasted.returncode == 0, f"{text}\n{pasted.stderr}"
    by_text = inspected_then_removed(aeonctl)

    assert compared(by_text) == compared(by_up)


def inspected_then_removed(aeonctl: CommandLine) -> dict[str, Any]:
    inspected = aeonctl.inspect()
    aeonctl.docker("rm", "--force", aeonctl.name)
    return inspected
