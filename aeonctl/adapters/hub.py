"""The Hugging Face hub: its cache on this disk, and downloads into it through huggingface_hub.

huggingface_hub is imported only when something is asked of the network; it reads its environment at that moment.
"""

from __future__ import annotations

import glob
import logging
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aeonctl.adapters.hub_cache import (
    COMMIT,
    Place,
    absent,
    commit_of,
    hub_folder,
    place_of,
    read_plain,
    read_snapshot,
    tree_sizes,
)
from aeonctl.adapters.hub_progress import Tally
from aeonctl.core.model import ModelFacts
from aeonctl.errors import ConfigurationError, DownloadError
from aeonctl.ports import FetchProgress

if TYPE_CHECKING:
    from huggingface_hub import DryRunFileInfo

    from aeonctl.adapters.hub_errors import Asked

_METADATA_SECONDS = 10.0
_TRUE = {"1", "ON", "YES", "TRUE"}


class Download(NamedTuple):
    """What a fetch will do: the commit, every file of it, and which of them are here with the wrong size."""

    commit: str
    gated: bool
    files: tuple[DryRunFileInfo, ...]
    damaged: tuple[str, ...]

    def start(self) -> FetchProgress:
        """What is here already, and what there is in all."""
        here = [file for file in self.files if not file.will_download and file.filename not in self.damaged]
        total = sum(file.file_size or 0 for file in self.files)
        return FetchProgress(len(here), len(self.files), sum(file.file_size or 0 for file in here), total)

    @property
    def needed(self) -> int:
        """Bytes still to come."""
        start = self.start()
        return start.bytes_total - start.bytes_done


class HuggingFaceHub:
    """ports.ModelHub for the cache, the endpoint and the token that ``environment`` names."""

    def __init__(self, environment: Mapping[str, str], *, home: Path | None = None) -> None:
        self._environment = environment
        self._home = home or Path(environment.get("HOME") or Path.home())
        self._hub = hub_folder(environment, home)
        self._endpoint = (environment.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")

    def locate(self, repo: str, revision: str | None) -> ModelFacts:
        """The snapshot in the cache, or where it will be, with what is missing of it. No network; raises nothing."""
        commit = commit_of(Place(self._hub, repo, "").root, revision)
        if commit is None:
            return absent(self._hub, repo, revision)
        place = Place(self._hub, repo, commit)
        if not place.snapshot.is_dir():
            return absent(self._hub, repo, revision)
        try:
            facts, _ = read_snapshot(place)
        except OSError as error:
            return absent(self._hub, repo, revision, (str(error),))
        return facts if facts.present else absent(self._hub, repo, revision, facts.missing)

    def folder(self, path: Path) -> ModelFacts:
        """A folder that the user names: relative to the working folder, ``~`` for the home; links to it are followed.

        ``path`` in the answer is absolute. A snapshot in any hub cache is known as one. ConfigurationError
        model_folder_invalid: no such folder, a file, no config.json, only GGUF or an adapter, links that lead nowhere.
        """
        text = str(path)
        named = self._home / text[2:] if text.startswith("~/") else self._home if text == "~" else path
        try:
            folder = named.resolve()
            _check_folder(folder, path)
            facts, problems = _read_folder(folder)
        except (OSError, RuntimeError, ValueError) as error:
            raise _bad_folder(path, str(error), "name a folder that you may read") from error
        broken = [f"{name}: {problem}" for name, problem in problems.items() if problem.startswith("its link")]
        if broken:
            hint = "copy the files themselves, or name the repository and let the hub's cache hold it"
            raise _bad_folder(path, "; ".join(broken[:3]), hint)
        return facts

    @staticmethod
    def describe(folder: Path) -> ModelFacts:
        """What is in a folder, whole or not. OSError when it cannot be read."""
        return _read_folder(Path(os.path.realpath(folder)))[0]

    def size(self, repo: str, revision: str | None) -> tuple[int, int]:
        """Bytes to fetch and bytes in all, by the hub's dry run. Errors as ``fetch``."""
        download = self._plan(repo, revision)
        return download.needed, download.start().bytes_total

    def fetch(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        """Download a snapshot into the cache, or finish one; a branch is looked up anew, and set once all is here.

        A commit that is whole by its own listing needs no network. ``progress`` is called from several threads, one at
        a time. DownloadError model_not_found | gated | offline | incomplete | unauthorized | hub_failed; HostError
        disk_full | model_cache_unwritable. An interrupt keeps the files that are whole.
        """
        if revision is not None and COMMIT.fullmatch(revision):
            facts = self.locate(repo, revision)
            if facts.present and tree_sizes(Place(self._hub, repo, revision)) is not None:
                return facts
        download = self._plan(repo, revision)
        self._check_room(download.needed)
        self._download(repo, revision, download, progress)
        place = Place(self._hub, repo, download.commit)
        self._check_whole(place, download)
        if revision is None or not COMMIT.fullmatch(revision):
            _set_reference(place, revision or "main")
        return self.locate(repo, revision).model_copy(update={"gated": download.gated})

    def _plan(self, repo: str, revision: str | None) -> Download:
        """The commit from the hub, then its files: a dry run by branch would set ``refs`` to what is not here."""
        self._refuse_offline(repo, revision)
        from huggingface_hub import HfApi, snapshot_download

        from aeonctl.adapters.hub_errors import HUB_ERRORS, no_hub, translated

        bars: dict[str, Any] = {"tqdm_class": Tally(lambda _: None, FetchProgress(0, 0, 0, 0)).bar_class()}
        try:
            with _hushed():
                api = HfApi(**self._access())
                info = api.model_info(repo, revision=revision or "main", timeout=_METADATA_SECONDS)
                commit = info.sha or ""
                if not COMMIT.fullmatch(commit):
                    raise no_hub(repo, self._endpoint, f"it names no commit but {commit!r}")
                files = snapshot_download(
                    repo, revision=commit, cache_dir=self._hub, dry_run=True, **self._access(), **bars
                )
        except HUB_ERRORS as error:
            raise translated(error, self._asked(repo, revision)) from error
        except (KeyError, TypeError, AttributeError) as error:  # its JSON has not the fields that a hub's has
            raise no_hub(repo, self._endpoint, f"{type(error).__name__}: {error}") from error
        damaged = _damaged(Place(self._hub, repo, commit))
        return Download(commit, bool(info.gated), tuple(files), damaged)

    def _download(
        self, repo: str, revision: str | None, download: Download, progress: Callable[[FetchProgress], None]
    ) -> None:
        from huggingface_hub import snapshot_download

        from aeonctl.adapters.hub_errors import HUB_ERRORS, translated

        tally = Tally(progress, download.start())
        common: dict[str, Any] = {
            "revision": download.commit,
            "cache_dir": self._hub,
            "tqdm_class": tally.bar_class(),
            **self._access(),
        }

        def work() -> None:
            if download.damaged:
                patterns = [glob.escape(name) for name in download.damaged]
                snapshot_download(repo, force_download=True, allow_patterns=patterns, **common)
            snapshot_download(repo, **common)

        progress(download.start())
        try:
            with _hushed():
                _interruptible(work, tally.stop)
        except HUB_ERRORS as error:
            raise translated(error, self._asked(repo, revision, download.needed)) from error

    def _check_room(self, needed: int) -> None:
        from aeonctl.adapters.hub_errors import disk_full, free_bytes

        if needed > free_bytes(self._hub):
            raise disk_full(self._hub, needed)

    @staticmethod
    def _check_whole(place: Place, download: Download) -> None:
        """huggingface_hub falls back to what is cached when the hub stops answering; that is no download."""
        from aeonctl.adapters.hub_errors import incomplete

        gone = [file.filename for file in download.files if not (place.snapshot / file.filename).is_file()]
        if missing := [*gone, *_damaged(place)]:
            raise incomplete(place.repo, f"after the download these are not whole: {', '.join(missing[:5])}")
        try:
            facts, _ = read_snapshot(place)
        except OSError as error:
            raise incomplete(place.repo, str(error)) from error
        if facts.missing:
            raise DownloadError(
                "incomplete",
                f"{place.repo} is here as the hub has it, but it is not a whole model",
                cause=tuple(facts.missing[:5]),
                hint="choose another repository: this one lacks files that vLLM needs",
            )

    def _refuse_offline(self, repo: str, revision: str | None) -> None:
        environment = self._environment
        switch = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
        if switch.upper() not in _TRUE:
            return
        here = self.locate(repo, revision).present
        raise DownloadError(
            "offline",
            f"cannot ask the hub for {repo}",
            cause="HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set",
            hint="add --offline to serve the snapshot that is here" if here else "unset it to download",
        )

    def _access(self) -> dict[str, Any]:
        return {"endpoint": self._endpoint, "token": self._token()}

    def _token(self) -> str | bool | None:
        """The user's token; False sends none; None lets huggingface_hub look where ``hf auth login`` put one."""
        environment = self._environment
        if (environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN") or "").upper() in _TRUE:
            return False
        return (environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN") or "").strip() or None

    def _asked(self, repo: str, revision: str | None, needed: int = 0) -> Asked:
        from huggingface_hub import get_token

        from aeonctl.adapters.hub_errors import Asked

        token = self._token()
        has_token = bool(token if token is not None else get_token())
        return Asked(repo, revision, self._hub, self._endpoint, has_token, needed)


def _read_folder(folder: Path) -> tuple[ModelFacts, dict[str, str]]:
    place = place_of(folder)
    return read_snapshot(place) if place else read_plain(folder)


def _check_folder(folder: Path, named: Path) -> None:
    """Refuse what is no model's folder, each kind in its own words."""
    if not folder.exists():
        raise _bad_folder(
            named, f"there is no {folder}", "a repository is written org/name, a folder with a leading / or ./"
        )
    if not folder.is_dir():
        raise _bad_folder(named, "it is a file", f"name the folder that it is in: {folder.parent}")
    if (folder / "config.json").exists() or (folder / "config.json").is_symlink():
        return
    if any(folder.glob("*.gguf")):
        raise _bad_folder(
            named, "it holds GGUF files only", "these seats serve safetensors; name a folder with config.json"
        )
    if (folder / "adapter_config.json").exists():
        raise _bad_folder(named, "it holds an adapter (LoRA) only", "name the base model's folder as --model")
    snapshots = sorted(folder.glob("snapshots/*/config.json"))
    hint = f"did you mean {snapshots[-1].parent}?" if snapshots else "name the folder with config.json in it"
    raise _bad_folder(named, "there is no config.json in it", hint)


def _bad_folder(named: Path, cause: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        "model_folder_invalid", f"{named} is not a model's folder", cause=cause, hint=hint, path=str(named)
    )


def _damaged(place: Place) -> tuple[str, ...]:
    """Files of a snapshot whose size is not the listed one; huggingface_hub takes any file that is there for whole."""
    damaged = []
    for name, size in (tree_sizes(place) or {}).items():
        with suppress(OSError):
            if (place.snapshot / name).stat().st_size != size:
                damaged.append(name)
    return tuple(damaged)


def _set_reference(place: Place, name: str) -> None:
    """Let a branch or tag mean the commit from now on; ``refs`` is written whole, as huggingface_hub does."""
    from aeonctl.adapters.hub_errors import incomplete

    reference = place.root / "refs" / name
    unfinished = reference.with_name(f"{reference.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        reference.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(place.commit, encoding="ascii")
        unfinished.replace(reference)
    except OSError as error:
        raise incomplete(place.repo, f"cannot write {reference}: {error}") from error


def _interruptible(work: Callable[[], None], stop: Callable[[], None]) -> None:
    """Run ``work`` in a thread, so that Ctrl-C reaches us at once; its workers then end at their next piece."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            future.result()
        except KeyboardInterrupt:
            stop()
            with suppress(ImportError):
                from huggingface_hub.utils._xet import abort_xet_session

                abort: Callable[[], None] = abort_xet_session
                abort()
            raise


@contextmanager
def _hushed() -> Iterator[None]:
    """Keep huggingface_hub's own log lines and warnings off the terminal: what matters comes back as an error."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
