"""The doors to the outside, in our own words. Adapters implement them; fakes go in through them.

Every method documents the errors that it raises; an adapter translates whatever its library raises into these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aeonctl.core.exchange import (
    EngineRecord as EngineRecord,
)
from aeonctl.core.exchange import (
    EngineStatus as EngineStatus,
)
from aeonctl.core.exchange import (
    FetchProgress as FetchProgress,
)
from aeonctl.core.exchange import (
    GuardTask as GuardTask,
)
from aeonctl.core.exchange import (
    Listed as Listed,
)
from aeonctl.core.exchange import (
    MemoryUser as MemoryUser,
)
from aeonctl.core.exchange import (
    PullProgress as PullProgress,
)
from aeonctl.core.exchange import (
    RemoteAnswer as RemoteAnswer,
)
from aeonctl.core.exchange import (
    Reply as Reply,
)

if TYPE_CHECKING:
    from aeonctl.core.catalog import Document
    from aeonctl.core.checkpoint import Checkpoint
    from aeonctl.core.container import ContainerSpec
    from aeonctl.core.host import Docker, Driver, Gpu, Host
    from aeonctl.core.image import ImageFacts
    from aeonctl.core.model import ModelFacts
    from aeonctl.core.plan import Plan


class Clock(Protocol):
    """Time, so that tests own it."""

    def now(self) -> float:
        """Seconds on a monotonic scale."""

    def sleep(self, seconds: float) -> None:
        """Wait; returns early only by an exception (Ctrl-C)."""

    def timestamp(self) -> float:
        """Seconds since the epoch, for records that outlive the process."""


class Profiles(Protocol):
    """The files under profiles/, the bundled ones and the user's."""

    def read(self, kind: str) -> Iterable[Document]:
        """Every document of a kind, bundled first. ConfigurationError profile_invalid for a file that is not YAML."""

    def file(self, path: Path) -> Document:
        """One file that the user names (``--as FILE``). ConfigurationError host_invalid when it cannot be read."""

    def template(self, name: str) -> str:
        """A file under templates/, the user's own copy first. ConfigurationError template_error when there is none."""

    def save_host(self, host: Host, path: Path) -> None:
        """Write a host for ``--as``, whole or not at all. ConfigurationError file_not_written."""


class GpuProbe(Protocol):
    """NVML, which knows that "not supported" is an answer."""

    def gpus(self) -> tuple[Driver, tuple[Gpu, ...] | None, dict[str, str]]:
        """The driver, the GPUs (None when NVML does not answer) and why facts are unknown. Raises nothing."""


class HostProbe(Protocol):
    """Everything about this machine, gathered from all its parts."""

    def probe(self, *, ports: Iterable[int] = ()) -> Host:
        """The host. A part that cannot be read is unknown; raises nothing."""

    def port_owner(self, port: int) -> str | None:
        """Who listens on a TCP port of this machine, in words (``process python3 (pid 12)``); None when nobody does."""


class Inspection(Protocol):
    """The same machine asked for everything that ``doctor`` wants to know, each part within a few seconds."""

    def probe(self, *, ports: Iterable[int] = ()) -> Host:
        """The host with its details. A part that cannot be read, or not in time, is unknown; raises nothing."""

    def private_words(self) -> tuple[str, ...]:
        """What names this machine and its user, so that a report can leave it out. Raises nothing."""


class LogStream(Iterator[bytes], Protocol):
    """A log in pieces, to be read in one thread and stopped from another."""

    def close(self) -> None:
        """Stop: whoever waits for the next piece gets the end. Harmless twice, from any thread."""


class Engines(Protocol):
    """Something that runs engines: a Docker engine, or the rehearsal."""

    def describe(self) -> Docker:
        """What answers. Raises nothing: silence is ``reachable=False`` with a problem."""

    def find(self, name: str) -> EngineRecord | None:
        """Whatever has that name, ours or not. HostError docker_unreachable | docker_permission."""

    def ours(self) -> tuple[EngineRecord, ...]:
        """Every engine with our labels, running or not. HostError as ``find``."""

    def listed(self, *, foreign: bool) -> tuple[Listed, ...]:
        """Every engine of ours by one question, or every container at all with ``foreign``. HostError as ``find``."""

    def image(self, ref: str) -> ImageFacts | None:
        """A local image by its own config; None when it is not here. HostError as ``find``."""

    def pull(self, ref: str, progress: Callable[[PullProgress], None]) -> None:
        """Fetch an image. DownloadError image_pull_failed with the engine's or registry's own words, and a ``reason``
        among its facts: not_found | denied | disk_full | rate_limited | wrong_platform | corrupt | registry_failed |
        unreachable | other. HostError as ``find``.

        ``progress`` is called at least about once a second, also when nothing moves; whatever it raises ends the pull.
        A reference with a tag and a digest gets the tag, too. An image of another architecture than the engine's is
        removed again.
        """

    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The layers of each local image by their diff ids, lowest first. HostError as ``find``."""

    def start(self, spec: ContainerSpec, environment: Mapping[str, str]) -> EngineRecord:
        """Create and start. A container that could be created but not started is removed again.

        HostError name_in_use | port_in_use | image_missing | nvidia_runtime_missing | docker_*;
        EngineError start_failed.
        """

    def log(self, name: str, *, follow: bool, tail: int | None = None) -> LogStream:
        """The log in pieces as they come, stdout and stderr in order. Ends when the engine ends (or at once without
        ``follow``). EngineError not_running when there is no such engine."""

    def cpu_seconds(self, name: str) -> float | None:
        """CPU time used so far by all of the engine's processes; None when it cannot be read."""

    def signal(self, name: str, signal: str) -> None:
        """Send SIGTERM or SIGKILL; nothing happens when it is not running."""

    def set_restart(self, name: str, policy: str) -> None:
        """Set the restart policy (``no``, ``unless-stopped``). EngineError not_running when there is no such engine."""

    def remove(self, name: str) -> None:
        """Remove a stopped engine; nothing happens when there is none. EngineError still_running when it runs."""


class Registry(Protocol):
    """Image registries, asked for a manifest and a config, never for a layer."""

    def image(self, ref: str, arch: str | None) -> ImageFacts:
        """What the registry says of an image for ``linux/arch`` (or of its only platform).

        DownloadError image_not_found | image_denied | registry_unreachable | registry_failed.
        """


class ModelHub(Protocol):
    """The Hugging Face hub's cache on this disk, and the hub behind it."""

    def locate(self, repo: str, revision: str | None) -> ModelFacts:
        """The snapshot in the cache, or where it will be (``present`` false). No network; raises nothing."""

    def folder(self, path: Path) -> ModelFacts:
        """A folder that the user names, which may itself be a snapshot in a cache.

        ConfigurationError model_folder_invalid: not a folder, no config.json, links that lead nowhere.
        """

    def checkpoint(self, folder: Path) -> Checkpoint:
        """What the model in a folder is, by its configuration and its weights' headers.

        ConfigurationError model_folder_invalid when they cannot be read.
        """

    def size(self, repo: str, revision: str | None) -> tuple[int, int]:
        """Bytes to fetch and bytes in all, by the hub's listing; writes nothing. DownloadError as ``fetch``."""

    def fetch(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        """Download a snapshot into the cache, or finish one. DownloadError model_not_found | gated | offline |
        incomplete | unauthorized | rate_limited | proxy_failed | tls_untrusted | not_a_hub | stalled | hub_failed;
        HostError disk_full | model_cache_read_only | model_cache_not_yours | model_cache_unwritable."""

    def verify(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> None:
        """Compare every file of a snapshot that is here with its checksum. DownloadError corrupt (what is corrupt is
        taken out of the cache) | incomplete."""


class ReplyStream(Protocol):
    """An HTTP answer that comes line by line. Iterating ends when it is over or breaks off."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def content_type(self) -> str:
        """The media type, in lower case, without its parameters."""

    def lines(self) -> Iterator[str]:
        """The lines as they come, empty ones left out."""

    def close(self) -> None:
        """Hang up, whether or not all has come."""


class EngineHttp(Protocol):
    """The engine's HTTP API."""

    def get(self, url: str, *, timeout: float, key: str | None = None) -> Reply | None:
        """GET; None when nothing answers (refused, reset, timed out)."""

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None) -> Reply | None:
        """POST JSON; None when nothing answers."""

    def stream(
        self, url: str, body: Mapping[str, Any], *, timeout: float, key: str | None = None
    ) -> ReplyStream | None:
        """POST JSON and read the answer as it comes; None when nothing answers. Whoever asks must close it."""


class Records(Protocol):
    """What ``verify`` found, one record per spec hash."""

    def save(self, spec_hash: str, record: Mapping[str, Any]) -> Path:
        """Keep a record, whole or not at all; returns where. HostError state_unwritable."""

    def load(self, spec_hash: str) -> Mapping[str, Any] | None:
        """The record of a spec; None when there is none, or none that can be read."""


class NoRecords:
    """Records that keeps nothing."""

    def save(self, spec_hash: str, record: Mapping[str, Any]) -> Path:  # noqa: ARG002
        """Forget it."""
        return Path(spec_hash)

    def load(self, spec_hash: str) -> Mapping[str, Any] | None:  # noqa: ARG002
        """There is none."""
        return None


class Reporter(Protocol):
    """Whoever tells the user what goes on: a terminal with bars, plain lines, or nobody."""

    def note(self, text: str) -> None:
        """Something worth knowing."""

    def warn(self, text: str) -> None:
        """Something that may go wrong."""

    def planned(self, plan: Plan) -> None:
        """What was decided, before anything is done about it."""

    def pulling(self, ref: str, step: PullProgress) -> None:
        """An image is being pulled."""

    def fetching(self, repo: str, step: FetchProgress) -> None:
        """A model is being downloaded."""

    def booting(self, phase: str, detail: str, elapsed: float) -> None:
        """The engine boots: the phase, how far it is in words, seconds since the start."""

    def settle(self) -> None:
        """End whatever moves on the screen."""


class RemoteShell(Protocol):
    """A shell on another machine."""

    def run(self, url: str, script: str) -> RemoteAnswer:
        """Run one ``sh`` script at ``ssh://[user@]host[:port]`` over one connection that never asks anything.

        HostError ssh_missing when this machine has no ssh.
        """


class SystemMemory(Protocol):
    """The machine's memory, as it is now."""

    def available(self) -> int | None:
        """MemAvailable in bytes; None when it cannot be read."""

    def users(self) -> tuple[MemoryUser, ...]:
        """The processes that hold most of it, largest first; small ones are left out."""

    def evict(self, folders: Iterable[Path]) -> int:
        """Let the kernel drop what it caches of the large files in these folders; the bytes of those files."""


class Guards(Protocol):
    """Processes that watch the machine's memory."""

    def start(self, task: GuardTask) -> None:
        """Start a guard of its own process, ready when this returns. HostError guard_failed | guard_elsewhere."""

    def become(self, task: GuardTask) -> None:
        """Turn this process into the guard; does not return. HostError guard_elsewhere."""


class Nowhere:
    """No memory is looked at, nothing is guarded, nobody answers: what tests have that are not about it."""

    def run(self, url: str, script: str) -> RemoteAnswer:  # noqa: ARG002
        """See ``RemoteShell``."""
        return RemoteAnswer(landed=False, code=255, output="", words="there is no other machine here")

    def available(self) -> int | None:
        """See ``SystemMemory``."""
        return None

    def users(self) -> tuple[MemoryUser, ...]:
        """See ``SystemMemory``."""
        return ()

    def evict(self, folders: Iterable[Path]) -> int:  # noqa: ARG002
        """See ``SystemMemory``."""
        return 0

    def start(self, task: GuardTask) -> None:
        """See ``Guards``."""

    def become(self, task: GuardTask) -> None:
        """See ``Guards``."""


class Locks(Protocol):
    """Locks between aeonctl processes, which vanish with their holder."""

    def hold(self, name: str, who: str) -> AbstractContextManager[str | None]:
        """Take the lock: yields None, or (without taking it) the words of whoever holds it."""


@dataclass(frozen=True)
class Ports:
    """Everything outside, as one bundle. ``environment`` are the variables that may be handed on by name;
    without an ``inspection``, doctor makes do with what ``host`` knows."""

    clock: Clock
    profiles: Profiles
    host: HostProbe
    docker: Engines
    rehearsal: Engines
    registry: Registry
    hub: ModelHub
    rehearsal_hub: ModelHub
    http: EngineHttp
    locks: Locks
    environment: Mapping[str, str]
    state: Path
    step: Callable[[str], None] = lambda _step: None
    """Called with a name between any two steps whose order matters after a crash; only tests do anything there."""
    remote: RemoteShell = field(default_factory=Nowhere)
    memory: SystemMemory = field(default_factory=Nowhere)
    guards: Guards = field(default_factory=Nowhere)
    inspection: Inspection | None = None
    records: Records = field(default_factory=NoRecords)
