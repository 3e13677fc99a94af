"""The Hugging Face hub's cache, and plain model folders, read from the disk alone.

The layout is the one that huggingface_hub 2.4 writes (and older versions, without ``trees``): ``refs/<name>`` holds a
commit, ``snapshots/<commit>/…`` are links into ``blobs``, whose files may be links again into a store that all
repositories of the cache share; ``trees/<commit>.json`` lists what the snapshot must hold.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aeonctl.adapters.links import LinkTracer
from aeonctl.adapters.weights import problem_of
from aeonctl.core.container import REVISION
from aeonctl.core.model import Layout, ModelFacts
from aeonctl.core.mountproof import Entries

COMMIT = re.compile(r"[0-9a-f]{40}")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_LARGEST_JSON = 64 * 1024 * 1024


def hub_folder(environment: Mapping[str, str], home: Path | None = None) -> Path:
    """The cache's folder by huggingface_hub's own precedence; an empty variable counts as none.

    HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, ``$HF_HOME/hub``, ``$XDG_CACHE_HOME/huggingface/hub``,
    ``~/.cache/huggingface/hub``.
    """
    user = home or Path(environment.get("HOME") or Path.home())

    def expand(text: str) -> Path:
        known = _VARIABLE.sub(lambda match: environment.get(match[1] or match[2], match[0]), text)
        path = user / known[2:] if known.startswith("~/") else user if known == "~" else Path(known)
        return Path(os.path.abspath(path))  # noqa: PTH100 - links in it stay as the user wrote them

    for name, below in (
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
    ):
        if value := environment.get(name):
            return expand(value) / below
    return user / ".cache/huggingface/hub"


class Place(NamedTuple):
    """A snapshot's place in a cache: ``hub``/``models--org--name``/snapshots/``commit``."""

    hub: Path
    repo: str
    commit: str

    @property
    def root(self) -> Path:
        """The repository's folder in the cache."""
        return self.hub / f"models--{self.repo.replace('/', '--')}"

    @property
    def snapshot(self) -> Path:
        """The folder with config.json."""
        return self.root / "snapshots" / self.commit

    @property
    def tree(self) -> Path:
        """The list of the snapshot's files, which newer versions of huggingface_hub keep."""
        return self.root / "trees" / f"{self.commit}.json"


def place_of(folder: Path) -> Place | None:
    """The place in a cache that ``folder`` is, told by its name alone; None for any other folder."""
    if folder.parent.name != "snapshots" or not folder.parent.parent.name.startswith("models--"):
        return None
    root = folder.parent.parent
    return Place(root.parent, root.name.removeprefix("models--").replace("--", "/"), folder.name)


def commit_of(root: Path, revision: str | None) -> str | None:
    """The commit that a branch or tag (``main`` by default) had when it was last fetched; a commit is itself."""
    name = revision or "main"
    if COMMIT.fullmatch(name):
        return name
    try:
        text = (root / "refs" / name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return text if COMMIT.fullmatch(text) else None


@dataclass
class Contents:
    """What lies in a model's folder. ``files`` are sizes by path; ``problems`` say, by path, why a file is no file;
    ``real`` are the files that the paths end at, and ``links`` all links on the way."""

    files: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    linked: bool = False
    shared: bool = False

    def entries(self) -> Entries:
        """The same as the proof of the mounts wants it."""
        return Entries(files=self.real, links=self.links)


def read_contents(folder: Path, own: Path | None = None, hub: Path | None = None) -> Contents:
    """Walk ``folder``; with ``own``, a link has to end in a file within it, or (then it is shared) within ``hub``.

    OSError when the folder cannot be read.
    """
    contents = Contents()
    limits = [Path(os.path.realpath(limit)) for limit in (own, hub) if limit is not None]
    tracer = LinkTracer(contents.links)
    for path in _walk(folder):
        relative = path.relative_to(folder).as_posix()
        target = Path(tracer.trace(str(path)))
        if path.is_symlink():
            contents.linked = True
            is_own = not limits or target.is_relative_to(limits[0])
            contents.shared |= not is_own or (path.parent / path.readlink()).is_symlink()
            if not is_own and not any(target.is_relative_to(limit) for limit in limits):
                contents.problems[relative] = f"its link leads outside, to {target}"
                continue
        if ".incomplete" in (target.suffix, path.suffix):
            contents.problems[relative] = "a download that has not finished"
            continue
        try:
            contents.files[relative] = target.stat().st_size
        except OSError:
            contents.problems[relative] = f"its link leads nowhere, to {target}"
            continue
        contents.real[relative] = str(target)
    return contents


def _walk(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Every file and link below ``folder`` by name; hidden folders (.git, .cache) hold nothing that a model needs.

    A link to a folder is walked like one, unless it leads back to where the walk came from.
    """
    here = os.path.realpath(folder)
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if not _is_folder(entry):
            yield Path(entry.path)
        elif not entry.name.startswith(".") and os.path.realpath(entry.path) not in (*above, here):
            yield from _walk(Path(entry.path), (*above, here))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A folder, or a link to one; a link that leads round in circles is neither."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_snapshot(place: Place) -> tuple[ModelFacts, dict[str, str]]:
    """A snapshot that is there, whole or not, and the problems of its files by path. OSError when it cannot be read."""
    contents = read_contents(place.snapshot, place.root, place.hub)
    layout = Layout.SHARED if contents.shared else Layout.SNAPSHOT if contents.linked else Layout.PLAIN
    if layout is Layout.SHARED and not Path(os.path.realpath(place.root)).is_relative_to(os.path.realpath(place.hub)):
        contents.problems[place.root.name] = "it is a link out of the hub's folder, while its blobs are shared in there"
    tree = read_tree(place)
    missing = [*_missing(place.snapshot, contents), *_unlike(tree, contents)]
    missing += _no_model(place.snapshot, contents, missing)
    if tree is None:
        missing += _signs_of_a_broken_download(place, contents)
    facts = _facts(place.snapshot, contents, missing).model_copy(
        update={
            "repo": place.repo,
            "revision": place.commit,
            "layout": layout,
            "repo_root": str(place.root),
            "hub_root": str(place.hub),
            "hub_home": _hub_home(place.hub),
        }
    )
    return facts, contents.problems


def read_plain(folder: Path) -> tuple[ModelFacts, dict[str, str]]:
    """A folder of plain files, and the problems of the links in it by path. OSError when it cannot be read."""
    contents = read_contents(folder)
    missing = _missing(folder, contents)
    missing += _no_model(folder, contents, missing)
    return _facts(folder, contents, missing).model_copy(update={"layout": Layout.PLAIN}), contents.problems


def absent(hub: Path, repo: str, revision: str | None, missing: tuple[str, ...] = ()) -> ModelFacts:
    """Where a snapshot will be once it is fetched."""
    name = revision or "main"
    is_commit = COMMIT.fullmatch(name) is not None
    place = Place(hub, repo, name if is_commit else REVISION)
    return ModelFacts(
        repo=repo,
        revision=name if is_commit else None,
        revision_file=None if is_commit else str(place.root / "refs" / name),
        path=str(place.snapshot),
        repo_root=str(place.root),
        hub_root=str(hub),
        hub_home=_hub_home(hub),
        missing=missing,
    )


class TreeFile(NamedTuple):
    """One file of a commit as its listing on the hub has it: bytes, git's blob id, and for a large file its SHA-256
    and its hash in the Xet store."""

    size: int
    blob_id: str
    sha256: str | None = None
    xet_hash: str | None = None

    @property
    def etag(self) -> str:
        """The name of its blob in the cache."""
        return self.sha256 or self.blob_id


def read_tree(place: Place) -> dict[str, TreeFile] | None:
    """Every file of the commit by its listing, which huggingface_hub keeps; None without a listing."""
    data = read_json(place.tree)
    listed = data.get("files") if data is not None else None
    if not isinstance(listed, dict):
        return None
    tree: dict[str, TreeFile] = {}
    for path, entry in listed.items():
        size = (entry.get("lfs_size") or entry.get("size")) if isinstance(entry, dict) else None
        if not isinstance(size, int):
            return None
        tree[path] = TreeFile(size, str(entry.get("blob_id")), entry.get("lfs_sha256"), entry.get("xet_hash"))
    return tree


def write_tree(place: Place, tree: Mapping[str, TreeFile]) -> None:
    """Keep a listing where huggingface_hub keeps and reads it. OSError when it cannot be written.

    It is put in place whole, and not made durable: that would first write out whatever else the disk has waiting, and
    a listing that a power cut damaged is asked for again.
    """
    files: dict[str, dict[str, object]] = {}
    for path in sorted(tree):
        size, blob_id, sha256, xet_hash = tree[path]
        files[path] = {"size": size, "blob_id": blob_id}
        files[path] |= {} if sha256 is None else {"lfs_sha256": sha256, "lfs_size": size}
        files[path] |= {} if xet_hash is None else {"xet_hash": xet_hash}
    place.tree.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.tree.with_name(f".{place.tree.name}.{os.getpid()}.tmp")
    unfinished.write_text(json.dumps({"format_version": 1, "files": files}, indent=1), encoding="utf-8")
    unfinished.replace(place.tree)


def unlike(place: Place, tree: Mapping[str, TreeFile], *, look_inside: bool = False) -> dict[str, int | None]:
    """Files that are not in the snapshot as the listing has them: the size that is there, None for nothing.

    ``look_inside`` also finds what has the right size and is no such file, like a log-in page called weights.
    """
    wrong: dict[str, int | None] = {}
    for name, listed in tree.items():
        try:
            size: int | None = (place.snapshot / name).stat().st_size
        except OSError:
            size = None
        if size != listed.size or (look_inside and problem_of(place.snapshot / name, size) is not None):
            wrong[name] = size
    return wrong


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object's content; None when the file is not there or is no such thing."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            return None
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _missing(folder: Path, contents: Contents) -> list[str]:
    """Files that a loader will look for and not find, each with the reason when there is one."""
    missing = [f"{path}: {problem}" for path, problem in contents.problems.items()]
    if "config.json" not in contents.files and "config.json" not in contents.problems:
        missing.append("config.json")
    for name in [path for path in contents.files if path.endswith(".safetensors.index.json")]:
        base = name.rpartition("/")[0]
        weight_map = (read_json(folder / name) or {}).get("weight_map")
        if not isinstance(weight_map, dict):
            missing.append(f"{name}: it names no shards")
            continue
        shards = {f"{base}/{shard}" if base else str(shard) for shard in weight_map.values()}
        missing += sorted(shards - contents.files.keys() - contents.problems.keys())
    return missing


def _no_model(folder: Path, contents: Contents, missing: list[str]) -> list[str]:
    """Files whose content is not what their name says (git's pointers, pieces of weights), and weights that are not."""
    known = {name.partition(":")[0] for name in missing}
    problems = [
        f"{name}: {problem}"
        for name, size in contents.files.items()
        if name not in known and (problem := problem_of(folder / name, size)) is not None
    ]
    if not any(name.endswith(_WEIGHTS) for name in (*contents.files, *known)):
        problems.append("weights: there is no .safetensors file")
    return problems


def _unlike(tree: dict[str, TreeFile] | None, contents: Contents) -> list[str]:
    """Listed files that are not there or have another size."""
    wrong = []
    for path, (size, *_) in (tree or {}).items():
        found = contents.files.get(path)
        if found is None and path not in contents.problems and not _is_hidden(path):
            wrong.append(path)
        elif found is not None and found != size:
            wrong.append(f"{path}: {found} bytes instead of {size}")
    return wrong


def _is_hidden(path: str) -> bool:
    """In a hidden folder, which is not walked (``.gitattributes`` in the root is)."""
    return any(part.startswith(".") for part in path.split("/")[:-1])


def _signs_of_a_broken_download(place: Place, contents: Contents) -> list[str]:
    """Without a listing: blobs whose download did not end."""
    if not any(path.endswith(_WEIGHTS) for path in contents.files):
        return []
    return [
        f"blobs/{path.name}: a download that has not finished" for path in (place.root / "blobs").glob("*.incomplete")
    ]


def _facts(folder: Path, contents: Contents, missing: list[str]) -> ModelFacts:
    config, modelopt = read_json(folder / "config.json"), read_json(folder / "hf_quant_config.json")
    return ModelFacts(
        present=not missing,
        path=str(folder),
        bytes=sum(contents.files.values()),
        files=len(contents.files),
        quantization=quantization(config or {}, modelopt or {}),
        missing=tuple(dict.fromkeys(missing)),
        entries=contents.entries(),
    )


def _hub_home(hub: Path) -> str | None:
    """HF_HOME, when the cache lies in it under its usual name."""
    return str(hub.parent) if hub.name == "hub" else None


def quantization(config: Mapping[str, Any], modelopt: Mapping[str, Any]) -> str | None:
    """How weights are quantized, from config.json and ModelOpt's hf_quant_config.json; None when they are not.

    ModelOpt's algorithm in lower case (``nvfp4``, ``fp8``), its MIXED_PRECISION as ``nvfp4-mixed``, else the method
    that config.json names (``compressed-tensors``, ``awq``, ``mxfp4``).
    """
    inline = config.get("quantization_config")
    inline = inline if isinstance(inline, dict) else {}
    separate = modelopt.get("quantization")
    separate = separate if isinstance(separate, dict) else {}
    algorithm = separate.get("quant_algo") or inline.get("quant_algo")
    if isinstance(algorithm, str) and algorithm:
        return "nvfp4-mixed" if algorithm.upper() == "MIXED_PRECISION" else algorithm.lower()
    method = inline.get("quant_method")
    return method.lower() if isinstance(method, str) and method else None
