"""What a container's label says beyond its seat: what the engine was told, and the words that started it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from aeonctl.core.container import ContainerSpec
from aeonctl.core.plan import Plan, Request
from aeonctl.core.secrets import is_secret_option

_UNITS = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}


def served_facts(spec: ContainerSpec) -> dict[str, Any]:
    """What a client may expect of the engine, read from its own command line; None where that does not tell."""
    command = spec.command
    return {
        "max_num_seqs": _count(option_value(command, "max-num-seqs")),
        "max_num_batched_tokens": _count(option_value(command, "max-num-batched-tokens")),
        "tools": "--enable-auto-tool-choice" in command and option_value(command, "tool-call-parser") is not None,
        "vision": _vision(command),
        "keyed": "VLLM_API_KEY" in spec.env or option_value(command, "api-key") is not None,
    }


def option_value(command: Sequence[str], name: str) -> str | None:
    """The last value that a command line gives an option; None when it does not set it."""
    found: str | None = None
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == f"--{name}":
            found = following
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
    return found


def up_words(plan: Plan, request: Request) -> list[str]:
    """The words after ``aeonctl up`` that ask for this plan again; a secret stands there by its name alone."""
    words = ["--seat", plan.seat]
    for option, value in (
        ("--model", request.model),
        ("--drafter", request.drafter),
        ("--image", request.image),
        ("--port", request.port),
        ("--name", request.name),
        ("--rehearse", plan.host if request.rehearsal else None),
    ):
        words += [] if value is None else [option, str(value)]
    words += ["--lan"] if request.lan else []
    for setting in request.settings:
        words += [] if is_secret_option(setting.partition("=")[0]) else ["--set", setting]
    for name, given in request.env.items():
        words += ["--env", name if given is None else f"{name}={given}"]
    for rule in request.waive:
        words += ["--waive", rule]
    return words


def _count(text: str | None) -> int | None:
    """A number as vLLM reads it: ``8192``, ``8k`` (thousands), ``8K`` (of 1024)."""
    found = re.fullmatch(r"(\d{1,15})([kKmM]?)", text or "")
    return int(found[1]) * _UNITS[found[2]] if found else None


def _vision(command: Sequence[str]) -> bool | None:
    """True when images are provided for, False when they are switched off."""
    if "--language-model-only" in command:
        return False
    text = option_value(command, "limit-mm-per-prompt")
    try:
        limits = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(limits, dict) or "image" not in limits:
        return None
    return bool(limits["image"])
