"""Downloads from a hub on loopback, over real HTTP and with the real huggingface_hub."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from aeonctl.adapters.hub import HuggingFaceHub
from aeonctl.adapters.hub_errors import Asked, translated
from aeonctl.adapters.hub_progress import DownloadStoppedError, Tally
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.errors import AeonError, DownloadError, ExitCode, HostError
from aeonctl.ports import FetchProgress
from tests.fakes.hub_server import HubServer, hub_server, weights

REPO = "org/model"
INDEX = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}).encode()
FILES = {
    "config.json": b'{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}',
    "model.safetensors.index.json": INDEX,
    "model-1.safetensors": weights(b"1", 3000),
    "model-2.safetensors": weights(b"2", 2000),
    "sub folder/[notes].txt": b"notes",
}
TOTAL = sum(map(len, FILES.values()))


@pytest.fixture
def server() -> Iterator[HubServer]:
    with hub_server() as running:
        yield running


@pytest.fixture
def environment(server: HubServer, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}


@pytest.fixture
def hub(environment: dict[str, str]) -> HuggingFaceHub:
    return HuggingFaceHub(environment)


def quiet(progress: FetchProgress) -> None:
    """No one watches."""


def refused(hub: HuggingFaceHub, repo: str = REPO, revision: str | None = None) -> AeonError:
    with pytest.raises(AeonError) as caught:
        hub.fetch(repo, revision, quiet)
    assert caught.value.hint
    return caught.value


def test_a_whole_download(server: HubServer, hub: HuggingFaceHub, tmp_path: Path) -> None:
    commit = server.repository(REPO, FILES).branches["main"]
    before = hub.locate(REPO, None)
    assert (before.present, before.revision) == (False, None)
    assert hub.size(REPO, None) == (TOTAL, TOTAL)
    assert not (tmp_path / "hf/hub/models--org--model/refs").exists()
    steps: list[FetchProgress] = []
    facts = hub.fetch(REPO, None, steps.append)
    root = str(tmp_path / "hf/hub/models--org--model")
    assert facts == ModelFacts(
        repo=REPO,
        revision=commit,
        present=True,
        layout=Layout.SNAPSHOT,
        path=f"{root}/snapshots/{commit}",
        repo_root=root,
        hub_root=str(tmp_path / "hf/hub"),
        hub_home=str(tmp_path / "hf"),
        bytes=TOTAL,
        files=5,
        quantization="nvfp4",
        entries=facts.entries,
    )
    assert facts.entries is not None
    assert set(facts.entries.files) == set(FILES)
    assert hub.locate(REPO, None) == hub.locate(REPO, commit) == facts
    assert steps[0] == FetchProgress(0, 5, 0, TOTAL)
    last = steps[-1]
    assert (last.files_done, last.files_total, last.bytes_done, last.bytes_total) == (5, 5, TOTAL, TOTAL)
    assert {step.file: step.file_total for step in steps[1:]} == {name: len(content) for name, content in FILES.items()}
    assert [step.bytes_done for step in steps] == sorted(step.bytes_done for step in steps)
    assert hub.size(REPO, None) == (0, TOTAL)


def test_a_whole_commit_needs_no_network(server: HubServer, hub: HuggingFaceHub) -> None:
    commit = server.repository(REPO, FILES).branches["main"]
    hub.fetch(REPO, None, quiet)
    asked = len(server.asked)
    assert hub.fetch(REPO, commit, quiet).present
    assert len(server.asked) == asked


def test_a_branch_that_moved(server: HubServer, hub: HuggingFaceHub) -> None:
    repository = server.repository(REPO, FILES)
    old = hub.fetch(REPO, None, quiet)
    new = repository.commit({**FILES, "model-2.safetensors": weights(b"3", 2000)})
    server.asked.clear()
    assert hub.size(REPO, None) == (2000, TOTAL)
    assert hub.locate(REPO, None) == old
    assert hub.fetch(REPO, None, quiet).revision == new
    assert server.downloads() == ["model-2.safetensors"]


def test_a_hub_that_is_gone_is_no_refresh(server: HubServer, environment: dict[str, str]) -> None:
    server.repository(REPO, FILES)
    HuggingFaceHub(environment).fetch(REPO, None, quiet)
    gone = HuggingFaceHub({**environment, "HF_ENDPOINT": "http://127.0.0.1:9"})
    error = refused(gone)
    assert error.code == "offline"
    assert "127.0.0.1:9" in error.causes[0]
    assert gone.locate(REPO, None).present


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_is_honoured(server: HubServer, environment: dict[str, str], switch: str) -> None:
    commit = server.repository(REPO, FILES).branches["main"]
    offline = HuggingFaceHub({**environment, switch: "yes"})
    assert refused(offline).hint == "unset it to download"
    assert server.asked == []
    HuggingFaceHub(environment).fetch(REPO, None, quiet)
    error = refused(offline)
    assert (error.code, error.exit_code) == ("offline", ExitCode.DOWNLOAD)
    assert "--offline" in str(error.hint)
    assert offline.fetch(REPO, commit, quiet).present


def test_gated_and_private(server: HubServer, environment: dict[str, str]) -> None:
    server.tokens = {"reader", "stranger"}
    server.repository(REPO, FILES, gated=True, readers={"reader"})
    server.repository("org/secret", FILES, private=True, readers={"reader"})
    del environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
    nobody = HuggingFaceHub({**environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})
    stranger = HuggingFaceHub({**environment, "HF_TOKEN": "stranger"})
    reader = HuggingFaceHub({**environment, "HF_TOKEN": "reader\n"})
    first, second = refused(nobody), refused(stranger)
    assert (first.code, first.causes) == ("gated", ("no token was sent",))
    assert f"{server.endpoint}/{REPO}" in str(first.hint)
    assert (second.code, second.causes[0][:18]) == ("gated", "your token's accou")
    assert refused(nobody, "org/secret").code == refused(stranger, "org/secret").code == "model_not_found"
    assert reader.fetch(REPO, None, quiet).gated
    assert reader.fetch("org/secret", None, quiet).present


def test_a_bad_token(server: HubServer, environment: dict[str, str]) -> None:
    server.repository(REPO, FILES)
    del environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]
    error = refused(HuggingFaceHub({**environment, "HUGGING_FACE_HUB_TOKEN": "made-up"}))
    assert (error.code, error.causes) == ("unauthorized", ("Invalid credentials in Authorization header",))


@pytest.mark.parametrize(
    ("repo", "revision"), [("org/absent", None), (REPO, "v9"), (REPO, "0" * 40), ("not a name", None), ("a/b/c", None)]
)
def test_what_is_not_there(server: HubServer, hub: HuggingFaceHub, repo: str, revision: str | None) -> None:
    server.repository(REPO, FILES)
    error = refused(hub, repo, revision)
    assert error.code == "model_not_found"
    assert not hub.locate(repo, revision).present


@pytest.mark.parametrize(
    ("pattern", "status", "headers", "code", "words"),
    [
        ("api/models", 503, {}, "hub_failed", "503"),
        ("api/models", 429, {"Retry-After": "30"}, "rate_limited", "30 s"),
        ("api/models", 403, {"X-Error-Message": "token is read-only"}, "unauthorized", "read-only"),
        ("api/models", 404, {}, "model_not_found", "404"),
        ("GET .*resolve.*model-1", 500, {}, "hub_failed", "500"),
        ("api/models", 200, {}, "not_a_hub", "not answer like a hub"),
        ("HEAD .*resolve", 200, {"ETag": '"x"'}, "not_a_hub", "not answer like a hub"),
    ],
)
def test_a_hub_that_fails(
    server: HubServer, hub: HuggingFaceHub, pattern: str, status: int, headers: dict[str, str], code: str, words: str
) -> None:
    server.repository(REPO, FILES)
    server.fault(pattern, status, headers=headers, body=b"<html>")
    error = refused(hub)
    assert error.code == code
    assert words in " ".join(error.causes)
    assert not hub.locate(REPO, None).present


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'{"id": "org/model"}', b'{"id": "org/model", "sha": "main"}'])
def test_json_that_is_not_the_hubs(server: HubServer, hub: HuggingFaceHub, body: bytes) -> None:
    server.fault("api/models", 200, body=body)
    assert refused(hub).code == "not_a_hub"


def test_a_body_that_breaks_off_is_taken_up_again(server: HubServer, hub: HuggingFaceHub) -> None:
    server.repository(REPO, FILES)
    server.fault("GET .*model-1.safetensors", cut_after=1000, times=1)
    assert hub.fetch(REPO, None, quiet).present


def test_a_body_of_the_wrong_size_is_not_kept(server: HubServer, hub: HuggingFaceHub) -> None:
    server.repository(REPO, FILES)
    server.fault("(GET|HEAD) .*model-1.safetensors", claim_size=4000)
    error = refused(hub)
    assert error.code == "incomplete"
    assert "4000" in error.causes[0]
    assert not hub.locate(REPO, None).present
    server.faults.clear()
    assert hub.fetch(REPO, None, quiet).present


def test_files_that_lost_bytes_here_are_fetched_again(server: HubServer, hub: HuggingFaceHub) -> None:
    server.repository(REPO, {**FILES, "odd[1].safetensors": weights(b"o", 300)})
    facts = hub.fetch(REPO, None, quiet)
    for name in ("model-1.safetensors", "odd[1].safetensors"):
        blob = (Path(facts.path) / name).resolve()
        blob.chmod(0o600)
        blob.write_bytes(b"1")
    (Path(facts.path) / "model-2.safetensors").resolve().unlink()
    assert hub.locate(REPO, None).missing == (
        "model-2.safetensors: its link leads nowhere, to " + str((Path(facts.path) / "model-2.safetensors").resolve()),
        "model-1.safetensors: 1 bytes instead of 3000",
        "odd[1].safetensors: 1 bytes instead of 300",
    )
    server.asked.clear()
    assert hub.fetch(REPO, None, quiet) == facts
    assert sorted(server.downloads()) == ["model-1.safetensors", "model-2.safetensors", "odd[1].safetensors"]


def test_no_room_is_said_before_the_download(server: HubServer, hub: HuggingFaceHub) -> None:
    server.repository(REPO, FILES, claimed={"model-1.safetensors": 10**15})
    error = refused(hub)
    assert (error.code, error.exit_code) == ("disk_full", ExitCode.HOST)
    assert error.facts["needed"] == 10**15 + TOTAL - 3000
    assert 0 < int(str(error.facts["free"])) < 10**15
    assert server.downloads() == []


def test_no_room_during_the_download(tmp_path: Path) -> None:
    asked = Asked(REPO, None, tmp_path / "not/yet/there", "https://hub.example", has_token=False, needed=5_000_000_000)
    wrapped = OSError("cannot fetch")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device", "blob")
    error = translated(wrapped, asked)
    assert isinstance(error, HostError)
    assert error.message.startswith("the model needs 5.0 GB in ")
    assert "No space left" in error.causes[0]


def test_what_is_not_an_answer_of_the_hub(tmp_path: Path) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    asked = Asked(REPO, None, tmp_path, "https://hub.example", has_token=False)
    hidden = LocalEntryNotFoundError("not in the cache")
    assert translated(hidden, asked).code == "incomplete"
    hidden.__cause__ = OfflineModeIsEnabled("offline")
    assert translated(hidden, asked).code == "offline"
    hidden.__cause__ = None
    hidden.__context__ = httpx2.ReadError("reset")
    assert translated(hidden, asked).code == "incomplete"


def test_a_stopped_tally_ends_its_workers() -> None:
    tally = Tally(quiet, FetchProgress(0, 1, 0, 10))
    bar = tally.bar_class("w")(desc="w: downloading bytes", total=0)
    bar.update(4)
    tally.bar_class("v")(desc="another").update(None)
    tally.stop()
    with pytest.raises(DownloadStoppedError):
        bar.update(4)
    assert bar.n == 8


def test_a_cache_that_cannot_be_written(server: HubServer, environment: dict[str, str], tmp_path: Path) -> None:
    server.repository(REPO, FILES)
    (tmp_path / "file").write_text("")
    error = refused(HuggingFaceHub({**environment, "HF_HOME": str(tmp_path / "file")}))
    assert error.code == "model_cache_unwritable"


def test_a_repository_that_is_no_whole_model(server: HubServer, hub: HuggingFaceHub) -> None:
    server.repository(REPO, {"config.json": b"{}", "model.safetensors.index.json": INDEX})
    error = refused(hub)
    assert isinstance(error, DownloadError)
    assert (error.code, error.causes) == ("incomplete", ("model-1.safetensors", "model-2.safetensors"))
    server.repository("org/gguf", {"model.gguf": b"GGUF"})
    assert refused(hub, "org/gguf").causes == ("config.json",)


def test_an_interrupt_keeps_what_is_whole(server: HubServer, environment: dict[str, str], tmp_path: Path) -> None:
    server.repository(REPO, {**FILES, "model-1.safetensors": weights(b"1", 40_000_000)})
    server.fault("GET .*model-1.safetensors", hold_after=12_000_000)
    script = (
        "import os\n"
        "from aeonctl.adapters.hub import HuggingFaceHub\n"
        "say = lambda step: print(step.files_done, flush=True)\n"
        f"HuggingFaceHub(os.environ).fetch({REPO!r}, None, say)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any(line == "4\n" for line in process.stdout)
    assert server.held.wait(60)
    process.send_signal(signal.SIGINT)
    server.release.set()
    _, errors = process.communicate(timeout=120)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    hub = HuggingFaceHub(environment)
    assert not hub.locate(REPO, None).present
    assert not list((tmp_path / "hf/hub").rglob("*.incomplete"))
    server.faults.clear()
    server.asked.clear()
    assert hub.fetch(REPO, None, quiet).present
    assert server.downloads() in (["model-1.safetensors"], [])


def test_looking_at_the_cache_does_not_import_huggingface_hub(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from aeonctl.adapters.hub import HuggingFaceHub\n"
        f"hub = HuggingFaceHub({{}}, home=Path({str(tmp_path)!r}))\n"
        "assert not hub.locate('org/model', None).present\n"
        "assert not {'huggingface_hub', 'requests', 'httpx2'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_standstill_in_the_xet_store_is_tried_again_over_http(server: HubServer, environment: dict[str, str]) -> None:
    """The real Xet client asks the store how the file is put together, and gets no answer."""
    server.repository(REPO, FILES, xet=True)

    def waits() -> None:
        server.release.wait(60)

    server.fault(" /xet/", action=waits)
    steps: list[FetchProgress] = []
    facts = HuggingFaceHub(environment, stall_seconds=1.0).fetch(REPO, None, steps.append)
    assert facts.present
    assert any(" /xet/" in request for request in server.asked)
    assert sorted(name for name in server.downloads() if name.endswith(".safetensors")) == [
        "model-1.safetensors",
        "model-2.safetensors",
    ]
    assert steps[-1].bytes_done == TOTAL
