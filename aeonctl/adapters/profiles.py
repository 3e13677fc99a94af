"""The files under profiles/ and templates/: the ones that come with aeonctl, then the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from aeonctl.adapters.files import write_whole
from aeonctl.errors import ConfigurationError

if TYPE_CHECKING:
    from aeonctl.core.catalog import Document
    from aeonctl.core.host import Host

_LARGEST = 8 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")


class ProfileFiles:
    """ports.Profiles: ``bundled`` (the package's data, or a checkout's folder) and ``$XDG_CONFIG_HOME/aeonctl``."""

    def __init__(
        self, environment: Mapping[str, str], *, home: Path | None = None, bundled: Path | None = None
    ) -> None:
        self._bundled = bundled or bundled_folder("profiles")
        self._user = configuration_folder(environment, home)
        self._templates = bundled_folder("templates")

    def read(self, kind: str) -> Iterator[Document]:
        """Every document of a kind, the bundled ones first, each group by name.

        ConfigurationError profile_invalid (``hosts``: host_invalid) for a file that is not plain YAML or JSON.
        """
        from aeonctl.core.catalog import Document

        code = "host_invalid" if kind == "hosts" else "profile_invalid"
        for root, label in ((self._bundled / kind, f"profiles/{kind}"), (self._user / "profiles" / kind, None)):
            for path in _profiles_below(root):
                relative = path.relative_to(root)
                origin = f"{label}/{relative.as_posix()}" if label else str(path)
                yield Document(origin, relative.with_suffix("").as_posix(), _load(path, origin, code))

    def file(self, path: Path) -> Document:
        """One file that the user names (``--as FILE``). ConfigurationError host_invalid when it cannot be read."""
        from aeonctl.core.catalog import Document

        return Document(str(path), path.stem, _load(path, str(path), "host_invalid"))

    def save_host(self, host: Host, path: Path) -> None:
        """Write a host for ``--as``, whole or not at all. ConfigurationError file_not_written."""
        from aeonctl.adapters.hostfile import dump_host

        try:
            write_whole(path, dump_host(host).encode())
        except OSError as error:
            raise ConfigurationError(
                "file_not_written",
                f"{path} could not be written",
                cause=error.strerror or str(error),
                hint="name a file in a folder that exists and is yours: --save ./host.yaml",
                path=str(path),
            ) from error

    def template(self, name: str) -> str:
        """The text of a template by its path below templates/ (``docker-run.sh.j2``); the user's own wins.

        ConfigurationError template_not_found.
        """
        roots = (self._user / "templates", self._templates)
        for root in roots:
            path = root / name
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                try:
                    return path.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise _invalid(str(path), "template_error", str(error)) from error
        known = sorted({path.relative_to(root).as_posix() for root in roots for path in root.rglob("*.j2")})
        raise ConfigurationError(
            "template_not_found",
            f"there is no template called {name!r}",
            cause=f"known: {', '.join(known)}" if known else (),
            hint=f"put your own in {roots[0]}",
            name=name,
            known=known,
        )


def bundled_folder(name: str) -> Path:
    """``profiles`` or ``templates`` as installed in a wheel, else beside the package in a checkout."""
    package = Path(str(files("aeonctl")))
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


def configuration_folder(environment: Mapping[str, str], home: Path | None = None) -> Path:
    """The user's folder for aeonctl: ``$XDG_CONFIG_HOME/aeonctl``, else ``~/.config/aeonctl``.

    A relative XDG_CONFIG_HOME is ignored, as the XDG base directory specification asks.
    """
    base = Path(environment.get("XDG_CONFIG_HOME") or "")
    if base.is_absolute():
        return base / "aeonctl"
    return (home or Path(environment.get("HOME") or Path.home())) / ".config" / "aeonctl"


def _profiles_below(root: Path) -> list[Path]:
    """The profile files in a folder and its subfolders, sorted, hidden ones left out."""
    if not root.is_dir():
        return []
    paths = (path for path in root.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(root).parts))


def _load(path: Path, origin: str, code: str) -> object:
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise _invalid(origin, code, str(error)) from error
    if len(content) > _LARGEST:
        raise _invalid(origin, code, f"larger than {_LARGEST} bytes, which no profile is")
    return plain_data(content, origin, code, is_json=path.suffix == ".json")


def plain_data(content: bytes, origin: str, code: str, *, is_json: bool) -> object:
    """A file's content as str, int, float, bool, None, list and dict; ConfigurationError with line and column."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _invalid(origin, code, f"line {line}: not UTF-8 text") from error
    if is_json:
        return _json(text, origin, code)
    from aeonctl.adapters.plain_yaml import PlainYamlError, load_yaml

    try:
        return load_yaml(text)
    except PlainYamlError as error:
        raise _invalid(origin, code, str(error)) from error


def _json(text: str, origin: str, code: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _invalid(origin, code, f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise _invalid(origin, code, str(error)) from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} is written twice")
        result[key] = value
    return result


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _invalid(origin: str, code: str, cause: str) -> ConfigurationError:
    return ConfigurationError(
        code,
        f"{origin} cannot be read",
        cause=cause,
        hint="a profile is plain YAML or JSON: text, numbers, true, false, null, lists and keys",
        origin=origin,
    )
