"""The Hugging Face hub: its cache on this disk, and downloads into it through huggingface_hub.

huggingface_hub is imported only when something is asked of the network; it reads its environment at that moment.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aeonctl.adapters.hub_cache import (
    COMMIT,
    Place,
    absent,
    commit_of,
    hub_folder,
    read_snapshot,
    read_tree,
    unlike,
    write_tree,
)
from aeonctl.adapters.hub_folders import bad_folder, check_folder, read_folder
from aeonctl.adapters.hub_workers import STALL_SECONDS
from aeonctl.core.model import ModelFacts
from aeonctl.errors import DownloadError
from aeonctl.ports import FetchProgress

if TYPE_CHECKING:
    from aeonctl.adapters.hub_download import Access, Download
    from aeonctl.core.checkpoint import Checkpoint

_TRUE = {"1", "ON", "YES", "TRUE"}


class HuggingFaceHub:
    """ports.ModelHub for the cache, the endpoint and the token that ``environment`` names."""

    def __init__(
        self, environment: Mapping[str, str], *, home: Path | None = None, stall_seconds: float = STALL_SECONDS
    ) -> None:
        self._environment = environment
        self._home = home or Path(environment.get("HOME") or Path.home())
        self._hub = hub_folder(environment, home)
        self._endpoint = (environment.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        self._stall_seconds = stall_seconds
        self._prepared: dict[tuple[str, str | None], Download] = {}
        self._whole: dict[tuple[str, str | None], ModelFacts] = {}

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
            check_folder(folder, path)
            facts, problems = read_folder(folder)
        except (OSError, RuntimeError, ValueError) as error:
            raise bad_folder(path, str(error), "name a folder that you may read") from error
        broken = [f"{name}: {problem}" for name, problem in problems.items() if problem.startswith("its link")]
        if broken:
            hint = "copy the files themselves, or name the repository and let the hub's cache hold it"
            raise bad_folder(path, "; ".join(broken[:3]), hint)
        return facts

    @staticmethod
    def checkpoint(folder: Path) -> Checkpoint:
        """What the model in a folder is. ConfigurationError model_folder_invalid when its weights cannot be read."""
        from aeonctl.adapters.checkpoint_files import read_checkpoint_files
        from aeonctl.core.checkpoint import read_checkpoint

        try:
            return read_checkpoint(read_checkpoint_files(folder))
        except (OSError, ValueError) as error:
            raise bad_folder(folder, str(error), "fetch the damaged file again") from error

    @staticmethod
    def describe(folder: Path) -> ModelFacts:
        """What is in a folder, whole or not. OSError when it cannot be read."""
        return read_folder(Path(os.path.realpath(folder)))[0]

    def size(self, repo: str, revision: str | None) -> tuple[int, int]:
        """Bytes to fetch and bytes in all, by the hub's listing, with nothing written. Errors as ``fetch``.

        The ``fetch`` that follows does not ask again, and refuses when not all that was sized fits on the disk.
        """
        if (facts := self._whole_as_the_hub_has_it(repo, revision)) is not None:
            self._whole[repo, revision] = facts
            return 0, facts.bytes or 0
        download = self._prepare(repo, revision)
        self._prepared[repo, revision] = download
        return download.needed, download.start().bytes_total

    def fetch(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        """Download a snapshot into the cache, or finish one; a branch is looked up anew, and set once all is here.

        A commit that is whole by its own listing needs no network. ``progress`` is called from several threads, one at
        a time. DownloadError model_not_found | gated | offline | incomplete | unauthorized | rate_limited |
        proxy_failed | tls_untrusted | not_a_hub | stalled | hub_failed; HostError disk_full | model_cache_read_only |
        model_cache_not_yours | model_cache_unwritable. An interrupt keeps the files that are whole.
        """
        if revision is not None and COMMIT.fullmatch(revision):
            facts = self.locate(repo, revision)
            if facts.present and read_tree(Place(self._hub, repo, revision)) is not None:
                return facts
        if (whole := self._whole.pop((repo, revision), None)) is not None:
            return whole
        download = self._prepared.get((repo, revision)) or self._prepare(repo, revision)
        self._prepared[repo, revision] = download
        try:
            return self._fetch(download, revision, progress)
        finally:
            del self._prepared[repo, revision]

    def _fetch(self, download: Download, revision: str | None, progress: Callable[[FetchProgress], None]) -> ModelFacts:
        place = download.place
        progress(download.start())
        if download.wanted:
            self._download(download, revision, progress)
        elif read_tree(place) is None:
            write_tree(place, download.tree)
        facts = self._check_whole(download)
        if revision is None or not COMMIT.fullmatch(revision):
            _set_reference(place, revision or "main")
        return facts.model_copy(update={"gated": download.gated})

    def _download(self, download: Download, revision: str | None, progress: Callable[[FetchProgress], None]) -> None:
        from aeonctl.adapters.hub_access import check_room, check_writable
        from aeonctl.adapters.hub_download import download_files

        check_writable(download.place)
        check_room(self._hub, sum(planned.needed for planned in self._prepared.values()))
        download_files(download, self._access(download.place.repo, revision), progress, self._stall_seconds)

    def verify(self, repo: str, revision: str | None, progress: Callable[[FetchProgress], None]) -> None:
        """Read every byte of a snapshot that is here, and compare it with the listing's checksums.

        What is not as listed is taken out of the cache, so that nothing starts from it. DownloadError corrupt names
        it; incomplete when there is nothing whole to verify.
        """
        from aeonctl.adapters.hub_errors import corrupt, incomplete
        from aeonctl.adapters.hub_verify import corrupt_files, discard

        facts = self.locate(repo, revision)
        place = Place(self._hub, repo, facts.revision or "")
        tree = read_tree(place) if facts.present else None
        if tree is None:
            raise incomplete(repo, *(facts.missing[:5] or ("its listing is not here",)))
        wrong = corrupt_files(place, tree, progress)
        if wrong:
            raise corrupt(repo, wrong, discard(place, wrong))

    def _whole_as_the_hub_has_it(self, repo: str, revision: str | None) -> ModelFacts | None:
        """A snapshot that is whole by its listing, and still what the branch means on the hub.

        One small question, put without huggingface_hub, whose import would cost more than the answer. None for
        everything else: then huggingface_hub asks again, and says what is wrong.
        """
        facts = self.locate(repo, revision)
        if not facts.present or facts.revision is None or read_tree(Place(self._hub, repo, facts.revision)) is None:
            return None
        if facts.revision == revision:
            return facts
        self._refuse_offline(repo, revision)
        from aeonctl.adapters.hub_question import commit_at_hub

        token = self._token()
        at_hub = commit_at_hub(self._endpoint, repo, revision or "main", token if isinstance(token, str) else None)
        return facts if at_hub == facts.revision else None

    def _prepare(self, repo: str, revision: str | None) -> Download:
        from aeonctl.adapters.hub_download import prepare

        self._refuse_offline(repo, revision)
        return prepare(self._hub, self._access(repo, revision))

    @staticmethod
    def _check_whole(download: Download) -> ModelFacts:
        """huggingface_hub falls back to what is cached when the hub stops answering; that is no download."""
        from aeonctl.adapters.hub_errors import incomplete

        place = download.place
        if missing := list(unlike(place, download.tree)):
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
                hint="choose another repository or revision: this one lacks files that vLLM needs",
            )
        return facts

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

    def _access(self, repo: str, revision: str | None) -> Access:
        from aeonctl.adapters.hub_download import Access

        return Access(repo, revision, self._hub, self._endpoint, self._token())

    def _token(self) -> str | bool | None:
        """The user's token; False sends none; None lets huggingface_hub look where ``hf auth login`` put one."""
        environment = self._environment
        if (environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN") or "").upper() in _TRUE:
            return False
        return (environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN") or "").strip() or None


def _set_reference(place: Place, name: str) -> None:
    """Let a branch or tag mean the commit from now on; ``refs`` is written whole, as huggingface_hub does."""
    from aeonctl.adapters.hub_errors import incomplete

    if commit_of(place.root, name) == place.commit:
        return
    reference = place.root / "refs" / name
    unfinished = reference.with_name(f"{reference.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        reference.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(place.commit, encoding="ascii")
        unfinished.replace(reference)
    except OSError as error:
        raise incomplete(place.repo, f"cannot write {reference}: {error}") from error
