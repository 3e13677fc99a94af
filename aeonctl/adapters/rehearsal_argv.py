"""What a container's argv and environment become when the engine is a process of this machine instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from aeonctl.core.container import ContainerSpec

_REHEARSE = "AEONCTL_REHEARSE_"
_FROM_HERE = ("PATH", "LANG", "LC_ALL", "TMPDIR")


def process_argv(spec: ContainerSpec) -> list[str]:
    """The container's command with the host's paths and, on a bridge network, the published address and port."""
    argv = _stand_in([_host_paths(spec, word) for word in spec.command], spec)
    if spec.network == "bridge" and spec.publish:
        argv = _with_option(argv, "--port", str(spec.publish[0].host_port))
        argv = _with_option(argv, "--host", spec.publish[0].host_ip)
    return argv


def process_environment(spec: ContainerSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """The container's variables, the rehearsal's own from ``environment``, and what any process needs to run."""
    given = {name: environment[name] for name in _FROM_HERE if name in environment}
    given |= {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    for name, value in spec.env.items():
        if value is not None:
            given[name] = _host_paths(spec, value)
        elif name in environment:
            given[name] = environment[name]
    if (folder := _repository(spec)) is not None:
        given["AEONCTL_REHEARSE_MODEL_DIR"] = str(folder)
    return given | {name: value for name, value in environment.items() if name.startswith(_REHEARSE)}


def _repository(spec: ContainerSpec) -> Path | None:
    """The stand-in of a model that the command names by its repository, below a mounted folder of stand-ins."""
    if spec.command[:1] != ("serve",):
        return None
    sources = [Path(mount.source) for mount in spec.mounts if mount.type == "bind"]
    names = [word.replace("/", "--") for word in spec.command[1:] if re.fullmatch(r"[\w.-]+/[\w.-]+", word)]
    folders = (source / name for source in sources for name in names)
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def _host_paths(spec: ContainerSpec, word: str) -> str:
    """``word`` with every mounted folder's path replaced, also after ``=`` and inside JSON."""
    sources = {mount.target.rstrip("/"): mount.source.rstrip("/") for mount in spec.mounts if mount.type == "bind"}
    if not sources:
        return word
    longest_first = "|".join(re.escape(target) for target in sorted(sources, key=len, reverse=True))
    pattern = rf"(?<![\w./-])(?:{longest_first})(?=$|[/\"',:;\s\]}}])"
    return re.sub(pattern, lambda match: sources[match[0]], word)


def _stand_in(argv: list[str], spec: ContainerSpec) -> list[str]:
    """A model that is named as on the hub becomes the folder that stands in for it, still served under its name."""
    at = argv.index("--model") + 1 if "--model" in argv[:-1] else 1
    named = argv[at] if at < len(argv) else ""
    folder = named.replace("/", "--")
    sources = [Path(mount.source) / folder for mount in spec.mounts if mount.type == "bind"]
    found = next((source for source in sources if folder != named and (source / "config.json").is_file()), None)
    if found is None:
        return argv
    argv = [*argv[:at], str(found), *argv[at + 1 :]]
    return argv if "--served-model-name" in argv else [*argv, "--served-model-name", named]


def _with_option(argv: list[str], option: str, value: str) -> list[str]:
    """``argv`` with the option's value replaced wherever it stands, or appended."""
    out: list[str] = []
    words = iter(argv)
    found = False
    for word in words:
        if word == option:
            next(words, None)
        elif not word.startswith(f"{option}="):
            out.append(word)
            continue
        found = True
        out += [option, value]
    return out if found else [*out, option, value]
