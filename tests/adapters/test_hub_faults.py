"""Every fault of a hub and of the disk, injected: what the user sees, what is left (docs/faults-models.md)."""

# ruff: noqa: E501 - the list of faults is a table, a row a line
from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.adapters.real import build_ports
from aeonctl.cli.output import Output
from aeonctl.main import main
from tests.fakes.hub_server import HubServer, hub_server, weights
from tests.real import require

DOCUMENT = Path(__file__).parent.parent.parent / "docs/faults-models.md"
REPO = "org/model"
SECOND = weights(b"2", 2000)
FILES = {
    "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    ).encode(),
    "model-1.safetensors": weights(b"1", 3000),
    "model-2.safetensors": SECOND,
}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3000\n"
NOTHING, WHOLE_FILES, HALF, TAKEN_OUT = (
    "nothing",
    "whole files at most; the branch is not set",
    "whole files, and a piece that has no name in the snapshot",
    "the other files; the corrupt one is gone",
)


@dataclass
class Setting:
    """One fault's surroundings: the hub, and the environment of the program."""

    server: HubServer
    environment: dict[str, str]
    folder: Path

    @property
    def cache(self) -> Path:
        return Path(self.environment["HF_HOME"]) / "hub"


@dataclass(frozen=True)
class FaultCase:
    """``inject`` puts it in; ``left`` is what may be on the disk afterwards."""

    words: str
    code: str
    left: str
    inject: Callable[[Setting], None]
    argv: tuple[str, ...] = ("pull-model", REPO)
    stall_seconds: float = 60.0


def fault(pattern: str, status: int | None = None, **more: Any) -> Callable[[Setting], None]:
    return lambda setting: setting.server.fault(pattern, status, **more)


def serve(**more: Any) -> Callable[[Setting], None]:
    """Another repository in the place of the usual one."""

    def inject(setting: Setting) -> None:
        del setting.server.repositories[REPO]
        setting.server.repository(REPO, more.pop("files", FILES), **more)

    return inject


def setting_of(**names: str) -> Callable[[Setting], None]:
    return lambda setting: setting.environment.update(names)


def token(value: str, *, known: bool = True) -> Callable[[Setting], None]:
    def inject(setting: Setting) -> None:
        del setting.environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
        setting.environment["HF_TOKEN"] = value
        setting.server.tokens = {value} if known else set()

    return inject


def both(*parts: Callable[[Setting], None]) -> Callable[[Setting], None]:
    def inject(setting: Setting) -> None:
        for part in parts:
            part(setting)

    return inject


def without(name: str) -> dict[str, bytes]:
    return {path: content for path, content in FILES.items() if path != name}


def cache_is_a_file(setting: Setting) -> None:
    Path(setting.environment["HF_HOME"]).write_text("")


CASES = [
    FaultCase("a repository that does not exist", "model_not_found", NOTHING, lambda _: None, ("pull-model", "org/no")),
    FaultCase("a branch that does not exist", "model_not_found", NOTHING, lambda _: None, ("pull-model", f"{REPO}@v9")),
    FaultCase("a private repository, no token", "model_not_found", NOTHING, serve(private=True)),
    FaultCase("a private repository, a stranger's token", "model_not_found", NOTHING, both(serve(private=True), token("x"))),
    FaultCase("a gated repository, no token", "gated", NOTHING, serve(gated=True)),
    FaultCase("a gated repository, a token not let in", "gated", NOTHING, both(serve(gated=True), token("x"))),
    FaultCase("a token that the hub does not know", "unauthorized", NOTHING, token("made-up", known=False)),
    FaultCase("a token without the right to read", "unauthorized", NOTHING, fault("api/models", 403, headers={"X-Error-Message": "token may not read"})),
    FaultCase("too many requests (429)", "rate_limited", NOTHING, fault("api/models", 429, headers={"Retry-After": "30"})),
    FaultCase("the hub is down (503)", "hub_failed", NOTHING, fault("api/models", 503)),
    FaultCase("nobody answers", "offline", NOTHING, setting_of(HF_ENDPOINT="http://127.0.0.1:9")),
    FaultCase("HF_HUB_OFFLINE is set", "offline", NOTHING, setting_of(HF_HUB_OFFLINE="1")),
    FaultCase("a proxy that wants a password", "proxy_failed", NOTHING, fault("api/models", 407)),
    FaultCase("a log-in page instead of the hub", "not_a_hub", NOTHING, fault(".", 200, body=b"<html>please log in</html>")),
    FaultCase("JSON that is not a hub's", "not_a_hub", NOTHING, fault("api/models", 200, body=b"{}")),
    FaultCase("a file answers 500", "hub_failed", WHOLE_FILES, fault("GET .*model-1", 500)),
    FaultCase("a file answers 403", "unauthorized", WHOLE_FILES, fault("(GET|HEAD) .*model-1", 403)),
    FaultCase("a body shorter than promised", "incomplete", WHOLE_FILES, fault("(GET|HEAD) .*model-1", claim_size=4000)),
    FaultCase("a download that stands still", "stalled", HALF, fault("GET .*model-1", hold_after=0), stall_seconds=0.3),
    FaultCase("a log-in page in the place of a shard", "incomplete", WHOLE_FILES, fault("GET .*model-1", replace=b"<html>please log in".ljust(3000))),
    FaultCase("git LFS pointers in the place of shards", "incomplete", WHOLE_FILES, serve(files={**FILES, "model-1.safetensors": POINTER})),
    FaultCase("a shard that the repository lacks", "incomplete", WHOLE_FILES, serve(files=without("model-2.safetensors"))),
    FaultCase("a repository without config.json", "incomplete", WHOLE_FILES, serve(files=without("config.json"))),
    FaultCase("a repository without weights", "incomplete", WHOLE_FILES, serve(files={"config.json": b"{}"})),
    FaultCase("a disk without room for it", "disk_full", NOTHING, serve(claimed={"model-1.safetensors": 10**15})),
    FaultCase("HF_HOME is a file", "model_cache_unwritable", NOTHING, cache_is_a_file),
    FaultCase("other bytes of the right size (--verify)", "corrupt", TAKEN_OUT, fault("GET .*model-2", replace=weights(b"3", 2000)), ("pull-model", REPO, "--verify")),
]  # fmt: skip


@contextmanager
def surroundings(folder: Path) -> Iterator[Setting]:
    with hub_server() as server:
        server.repository(REPO, FILES)
        environment = {
            "HOME": str(folder / "home"),
            "HF_HOME": str(folder / "hf"),
            "HF_ENDPOINT": server.endpoint,
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        yield Setting(server, environment, folder)


def pull(setting: Setting, argv: tuple[str, ...] = ("pull-model", REPO), stall_seconds: float = 60.0) -> dict[str, Any]:
    """The envelope that the program prints."""
    hub = HuggingFaceHub(setting.environment, stall_seconds=stall_seconds)
    ports = replace(build_ports(None, setting.environment), hub=hub)
    out = io.StringIO()
    code = main(["--json", *argv], ports, Output(as_json=True, out=out, err=io.StringIO()))
    envelope: dict[str, Any] = json.loads(out.getvalue())
    assert envelope["exit_code"] == code
    return envelope


def check_left(setting: Setting, left: str) -> None:
    """Nothing that ``up`` would start from; and no more than the list says."""
    hub = HuggingFaceHub(setting.environment)
    assert not hub.locate(REPO, None).present
    root = setting.cache / "models--org--model"
    blobs = list((root / "blobs").glob("*")) if root.is_dir() else []
    if left == NOTHING:
        assert blobs == []
    if left in (NOTHING, WHOLE_FILES):
        assert not (root / "refs/main").exists()
    if left != HALF:
        assert not [blob for blob in blobs if blob.suffix == ".incomplete"]


ROWS: dict[str, str] = {}


def record(words: str, error: dict[str, Any], exit_code: int, left: str, setting: Setting) -> None:
    def plain(text: str) -> str:
        text = text.replace(setting.server.endpoint, "HUB").replace(str(setting.folder), "/home/me")
        text = re.sub(r"[\d.]+ [kMGTP]?B are free", "FREE are free", text)
        return text.replace("http://127.0.0.1:9", "HUB").replace("|", "\\|")

    seen = "<br>".join(map(plain, [error["message"], *error["causes"][:2], f"hint: {error['hint']}"]))
    ROWS[words] = f"| {words} | {exit_code} `{error['code']}` | {seen} | {left} |"


@pytest.mark.parametrize("case", CASES, ids=[case.words for case in CASES])
def test_a_fault(case: FaultCase, tmp_path: Path) -> None:
    with surroundings(tmp_path) as setting:
        case.inject(setting)
        envelope = pull(setting, case.argv, case.stall_seconds)
        (error,) = envelope["errors"]
        assert (error["code"], envelope["ok"], bool(error["hint"])) == (case.code, False, True)
        check_left(setting, case.left)
        record(case.words, error, envelope["exit_code"], case.left, setting)


@pytest.mark.parametrize("case", [case for case in CASES if case.left != NOTHING], ids=lambda case: str(case.words))
def test_the_next_run_makes_it_whole(case: FaultCase, tmp_path: Path) -> None:
    with surroundings(tmp_path) as setting:
        case.inject(setting)
        pull(setting, case.argv, case.stall_seconds)
        setting.server.release.set()
        setting.server.faults.clear()
        setting.server.repositories[REPO].commit(FILES)
        envelope = pull(setting, ("pull-model", REPO, "--verify"))
        assert envelope["ok"], envelope
        assert envelope["data"]["model"]["bytes"] == sum(map(len, FILES.values()))


@contextmanager
def small_disk(folder: Path, size: str, *options: str) -> Iterator[None]:
    require(os.geteuid() == 0, "a file system of its own needs root")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_disk_that_fills_up_meanwhile(tmp_path: Path) -> None:
    with surroundings(tmp_path) as setting, small_disk(tmp_path / "hf", "1m"):

        def fill() -> None:
            if (tmp_path / "hf/other").exists():
                return
            with (tmp_path / "hf/other").open("wb") as other:
                for size in (65536, 4096, 1):
                    try:
                        while True:
                            other.write(bytes(size))
                            other.flush()
                    except OSError:
                        continue

        serve(files={**FILES, "model-1.safetensors": weights(b"1", 200_000)})(setting)
        setting.server.fault("GET .*model-1", action=fill)
        (error,) = (envelope := pull(setting))["errors"]
        assert error["code"] == "disk_full"
        check_left(setting, WHOLE_FILES)
        record("a disk that fills up meanwhile", error, envelope["exit_code"], WHOLE_FILES, setting)


def test_a_cache_on_a_read_only_disk(tmp_path: Path) -> None:
    with surroundings(tmp_path) as setting, small_disk(tmp_path / "hf", "1m", "ro"):
        (error,) = (envelope := pull(setting))["errors"]
        assert error["code"] == "model_cache_read_only"
        check_left(setting, NOTHING)
        record("a cache on a read-only file system", error, envelope["exit_code"], NOTHING, setting)


def test_a_cache_that_belongs_to_root() -> None:
    require(os.geteuid() == 0, "only root can leave a folder of root's")
    folder = Path(tempfile.mkdtemp(prefix="hub-of-root-"))
    folder.chmod(0o755)
    (folder / "hf/hub").mkdir(parents=True)
    with surroundings(folder) as setting:
        import huggingface_hub.hf_api  # noqa: F401 - while its files may still be read

        os.seteuid(65534)
        try:
            (error,) = (envelope := pull(setting))["errors"]
        finally:
            os.seteuid(0)
        assert (error["code"], error["owner"]) == ("model_cache_not_yours", "root")
        check_left(setting, NOTHING)
        record("a cache that belongs to root", error, envelope["exit_code"], NOTHING, setting)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with surroundings(tmp_path) as setting:
        serve(files={**FILES, "model-1.safetensors": weights(b"1", 8_000_000)})(setting)
        setting.server.fault("GET .*model-1", hold_after=4_000_000)
        process = subprocess.Popen(
            [sys.executable, "-m", "aeonctl", "--json", "pull-model", REPO],
            env={**os.environ, **setting.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert setting.server.held.wait(60)
        process.send_signal(number)
        setting.server.release.set()
        out, _ = process.communicate(timeout=60)
        left = HALF if number is signal.SIGKILL else WHOLE_FILES
        check_left(setting, left)
        if number is signal.SIGKILL:
            error = {"message": "nothing", "causes": [], "code": "killed", "hint": "the same command goes on"}
        else:
            (error,) = json.loads(out)["errors"]
        record(f"{number.name} meanwhile", {**error, "hint": error["hint"] or "the same command goes on"}, 130 if out else 137, left, setting)  # fmt: skip
        setting.server.faults.clear()
        assert pull(setting)["ok"]


HEAD = """# What can go wrong with a model's download

Generated by tests/adapters/test_hub_faults.py, which injects each fault into a hub on loopback (or into the disk) and
checks that what is left is nothing that `aeonctl up` would start from. The same command, run again once the fault is
gone, makes the snapshot whole. `AEONCTL_WRITE_DOCS=1 pytest tests/adapters/test_hub_faults.py` writes this file anew.

| fault | exit code, error | what the user sees | left on the disk |
|---|---|---|---|
"""


def test_the_list_is_current(request: pytest.FixtureRequest) -> None:
    ours = [item for item in request.session.items if item.path == request.path]
    if len(ROWS) < len(CASES) + 6:
        require(len(ours) < len(CASES), f"only {len(ROWS)} faults were injected")
    text = HEAD + "\n".join(ROWS.values()) + "\n"
    if os.environ.get("AEONCTL_WRITE_DOCS") == "1":
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text
