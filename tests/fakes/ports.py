"""Everything outside, in memory: a world for one test, and ``run`` to send a command line through ``main``."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from aeonctl.adapters.profiles import ProfileFiles
from aeonctl.adapters.rehearsal_hub import RehearsalHub
from aeonctl.cli.output import Output
from aeonctl.core.catalog import Catalog, Document, facts_from_row, recorded_host
from aeonctl.core.checkpoint import Checkpoint
from aeonctl.core.container import REVISION, ContainerSpec
from aeonctl.core.host import Host
from aeonctl.core.image import FactsFrom, ImageFacts
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.errors import AeonError, ConfigurationError, DownloadError
from aeonctl.main import main
from aeonctl.ports import EngineRecord, FetchProgress, Ports, PullProgress, Reply, ReplyStream
from tests.data.profiles import catalog
from tests.fakes.clock import FakeClock
from tests.fakes.engines import FakeEngines, Script

COMMIT = "5af1d2b3c4e5f60718293a4b5c6d7e8f90a1b2c3"
HUB = "/home/user/.cache/huggingface/hub"

_PREFIX = "(APIServer pid=1) INFO 11-30 21:44:26 "
BOOT_LINES: tuple[tuple[float, bytes], ...] = (
    (6.0, f"{_PREFIX}[api_utils.py:273] non-default args: {{'model_tag': '/model'}}\n".encode()),
    (8.0, f"{_PREFIX}[model.py:1788] Using max model len 131072\n".encode()),
    (20.0, b"(EngineCore pid=2) INFO 11-30 21:44:41 [gpu_model_runner.py:5094] Starting to load model /model\n"),
    (40.0, b"(EngineCore pid=2) INFO 11-30 21:44:41 [kv_cache_utils.py:1708] GPU KV cache size: 137,240 tokens\n"),
)
"""A few lines of a boot as vLLM writes them, by the second at which they come."""

HEALTHY = Script(lines=BOOT_LINES, healthy_at=60.0)
"""An engine that boots within a minute and leaves at SIGTERM."""

ANSWER = {
    "choices": [{"message": {"content": "The capital of France is Paris."}, "finish_reason": "stop"}],
    "usage": {"completion_tokens": 8},
}


class Ran(NamedTuple):
    """What a command line came to. ``envelope`` is the document of ``--json``; empty without it."""

    code: int
    out: str
    err: str
    envelope: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        """``data`` of the envelope."""
        found: dict[str, Any] = self.envelope["data"]
        return found

    @property
    def plan(self) -> dict[str, Any]:
        """``data.plan``."""
        found: dict[str, Any] = self.data["plan"]
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The one error of the envelope."""
        (found,) = self.envelope["errors"]
        return dict(found)


def run(argv: Sequence[str], ports: Ports | World) -> Ran:
    """Send a command line through ``main`` with a printer of its own."""
    as_json = "--json" in argv
    out, err = io.StringIO(), io.StringIO()
    bundle = ports.ports if isinstance(ports, World) else ports
    code = main(argv, bundle, Output(as_json=as_json, out=out, err=err))
    envelope = json.loads(out.getvalue()) if as_json and out.getvalue() else {}
    return Ran(int(code), out.getvalue(), err.getvalue(), envelope)


class BundledProfiles:
    """The real files, each kind read once for all tests; ``more`` are documents of the user's own, by kind."""

    _seen: dict[str, list[Document]] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, home: Path, more: Mapping[str, Iterable[Document]] | None = None) -> None:
        self._files = ProfileFiles({}, home=home)
        self.more = {kind: list(documents) for kind, documents in (more or {}).items()}
        self.template_text: str | None = None

    def read(self, kind: str) -> Iterable[Document]:
        if kind not in self._seen:
            self._seen[kind] = list(self._files.read(kind))
        return [*self._seen[kind], *self.more.get(kind, ())]

    def file(self, path: Path) -> Document:
        return self._files.file(path)

    def template(self, name: str) -> str:
        return self._files.template(name) if self.template_text is None else self.template_text

    def save_host(self, host: Host, path: Path) -> None:
        self._files.save_host(host, path)


@dataclass
class FakeHost:
    """ports.HostProbe: this machine is ``host``; ``owners`` are who listens where."""

    host: Host
    owners: dict[int, str] = field(default_factory=dict)
    during: Callable[[], None] = lambda: None

    def probe(self, *, ports: Iterable[int] = ()) -> Host:
        self.during()
        return self.host

    def port_owner(self, port: int) -> str | None:
        return self.owners.get(port)


def _catalogued(ref: str) -> ImageFacts | None:
    row = catalog().image_row(ref)
    if row is None:
        return None
    return facts_from_row(row, ref).model_copy(update={"facts_from": FactsFrom.REGISTRY, "digest": row.digest})


@dataclass
class FakeRegistry:
    """ports.Registry: references to facts or to the error that asking for them raises; an image of the catalogue is
    there as the catalogue says."""

    images: dict[str, ImageFacts | AeonError] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def image(self, ref: str, arch: str | None) -> ImageFacts:
        self.asked.append((ref, arch))
        found = self.images.get(ref) or _catalogued(ref) or DownloadError("image_not_found", f"there is no image {ref}")
        if isinstance(found, AeonError):
            raise found
        return found


@dataclass
class FakeHub:
    """ports.ModelHub: every repository exists; those in ``present`` (or all, when it is None) are on the disk."""

    present: set[str] | None = None
    folders: dict[str, ModelFacts] = field(default_factory=dict)
    errors: dict[str, AeonError] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    size_bytes: int = 25_000_000_000
    during: Callable[[], None] = lambda: None

    def locate(self, repo: str, revision: str | None) -> ModelFacts:
        root = f"{HUB}/models--{repo.replace('/', '--')}"
        present = self.present is None or repo in self.present
        return ModelFacts(
            repo=repo,
            revision=COMMIT if present else revision,
            revision_file=None if present else f"{root}/refs/{revision or 'main'}",
            present=present,
            layout=Layout.SNAPSHOT,
            path=f"{root}/snapshots/{COMMIT if present else REVISION}",
            repo_root=root,
            hub_root=HUB,
            hub_home=HUB.removesuffix("/hub"),
            bytes=21_000_000_000 if present else None,
            files=12 if present else None,
        )

    def folder(self, path: Path) -> ModelFacts:
        if str(path) not in self.folders:
            raise ConfigurationError("model_folder_invalid", f"{path} is no model folder")
        return self.folders[str(path)]

    def size(self, repo: str, revision: str | None) -> tuple[int, int]:
        self.asked.append(repo)
        if repo in self.errors:
            raise self.errors[repo]
        return (0 if self.locate(repo, revision).present else self.size_bytes), self.size_bytes

    def fetch(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        self.during()
        if repo in self.errors:
            raise self.errors[repo]
        for share in (0, self.size_bytes // 2, self.size_bytes):
            progress(FetchProgress(0, 12, share, self.size_bytes))
        self.fetched.append(repo)
        if self.present is not None:
            self.present.add(repo)
        return self.locate(repo, revision)

    def verify(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> None:
        """Every file is as the hub lists it."""

    def checkpoint(self, folder: Path) -> Checkpoint:
        raise ConfigurationError("model_folder_invalid", f"{folder} holds no model")


@dataclass
class OddEngines(FakeEngines):
    """Engines of which some are in a state that a script cannot bring about: ``odd`` changes records by name.
    ``during`` runs after each start; engines in ``stuck`` survive SIGKILL; ``stays`` makes removing do nothing."""

    odd: dict[str, dict[str, Any]] = field(default_factory=dict)
    during: Callable[[], None] = lambda: None
    during_pull: Callable[[], None] = lambda: None
    stuck: set[str] = field(default_factory=set)
    stays: bool = False

    def find(self, name: str) -> EngineRecord | None:
        record = super().find(name)
        return None if record is None else replace(record, **self.odd.get(name, {}))

    def ours(self) -> tuple[EngineRecord, ...]:
        return tuple(replace(record, **self.odd.get(record.name, {})) for record in super().ours())

    def start(self, spec: ContainerSpec, environment: Mapping[str, str]) -> EngineRecord:
        record = super().start(spec, environment)
        self.during()
        return record

    def pull(self, ref: str, progress: Callable[[PullProgress], None]) -> None:
        self.during_pull()
        super().pull(ref, progress)

    def signal(self, name: str, signal: str) -> None:
        if name in self.stuck:
            self.signals.append((name, signal))
        else:
            super().signal(name, signal)

    def remove(self, name: str) -> None:
        if not self.stays:
            super().remove(name)


@dataclass
class FakeHttp:
    """ports.EngineHttp over the fake engines: /health by their scripts, completions from ``reply``."""

    engines: Sequence[FakeEngines]
    reply: Reply | None = field(default_factory=lambda: Reply(200, ANSWER, ""))
    metrics: str = ""
    health: Reply | None = None
    posts: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    during: Callable[[], None] = lambda: None

    def get(self, url: str, *, timeout: float, key: str | None = None) -> Reply | None:
        if not self._engine(url):
            return None
        if url.endswith("/metrics"):
            return Reply(200, None, self.metrics)
        return self.health or Reply(200, None, "")

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None) -> Reply | None:
        self.posts.append((url, body, key))
        self.during()
        return self.reply

    def stream(
        self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None
    ) -> ReplyStream | None:
        """Nothing answers: what streams is tested against the rehearsal's own process."""
        return None

    def _engine(self, url: str) -> bool:
        port = int(url.split(":")[2].split("/")[0])
        return any(
            engines.healthy(spec.name) and port_of(spec) == port
            for engines in self.engines
            for spec, _ in engines.started
        )


def port_of(spec: ContainerSpec) -> int:
    """The port that an engine is reached on."""
    if spec.publish:
        return spec.publish[0].host_port
    return int(spec.command[spec.command.index("--port") + 1])


@dataclass
class FakeLocks:
    """ports.Locks: free, or held by ``holder``."""

    holder: str | None = None
    held: list[str] = field(default_factory=list)

    @contextmanager
    def hold(self, name: str, who: str) -> Iterator[str | None]:
        self.held.append(name)
        yield self.holder


def bundled_host(name: str) -> Host:
    """A recorded host as if it were this machine."""
    documents = {document.name: document for document in BundledProfiles(Path("/nonexistent")).read("hosts")}
    found = recorded_host(documents[name].data, documents[name].origin, name)
    return found.model_copy(update={"recorded": False, "name": "this machine"})


class World:
    """One test's outside. Everything in it may be changed before ``run``; images of the catalogue can be pulled."""

    def __init__(self, tmp_path: Path, host: str | Host = "rtx-5090", script: Script = HEALTHY) -> None:
        self.clock = FakeClock()
        self.script = script
        self.profiles = BundledProfiles(tmp_path)
        self.host = FakeHost(bundled_host(host) if isinstance(host, str) else host)
        self.docker = OddEngines(self.clock, script=lambda _spec, _environment: self.script)
        self.rehearsal = OddEngines(self.clock, script=lambda _spec, _environment: self.script, rehearsal=True)
        self.registry = FakeRegistry()
        self.hub = FakeHub()
        self.http = FakeHttp((self.docker, self.rehearsal))
        self.locks = FakeLocks()
        self.environment: dict[str, str] = {}
        self.state = tmp_path / "state"
        for row in Catalog(self.profiles.read).images.values():
            ref = f"{row.ref}@{row.digest}" if row.digest else row.ref
            steps = [PullProgress("download", done, 8_000_000_000) for done in (0, 4_000_000_000, 8_000_000_000)]
            facts = ImageFacts(ref=ref, facts_from=FactsFrom.LOCAL, vllm=row.vllm, sm=row.sm or None, arch="amd64")
            self.docker.pulls[ref] = (steps, facts)

    @property
    def ports(self) -> Ports:
        return Ports(
            clock=self.clock,
            profiles=self.profiles,
            host=self.host,
            docker=self.docker,
            rehearsal=self.rehearsal,
            registry=self.registry,
            hub=self.hub,
            rehearsal_hub=RehearsalHub(self.state),
            http=self.http,
            locks=self.locks,
            environment=self.environment,
            state=self.state,
        )

    def have_images(self) -> None:
        """Every image of the catalogue is here already."""
        for ref, (_, facts) in self.docker.pulls.items():
            assert isinstance(facts, ImageFacts)
            self.docker.images[ref] = facts

    def only_engine(self) -> EngineRecord:
        """The one engine of ours that exists."""
        (record,) = self.docker.ours()
        return record

    def interrupt(self) -> None:
        """Ctrl-C, for a fake's ``during``."""
        raise KeyboardInterrupt
