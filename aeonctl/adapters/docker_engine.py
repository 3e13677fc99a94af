"""Engines in containers: the Docker Engine API through the low-level client of the ``docker`` library.

The library is imported and the connection made at the first use, so that commands which need no Docker stay quick.
"""

from __future__ import annotations

import shutil
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aeonctl.adapters import docker_read
from aeonctl.adapters.docker_endpoint import Endpoint, resolve
from aeonctl.adapters.docker_pull import follow_pull, pull_failed, ticking
from aeonctl.adapters.registry_http import docker_folder, engine_login
from aeonctl.core.container import ContainerSpec, create_request
from aeonctl.core.host import Docker
from aeonctl.core.hostparse import docker_facts
from aeonctl.core.image import ImageFacts, parse_reference
from aeonctl.errors import EngineError, HostError
from aeonctl.ports import EngineRecord, EngineStatus, Listed, LogStream, PullProgress

if TYPE_CHECKING:
    from aeonctl.adapters.docker_client import Client, SshAdapter

_ONE_SHOT_SINCE = (1, 41)
_NANOSECONDS = 1e9
_POLICY_TRIES, _POLICY_PAUSE = 20, 0.05
_NO_IMAGE = frozenset({"image_missing", "not_running"})


class DockerEngines:
    """``ports.Engines`` on the Docker engine that ``host`` or the environment names."""

    def __init__(
        self,
        host: str | None,
        environment: Mapping[str, str],
        home: Path,
        step: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Talks to nobody yet. ``home`` is where ``.docker`` lies; ``step`` is told of steps that a crash may part."""
        self._step = step
        self._host = host
        self._environment = environment
        self._home = home
        self._lock = threading.Lock()
        self._settled: Endpoint | None = None
        self._through: SshAdapter | None = None
        self._client: Client | None = None

    def describe(self) -> Docker:
        """See ``ports.Engines``."""
        try:
            endpoint = self._endpoint()
        except HostError as error:
            return _silent(error, None)
        try:
            with self._door("ask Docker for its version") as client:
                version, info = client.version(), client.info()
        except (HostError, EngineError) as error:
            return _silent(error, endpoint)
        hook = shutil.which("nvidia-container-runtime-hook") is not None if endpoint.is_local else None
        return docker_facts(version, info, endpoint=endpoint.url, context=endpoint.context, hook_present=hook)

    def find(self, name: str) -> EngineRecord | None:
        """See ``ports.Engines``."""
        inspected = self._inspect(name)
        return None if inspected is None else docker_read.record(inspected)

    def ours(self) -> tuple[EngineRecord, ...]:
        """See ``ports.Engines``."""
        with self._door("list the containers") as client:
            rows = client.containers(all=True, filters={"label": docker_read.SEAT_LABEL})
        records = (self.find(row["Id"]) for row in rows)
        return tuple(sorted((record for record in records if record is not None), key=lambda record: record.name))

    def listed(self, *, foreign: bool) -> tuple[Listed, ...]:
        """See ``ports.Engines``."""
        filters = {} if foreign else {"label": docker_read.SEAT_LABEL}
        with self._door("list the containers") as client:
            rows = client.containers(all=True, filters=filters)
        return docker_read.listed(rows)

    def image(self, ref: str) -> ImageFacts | None:
        """See ``ports.Engines``."""
        try:
            with self._door(f"look at the image {ref}") as client:
                inspected = client.inspect_image(ref)  # type: ignore[no-untyped-call]
        except (HostError, EngineError) as error:
            if error.code in _NO_IMAGE:
                return None
            raise
        return docker_read.image_facts(ref, inspected)

    def layers(self) -> tuple[tuple[str, ...], ...]:
        """See ``ports.Engines``."""
        with self._door("list the images") as client:
            idents = client.images(quiet=True)
        found = (self._chain(ident) for ident in dict.fromkeys(idents))
        return tuple(chain for chain in found if chain)

    def _chain(self, ident: str) -> tuple[str, ...]:
        try:
            with self._door(f"look at the image {ident}") as client:
                inspected = client.inspect_image(ident)  # type: ignore[no-untyped-call]
        except (HostError, EngineError) as error:
            if error.code in _NO_IMAGE:
                return ()
            raise
        return tuple((inspected.get("RootFS") or {}).get("Layers") or ())

    def pull(self, ref: str, progress: Callable[[PullProgress], None]) -> None:
        """See ``ports.Engines``."""
        from aeonctl.adapters.docker_errors import FOREIGN

        parts = parse_reference(ref)
        name = ref.partition("@")[0]
        if parts.tag is not None:
            name = name.removesuffix(f":{parts.tag}")
        login = engine_login(docker_folder(self._environment, self._home), parts.registry)
        try:
            with self._door(f"pull {ref}") as client:
                messages = client.pull_stream(name, parts.digest or parts.tag or "latest", login)
                with closing(ticking(messages, FOREIGN)) as ticks:
                    follow_pull(ref, ticks, progress)
        except (HostError, EngineError) as error:
            if error.code in {"docker_unreachable", "docker_permission", "context_not_found"}:
                raise
            raise pull_failed(ref, " ".join(error.causes) or error.message) from error
        self._check_pulled(ref, name)
        if parts.tag is not None and parts.digest is not None:
            with self._door(f"tag {ref}") as client:
                client.tag(f"{name}@{parts.digest}", name, parts.tag)

    def _check_pulled(self, ref: str, name: str) -> None:
        """An engine may end a pull early without a word, and takes a single manifest of any architecture."""
        image = self.image(ref)
        if image is None:
            raise pull_failed(ref, "the engine ended the pull early (unexpected EOF)")
        with self._door("ask Docker for its architecture") as client:
            arch = client.version().get("Arch")
        if None in (arch, image.arch) or image.arch == arch:
            return
        with self._door(f"remove {ref}") as client:
            client.remove_image(f"{name}@{parse_reference(ref).digest}" if "@" in ref else ref)
        words = f"the image's platform linux/{image.arch} does not match the specified platform linux/{arch}"
        raise pull_failed(ref, f"{words}; it was removed again")

    def start(self, spec: ContainerSpec, environment: Mapping[str, str]) -> EngineRecord:
        """See ``ports.Engines``."""
        self._step("docker:before")
        ident = self._create(spec, environment)
        self._step("docker:created")
        started = False
        try:
            self._check_gpus(spec, ident)
            with self._door(f"start {spec.name}") as client:
                client.start(ident)
            record = self.find(ident)
            if record is None:
                raise EngineError("start_failed", f"{spec.name} was removed while it started", hint="aeonctl status")
            started = True
        finally:
            if not started:
                self._discard(ident)
        return record

    def log(self, name: str, *, follow: bool, tail: int | None = None) -> LogStream:
        """See ``ports.Engines``. Memory is bounded by one frame of the log (16 kB)."""
        stream = self._log(name, follow=follow, tail=tail)
        again = (lambda: self._log(name, follow=False, tail=None)) if follow and tail is None else None
        return _Log(stream, again)

    def _log(self, name: str, *, follow: bool, tail: int | None) -> Any:
        with self._door(f"read the log of {name}") as client:
            return client.logs(name, stream=True, follow=follow, tail="all" if tail is None else tail)

    def cpu_seconds(self, name: str) -> float | None:
        """See ``ports.Engines``."""
        try:
            with self._door(f"read the CPU time of {name}") as client:
                quick = tuple(int(part) for part in client.api_version.split(".")) >= _ONE_SHOT_SINCE
                stats = client.stats(name, stream=False, one_shot=True if quick else None)
        except (HostError, EngineError):
            return None
        usage = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
        running = docker_read.epoch(stats.get("read")) is not None
        return usage / _NANOSECONDS if running and isinstance(usage, int) and usage > 0 else None

    def signal(self, name: str, signal: str) -> None:
        """See ``ports.Engines``."""
        record = self.find(name)
        if record is None or record.status in {EngineStatus.EXITED, EngineStatus.CREATED}:
            return
        try:
            with self._door(f"send {signal} to {name}") as client:
                client.kill(name, signal)
        except EngineError:
            now = self.find(name)
            if now is not None and now.status is EngineStatus.RUNNING:
                raise

    def set_restart(self, name: str, policy: str) -> None:
        """See ``ports.Engines``. EngineError not_running when there is no such container.

        Docker refuses, and takes the new policy back, while a container that keeps failing is just between two lives;
        a moment later it agrees.
        """
        wanted: Any = {"Name": policy, "MaximumRetryCount": 0}
        for left in reversed(range(_POLICY_TRIES)):
            try:
                with self._door(f"set the restart policy of {name}") as client:
                    client.update_container(name, restart_policy=wanted)
            except EngineError as error:
                if error.code == "not_running" or left == 0:
                    raise
                time.sleep(_POLICY_PAUSE)
            else:
                return

    def remove(self, name: str) -> None:
        """See ``ports.Engines``. EngineError still_running when it was not stopped."""
        try:
            with self._door(f"remove {name}") as client:
                client.remove_container(name, v=True)
        except EngineError as error:
            if error.code == "not_running" or "already in progress" in " ".join(error.causes):
                return
            record = self.find(name)
            if record is not None and record.status is not EngineStatus.EXITED:
                hint = f"aeonctl down {name}"
                raise EngineError("still_running", f"{name} still runs", cause=error.causes, hint=hint) from error
            raise

    def _create(self, spec: ContainerSpec, environment: Mapping[str, str]) -> str:
        body = create_request(spec, environment)
        answered = False
        try:
            with self._door(f"create {spec.name}") as client:
                created = client.create_container_from_config(body, spec.name)  # type: ignore[no-untyped-call]
            answered = True
        except (HostError, EngineError):
            answered = True
            raise
        finally:
            if not answered:
                self._discard_unanswered(spec)
        return str(created["Id"])

    def _discard_unanswered(self, spec: ContainerSpec) -> None:
        """After Ctrl-C during the creation: remove what the engine may have made all the same."""
        record = self.find(spec.name)
        if (
            record is not None
            and record.status is EngineStatus.CREATED
            and spec.labels.items() <= record.labels.items()
        ):
            self._discard(record.ident)

    def _discard(self, ident: str) -> None:
        """Remove a container that did not start. What fails here is not worth more than the first error."""
        try:
            with self._door("remove what did not start") as client:
                client.remove_container(ident, v=True, force=True)
        except (HostError, EngineError):
            return

    def _check_gpus(self, spec: ContainerSpec, ident: str) -> None:
        """Some engines take a request for GPUs and forget it: look whether it is still there."""
        if spec.gpus is None:
            return
        inspected = self._inspect(ident) or {}
        if not (inspected.get("HostConfig") or {}).get("DeviceRequests"):
            raise HostError(
                "nvidia_runtime_missing",
                f"{spec.name} would get no GPU",
                cause="the engine took the request for GPUs and dropped it, as podman's Docker API does",
                hint="use Docker itself: docker context ls, or --host URL",
            )

    def _inspect(self, name: str) -> dict[str, Any] | None:
        try:
            with self._door(f"look at {name}") as client:
                inspected: dict[str, Any] = client.inspect_container(name)
        except EngineError as error:
            if error.code == "not_running":
                return None
            raise
        return inspected

    def _endpoint(self) -> Endpoint:
        """Settled once: a run that began with one engine ends with it."""
        if self._settled is None:
            self._settled = resolve(self._host, self._environment, self._home)
        return self._settled

    @contextmanager
    def _door(self, doing: str) -> Iterator[Client]:
        """The one way to the engine: connects if need be, and translates whatever comes out."""
        from aeonctl.adapters import docker_client, docker_errors

        endpoint = self._endpoint()
        try:
            with self._lock:
                if self._through is None and endpoint.is_ssh:
                    self._through = docker_client.SshAdapter(endpoint.url, self._environment)
                if self._client is None:
                    self._client = docker_client.connect(endpoint, self._through)
            yield self._client
        except docker_errors.FOREIGN as error:
            words = "" if self._through is None else self._through.last_words()
            around = docker_errors.surroundings()
            raise docker_errors.translate(error, doing, endpoint, around, last_words=words) from error


class _Log:
    """A container's log, which ``close`` ends from any thread.

    An engine may end a followed log before the last thing that was written (seen on 20.10 with a last line without a
    newline), and last words matter: with ``again`` the whole log is read once more at the end, for what is beyond the
    bytes already given.
    """

    def __init__(self, stream: Any, again: Callable[[], Any] | None) -> None:
        self._stream = stream
        self._again = again
        self._given = 0
        self._skip = 0
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self._closed:
            piece = self._piece()
            if piece is None:
                if self._again is None or not self._reopen(self._again):
                    break
                continue
            known = min(self._skip, len(piece))
            self._skip -= known
            self._given += len(piece) - known
            if len(piece) > known:
                return piece[known:]
        raise StopIteration

    def close(self) -> None:
        self._closed = True
        self._stream.close()

    def _piece(self) -> bytes | None:
        try:
            piece = next(self._stream, None)
        except (struct.error, ValueError):  # the connection was cut inside a frame, or closed while it was read
            return None
        return None if piece is None else bytes(piece)

    def _reopen(self, again: Callable[[], Any]) -> bool:
        self._again = None
        self._skip = self._given
        if self._closed:
            return False
        try:
            self._stream = again()
        except (HostError, EngineError):  # removed meanwhile, or the Docker engine itself went away
            return False
        return True


def _silent(error: HostError | EngineError, endpoint: Endpoint | None) -> Docker:
    problem: Any = error.facts.get("problem", "failed")
    context: Any = endpoint.context if endpoint else error.facts.get("context")
    return Docker(
        reachable=False,
        problem=problem,
        detail="; ".join((error.message, *error.causes)),
        endpoint=endpoint.url if endpoint else None,
        context=context,
    )
